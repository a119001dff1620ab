"""The weights of a learned explainer: a layer × head map of attention heads, or one bar per named component.

In a terminal, numbers are printed on the colours, so that colours are not needed to read them.
"""

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from didact.errors import OptionError, ShapeError
from didact.viz.chart import BLANK, BORDER, BOTH_SIGNS, GREENS, QUIET, altair, check_kind, picture
from didact.viz.colours import LEVELS, Shade, shade
from didact.viz.heat_map import has_colours, printable, style

if TYPE_CHECKING:
    import altair as alt

_HEAD_NAME: Final = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class WeightsView:
    """Components and their weights, ready to draw. Attention heads are named "layer.head", from 0: "3.7"."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    title: str = ""

    def __post_init__(self) -> None:
        if len(self.names) != len(self.weights):
            raise ShapeError(
                f"A chart needs one weight per name, got {len(self.names)} names and {len(self.weights)} weights."
            )
        if not self.names:
            raise OptionError("A chart needs at least one component. Pass at least one name with its weight.")
        if len(set(map(printable, self.names))) < len(self.names):
            raise OptionError(f"Names of components must be unique, but some of {list(self.names)} are the same.")
        invalid = [name for name, weight in zip(self.names, self.weights, strict=True) if not math.isfinite(weight)]
        if invalid:
            raise OptionError(f"Weights must be finite numbers; those of {', '.join(invalid)} are not.")

    @cached_property
    def grid(self) -> tuple[tuple[int, ...], tuple[int, ...], Float[np.ndarray, "layer head"]] | None:
        """Layers, heads and a weight per pair; None unless the names are all pairs of some layers and heads."""
        matches = [_HEAD_NAME.fullmatch(name) for name in self.names]
        pairs = [(int(match[1]), int(match[2])) for match in matches if match]
        layers, heads = (tuple(sorted({pair[side] for pair in pairs})) for side in (0, 1))
        if len(pairs) < len(self.names) or len(pairs) < len(layers) * len(heads):
            return None
        weights = np.zeros((len(layers), len(heads)))
        for (layer, head), weight in zip(pairs, self.weights, strict=True):
            weights[layers.index(layer), heads.index(head)] = weight
        return layers, heads, weights

    @property
    def active(self) -> int:
        """The number of weights above 0."""
        return sum(weight > 0 for weight in self.weights)

    @property
    def entropy(self) -> float:
        """The entropy in nats of the normalised absolute weights: 0 for one component, log n for n equal ones."""
        absolute = np.abs(np.array(self.weights, dtype=float))
        if not absolute.any():
            return 0.0
        shares = absolute[absolute > 0] / absolute.sum()
        return max(0.0, float(-(shares * np.log(shares)).sum()))

    @property
    def summary(self) -> str:
        """The sparsity of the weights in one line."""
        count = len(self.names)
        negative_count = sum(weight < 0 for weight in self.weights)
        negatives = f", {negative_count} below 0" if negative_count else ""
        return (
            f"{self.active} of {count} active{negatives}, entropy {self.entropy:.2f} of at most {math.log(count):.2f}"
        )

    def text(self, *, width: int = 80, colour: bool = True) -> Text:
        """Heads as a table with one line per layer, wrapped to `width`; other components as bars, largest first.

        Weights are in percent. "·" is exactly 0, "~0" is less than 0.05 percent.
        """
        text = Text(no_wrap=True)
        if self.title:
            text.append(printable(self.title), "bold").append("\n")
        text.append_text(self._bars(width, colour=colour) if self.grid is None else self._table(width, colour=colour))
        text.append(self.summary)
        return text.append("; weights in %, · is exactly 0" if 0 in self.weights else "; weights in %", "dim")

    def show(self, *, console: Console | None = None) -> None:
        """Print the weights, with colours if the terminal has at least 256."""
        console = console or Console(highlight=False)
        console.print(self.text(width=console.width, colour=has_colours(console)), soft_wrap=True)

    def picture(self, kind: str) -> bytes:
        """The content of a picture file: png, svg, html (one offline page) or json (Vega-Lite).

        Heads are a heat map after Fernandes et al. (2022), Figure 5, with layer 0 at the top. Darker is larger; heads
        with a weight of exactly 0 are blank with a thin border. Other components are bars, largest first.
        """
        check_kind(kind)
        return picture(self.chart(), kind, title=printable(self.title) or "Mix")

    @cached_property
    def _scale(self) -> float:
        return max(map(abs, self.weights))

    @property
    def _is_signed(self) -> bool:
        return min(self.weights) < 0

    def _shade(self, weight: float) -> Shade:
        return shade(weight, self._scale, "signed" if self._is_signed else "strength")

    def _ranked(self) -> list[tuple[str, float]]:
        members = zip(self.names, map(float, self.weights), strict=True)
        return sorted(((printable(name), weight) for name, weight in members), key=lambda member: -member[1])

    def _table(self, width: int, *, colour: bool) -> Text:
        assert self.grid is not None
        layers, heads, weights = self.grid
        label_width = max(len("layer"), len(str(layers[-1])))
        cells = [[_percent(weight) for weight in row] for row in weights.tolist()]
        cell_width = max(len(weight_text) for row in [[str(heads[-1])], *cells] for weight_text in row) + 2
        heads_per_band = max(1, (width - label_width) // cell_width)
        text = Text()
        for first in range(0, len(heads), heads_per_band):
            band = slice(first, first + heads_per_band)
            text.append(" " * label_width + "head".rjust(cell_width) + "\n", "dim")
            text.append(
                "layer".rjust(label_width) + "".join(f"{head:>{cell_width - 1}} " for head in heads[band]) + "\n", "dim"
            )
            for layer, row, row_texts in zip(layers, weights.tolist(), cells, strict=True):
                text.append(str(layer).rjust(label_width), "dim")
                for weight, cell_text in zip(row[band], row_texts[band], strict=True):
                    cell_style = (style(self._shade(weight)) or "") if weight and colour else "dim" * (not weight)
                    text.append(f"{cell_text:>{cell_width - 1}} ", cell_style)
                text.append("\n")
        return text

    def _bars(self, width: int, *, colour: bool) -> Text:
        members = [(name, weight, _percent(weight)) for name, weight in self._ranked()]
        label_width = min(max(cell_len(name) for name, _, _ in members), max(8, width // 2))
        number_width = max(len(number) for _, _, number in members)
        bar_width = max(1, width - label_width - number_width - 4)
        text = Text()
        for name, weight, number in members:
            is_cut = cell_len(name) > label_width
            text.append(set_cell_size(name, label_width - 1) + "…" if is_cut else set_cell_size(name, label_width))
            text.append(f"  {number:>{number_width}}  ", "" if weight else "dim")
            length = round(bar_width * abs(weight) / self._scale) if self._scale else 0
            bar = "█" * length or "▏" * (weight != 0)
            bar_style = style(Shade(self._shade(weight).hue, LEVELS)) if colour and bar else None
            text.append(bar, bar_style.bgcolor.name if bar_style and bar_style.bgcolor else "")
            text.append("\n")
        return text

    def chart(self) -> "alt.Chart | alt.LayerChart":
        """The Altair chart."""
        alt = altair()
        note = f"{self.summary}; blank: exactly 0" if self.grid is not None and 0 in self.weights else self.summary
        title = alt.TitleParams(note, anchor="start", fontSize=11, fontWeight="normal", color=QUIET)
        if self.title:
            title = alt.TitleParams(
                printable(self.title), subtitle=note, anchor="start", fontSize=15, subtitleColor=QUIET
            )
        chart = self._member_chart(alt) if self.grid is None else self._head_chart(alt)
        return chart.properties(title=title).configure_view(stroke=None)

    def _head_chart(self, alt: Any) -> Any:
        assert self.grid is not None
        layers, heads, weights = self.grid
        rows = [
            {"layer": layer, "head": head, "weight": float(weight)}
            for layer, line in zip(layers, weights, strict=True)
            for head, weight in zip(heads, line, strict=True)
        ]
        largest = self._scale or 1.0
        domain, colours = (
            ([-largest, 0, largest], BOTH_SIGNS) if self._is_signed else ([0, largest / 2, largest], GREENS)
        )
        scale = alt.Scale(domain=domain, range=colours, interpolate="lab")
        is_zero = alt.datum.weight == 0
        axis: dict[str, Any] = {"labelAngle": 0, "ticks": False, "domain": False, "labelPadding": 6}
        return (
            alt.Chart(alt.Data(values=rows), width=alt.Step(26), height=alt.Step(26))
            .mark_rect(strokeWidth=1)
            .encode(
                x=alt.X("head:O", title="head", axis=alt.Axis(**axis), scale=alt.Scale(padding=0.06)),
                y=alt.Y("layer:O", title="layer", axis=alt.Axis(**axis), scale=alt.Scale(padding=0.06)),
                color=alt.condition(
                    is_zero, alt.value(BLANK), alt.Color("weight:Q", scale=scale, legend=alt.Legend(title="weight"))
                ),
                stroke=alt.condition(is_zero, alt.value(BORDER), alt.value(None)),
                tooltip=["layer:O", "head:O", alt.Tooltip("weight:Q", format=".4~g")],
            )
        )

    def _member_chart(self, alt: Any) -> Any:
        # Numbers of negative weights are right of zero: left of their bars they would cover the names.
        rows = [
            {"member": name, "weight": weight, "end": max(weight, 0.0), "written": f"{weight:.3g}"}
            for name, weight in self._ranked()
        ]
        names = [row["member"] for row in rows]
        axis = alt.Axis(labelLimit=320, ticks=False, domain=False, labelPadding=6)
        base = alt.Chart(alt.Data(values=rows), width=360, height=alt.Step(26)).encode(
            y=alt.Y("member:N", title=None, sort=names, axis=axis),
            tooltip=["member:N", alt.Tooltip("weight:Q", format=".4~g")],
        )
        bars = base.mark_bar(height={"band": 0.7}).encode(
            x=alt.X("weight:Q", title="weight", axis=alt.Axis(gridColor="#e6e8eb", tickCount=5)),
            color=alt.condition(alt.datum.weight < 0, alt.value(BOTH_SIGNS[0]), alt.value(GREENS[1])),
        )
        return bars + base.mark_text(align="left", dx=4).encode(x="end:Q", text="written:N")


def _percent(weight: float) -> str:
    percentage = 100 * weight
    if not weight:
        return "·"
    if abs(percentage) < 0.05:
        return "~0"
    return f"{percentage:.1f}" if abs(percentage) < 9.95 else f"{percentage:.0f}"
