"""Heat maps of rows: the data that terminals and HTML pages draw, and the drawing in terminals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8
from rich.console import Console, Group
from rich.style import Style
from rich.table import Table
from rich.text import Text

from didact.viz.colours import FULL, LEVELS, Colour, Shade, colours, meanings, opacity, shade
from didact.viz.terminal import draw_image, highlight, visible
from didact.viz.text_spans import COMPLETENESS_TOLERANCE, Image, Span, completeness_note, percent, split_at_spans

# A terminal may be dark or light; a scale that starts at grey is visible on both.
_GREY_COLOUR: Colour = (118, 118, 118)


class Unit(NamedTuple):
    """A scored unit. `bounds` is (start, end) in its text, or (top, left, bottom, right) in the image.

    `segment` is the index of its text; -1 for units in no text, such as special tokens.
    """

    token: str
    score: float
    segment: int
    bounds: tuple[int, ...]

    @property
    def span(self) -> Span:
        """The characters that the unit covers in its text."""
        return self.bounds[0], self.bounds[1]

    def read(self, kind: str) -> str:
        """The score as a number, or "marked" or "not marked" for binary scores."""
        return number(self.score, kind) or ("marked" if self.score else "not marked")


@dataclass(frozen=True, eq=False)
class HeatMap:
    """One row with the scores of one method, ready to draw. `texts` are (name, text).

    Unknown values of `residual` and `probability` are NaN, of `is_right` None.
    """

    kind: str
    units: Sequence[Unit]
    texts: Sequence[tuple[str, str]] = ()
    image: Image | None = None
    is_image: bool = False
    method: str = ""
    target: str = ""
    prediction: str = ""
    residual: float = float("nan")
    probability: float = float("nan")
    label: str = ""
    is_right: bool | None = None

    @cached_property
    def scale(self) -> float:
        return max((abs(unit.score) for unit in self.units), default=0.0)

    def shade(self, score: float) -> Shade:
        return shade(score, self.scale, self.kind)

    def inside(self, segment: int) -> list[Unit]:
        """The units that cover characters of this text."""
        return [unit for unit in self.units if unit.segment == segment and unit.bounds[1] > unit.bounds[0]]

    def outside(self) -> list[Unit]:
        """The units that no text shows: special tokens and pieces that cover no character."""
        if self.is_image:
            return [unit for unit in self.units if unit.segment < 0]
        return [unit for unit in self.units if unit.segment < 0 or unit.bounds[1] <= unit.bounds[0]]

    def patches(self) -> list[Unit]:
        return [unit for unit in self.units if unit.segment >= 0] if self.is_image else []

    def size(self) -> tuple[int, int]:
        """Height and width of the picture; without the picture, the extent of the patches."""
        if self.image is not None:
            return len(self.image), len(self.image[0])
        corner = np.array([unit.bounds[2:] for unit in self.patches()] or [(1, 1)]).max(0)
        return max(int(corner[0]), 1), max(int(corner[1]), 1)

    def answers(self) -> list[tuple[str, str]]:
        """The known ones of prediction (with its probability), label and target, as (name, text)."""
        probability = "" if math.isnan(self.probability) else f" ({percent(self.probability)})"
        correctness = "" if self.is_right is None else " ✓" if self.is_right else " ✗"
        answers = [
            ("prediction", self.prediction and self.prediction + probability),
            ("label", self.label and self.label + correctness),
            ("target", self.target),
        ]
        return [(name, value) for name, value in answers if value]

    @property
    def note(self) -> str:
        """How nearly the scores add up; empty if `warning` reports it or completeness is not promised."""
        return "" if self.warning else completeness_note(self.residual)

    @property
    def warning(self) -> str:
        """A warning if scores promise completeness and miss it by more than 5 %; otherwise empty."""
        return completeness_note(self.residual) if self.residual > COMPLETENESS_TOLERANCE else ""

    def strongest(self) -> list[Unit]:
        """The units to mark without colours: up to one in five (at least 3), from a quarter of the largest score on."""
        candidates = [unit for unit in self.units if unit.score and abs(unit.score) >= self.scale / 4]
        limit = max(3, len(self.units) // 5)
        return candidates if self.kind == "binary" else sorted(candidates, key=lambda unit: -abs(unit.score))[:limit]


@dataclass(frozen=True, eq=False)
class RowView:
    """One row of the data: its id and the heat map of each method."""

    id: str
    heat_maps: Sequence[HeatMap]

    def details(self) -> list[tuple[str, str]]:
        """The answers and targets that all heat maps of the row share."""
        first, *rest = [heat_map.answers() for heat_map in self.heat_maps]
        return [detail for detail in first if all(detail in other for other in rest)]

    def details_of(self, heat_map: HeatMap) -> list[tuple[str, str]]:
        """The answers and target of one heat map that the others do not share."""
        shared = self.details()
        return [detail for detail in heat_map.answers() if detail not in shared]


def number(score: float, kind: str) -> str:
    """The score with three digits: with a sign if scores are signed, empty if they are binary."""
    if kind == "binary":
        return ""
    return f"{score:+.3g}" if kind == "signed" else f"{score:.3g}"


def heat_text(heat_map: HeatMap, segment: int, *, colour: bool = True) -> Text:
    """One text of the row with coloured units, or without colours with [brackets and scores] on the strongest units.

    Control characters are replaced and never reach the terminal.
    """
    units = heat_map.inside(segment)
    if heat_map.kind == "binary" and not colour:
        return highlight(heat_map.texts[segment][1], [unit.span for unit in units if unit.score], colour=False)
    strongest = set() if colour else {id(unit) for unit in heat_map.strongest()}
    text = Text()
    for piece, covering in split_at_spans(heat_map.texts[segment][1], [unit.span for unit in units]):
        best = max((units[index] for index in covering), key=lambda unit: abs(unit.score), default=None)
        piece_text = printable(piece)
        if best is None:
            text.append(piece_text)
        elif colour:
            text.append(piece_text, style(heat_map.shade(best.score)))
        elif id(best) in strongest:
            text.append(f"[{piece_text} {number(best.score, heat_map.kind)}]")
        else:
            text.append(piece_text)
    return text


def heat_picture(heat_map: HeatMap, *, widest: int = 48, colour: bool = True) -> Text:
    """The image in grey with tinted patches. Without colours, everything but the strongest patches becomes dots."""
    height, width = heat_map.size()
    pixels = np.full((height, width, 3), 128.0) if heat_map.image is None else _greyscale(np.asarray(heat_map.image))
    if not colour:
        boxes = [(unit.bounds[0], unit.bounds[1], unit.bounds[2], unit.bounds[3]) for unit in heat_map.strongest()]
        return draw_image(pixels.astype(np.uint8), boxes, widest=widest, colour=False)
    for unit in heat_map.patches():
        top, left, bottom, right = unit.bounds
        alpha, hue = opacity(heat_map.shade(unit.score)), np.array(FULL[heat_map.shade(unit.score).hue])
        pixels[top:bottom, left:right] = (1 - alpha) * pixels[top:bottom, left:right] + alpha * hue
    drawing_text = draw_image(pixels.round().astype(np.uint8), [], widest=widest)
    drawing_text.rstrip()
    drawing_text.no_wrap = True
    return drawing_text


def drawing(row_view: RowView, *, colour: bool = True) -> Group:
    """The id and details of the row, followed by the name and heat map of each method."""
    is_compared = any(heat_map.method for heat_map in row_view.heat_maps)
    is_named = any(len(heat_map.texts) > 1 for heat_map in row_view.heat_maps)
    grid = Table.grid(padding=(0, 2, 0, 0))
    for is_shown in (is_compared, is_named):
        if is_shown:
            grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for heat_map in row_view.heat_maps:
        method = heat_map.method
        for name, content in _grid_lines(heat_map, row_view, colour=colour):
            labels = [Text(printable(method))] * is_compared + [Text(printable(name))] * is_named
            grid.add_row(*labels, content)
            method = ""  # only on the first line
    header = Text().append(printable(row_view.id), "bold")
    header.append_text(_details_text(row_view.details(), before="  "))
    return Group(header, grid, Text())


def legend(kinds: Sequence[str], *, colour: bool = True) -> Text:
    """The legend of the colours."""
    if not colour:
        return Text("[brackets]: the strongest units of each row, with their scores", style="dim")
    text = Text()
    for hue, meaning in meanings(kinds):
        text.append(f" {meaning} ", style(Shade(hue, LEVELS))).append("  ")
    return text.append("each row by its strongest unit", "dim")


def show(row_views: Sequence[RowView], *, more: str = "", console: Any = None) -> None:
    """Print the rows, a legend and the line `more`. Uses colours if the terminal has at least 256.

    With sixteen colours pale orange and pale blue look alike, so brackets replace them.
    """
    console = console or Console(highlight=False)
    colour = has_colours(console)
    for row_view in row_views:
        console.print(drawing(row_view, colour=colour))
    if row_views:
        console.print(
            legend([heat_map.kind for row_view in row_views for heat_map in row_view.heat_maps], colour=colour)
        )
    if more:
        console.print(Text(more, style="dim"))


def has_colours(console: Console) -> bool:
    """Whether the console can show the steps of the colour scale."""
    return console.color_system in ("256", "truecolor") and not console.no_color


def _grid_lines(heat_map: HeatMap, row_view: RowView, *, colour: bool) -> list[tuple[str, Text]]:
    """The grid lines of one method: (name of the text, content)."""
    lines = [(name, heat_text(heat_map, segment, colour=colour)) for segment, (name, _) in enumerate(heat_map.texts)]
    if heat_map.is_image:
        lines.append(("", heat_picture(heat_map, colour=colour)))
    outside = _outside_text(heat_map)
    if outside:
        lines.append(("", outside))
    details = _details_text(row_view.details_of(heat_map))
    if details:
        lines.append(("", details))
    if heat_map.warning:
        lines.append(("", Text(heat_map.warning, style="yellow")))
    return lines


def _outside_text(heat_map: HeatMap) -> Text:
    units = [f"{printable(unit.token)} {number(unit.score, heat_map.kind)}".rstrip() for unit in heat_map.outside()]
    return Text("not in the text: " + ", ".join(units), style="dim") if units else Text()


def _details_text(details: Sequence[tuple[str, str]], *, before: str = "") -> Text:
    text = Text()
    for position, (name, value) in enumerate(details):
        text.append(" · " if position else before, "dim").append(f"{name} ", "dim").append(printable(value), "none")
    return text


def style(shade: Shade) -> Style | None:
    """The Rich style of a step, for light and dark terminals; None for the lowest steps."""
    if shade.level <= 1:  # indistinguishable from the grey at which the scale starts
        return None
    background, ink = colours(shade, page=_GREY_COLOUR)
    return Style(color=f"rgb{ink}".replace(" ", ""), bgcolor=f"rgb{background}".replace(" ", ""))


def printable(text: str) -> str:
    """The text with control characters replaced."""
    return "".join(map(visible, text))


def _greyscale(image: UInt8[np.ndarray, "height width channel"]) -> Any:
    """The image in grey, so that the tint is the only colour."""
    brightness = image[..., :3].mean(-1) if image.shape[-1] >= 3 else image[..., 0].astype(float)
    return np.repeat(brightness[..., None], 3, axis=-1)
