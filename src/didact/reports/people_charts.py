"""Charts of what people said: a point with its interval for each method, and who beats whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from didact.render.chart import altair
from didact.reports.figure import BLUE, GREY, INK, LINE, NARROW, ORANGE, PAGE, QUIET, calm, values
from didact.reports.table import cut

_LOOKS: Final = {"better": BLUE, "worse": ORANGE, "open": LINE}


@dataclass(frozen=True)
class Line:
    """One method of a chart of points. `people` are the values of single people, drawn faintly."""

    name: str
    value: float
    low: float | None
    high: float | None
    written: str
    told: str
    is_control: bool = False
    people: Sequence[float] = ()


@dataclass(frozen=True)
class Grid:
    """One field: what the method of the row leads over that of the column."""

    row: int
    column: int
    written: str
    look: str
    told: str


def dots(lines: Sequence[Line], width: int, *, base: float | None, most: float | None = None) -> Any:
    """Points with their intervals, the best on top; a line at `base`. Beyond `most` nothing is possible."""
    alt = altair()
    is_narrow = width <= NARROW
    names = [f"{place}\u2009. {one.name}" if _is_twice(lines, one) else one.name for place, one in enumerate(lines, 1)]
    rows: list[dict[str, Any]] = [
        {
            "name": name, "value": one.value, "low": one.value if one.low is None else one.low,
            "high": one.value if one.high is None else one.high, "color": GREY if one.is_control else BLUE,
            "end": max([one.value, *([] if one.high is None else [one.high]), *one.people]),
            "written": one.written, "told": one.told,
        }
        for name, one in zip(names, lines, strict=True)
    ]  # fmt: skip
    single: list[dict[str, Any]] = [
        {"name": name, "value": value} for name, one in zip(names, lines, strict=True) for value in one.people
    ]
    reach = [row[key] for row in rows for key in ("low", "high", "value")] + [one["value"] for one in single]
    reach += [] if base is None else [base]
    span = (max(reach) - min(reach)) or 1.0
    domain = [min(reach) - 0.04 * span, max(reach) + (0.22 if is_narrow else 0.12) * span]
    scale = alt.Scale(domain=domain, nice=False, zero=False)
    shown = alt.Undefined if most is None else [most * tick / 10 for tick in range(0, 11, 2 if is_narrow else 1)]
    axis = alt.Axis(
        title=None, tickCount=5 if is_narrow else 8, values=shown, domain=False, ticks=False, labelPadding=6
    )
    names_axis = alt.Axis(title=None, domain=False, ticks=False, labelLimit=300, labelPadding=10, labelColor=INK)
    y = alt.Y("name:N", sort=names, axis=None if is_narrow else names_axis, scale=alt.Scale(padding=0.5))
    low = 9 if is_narrow else 0  # there the name stands above its bar
    plot = alt.Chart(values(rows)).encode(y=y, description="told:N")
    layers = []
    if base is not None:
        rule = alt.Chart(values([{"base": base}])).mark_rule(color=QUIET, strokeWidth=1.5)
        layers.append(rule.encode(x=alt.X("base:Q", scale=scale, axis=axis)))
    if single:
        faint = alt.Chart(values(single)).mark_tick(color=GREY, opacity=0.7, thickness=2, size=14, yOffset=low)
        layers.append(faint.encode(x=alt.X("value:Q", scale=scale, axis=axis), y=y))
    color = alt.Color("color:N", scale=None)
    bars = plot.mark_rule(strokeWidth=3, opacity=0.55, strokeCap="round", yOffset=low, y2Offset=low)
    points = plot.mark_point(filled=True, size=90, opacity=1, yOffset=low)
    numbers = plot.mark_text(align="left", dx=9, fontSize=12, color=INK, yOffset=low)
    layers += [
        bars.encode(x=alt.X("low:Q", axis=axis, scale=scale), x2="high:Q", color=color),
        points.encode(x=alt.X("value:Q", scale=scale, axis=axis), color=color),
        numbers.encode(x="end:Q", text="written:N"),
    ]
    if is_narrow:
        above = plot.mark_text(align="left", fontSize=12, color=INK, yOffset=-9, x=0, limit=width - 20)
        layers.append(above.encode(text="name:N"))
    return calm(alt.layer(*layers), width, (44 if is_narrow else 30) * len(rows) + 40)


def grid(names: Sequence[str], cells: Sequence[Grid], width: int) -> Any:
    """A square: filled where one method is surely better or worse than the other, with the difference in words."""
    alt = altair()
    is_narrow = width <= NARROW
    longest = 12 if is_narrow else 30
    rows = [f"{place}. {cut(name, longest)}" for place, name in enumerate(names, 1)]
    columns = [f"{place}" for place in range(1, len(names) + 1)]
    found = [
        {
            "row": rows[one.row], "column": columns[one.column], "written": one.written, "color": _LOOKS[one.look],
            "text": INK if one.look == "open" else PAGE, "told": one.told,
        }
        for one in cells
    ]  # fmt: skip
    labels = {"domain": False, "ticks": False, "labelColor": INK, "title": None, "labelPadding": 8}
    base = alt.Chart(values(found)).encode(
        x=alt.X("column:N", sort=columns, scale=alt.Scale(domain=columns, padding=0.06),
                axis=alt.Axis(orient="top", labelAngle=0, **labels)),
        y=alt.Y("row:N", sort=rows, scale=alt.Scale(domain=rows, padding=0.06),
                axis=alt.Axis(labelLimit=260, **labels)),
        description="told:N",
    )  # fmt: skip
    fields = base.mark_rect(cornerRadius=4).encode(color=alt.Color("color:N", scale=None))
    size = 10 if is_narrow and len(names) > 4 else 12
    words = base.mark_text(fontSize=size).encode(text="written:N", color=alt.Color("text:N", scale=None))
    wide = min(width, 230 + 76 * len(names)) if not is_narrow else width
    return calm(alt.layer(fields, words), wide, 38 * len(names) + 40)


def _is_twice(lines: Sequence[Line], one: Line) -> bool:
    """Names that became the same by being cut are told apart by a number."""
    return sum(other.name == one.name for other in lines) > 1
