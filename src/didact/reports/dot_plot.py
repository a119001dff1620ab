"""A point with its interval for each method: the chart of gains, and of what people prefer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from didact.render.chart import altair
from didact.reports.figure import BLUE, GREY, INK, NARROW, PAGE, QUIET, calm, values


@dataclass(frozen=True)
class Dot:
    """One method. A dot that is not full is hollow. `people` are the values of single people, drawn faintly."""

    name: str
    value: float
    low: float | None
    high: float | None
    written: str
    told: str
    color: str = BLUE
    is_full: bool = True
    people: Sequence[float] = ()


def dot_plot(
    dots: Sequence[Dot],
    width: int,
    *,
    base: float | None,
    base_name: str = "base",
    title: str | None = None,
    ticks: float | None = None,
) -> Any:
    """Points with their intervals, the best on top, and a line at `base`. With `ticks`, tenths of it are labelled."""
    alt = altair()
    is_narrow = width <= NARROW
    names = _unique([dot.name for dot in dots])
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "value": dot.value,
            "low": dot.value if dot.low is None else dot.low,
            "high": dot.value if dot.high is None else dot.high,
            "end": max([dot.value, *([] if dot.high is None else [dot.high]), *dot.people]),
            "color": dot.color,
            "fill": dot.color if dot.is_full else PAGE,
            "written": dot.written,
            "told": dot.told,
        }
        for name, dot in zip(names, dots, strict=True)
    ]
    single = [{"name": name, "value": value} for name, dot in zip(names, dots, strict=True) for value in dot.people]
    reach = [row[key] for row in rows for key in ("low", "end", "value")] + [point["value"] for point in single]
    reach += [] if base is None else [base]
    span = (max(reach) - min(reach)) or 1.0
    domain = [min(reach) - 0.04 * span, max(reach) + (0.2 if is_narrow else 0.11) * span]
    scale = alt.Scale(domain=domain, nice=False, zero=False)
    labels = alt.Undefined if ticks is None else [ticks * tick / 10 for tick in range(0, 11, 2 if is_narrow else 1)]
    axis = alt.Axis(
        title=title, tickCount=5 if is_narrow else 8, values=labels, domain=False, ticks=False, labelPadding=6
    )
    names_axis = alt.Axis(title=None, domain=False, ticks=False, labelLimit=300, labelPadding=10, labelColor=INK)
    y = alt.Y("name:N", sort=names, axis=None if is_narrow else names_axis, scale=alt.Scale(padding=0.5))
    below = 9 if is_narrow else 0  # there the name stands above its bar
    color, fill, stroke = (kind(name, scale=None) for kind, name in _colours(alt))
    plot = alt.Chart(values(rows)).encode(y=y, description="told:N")
    layers = []
    if base is not None:
        rule = alt.Chart(values([{base_name: base}])).mark_rule(color=QUIET, strokeWidth=1.5)
        layers.append(rule.encode(x=alt.X(f"{base_name}:Q", scale=scale, axis=axis)))
    if single:
        faint = alt.Chart(values(single)).mark_tick(color=GREY, opacity=0.7, thickness=2, size=14, yOffset=below)
        layers.append(faint.encode(x=alt.X("value:Q", scale=scale, axis=axis), y=y))
    bars = plot.mark_rule(strokeWidth=3, opacity=0.55, strokeCap="round", yOffset=below, y2Offset=below)
    points = plot.mark_point(filled=True, size=90, opacity=1, strokeWidth=2, yOffset=below)
    numbers = plot.mark_text(align="left", dx=9, fontSize=12, color=INK, yOffset=below)
    layers += [
        bars.encode(x=alt.X("low:Q", axis=axis, scale=scale), x2="high:Q", color=color),
        points.encode(x=alt.X("value:Q", scale=scale, axis=axis), fill=fill, stroke=stroke),
        numbers.encode(x="end:Q", text="written:N"),
    ]
    if is_narrow:
        above = plot.mark_text(align="left", fontSize=12, color=INK, yOffset=-9, x=0, limit=width - 20)
        layers.append(above.encode(text="name:N"))
    return calm(alt.layer(*layers), width, (44 if is_narrow else 30) * len(rows) + (40 if title is None else 56))


def _colours(alt: Any) -> list[tuple[Any, str]]:
    return [(alt.Color, "color:N"), (alt.Fill, "fill:N"), (alt.Stroke, "color:N")]


def _unique(names: Sequence[str]) -> list[str]:
    """Names that became the same by being cut, told apart by a number."""
    counts: dict[str, int] = {}
    unique = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        unique.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return unique
