"""Gains on edited rows: one table for every student and size, with all edited rows, flips and stays."""

from didact.reports.describe import marked_name, method_text
from didact.reports.section import Block, Notes, Section, lead
from didact.results.comparison import Comparison
from didact.results.contrast import Column
from didact.results.edited import SUBSETS, EditedResults
from didact.results.gains import NONE, GainRow, column_name
from didact.results.number_format import NumberFormat
from didact.viz.tables import Cell, Table

_FORMAT = NumberFormat(100.0, 1)
_EXPORTED = ("explainer", "student", "size", "seeds", "mean", "gain", "low", "high", "level", "p", "claimed")


def section(run: Comparison) -> Section | None:
    """The section, or None without this test set."""
    if run.edited is None or not run.rows:
        return None
    blocks: list[Block] = [
        lead(
            "Do students predict the model on rows that differ from their own training rows by one edit? A flip asks "
            "for the change that matters to the model, a stay for ignoring one that does not. Gains are measured "
            "against students who saw no explanations."
        ),
        *(_table(run, run.edited, column) for column in run.columns),
        Notes(run.edited.remarks()),
    ]
    return Section("edited", "Edited rows", blocks)


def _table(run: Comparison, edited: EditedResults, column: Column) -> Table:
    rows: list[list[Cell | str]] = []
    data = []
    for name in run.ranked:
        first = Cell(marked_name(run, name), "control" if name in run.controls else "", method_text(name))
        gains = {subset: edited.subset(subset).find(name, column) for subset in SUBSETS}
        rows.append([first, *map(_cell, gains.values())])
        data += [
            {"subset": subset} | {field: row[field] for field in _EXPORTED}
            for subset, row in gains.items()
            if row is not None
        ]
    caption = f"{column_name(column)}: gain over none in points, with its 95 % interval (Holm-corrected); none: percent"
    heads = ["explainer", "edited (mean of both)", "flips", "stays"]
    return Table(f"edited-{column[0]}-{column[1]}", caption, heads, rows, data=data)


def _cell(row: GainRow | None) -> Cell:
    if row is None or (row.gain is None and row.explainer != NONE):
        return Cell("–", title="no edited rows, or none of its runs succeeded")
    details = f"{row.seeds} seeds, {row.test_rows:,} edited rows"
    if row.explainer == NONE:
        return Cell(f"{_FORMAT.plain(row.mean)}{row.footnotes}", "control", details)
    test = "" if row.p is None else f"; p = {row.p:.3g}"
    aside = f"{_FORMAT.brackets(row.low, row.high)} {row.mark}{row.footnotes}".strip()
    title = f"mean {_FORMAT.plain(row.mean)}; {details}{test}"
    return Cell(_FORMAT.signed(row.gain), "control" if row.is_control else "", title, aside)
