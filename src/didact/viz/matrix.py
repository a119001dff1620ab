"""A square matrix with named rows and columns as a heat map with numbers in its cells.

The scale from −1 to 1 is blue, grey and orange, the scale from 0 to 1 green. NaN is a blank cell with a dash.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from didact.errors import ShapeError
from didact.viz.chart import BLANK, BORDER, BOTH_SIGNS, GREENS, QUIET, altair, check_kind, picture
from didact.viz.heat_map import printable

_CELL_SIZE: Final = 44  # pixels, enough for "−0.12"
_SQUARES_PER_LINE: Final = 2  # squares side by side


@dataclass(frozen=True, eq=False)
class MatrixView:
    """One matrix, ready to draw. The scale runs from `low` to 1; `note` is a line below the title."""

    names: tuple[str, ...]
    values: Float[np.ndarray, "name name"]
    low: float = -1.0
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.names), len(self.names)):
            raise ShapeError(f"{len(self.names)} names do not match a matrix of shape {self.values.shape}.")

    def chart(self, *, caution: str = "") -> Any:
        """The Altair chart, with `caution` below it."""
        return matrix_chart([self], caution=caution)

    def square(self, alt: Any) -> Any:
        rows = [
            {
                "first": first,
                "second": second,
                "value": float(value) if np.isfinite(value) else None,
                "written": format_value(value),
            }
            for first, line in zip(self.shown_names, self.values, strict=True)
            for second, value in zip(self.shown_names, line, strict=True)
        ]
        is_signed = self.low < 0
        middle = (self.low + 1) / 2
        scale = alt.Scale(domain=[self.low, middle, 1], range=BOTH_SIGNS if is_signed else GREENS, interpolate="lab")
        is_missing = "!isValid(datum.value)"
        # White is readable on dark green only; on orange and blue, black has the better contrast.
        ink = alt.value("#000000")
        if not is_signed:
            ink = alt.condition("isValid(datum.value) && datum.value > 0.6", alt.value("#ffffff"), alt.value("#000000"))
        axis: dict[str, Any] = {"title": None, "ticks": False, "domain": False, "labelPadding": 6, "labelLimit": 260}
        base = alt.Chart(
            alt.Data(values=rows), width=_CELL_SIZE * len(self.names), height=_CELL_SIZE * len(self.names)
        ).encode(
            x=alt.X("second:N", sort=list(self.shown_names), axis=alt.Axis(labelAngle=-40, orient="bottom", **axis)),
            y=alt.Y("first:N", sort=list(self.shown_names), axis=alt.Axis(**axis)),
            tooltip=["first:N", "second:N", alt.Tooltip("value:Q", format=".3f")],
        )
        cells = base.mark_rect(strokeWidth=1, invalid="show").encode(
            color=alt.condition(
                is_missing,
                alt.value(BLANK),
                alt.Color(
                    "value:Q", scale=scale, legend=alt.Legend(title=None, gradientLength=_CELL_SIZE * len(self.names))
                ),
            ),
            stroke=alt.condition(is_missing, alt.value(BORDER), alt.value(BLANK)),
        )
        numbers = base.mark_text(fontSize=12).encode(text="written:N", color=ink)
        title = alt.TitleParams(
            printable(self.title),
            subtitle=printable(self.note),
            anchor="start",
            fontSize=15,
            subtitleColor=QUIET,
            offset=10,
        )
        return (cells + numbers).properties(title=title)

    @property
    def shown_names(self) -> tuple[str, ...]:
        return tuple(map(printable, self.names))


def format_value(value: float) -> str:
    """The value with two decimals and a minus sign; a dash for NaN."""
    if not np.isfinite(value):
        return "–"
    digits = f"{abs(value):.2f}"
    return f"−{digits}" if value < 0 and float(digits) else digits


def matrix_chart(views: Sequence[MatrixView], *, caution: str = "") -> Any:
    """Several matrices, two per line, as one Altair chart with `caution` below them."""
    alt = altair()
    chart = alt.concat(*(view.square(alt) for view in views), columns=_SQUARES_PER_LINE, spacing=40)
    chart = chart.resolve_scale(color="independent")
    if caution:
        width = _CELL_SIZE * len(views[0].names) * min(_SQUARES_PER_LINE, len(views)) + 200
        lines = textwrap.wrap(printable(caution), max(50, width // 6))
        caption = alt.TitleParams(
            lines, orient="bottom", anchor="start", fontSize=11, fontWeight="normal", color=QUIET, offset=16
        )
        chart = chart.properties(title=caption)
    return chart.configure_view(stroke=None)


def matrix_picture(views: Sequence[MatrixView], kind: str, *, caution: str = "") -> bytes:
    """The content of a picture file of several matrices: png, svg, html or json (Vega-Lite)."""
    check_kind(kind)
    return picture(matrix_chart(views, caution=caution), kind, title=printable(views[0].title) or "Matrix")
