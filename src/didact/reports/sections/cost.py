"""The cost of each method against the gain of its students."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from didact.reports.figure import BLUE, INK, ORANGE, DataRow, Figure, apply_theme, chart_data, label
from didact.reports.section import Notes, Section, lead
from didact.results.comparison import Comparison
from didact.results.contrast import Column
from didact.results.gains import column_name
from didact.results.measured import Cost
from didact.results.number_format import minus
from didact.viz.chart import altair
from didact.viz.tables import Cell, Table


@dataclass(frozen=True)
class _Point:
    """A method in the chart."""

    name: str
    milliseconds: float
    gain: float
    tooltip: str


def section(run: Comparison) -> Section | None:
    """The section, or None if cost was not measured (provenance then says so)."""
    costs = [] if run.measured is None else [cost for cost in run.measured.cost if cost.seconds is not None]
    if not costs:
        return None
    names = [name for cost in costs if run.gain(name := cost.method) is not None]
    columns = run.shared(names) or None
    table = _table(run, costs, columns)
    points = _points(run, costs, columns)
    figures = [_figure(run, points)] if len(points) > 1 else []
    intro = (
        "Time and passes through the model to explain one row on the machine of this run, against the mean gain of "
        "students. The best methods are top left: cheap, and they teach."
    )
    remarks = ["Learned explainers (SMaT, L2E) are trained once; training is not included. Memory: peak above idle."]
    if columns and len(columns) < len(run.judged):
        where = "; ".join(map(column_name, columns))
        remarks.append(f"Gains are means over the combinations that all of these methods share: {where}.")
    elif columns is None and len(run.judged) > 1:
        remarks.append("These methods share no student, so their gains are means over different students.")
    return Section("cost", "What it costs", [lead(intro), *figures, table, Notes(remarks)])


def _table(run: Comparison, costs: list[Cost], columns: list[Column] | None) -> Table:
    rows: list[list[Cell | str]] = []
    ordered = sorted(costs, key=lambda cost: cost.seconds or 0.0)
    for cost in ordered:
        gain = run.format.signed(run.gain(cost.method, columns))
        passes = [_count(cost.forward), _count(cost.backward)]
        rows.append([cost.method, _time(cost.seconds or 0.0), *passes, _memory(cost.memory), gain])
    heads = ["method", "time per row", "forward passes", "backward passes", "memory", f"mean gain, {run.unit}"]
    return Table("cost", f"Cost per row, measured on {costs[0].rows} rows", heads, rows, data=ordered)


def _points(run: Comparison, costs: list[Cost], columns: list[Column] | None) -> list[_Point]:
    points = []
    for cost in costs:
        name, seconds = cost.method, cost.seconds or 0.0
        gain = run.gain(name, columns)
        if gain is not None and seconds > 0:
            tooltip = f"{label(name)}: {_time(seconds)} per row, gain {run.format.signed(gain)}"
            points.append(_Point(label(name, 40), 1000 * seconds, gain * run.format.scale, tooltip))
    return points


def _figure(run: Comparison, points: list[_Point]) -> Figure:
    description = "; ".join(point.tooltip for point in points[:12])
    return Figure("cost", f"Mean gain against time per row. {description}.", partial(_chart, run, points))


def _chart(run: Comparison, points: list[_Point], width: int) -> Any:
    alt = altair()
    times = [point.milliseconds for point in points]
    gains = [0.0, *(point.gain for point in points)]
    pad = 0.12 * ((max(gains) - min(gains)) or 1.0)
    # Names are to the right of their points, so the axis leaves room for the last one.
    domain = [min(times) / 1.6, max(times) * (max(times) / min(times) * 4) ** (0.55 if width < 400 else 0.3)]
    times_scale = alt.Scale(type="log", domain=domain, nice=False)
    gains_scale = alt.Scale(domain=[min(gains) - pad, max(gains) + pad], nice=False)
    axis = alt.Axis(tickCount=5, format="~g", grid=False)
    base = alt.Chart(chart_data(_with_label_heights(points, gains))).encode(
        x=alt.X("milliseconds:Q", title="milliseconds per row, logarithmic", scale=times_scale, axis=axis),
        y=alt.Y("gain:Q", title=f"mean gain over none, {run.unit}", scale=gains_scale),
        description="tooltip:N",
    )
    dots = base.mark_point(filled=True, size=90, opacity=1, color=BLUE)
    names = base.mark_text(align="left", dx=9, fontSize=12, color=INK).encode(y="label:Q", text="name:N")
    zero = alt.Chart(chart_data([{"zero": 0.0}])).mark_rule(color=ORANGE, strokeDash=[4, 3]).encode(y="zero:Q")
    return apply_theme(alt.layer(zero, dots, names), width, 300)


def _with_label_heights(points: list[_Point], gains: list[float]) -> list[DataRow]:
    """The points as chart data, with heights for their names that keep names from overlapping."""
    min_gap = 0.055 * ((max(gains) - min(gains)) or 1.0)
    rows: list[DataRow] = []
    label_height = float("-inf")
    for point in sorted(points, key=lambda point: point.gain):
        label_height = max(point.gain, label_height + min_gap)
        rows.append({**vars(point), "label": label_height})
    return rows


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1000 * seconds:.3g} ms"


def _count(value: float | None) -> str:
    return "–" if value is None else minus(f"{value:,.3g}" if value < 1000 else f"{value:,.0f}")


def _memory(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} MB" if value >= 1 else "< 1 MB"
