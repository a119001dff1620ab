"""What sharpness alone makes: the gain of every method at each temperature of a band."""

from didact.reports.section import Block, Group, Notes, Section, lead
from didact.results.comparison import Comparison
from didact.results.contrast import Column
from didact.results.gains import BandPoint, GainRow, column_name
from didact.viz.tables import Cell, Table


def section(run: Comparison) -> Section | None:
    """The section, or None without a band."""
    columns = [column for column in run.judged if any(row.band for row in run.rows if row.column == column)]
    if not columns:
        return None
    blocks: list[Block] = [
        lead(
            "Another temperature adds no information to an explanation: below 1 it sharpens, above 1 it flattens. The "
            "span is what temperature alone makes. A lead of one method over another counts only if it is larger than "
            "the span of both."
        ),
        Group("tables", [_table(run, column) for column in columns]),
        Notes(
            [
                "Intervals and marks are corrected for all temperatures and methods of a column (each control: for its "
                "temperatures). Chance alone makes a span larger than 0, so the rule errs towards naming no winner."
            ]
        ),
    ]
    return Section("sharpness", "What sharpness alone makes", blocks)


def _table(run: Comparison, column: Column) -> Table:
    rows = [row for name in run.ranked if (row := run.find(name, column)) is not None and row.band]
    temperatures = sorted({point.temperature for row in rows for point in row.band}, reverse=True)
    lines: list[list[Cell | str]] = []
    for row in rows:
        points = {point.temperature: point for point in row.band}
        look = "control" if row.is_control else ""
        cells = [_cell(run, row, points.get(temperature)) for temperature in temperatures]
        lines.append([Cell(row.explainer, look), *cells, Cell(run.format.plain(row.span), look)])
    heads = ["explainer", *(f"T = {temperature:g}" for temperature in temperatures), "span"]
    caption = f"Gain over none at each temperature, {run.unit}, {column_name(column)}"
    data = [
        {"explainer": row.explainer, "student": row.student, "size": row.size, "span": row.span, **point}
        for row in rows
        for point in row.band
    ]
    return Table(f"sharpness-{column[0]}-{column[1]}", caption, heads, lines, data=data)


def _cell(run: Comparison, row: GainRow, point: BandPoint | None) -> Cell:
    if point is None or point.gain is None:
        return Cell("–", title="none of its runs succeeded")
    aside = "" if point.low is None else f"{run.format.brackets(point.low, point.high)} {point.mark}".strip()
    p = "" if point.p is None else f"; p = {point.p:.3g}"
    title = f"mean {run.format.plain(point.mean)}; {point.seeds} seeds{p}"
    return Cell(run.format.signed(point.gain), "control" if row.is_control else "", title, aside)
