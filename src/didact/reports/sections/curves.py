"""Gains by training size: one small chart per method, one line per student."""

from functools import partial
from typing import Any

from didact.reports.figure import COLOUR_CLASSES, INK, QUIET, SERIES, DataRow, Figure, apply_theme, chart_data, label
from didact.reports.section import Block, Group, Key, Notes, Section, lead, missing
from didact.results.comparison import Comparison
from didact.results.gains import NONE, GainRow, column_name
from didact.viz.chart import altair
from didact.viz.html import cut

_WIDTH = 260
_MAX_CHARTS = 24  # charts


def section(run: Comparison) -> Section | None:
    """The section, or None if students learned at fewer than two training sizes."""
    names = [name for name in run.ranked if name != NONE and run.gain(name) is not None][:_MAX_CHARTS]
    if len({size for _, size in run.judged}) < 2 or not names:
        return None
    all_students = list(dict.fromkeys(student for student, _ in run.judged))
    students = zip(all_students, SERIES, strict=False)
    blocks: list[Block] = [
        lead(
            "Gain over none by the number of training rows, from the best method to the worst. The band is the 95 % "
            "interval, corrected for the number of methods."
        ),
        Key([(f"dash {COLOUR_CLASSES[colour]}", cut(student)) for student, colour in students]),
        Group("panels", [_figure(run, name) for name in names]),
    ]
    if len(all_students) > len(SERIES):
        blocks.append(missing(f"{len(all_students) - len(SERIES)} more students are in the table above."))
    if any(row.band for row in run.rows):
        blocks.append(Notes(["Each point is the gain at the method's best temperature."]))
    if run.unlearned:
        unlearned = "; ".join(column_name(column) for column in run.unlearned)
        blocks.append(Notes([f"Left out, because their students did not learn: {unlearned}."]))
    return Section("curves", "With more rows to learn from", blocks)


def _figure(run: Comparison, name: str) -> Figure:
    description = "; ".join(
        f"{row.student}, {row.size:,} rows: {run.format.signed(row.gain)}" for row in run.judged_rows(name)
    )
    control = " (control)" if name in run.controls else ""
    alt = f"Gain of {label(name)} by rows. {description}."
    return Figure(f"curve-{name}", alt, partial(_chart, run, name), (_WIDTH,), caption=f"{cut(name)}{control}")


def _chart(run: Comparison, name: str, width: int) -> Any:
    alt = altair()
    sizes = sorted({size for _, size in run.judged})
    students = list(dict.fromkeys(student for student, _ in run.judged))[: len(SERIES)]
    numbers = [str(number) for number in range(len(students))]
    chart_rows = [_point(run, row, students) for row in run.judged_rows(name) if row.student in students]
    gains = [value for row in run.rows if row.column in run.judged for value in (row.gain, row.low, row.high)]
    bounds = [0.0, *(value * run.format.scale for value in gains if value is not None)]
    pad = 0.05 * ((max(bounds) - min(bounds)) or 1.0)
    scale = alt.Scale(domain=[min(bounds) - pad, max(bounds) + pad], nice=False)
    axis = alt.Axis(title=None, tickCount=5, domain=False, ticks=False)
    low, gain = (alt.Y(f"{field}:Q", scale=scale, axis=axis) for field in ("low", "gain"))
    row_axis = alt.Axis(values=sizes, format=",d", grid=False, labelOverlap=True)
    colours = alt.Scale(domain=numbers, range=list(SERIES)[: len(students)])
    base = alt.Chart(chart_data(chart_rows)).encode(
        x=alt.X("size:Q", title="rows", scale=alt.Scale(type="log", nice=False, padding=14), axis=row_axis),
        color=alt.Color("student:N", legend=None, scale=colours),
    )
    zero = alt.Chart(chart_data([{"zero": 0.0}])).mark_rule(color=QUIET, strokeWidth=1).encode(y="zero:Q")
    band = base.mark_area(opacity=0.16, line=False).encode(y=low, y2="high:Q")
    line = base.mark_line(strokeWidth=2).encode(y=gain, strokeDash=alt.StrokeDash("student:N", legend=None))
    points = base.mark_point(filled=True, size=45, opacity=1).encode(y=gain, description="tooltip:N")
    return apply_theme(alt.layer(zero, band, line, points), width, 170).configure_axisX(
        labelColor=INK, titleColor=QUIET
    )


def _point(run: Comparison, row: GainRow, students: list[str]) -> DataRow:
    bounds = {"gain": row.gain, "low": row.gain if row.low is None else row.low}
    bounds["high"] = row.gain if row.high is None else row.high
    tooltip = f"{row.student}, {row.size:,} rows: {run.format.signed(row.gain)} ({run.interval(row)})"
    scaled = {name: (value or 0.0) * run.format.scale for name, value in bounds.items()}
    return {"student": str(students.index(row.student)), "size": row.size, "tooltip": tooltip, **scaled}
