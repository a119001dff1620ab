"""The table of a comparison for terminals and notebooks, with the remarks that belong to it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from didact.results.contrast import Column
from didact.results.edited import SUBSETS, EditedResults
from didact.results.gains import FEW_SEEDS, NONE, GainRow, column_name
from didact.results.number_format import UNKNOWN, NumberFormat
from didact.results.text_table import render_text
from didact.results.trust import Trust
from didact.viz.tables import Cell, Table

if TYPE_CHECKING:
    from didact.results.comparison import Comparison

ADVICE: Final = (
    "Try more training rows (--train-sizes), more epochs (--epochs), another student (--students), or a "
    "pretrained base for the students (--base)."
)
_RANK: Final = "mean\nrank"
_MAX_NAME_LENGTH: Final = 10_000  # characters; users read and type names, so none is cut


MORE_TO_READ: Final = (
    "More to read, in %. gap closed: the normalised gain, that is the share of the gap from none to 100 that a method "
    "closes, with its interval; helped: answers of students to test rows that it corrected; misled: answers that were "
    "right without it and are wrong with it."
)


def text(comparison: "Comparison") -> str:
    """The table and its remarks as text, then edited rows and `more_to_read`. Names and intervals are never cut."""
    table, more = _table(comparison), more_to_read(comparison)
    lines = [grid_text(table, right=(len(table.heads) - 1,)), *remarks(comparison)]
    if comparison.edited is not None:
        lines += ["", grid_text(_edited_table(comparison, comparison.edited)), *comparison.edited.remarks()]
    if more is not None:
        lines += [
            "",
            grid_text(more, right=[index for index in range(1, len(more.heads)) if index % 3 != 1]),
            MORE_TO_READ,
        ]
    return "\n".join(lines)


def html(comparison: "Comparison") -> str:
    """The tables and their remarks as an HTML fragment."""
    fragments, more = [_table(comparison).notebook(remarks(comparison))], more_to_read(comparison)
    if comparison.edited is not None:
        fragments.append(_edited_table(comparison, comparison.edited).notebook(comparison.edited.remarks()))
    if more is not None:
        fragments.append(more.notebook([MORE_TO_READ]))
    return "\n".join(fragments)


def grid_text(table: Table, *, right: Sequence[int] = ()) -> str:
    """A table for terminals. The columns `right` are aligned right and may wrap, all others never do."""
    from rich import box
    from rich.table import Table as Lines
    from rich.text import Text

    grid = Lines(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, head in enumerate(table.text_heads):
        grid.add_column(Text(head), no_wrap=index not in right, justify="right" if index in right else "left")
    for row in table.text_rows:
        grid.add_row(*map(Text, row))
    return render_text(grid)


def more_to_read(comparison: "Comparison") -> Table | None:
    """A table of the normalised gain and of the shares that were helped and misled; None if a run stores none."""
    rows: list[list[Cell | str]] = []
    for first in _ordered(comparison):
        gain_rows = [comparison.find(first.text, column) for column in comparison.columns]
        if any(row is not None and row.helped is not None for row in gain_rows):
            rows.append([first, *(cell for row in gain_rows for cell in share_texts(row))])
    if not rows:
        return None
    several = len(comparison.columns) > 1
    titles = [f"{_heading(comparison, column)}\n" if several else "" for column in comparison.columns]
    heads = [head for title in titles for head in (f"{title}gap closed", "helped", "misled")]
    return Table("more-to-read", "", ["explainer", *(Cell(head, longest=_MAX_NAME_LENGTH) for head in heads)], rows)


def share_texts(row: GainRow | None, *, ascii_minus: bool = True) -> tuple[str, str, str]:
    """The normalised gain with its interval, and the shares that were helped and misled, in percent."""
    percent = NumberFormat(100.0, 1, ascii_minus=ascii_minus)
    if row is None or row.helped is None:
        return UNKNOWN, UNKNOWN, UNKNOWN
    closed = percent.signed(row.normalised_gain)
    if row.normalised_low is not None:
        closed += f" {percent.brackets(row.normalised_low, row.normalised_high)}"
    return closed, percent.plain(row.helped), percent.plain(row.misled)


def _ranks(comparison: "Comparison") -> dict[str, float]:
    return {line["explainer"]: line["rank"] for line in comparison.ranking()}


def _ordered(comparison: "Comparison") -> list[Cell]:
    """The names of the explainers as cells: `none` first, then by mean rank."""
    ranks = _ranks(comparison)
    names = sorted(comparison.explainers, key=lambda name: (name != NONE, ranks.get(name, np.inf)))
    looks = {name: ("quiet", "a control") if name in comparison.about.controls else ("", "") for name in names}
    return [Cell(name, *looks[name], longest=_MAX_NAME_LENGTH) for name in names]


def _edited_table(comparison: "Comparison", edited: EditedResults) -> Table:
    """One line per explainer; for every student and size a column for all edited rows, for flips and for stays."""
    pairs = [(column, name) for column in comparison.columns for name in SUBSETS]
    heads = ["explainer", *(f"{_heading(comparison, column)}\n{name}" for column, name in pairs)]
    rows = [
        [first, *(_cell(edited.subset(name).find(first.text, column)) for column, name in pairs)]
        for first in _ordered(comparison)
    ]
    return Table("edited", "", [Cell(head, longest=_MAX_NAME_LENGTH) for head in heads], rows)


def _table(comparison: "Comparison") -> Table:
    ranks = _ranks(comparison)
    rows: list[list[Cell | str]] = []
    for first in _ordered(comparison):
        cells = [_cell(comparison.find(first.text, column)) for column in comparison.columns]
        rows.append([first, *cells, f"{ranks[first.text]:.1f}" if first.text in ranks else UNKNOWN])
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
    lines += filter(None, [comparison.about.sent])
    lines += filter(None, [comparison.why_no_contrasts])
    if any(row.seeds < FEW_SEEDS for row in comparison.rows):
        caveat = "the interval is unreliable" if has_intervals else "this ranking may be due to chance"
        lines.append(f"° fewer than {FEW_SEEDS} seeds: {caveat}.")
    lines += [f"p: {reason}" for reason in sorted({row.p_reason for row in comparison.rows if row.p_reason})]
    lines += [f"‡ {column_name(row.column)}: {row.modes_sentence}" for row in comparison.rows if row.low_seeds]
    lines += filter(None, [Trust.of(comparison).remark()])
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


def band_text(row: GainRow, number_format: NumberFormat) -> str:
    """The lowest and the highest gain of a band, each with its interval and mark."""
    ends = [point for point in (row.lowest_point, row.best_point) if point is not None]
    texts = []
    for point in ends:
        interval = "" if point.low is None else f" {number_format.brackets(point.low, point.high)}"
        texts.append(f"{number_format.signed(point.gain)}{interval} {point.mark}".rstrip())
    return " to ".join(texts)


def _cell_text(row: GainRow | None) -> tuple[str, str]:
    """The text of a cell, and "above" or "below" if its gain is claimed to be above or below 0."""
    if row is None or row.median is None or (row.gain is None and row.explainer != NONE):
        return UNKNOWN, ""
    number_format = _format(row)
    if row.explainer == NONE:
        return f"{number_format.plain(row.mean)}{row.footnotes}", ""
    if row.band:
        css_class = "above" if row.is_above else "below" if row.is_below else ""
        return band_text(row, number_format) + row.footnotes, css_class
    if not row.has_interval:
        return f"{number_format.signed(row.gain)}{row.footnotes}", ""
    text = (
        f"{number_format.signed(row.gain)} {number_format.brackets(row.low, row.high)} {row.mark or ' '}{row.footnotes}"
    )
    return text.rstrip(), "above" if row.is_above else "below" if row.is_below else ""
