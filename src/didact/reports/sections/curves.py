"""Gains by the number of rows that students learn from: one small chart per method, a line per student."""

from typing import Any

from didact.render.chart import altair
from didact.render.html import cut
from didact.reports.figure import INK, QUIET, SERIES, Figure, calm, label, values
from didact.reports.section import Block, Group, Key, Notes, Section, lead, missing
from didact.results.comparison import Comparison
from didact.results.gains import NONE, GainRow, column_name

_WIDTH = 260
_MOST = 24  # charts
_NAMES = dict(zip(SERIES, ("blue", "orange", "green", "purple"), strict=True))


def section(run: Comparison) -> Section | None:
    """None where there are fewer than two sizes whose students learned: one point is no curve."""
    names = [name for name in run.ranked if name != NONE and run.gain(name) is not None][:_MOST]
    if len({size for _, size in run.judged}) < 2 or not names:
        return None
    known = list(dict.fromkeys(student for student, _ in run.judged))
    students = zip(known, SERIES, strict=False)
    blocks: list[Block] = [
        lead(
            "Gain over none against the number of rows, from the best method to the worst; the band is the 95 % "
            "interval, corrected for the number of methods."
        ),
        Key([(f"dash {_NAMES[colour]}", cut(student)) for student, colour in students]),
        Group("panels", [_figure(run, name) for name in names]),
    ]
    if len(known) > len(SERIES):
        blocks.append(missing(f"{len(known) - len(SERIES)} more students are in the table above."))
    if run.unlearned:
        left = "; ".join(column_name(column) for column in run.unlearned)
        blocks.append(Notes([f"Left out, because their students did not learn: {left}."]))
    return Section("curves", "With more rows to learn from", blocks)


def _judged(run: Comparison, name: str) -> list[GainRow]:
    return [row for row in run.rows_of(name) if row.gain is not None and row.column in run.judged]


def _figure(run: Comparison, name: str) -> Figure:
    told = "; ".join(f"{row.student}, {row.size:,} rows: {run.format.signed(row.gain)}" for row in _judged(run, name))
    control = " (control)" if name in run.controls else ""
    return Figure(
        f"curve-{name}", f"Gain of {label(name)} by rows. {told}.", lambda width: _chart(run, name, width), (_WIDTH,),
        caption=f"{cut(name)}{control}",
    )  # fmt: skip


def _chart(run: Comparison, name: str, width: int) -> Any:
    alt = altair()
    sizes = sorted({size for _, size in run.judged})
    students = list(dict.fromkeys(student for student, _ in run.judged))[: len(SERIES)]
    numbers = [str(number) for number in range(len(students))]
    found = [
        {
            "student": str(students.index(row.student)), "size": row.size, "gain": (row.gain or 0.0) * run.format.scale,
            "low": ((row.gain if row.low is None else row.low) or 0.0) * run.format.scale,
            "high": ((row.gain if row.high is None else row.high) or 0.0) * run.format.scale,
            "told": f"{row.student}, {row.size:,} rows: {run.format.signed(row.gain)} ({run.interval(row)})",
        }
        for row in _judged(run, name) if row.student in students
    ]  # fmt: skip
    ends = [0.0]
    for row in run.rows:
        if row.column not in run.judged:
            continue
        ends += [value * run.format.scale for value in (row.gain, row.low, row.high) if value is not None]
    pad = 0.05 * ((max(ends) - min(ends)) or 1.0)
    y = alt.Scale(domain=[min(ends) - pad, max(ends) + pad], nice=False)
    base = alt.Chart(values(found)).encode(
        x=alt.X("size:Q", title="rows", scale=alt.Scale(type="log", nice=False, padding=14),
                axis=alt.Axis(values=sizes, format=",d", grid=False, labelOverlap=True)),
        color=alt.Color("student:N", legend=None, scale=alt.Scale(domain=numbers, range=list(SERIES)[: len(students)])),
    )  # fmt: skip
    axis = alt.Axis(title=None, tickCount=5, domain=False, ticks=False)
    zero = alt.Chart(values([{"zero": 0.0}])).mark_rule(color=QUIET, strokeWidth=1).encode(y="zero:Q")
    band = base.mark_area(opacity=0.16, line=False).encode(y=alt.Y("low:Q", scale=y, axis=axis), y2="high:Q")
    line = base.mark_line(strokeWidth=2).encode(
        y=alt.Y("gain:Q", scale=y, axis=axis), strokeDash=alt.StrokeDash("student:N", legend=None)
    )
    points = base.mark_point(filled=True, size=45, opacity=1).encode(
        y=alt.Y("gain:Q", scale=y, axis=axis), description="told:N"
    )
    return calm(alt.layer(zero, band, line, points), width, 170).configure_axisX(labelColor=INK, titleColor=QUIET)
