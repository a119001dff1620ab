"""The table of a comparison for terminals and notebooks, with the remarks that belong to it."""

from typing import TYPE_CHECKING, Final

import numpy as np

from didact.results.contrast import Column
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
_MAX_NAME_LENGTH: Final = 10_000  # characters; users read and type names, so none is cut


def text(comparison: "Comparison") -> str:
    """The table and its remarks as text. Names and intervals are never cut."""
    from rich import box
    from rich.table import Table as Lines
    from rich.text import Text

    table, grid = _table(comparison), Lines(box=box.SIMPLE_HEAD, pad_edge=False)
    *names, rank = table.text_heads
    for name in names:
        grid.add_column(Text(name), no_wrap=True)
    grid.add_column(Text(rank), justify="right")
    for row in table.text_rows:
        grid.add_row(*map(Text, row))
    return "\n".join([render_text(grid), *remarks(comparison)])


def html(comparison: "Comparison") -> str:
    """The table and its remarks as an HTML fragment."""
    return _table(comparison).notebook(remarks(comparison))


def _table(comparison: "Comparison") -> Table:
    ranks = {line["explainer"]: line["rank"] for line in comparison.ranking()}
    rows: list[list[Cell | str]] = []
    for name in sorted(comparison.explainers, key=lambda name: (name != NONE, ranks.get(name, np.inf))):
        css_class, title = ("quiet", "a control") if name in comparison.about.controls else ("", "")
        cells = [_cell(comparison.find(name, column)) for column in comparison.columns]
        rank = f"{ranks[name]:.1f}" if name in ranks else UNKNOWN
        rows.append([Cell(name, css_class, title, longest=_MAX_NAME_LENGTH), *cells, rank])
    heads = ["explainer", *(_heading(comparison, column) for column in comparison.columns), "mean\nrank"]
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
