"""What a method costs, against what it teaches."""

from typing import Any

from didact.render.chart import altair
from didact.render.tables import Cell, Table
from didact.reports.figure import BLUE, INK, ORANGE, Figure, calm, label, values
from didact.reports.section import Notes, Section, lead
from didact.results.comparison import Comparison
from didact.results.contrast import Column
from didact.results.gains import column_name
from didact.results.measured import Cost
from didact.results.number_format import minus


def section(run: Comparison) -> Section | None:
    """None where no cost was measured; the end of the page says so."""
    costs = [] if run.measured is None else [one for one in run.measured.cost if one.seconds is not None]
    if not costs:
        return None
    names = [name for one in costs if run.gain(name := one.method) is not None]
    columns = run.shared(names) or None
    table = _table(run, costs, columns)
    points = _points(run, costs, columns)
    figures = [_figure(run, points)] if len(points) > 1 else []
    said = (
        "Time to explain one row on the machine of this run, and the passes through the model that it takes, against "
        "the mean gain of students. Best is top left: cheap, and it teaches."
    )
    remarks = [
        "Learned explainers (SMaT, L2E) are trained once; that is not in these figures. Memory: peak above idle."
    ]
    if columns and len(columns) < len(run.judged):
        where = "; ".join(map(column_name, columns))
        remarks.append(f"Gains are means over what all of them were compared with: {where}.")
    elif columns is None and len(run.judged) > 1:
        remarks.append("No student was taught by all of them: these gains are means over different students.")
    return Section("cost", "What it costs", [lead(said), *figures, table, Notes(remarks)])


def _table(run: Comparison, costs: list[Cost], columns: list[Column] | None) -> Table:
    rows: list[list[Cell | str]] = []
    ordered = sorted(costs, key=lambda one: one.seconds or 0.0)
    for one in ordered:
        name = one.method
        rows.append(
            [
                name, _time(one.seconds or 0.0), _count(one.forward), _count(one.backward),
                _memory(one.memory), run.format.signed(run.gain(name, columns)),
            ]
        )  # fmt: skip
    heads = ["method", "time per row", "forward passes", "backward passes", "memory", f"mean gain, {run.unit}"]
    return Table("cost", f"Cost per row, measured on {costs[0].rows} rows", heads, rows, data=ordered)


def _points(run: Comparison, costs: list[Cost], columns: list[Column] | None) -> list[dict[str, Any]]:
    found = []
    for one in costs:
        name, seconds = one.method, one.seconds or 0.0
        gain = run.gain(name, columns)
        if gain is not None and seconds > 0:
            told = f"{label(name)}: {_time(seconds)} per row, gain {run.format.signed(gain)}"
            point = {"milliseconds": 1000 * seconds, "gain": gain * run.format.scale}
            found.append({"name": label(name, 40), **point, "told": told})
    return found


def _figure(run: Comparison, points: list[dict[str, Any]]) -> Figure:
    told = "; ".join(one["told"] for one in points[:12])
    return Figure("cost", f"Mean gain against time per row. {told}.", lambda width: _chart(run, points, width))


def _chart(run: Comparison, points: list[dict[str, Any]], width: int) -> Any:
    alt = altair()
    times = [one["milliseconds"] for one in points]
    gains = [0.0, *(one["gain"] for one in points)]
    pad = 0.12 * ((max(gains) - min(gains)) or 1.0)
    # Names stand right of their points, so there is room for the last of them.
    domain = [min(times) / 1.6, max(times) * (max(times) / min(times) * 4) ** (0.55 if width < 400 else 0.3)]
    base = alt.Chart(values(_apart(points, gains))).encode(
        x=alt.X("milliseconds:Q", title="milliseconds per row, logarithmic",
                scale=alt.Scale(type="log", domain=domain, nice=False),
                axis=alt.Axis(tickCount=5, format="~g", grid=False)),
        y=alt.Y("gain:Q", title=f"mean gain over none, {run.unit}",
                scale=alt.Scale(domain=[min(gains) - pad, max(gains) + pad], nice=False)),
        description="told:N",
    )  # fmt: skip
    dots = base.mark_point(filled=True, size=90, opacity=1, color=BLUE)
    names = base.mark_text(align="left", dx=9, fontSize=12, color=INK).encode(y="label:Q", text="name:N")
    zero = alt.Chart(values([{"zero": 0.0}])).mark_rule(color=ORANGE, strokeDash=[4, 3]).encode(y="zero:Q")
    return calm(alt.layer(zero, dots, names), width, 300)


def _apart(points: list[dict[str, Any]], gains: list[float]) -> list[dict[str, Any]]:
    """With a height for each name, so that names of neighbours do not cover one another."""
    least = 0.055 * ((max(gains) - min(gains)) or 1.0)
    found, last = [], float("-inf")
    for one in sorted(points, key=lambda one: float(one["gain"])):
        last = max(float(one["gain"]), last + least)
        found.append({**one, "label": last})
    return found


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1000 * seconds:.3g} ms"


def _count(value: float | None) -> str:
    return "–" if value is None else minus(f"{value:,.3g}" if value < 1000 else f"{value:,.0f}")


def _memory(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} MB" if value >= 1 else "< 1 MB"
