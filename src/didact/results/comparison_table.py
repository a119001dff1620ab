"""The table of a comparison for terminals and notebooks, with the remarks that belong to it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from didact.results.contrast import Column
from didact.results.edited import SUBSETS, EditedResults
from didact.results.gains import FEW_SEEDS, NONE, GainRow, column_name
from didact.results.number_format import UNKNOWN, NumberFormat
from didact.results.text_table import render_text
from didact.viz.tables import Cell, Table

if TYPE_CHECKING:
    from didact.results.comparison import Comparison

ADVICE: Final = (
    "Try more training rows (--train-sizes), more epochs (--epochs), another student (--students), or a "
    "pretrained base for the students (--base)."
)
_RANK: Final = "mean\nrank"
_MAX_NAME_LENGTH: Final = 10_000  # characters; users read and type names, so none is cut


def text(comparison: "Comparison") -> str:
    """The table and its remarks as text, followed by those of edited rows. Names and intervals are never cut."""
    lines = [_text(_table(comparison)), *remarks(comparison)]
    if comparison.edited is not None:
        lines += ["", _text(_edited_table(comparison, comparison.edited)), *comparison.edited.remarks()]
    return "\n".join(lines)


def html(comparison: "Comparison") -> str:
    """The table and its remarks as an HTML fragment, followed by those of edited rows."""
    fragment = _table(comparison).notebook(remarks(comparison))
    if comparison.edited is not None:
        fragment += _edited_table(comparison, comparison.edited).notebook(comparison.edited.remarks())
    return fragment


def _text(table: Table) -> str:
    from rich import box
    from rich.table import Table as Lines
    from rich.text import Text

    grid = Lines(box=box.SIMPLE_HEAD, pad_edge=False)
    *names, last = table.text_heads
    for name in names:
        grid.add_column(Text(name), no_wrap=True)
    grid.add_column(Text(last), no_wrap=True, justify="right" if last == _RANK else "left")
    for row in table.text_rows:
        grid.add_row(*map(Text, row))
    return render_text(grid)


def _ordered(comparison: "Comparison", ranks: Mapping[str, float]) -> list[Cell]:
    """The names of the explainers as cells: `none` first, then by rank."""
    names = sorted(comparison.explainers, key=lambda name: (name != NONE, ranks.get(name, np.inf)))
    looks = {name: ("quiet", "a control") if name in comparison.about.controls else ("", "") for name in names}
    return [Cell(name, *looks[name], longest=_MAX_NAME_LENGTH) for name in names]


def _edited_table(comparison: "Comparison", edited: EditedResults) -> Table:
    """One line per explainer; for every student and size a column for all edited rows, for flips and for stays."""
    ranks = {line["explainer"]: line["rank"] for line in comparison.ranking()}
    pairs = [(column, name) for column in comparison.columns for name in SUBSETS]
    heads = ["explainer", *(f"{_heading(comparison, column)}\n{name}" for column, name in pairs)]
    rows = [
        [first, *(_cell(edited.subset(name).find(first.text, column)) for column, name in pairs)]
        for first in _ordered(comparison, ranks)
    ]
    return Table("edited", "", [Cell(head, longest=_MAX_NAME_LENGTH) for head in heads], rows)


def _table(comparison: "Comparison") -> Table:
    ranks = {line["explainer"]: line["rank"] for line in comparison.ranking()}
    rows: list[list[Cell | str]] = []
    for first in _ordered(comparison, ranks):
        cells = [_cell(comparison.find(first.text, column)) for column in comparison.columns]
        rank = f"{ranks[first.text]:.1f}" if first.text in ranks else UNKNOWN
        rows.append([first, *cells, rank])
    heads = ["explainer", *(_heading(comparison, column) for column in comparison.columns), _RANK]
    return Table("comparison", "", [Cell(head, longest=_MAX_NAME_LENGTH) for head in heads], rows)


def remarks(comparison: "Comparison") -> list[str]:
    """What a reader of the table must know."""
    measure = comparison.about.measure.replace("balanced_accuracy", "balanced agreement")
    unit = "points of 100" if measure != "pearson" else "Pearson's r"
    heading = f"none: {measure} with the teacher's answers alone. All others: gain over none in {unit}"
    lines = []
    has_intervals = any(row.low is not None for row in comparison.rows)
    if has_intervals:
        heading += ", with its 95 % interval, corrected for the number of methods (controls: each alone)."
        lines.append("▲ claimed better than none, ▼ claimed worse: the interval excludes 0, that is p < 0.05 (Holm).")
    else:
        heading += ", without intervals."
    lines += filter(None, [comparison.why_no_contrasts])
    if any(row.seeds < FEW_SEEDS for row in comparison.rows):
        caveat = "the interval is unreliable" if has_intervals else "this ranking may be due to chance"
        lines.append(f"° fewer than {FEW_SEEDS} seeds: {caveat}.")
    lines += [f"p: {reason}" for reason in sorted({row.p_reason for row in comparison.rows if row.p_reason})]
    lines += [f"‡ {column_name(row.column)}: {row.modes_sentence}" for row in comparison.rows if row.low_seeds]
    return [heading, *lines, *comparison.notes, *_failures(comparison)]


def _failures(comparison: "Comparison") -> list[str]:
    """Remarks on columns whose students did not learn, and on failed runs."""
    unlearned = [column for column in comparison.about.columns if column.learned is False]
    lines = [
        f"{column.student}, {column.size:,} rows: the students did not learn ({column.reason}), so this "
        "column says nothing about the explanations."
        for column in unlearned
    ]
    if unlearned:
        lines.append(ADVICE)
    if comparison.failed:
        lines.append(f"{len(comparison.failed)} runs failed, the first with {comparison.failed[0].error!r}.")
    return lines


def _heading(comparison: "Comparison", column: Column) -> str:
    """The name of a column, marked with ‡ if some of its students failed to learn."""
    return f"{column[0]}\n{column[1]:,} rows{comparison.column_mark(column)}"


def _format(row: GainRow) -> NumberFormat:
    digits = 3 if row.measure == "pearson" else 1
    return NumberFormat(1.0 if row.measure == "pearson" else 100.0, digits, ascii_minus=True)


def _cell(row: GainRow | None) -> Cell:
    text, css_class = _cell_text(row)
    if row is None or row.median is None:
        return Cell(text, "quiet", "all runs failed")
    title = f"{row.measure} {_format(row).plain(row.mean)}, {row.seeds} seeds, {row.test_rows:,} test rows"
    return Cell(text, css_class, title + (f", p = {row.p:.2g}" if row.p is not None else ""))


def _cell_text(row: GainRow | None) -> tuple[str, str]:
    """The text of a cell, and "above" or "below" if its gain is claimed to be above or below 0."""
    if row is None or row.median is None or (row.gain is None and row.explainer != NONE):
        return UNKNOWN, ""
    number_format = _format(row)
    if row.explainer == NONE:
        return f"{number_format.plain(row.mean)}{row.footnotes}", ""
    if not row.has_interval:
        return f"{number_format.signed(row.gain)}{row.footnotes}", ""
    text = (
        f"{number_format.signed(row.gain)} {number_format.brackets(row.low, row.high)} {row.mark or ' '}{row.footnotes}"
    )
    return text.rstrip(), "above" if row.is_above else "below" if row.is_below else ""
