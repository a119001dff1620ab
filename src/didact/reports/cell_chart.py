"""A chart of fields, each a ground with a text on it: metrics by methods, and who beats whom."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from didact.reports.figure import INK, calm, values
from didact.viz.chart import altair


@dataclass(frozen=True)
class Field:
    """One field of the chart. `told` is read by pointing at it."""

    row: str
    column: str
    text: str
    ground: str
    ink: str = INK
    told: str = ""
    is_best: bool = False


def cell_chart(
    fields: Sequence[Field],
    rows: Sequence[str],
    columns: Sequence[str],
    size: tuple[int, int],
    *,
    angle: int = 0,
    font_size: int = 12,
) -> Any:
    """The fields by row (down) and column (across); `size` is width and height. The best ones are bold."""
    alt = altair()
    axis = {"domain": False, "ticks": False, "labelColor": INK, "title": None, "labelPadding": 8}
    top = alt.Axis(orient="top", labelAngle=angle, labelLimit=160, **axis)
    side = alt.Axis(labelLimit=260, **axis)
    plot = alt.Chart(values([asdict(field) for field in fields])).encode(
        x=alt.X("column:N", sort=columns, scale=alt.Scale(domain=columns, padding=0.06), axis=top),
        y=alt.Y("row:N", sort=rows, scale=alt.Scale(domain=rows, padding=0.06), axis=side),
        description="told:N",
    )
    layers = [plot.mark_rect(cornerRadius=4).encode(color=alt.Color("ground:N", scale=None))]
    for is_best in sorted({field.is_best for field in fields}):
        words = plot.transform_filter(f"datum.is_best == {str(is_best).lower()}")
        words = words.mark_text(fontSize=font_size, fontWeight="bold" if is_best else "normal")
        layers.append(words.encode(text="text:N", color=alt.Color("ink:N", scale=None)))
    return calm(alt.layer(*layers), *size)
