"""Charts that several sections share: points with intervals, and a table of coloured cells."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from didact.reports.figure import BLUE, GREY, INK, NARROW, PAGE, QUIET, DataRow, apply_theme, chart_data
from didact.viz.chart import altair


@dataclass(frozen=True)
class Dot:
    """One method of a dot plot. An unfilled dot is hollow. `people` are values of single people, drawn faintly."""

    name: str
    value: float
    low: float | None
    high: float | None
    value_text: str
    tooltip: str
    color: str = BLUE
    is_filled: bool = True
    people: Sequence[float] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """The interval, or the point twice if there is no interval."""
        return self.value if self.low is None else self.low, self.value if self.high is None else self.high

    @property
    def extent(self) -> list[float]:
        """All values that must fit into the chart."""
        return [self.value, *self.interval, *self.people]

    def chart_row(self, name: str) -> DataRow:
        """The dot as a row of chart data."""
        low, high = self.interval
        fill = self.color if self.is_filled else PAGE
        end = max(self.value, high, *self.people)
        shown = {"value_text": self.value_text, "tooltip": self.tooltip, "color": self.color, "fill": fill}
        return {"name": name, "value": self.value, "low": low, "high": high, "end": end, **shown}


def dot_plot(
    dots: Sequence[Dot],
    width: int,
    *,
    base: float | None,
    base_name: str = "base",
    title: str | None = None,
    ticks: float | None = None,
) -> Any:
    """Points with intervals, in the order of `dots`, and a line at `base`. `ticks` labels the axis at its tenths."""
    alt = altair()
    is_narrow = width <= NARROW
    names = unique_names([dot.name for dot in dots])
    scale = alt.Scale(domain=_domain(dots, base, is_narrow=is_narrow), nice=False, zero=False)
    labels = alt.Undefined if ticks is None else [ticks * tick / 10 for tick in range(0, 11, 2 if is_narrow else 1)]
    tick_count = 5 if is_narrow else 8
    axis = alt.Axis(title=title, tickCount=tick_count, values=labels, domain=False, ticks=False, labelPadding=6)
    names_axis = alt.Axis(title=None, domain=False, ticks=False, labelLimit=300, labelPadding=10, labelColor=INK)
    y = alt.Y("name:N", sort=names, axis=None if is_narrow else names_axis, scale=alt.Scale(padding=0.5))
    offset = 9 if is_narrow else 0  # in narrow charts, the name is above its bar

    def x(field: str) -> Any:
        return alt.X(f"{field}:Q", scale=scale, axis=axis)

    layers = []
    if base is not None:
        rule = alt.Chart(chart_data([{base_name: base}])).mark_rule(color=QUIET, strokeWidth=1.5)
        layers.append(rule.encode(x=x(base_name)))
    person_values = [
        {"name": name, "value": value} for name, dot in zip(names, dots, strict=True) for value in dot.people
    ]
    if person_values:
        person_ticks = alt.Chart(chart_data(person_values)).mark_tick(
            color=GREY, opacity=0.7, thickness=2, size=14, yOffset=offset
        )
        layers.append(person_ticks.encode(x=x("value"), y=y))
    rows = [dot.chart_row(name) for name, dot in zip(names, dots, strict=True)]
    plot = alt.Chart(chart_data(rows)).encode(y=y, description="tooltip:N")
    bars = plot.mark_rule(strokeWidth=3, opacity=0.55, strokeCap="round", yOffset=offset, y2Offset=offset)
    points = plot.mark_point(filled=True, size=90, opacity=1, strokeWidth=2, yOffset=offset)
    fill, stroke = alt.Fill("fill:N", scale=None), alt.Stroke("color:N", scale=None)
    numbers = plot.mark_text(align="left", dx=9, fontSize=12, color=INK, yOffset=offset)
    layers.append(bars.encode(x=x("low"), x2="high:Q", color=alt.Color("color:N", scale=None)))
    layers += [points.encode(x=x("value"), fill=fill, stroke=stroke), numbers.encode(x="end:Q", text="value_text:N")]
    if is_narrow:
        names_above = plot.mark_text(align="left", fontSize=12, color=INK, yOffset=-9, x=0, limit=width - 20)
        layers.append(names_above.encode(text="name:N"))
    return apply_theme(alt.layer(*layers), width, (44 if is_narrow else 30) * len(rows) + (40 if title is None else 56))


def _domain(dots: Sequence[Dot], base: float | None, *, is_narrow: bool) -> list[float]:
    """The ends of the axis, with room for the numbers on the right."""
    extent = [value for dot in dots for value in dot.extent] + ([] if base is None else [base])
    span = (max(extent) - min(extent)) or 1.0
    return [min(extent) - 0.04 * span, max(extent) + (0.2 if is_narrow else 0.11) * span]


def unique_names(names: Sequence[str]) -> list[str]:
    """Names with a number added to repetitions. Truncated names can be equal."""
    counts: dict[str, int] = {}
    unique = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        unique.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return unique


@dataclass(frozen=True)
class ChartCell:
    """One cell of the chart. `tooltip` is shown when pointing at it."""

    row: str
    column: str
    text: str
    background: str
    text_color: str = INK
    tooltip: str = ""
    is_best: bool = False


def cell_chart(
    cells: Sequence[ChartCell],
    rows: Sequence[str],
    columns: Sequence[str],
    size: tuple[int, int],
    *,
    angle: int = 0,
    font_size: int = 12,
) -> Any:
    """A table of coloured cells. `size` is width and height in pixels; the best cells are bold."""
    alt = altair()
    axis = {"domain": False, "ticks": False, "labelColor": INK, "title": None, "labelPadding": 8}
    top = alt.Axis(orient="top", labelAngle=angle, labelLimit=160, **axis)
    side = alt.Axis(labelLimit=260, **axis)
    plot = alt.Chart(chart_data([asdict(cell) for cell in cells])).encode(
        x=alt.X("column:N", sort=columns, scale=alt.Scale(domain=columns, padding=0.06), axis=top),
        y=alt.Y("row:N", sort=rows, scale=alt.Scale(domain=rows, padding=0.06), axis=side),
        description="tooltip:N",
    )
    layers = [plot.mark_rect(cornerRadius=4).encode(color=alt.Color("background:N", scale=None))]
    for is_best in sorted({cell.is_best for cell in cells}):
        texts = plot.transform_filter(f"datum.is_best == {str(is_best).lower()}")
        texts = texts.mark_text(fontSize=font_size, fontWeight="bold" if is_best else "normal")
        layers.append(texts.encode(text="text:N", color=alt.Color("text_color:N", scale=None)))
    return apply_theme(alt.layer(*layers), *size)
