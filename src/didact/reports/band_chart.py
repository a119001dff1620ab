"""The chart of a band: what each method gains at several temperatures, from the lowest to the highest."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from didact.reports.charts import unique_names
from didact.reports.figure import BLUE, INK, NARROW, QUIET, DataRow, apply_theme, chart_data
from didact.viz.chart import altair

_CLOSE: Final = 0.045  # share of the axis within which labels of points would overlap


@dataclass(frozen=True)
class Band:
    """One method of the chart: (label, value, tooltip) of each point, and the outer ends of its intervals."""

    name: str
    points: Sequence[tuple[str, float, str]]
    low: float
    high: float
    value_text: str
    color: str = BLUE

    @property
    def values(self) -> list[float]:
        return [value for _, value, _ in self.points]

    def labels(self, least: float) -> list[tuple[str, float]]:
        """The labels of the points and where they stand. Those of points closer than `least` are joined."""
        groups: list[list[tuple[str, float]]] = []
        for label, value, _ in sorted(self.points, key=lambda point: point[1]):
            if groups and value - groups[-1][-1][1] < least:
                groups[-1].append((label, value))
            else:
                groups.append([(label, value)])
        return [
            (" · ".join(label for label, _ in group), sum(value for _, value in group) / len(group)) for group in groups
        ]


def band_plot(bands: Sequence[Band], width: int, *, title: str) -> Any:
    """A thick bar from the lowest to the highest value, a thin line to the ends of the intervals, and a line at 0."""
    alt = altair()
    is_narrow = width <= NARROW
    names = unique_names([band.name for band in bands])
    bands = [replace(band, name=name) for band, name in zip(bands, names, strict=True)]
    extent = [0.0, *(end for band in bands for end in (band.low, band.high, *band.values))]
    span = (max(extent) - min(extent)) or 1.0
    domain = [min(extent) - 0.04 * span, max(extent) + (0.4 if is_narrow else 0.19) * span]
    scale = alt.Scale(domain=domain, nice=False, zero=False)
    axis = alt.Axis(title=title, tickCount=5 if is_narrow else 8, domain=False, ticks=False, labelPadding=6)
    names_axis = alt.Axis(title=None, domain=False, ticks=False, labelLimit=300, labelPadding=10, labelColor=INK)
    y = alt.Y("name:N", sort=names, axis=None if is_narrow else names_axis, scale=alt.Scale(padding=0.5))
    offset = 4 if is_narrow else -4

    def x(field: str) -> Any:
        return alt.X(f"{field}:Q", scale=scale, axis=axis)

    zero = alt.Chart(chart_data([{"zero": 0.0}])).mark_rule(color=QUIET, strokeWidth=1.5).encode(x=x("zero"))
    plot = alt.Chart(chart_data([_bar(band) for band in bands])).encode(y=y)
    color = alt.Color("color:N", scale=None)
    line = {"yOffset": offset, "y2Offset": offset}
    whiskers = plot.mark_rule(strokeWidth=1.5, opacity=0.7, **line).encode(x=x("low"), x2="high:Q", color=color)
    bars = plot.mark_rule(strokeWidth=9, opacity=0.35, strokeCap="round", **line).encode(
        x=x("lowest"), x2="highest:Q", color=color
    )
    numbers = plot.mark_text(align="left", dx=9, fontSize=12, color=INK, yOffset=offset)
    marks = [
        {"name": band.name, "value": value, "tooltip": tooltip, "color": band.color}
        for band in bands
        for _, value, tooltip in band.points
    ]
    points = alt.Chart(chart_data(marks)).mark_point(filled=True, size=50, opacity=1, yOffset=offset)
    least = _CLOSE * (2 if is_narrow else 1) * (domain[1] - domain[0])
    labels = [
        {"name": band.name, "value": value, "label": label} for band in bands for label, value in band.labels(least)
    ]
    below = alt.Chart(chart_data(labels)).mark_text(fontSize=10, color=QUIET, yOffset=offset + 14)
    layers = [
        zero,
        whiskers,
        bars,
        points.encode(x=x("value"), y=y, color=color, description="tooltip:N"),
        below.encode(x=x("value"), y=y, text="label:N"),
        numbers.encode(x="end:Q", text="value_text:N"),
    ]
    if is_narrow:
        above = plot.mark_text(align="left", fontSize=12, color=INK, yOffset=offset - 17, x=0, limit=width - 20)
        layers.append(above.encode(text="name:N"))
    height = (58 if is_narrow else 42) * len(bands) + 56
    return apply_theme(alt.layer(*layers), width, height)


def _bar(band: Band) -> DataRow:
    end = max(band.high, *band.values)
    ends = {"low": band.low, "high": band.high, "lowest": min(band.values), "highest": max(band.values), "end": end}
    return {"name": band.name, "value_text": band.value_text, "color": band.color, **ends}
