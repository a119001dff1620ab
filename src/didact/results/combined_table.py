"""The tables of `CombinedComparison` for terminals and notebooks, with the remarks that belong to them."""

from typing import TYPE_CHECKING, Final

from didact.results.comparison_table import grid_text
from didact.results.contrast import Column
from didact.results.gains import column_name
from didact.results.number_format import UNKNOWN, NumberFormat
from didact.viz.tables import Cell, Table

if TYPE_CHECKING:
    from didact.results.combined import CombinedComparison, CombinedRow

_MAX_NAME_LENGTH: Final = 10_000  # characters; users read and type names, so none is cut
_LOOKS: Final = {"▲": "above", "▼": "below", "": ""}


def text(combined: "CombinedComparison") -> str:
    """The tables and remarks as text. Names and numbers are never cut."""
    blocks: list[str] = []
    for column in combined.columns:
        table = gains_table(combined, column)
        blocks.append(grid_text(table, right=range(2, len(table.heads))))
        if (pairs := pairs_table(combined, column)) is not None:
            blocks.append(grid_text(pairs, right=range(2, len(pairs.heads))))
    return "\n".join([*blocks, *remarks(combined)])


def html(combined: "CombinedComparison") -> str:
    """The tables and remarks as an HTML fragment."""
    tables = [
        table
        for column in combined.columns
        for table in (gains_table(combined, column), pairs_table(combined, column))
        if table is not None
    ]
    fragments = [table.notebook(remarks(combined) if table is tables[-1] else ()) for table in tables]
    return "\n".join(fragments)


def gains_table(combined: "CombinedComparison", column: Column) -> Table:
    """Gains over `none` in one column: the mean with its interval, its sd over teachers, and each teacher's."""
    number = _number(combined)
    rows: list[list[Cell | str]] = []
    for row in combined.ranked(column):
        leads = UNKNOWN if row.leads is None else f"{round(row.leads * row.teachers)}/{row.teachers}"
        name = Cell(row.explainer, "quiet" if row.is_control else "", longest=_MAX_NAME_LENGTH)
        each = map(number.signed, row.by_teacher)
        rows.append([name, _mean(row, number), number.plain(row.teacher_sd), leads, *each])
    heads = [_title(column), "gain over none", "sd", "leads", *map(str, range(1, len(combined.teachers) + 1))]
    return Table("combined", "", [Cell(head, longest=_MAX_NAME_LENGTH) for head in heads], rows)


def pairs_table(combined: "CombinedComparison", column: Column) -> Table | None:
    """The contrasts of the leader of a column with all other methods and the controls; None if it has no pairs."""
    ranked = combined.ranked(column)
    leader = "" if not ranked or ranked[0].is_control else ranked[0].explainer
    number = _number(combined)
    pairs = [row for row in combined.pairs if row.column == column and row.explainer == leader]
    if not pairs:
        return None
    rows: list[list[Cell | str]] = [
        [
            Cell(row.against, "quiet" if row.is_control else "", longest=_MAX_NAME_LENGTH),
            _mean(row, number),
            number.plain(row.teacher_sd),
            f"{round(row.ahead * row.teachers)}/{row.teachers}",
            *map(number.signed, row.by_teacher),
        ]
        for row in pairs
    ]
    heads = [f"{leader} minus", "difference", "sd", "ahead", *map(str, range(1, len(combined.teachers) + 1))]
    return Table("combined-pairs", "", [Cell(head, longest=_MAX_NAME_LENGTH) for head in heads], rows)


def remarks(combined: "CombinedComparison") -> list[str]:
    """What a reader of the tables must know."""
    unit = "Pearson's r" if combined.measure == "pearson" else "points of 100"
    count = len(combined.teachers)
    lines = [
        f"{number}: {teacher.name} ({teacher.run}; {teacher.data}, {teacher.seeds} seeds, "
        f"{teacher.test_rows:,} test rows)"
        for number, teacher in enumerate(combined.teachers, 1)
    ]
    if count == 1:
        lines.append("One teacher: intervals hold for this teacher only. Add runs with other teachers.")
    else:
        lines.append(
            f"Means over {count} teachers in {unit}, with 95 % intervals for teachers in general, corrected for the "
            "number of methods. ▲ claimed above 0, ▼ claimed below (p < 0.05, Holm)."
        )
        lines.append(
            "sd: how far the true values of teachers vary, as an estimate. leads: teachers with which no other method "
            "gains more. ahead: teachers with which the difference is above 0."
        )
        lines.append(_sharing(combined))
    reasons = sorted({row.p_reason for row in (*combined.gains, *combined.pairs) if row.p_reason})
    return [*lines, *(f"p: {reason}" for reason in reasons), *combined.notes]


def _sharing(combined: "CombinedComparison") -> str:
    fewest = min(teacher.test_rows for teacher in combined.teachers)
    if not combined.shared_rows:
        return "The teachers share no test rows."
    rows = "the same test rows" if combined.shared_rows == fewest else f"{combined.shared_rows:,} of their test rows"
    seeds = ", and the training rows of each seed" if combined.shares_seeds else ""
    return f"The teachers share {rows}{seeds}; the intervals allow for that."


def _title(column: Column) -> str:
    return column_name(column) if column[1] else column[0]


def _number(combined: "CombinedComparison") -> NumberFormat:
    is_correlation = combined.measure == "pearson"
    return NumberFormat(1.0 if is_correlation else 100.0, 3 if is_correlation else 1, ascii_minus=True)


def _mean(row: "CombinedRow", number: NumberFormat) -> Cell:
    interval = "" if row.low is None else f" {number.brackets(row.low, row.high)} {row.mark}"
    title = "" if row.p is None else f"p = {row.p:.2g}, {row.df:.1f} degrees of freedom"
    return Cell(f"{number.signed(row.difference)}{interval}".rstrip(), _LOOKS[row.mark], title)
