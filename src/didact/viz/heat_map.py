"""Heat maps: rows as methods scored them, what terminal and HTML pages both draw, and the terminal's drawings."""

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

# Nobody knows whether a terminal is dark or light; from grey, strong scores stand out on both.
_GREY_COLOUR: Colour = (118, 118, 118)


class Unit(NamedTuple):
    """A scored unit: `bounds` is (start, end) of its text, or (top, left, bottom, right) of the image.

    `segment` is the number of its text, -1 for what stands in no text, such as special tokens.
    """

    token: str
    score: float
    segment: int
    bounds: tuple[int, ...]

    @property
    def span(self) -> Span:
        """The characters of its text."""
        return self.bounds[0], self.bounds[1]

    def read(self, kind: str) -> str:
        """The score in digits; whether it is marked where the kind of scores knows no more."""
        return number(self.score, kind) or ("marked" if self.score else "not marked")


@dataclass(frozen=True, eq=False)
class HeatMap:
    """One row as one method scored it, ready to be drawn. `texts` are (name, text).

    `residual` and `probability` may be NaN, and `is_right` None: unknown.
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
        """The units that cover characters of one text."""
        return [unit for unit in self.units if unit.segment == segment and unit.bounds[1] > unit.bounds[0]]

    def outside(self) -> list[Unit]:
        """The units that no text shows: special tokens, and pieces that cover no character."""
        if self.is_image:
            return [unit for unit in self.units if unit.segment < 0]
        return [unit for unit in self.units if unit.segment < 0 or unit.bounds[1] <= unit.bounds[0]]

    def patches(self) -> list[Unit]:
        return [unit for unit in self.units if unit.segment >= 0] if self.is_image else []

    def size(self) -> tuple[int, int]:
        """Height and width of the picture; as far as the patches reach where the picture was not kept."""
        if self.image is not None:
            return len(self.image), len(self.image[0])
        corner = np.array([unit.bounds[2:] for unit in self.patches()] or [(1, 1)]).max(0)
        return max(int(corner[0]), 1), max(int(corner[1]), 1)

    def answers(self) -> list[tuple[str, str]]:
        """What is known of the row: the prediction with its probability, the label, the target."""
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
        """How far scores add up, where that is as it should be."""
        return "" if self.warning else completeness_note(self.residual)

    @property
    def warning(self) -> str:
        """That scores do not add up, where they promise to and are off by more than 5 %."""
        return completeness_note(self.residual) if self.residual > COMPLETENESS_TOLERANCE else ""

    def strongest(self) -> list[Unit]:
        """What is worth a bracket where there is no colour: one unit in five, and none below a quarter of the scale."""
        candidates = [unit for unit in self.units if unit.score and abs(unit.score) >= self.scale / 4]
        limit = max(3, len(self.units) // 5)
        return candidates if self.kind == "binary" else sorted(candidates, key=lambda unit: -abs(unit.score))[:limit]


@dataclass(frozen=True, eq=False)
class RowView:
    """One row of the data under its id, with the heat map of each method."""

    id: str
    heat_maps: Sequence[HeatMap]

    def details(self) -> list[tuple[str, str]]:
        """What is said of the row as a whole: what all its heat maps share."""
        first, *rest = [heat_map.answers() for heat_map in self.heat_maps]
        return [detail for detail in first if all(detail in other for other in rest)]

    def details_of(self, heat_map: HeatMap) -> list[tuple[str, str]]:
        """What is left to say beside one of several heat maps."""
        shared = self.details()
        return [detail for detail in heat_map.answers() if detail not in shared]


def number(score: float, kind: str) -> str:
    """Three digits; with its sign where signs mean something, nothing where a mark says it all."""
    if kind == "binary":
        return ""
    return f"{score:+.3g}" if kind == "signed" else f"{score:.3g}"


def heat_text(heat_map: HeatMap, segment: int, *, colour: bool = True) -> Text:
    """One text of the row with its units coloured; in [brackets with the score] where there is no colour.

    Control characters are replaced, never sent to the terminal.
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
    """The image in grey with its patches tinted; all but the strongest patches become dots without colour."""
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
    """The row's facts, and below them each method's heat map beside its name."""
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
            method = ""  # said once, beside the first line
    header = Text().append(printable(row_view.id), "bold")
    header.append_text(_details_text(row_view.details(), before="  "))
    return Group(header, grid, Text())


def legend(kinds: Sequence[str], *, colour: bool = True) -> Text:
    """What the colours mean."""
    if not colour:
        return Text("[brackets]: the strongest units of each row, with their scores", style="dim")
    text = Text()
    for hue, meaning in meanings(kinds):
        text.append(f" {meaning} ", style(Shade(hue, LEVELS))).append("  ")
    return text.append("each row by its strongest unit", "dim")


def show(row_views: Sequence[RowView], *, more: str = "", console: Any = None) -> None:
    """Print the sections, a legend, and what was left out. Colours where the terminal has at least 256 of them.

    Sixteen colours cannot tell pale orange from pale blue: brackets are used there too.
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
    """Whether the console can tell the steps of the scale apart."""
    return console.color_system in ("256", "truecolor") and not console.no_color


def _grid_lines(heat_map: HeatMap, row_view: RowView, *, colour: bool) -> list[tuple[str, Text]]:
    """What one method adds to the grid: (name of the text, its heat map)."""
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
    """The colours of a step in a terminal, light or dark; none for the lowest steps."""
    if shade.level <= 1:  # as grey as the ground it starts from
        return None
    background, ink = colours(shade, page=_GREY_COLOUR)
    return Style(color=f"rgb{ink}".replace(" ", ""), bgcolor=f"rgb{background}".replace(" ", ""))


def printable(text: str) -> str:
    """The text without anything that would control a terminal."""
    return "".join(map(visible, text))


def _greyscale(image: UInt8[np.ndarray, "height width channel"]) -> Any:
    """Without colours of its own, so that the tint is all there is."""
    brightness = image[..., :3].mean(-1) if image.shape[-1] >= 3 else image[..., 0].astype(float)
    return np.repeat(brightness[..., None], 3, axis=-1)
