"""Heat maps as HTML: one self-contained page, or a fragment for a notebook.

A page makes no network requests and runs no scripts; its content security policy forbids both. Each step of the colour
scale is a CSS class with a light and a dark variant.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from markupsafe import Markup

from didact.viz.colours import FULL, LEVELS, WHITE, Colour, Shade, colours, meanings, opacity
from didact.viz.heat_map import HeatMap, RowView, Unit
from didact.viz.html import asset, render
from didact.viz.png import encode_png
from didact.viz.text_spans import Box, Span, merge_spans, split_at_spans

MAX_ROWS: Final = 500  # rows on one page; more make a browser slow
_DARK: Final[Colour] = (24, 26, 30)
_DARK_FULL: Final[dict[str, Colour]] = {"for": (244, 134, 42), "against": (64, 156, 226), "strength": (38, 186, 140)}
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Piece:
    """A piece of a text. `look` has the CSS classes of its colour and mark; `title` is shown on hover."""

    text: str
    look: str = ""
    title: str = ""


@dataclass(frozen=True)
class HeatText:
    """One text of a row, split into pieces."""

    name: str
    pieces: Sequence[Piece]


@dataclass(frozen=True)
class Patch:
    """A rectangle over a picture. A patch without a title is a frame."""

    box: Box
    look: str
    title: str = ""
    opacity: float = 0.0


@dataclass(frozen=True)
class Picture:
    """A picture with patches over it. `image` is a data URI, or empty."""

    image: str
    size: tuple[int, int]  # height and width
    alt: str
    patches: Sequence[Patch] = ()
    is_covered: bool = False


@dataclass(frozen=True)
class Scale:
    """A line of the legend: a text, CSS classes of steps of the scale, another text."""

    before: str
    looks: Sequence[str]
    after: str


@dataclass(frozen=True)
class HeatFigure:
    """A picture with its caption and heat map; the heat map is None for the original picture."""

    picture: Picture
    caption: str
    heat_map: HeatMap | None = None


def page(title: str, row_views: Sequence[RowView], *, lead: str = "") -> str:
    """A complete HTML page. It shows at most 500 rows and says so if there are more."""
    more = ""
    if len(row_views) > MAX_ROWS:
        more = (
            f"The first {MAX_ROWS} of {len(row_views)} rows are shown. "
            f"Write the others to separate pages: "
            f"explanations[{MAX_ROWS}:{min(2 * MAX_ROWS, len(row_views))}].to_html(…)."
        )
    return _render("heat_page.html.j2", row_views[:MAX_ROWS], title=title, lead=lead, more=more, policy=_POLICY)


def fragment(row_views: Sequence[RowView], *, more: str = "") -> str:
    """An HTML fragment with its own style, for a notebook."""
    return _render("heat_fragment.html.j2", row_views, more=more)


def _render(template: str, row_views: Sequence[RowView], **values: str) -> str:
    kinds = [heat_map.kind for row_view in row_views for heat_map in row_view.heat_maps]
    style = asset("didact.viz", "heat.css") + shade_css(".didact")
    functions = {"texts_of": _heat_texts, "outside_of": outside_pieces, "figures_of": _figures}
    context = {"sections": row_views, "scales": scales(kinds), "style": style}
    return render("didact.viz", template, **context, **functions, **values)


def _heat_texts(heat_map: HeatMap) -> list[HeatText]:
    return [HeatText(name, pieces(heat_map, segment)) for segment, (name, _) in enumerate(heat_map.texts)]


def _figures(row_view: RowView) -> list[HeatFigure]:
    """The original picture of a row, if available, and the picture with the patches of each method. Empty for texts."""
    heat_maps = row_view.heat_maps if any(heat_map.is_image for heat_map in row_view.heat_maps) else ()
    alt = f"The picture of row {row_view.id}"
    figures = []
    if pictured := next((heat_map for heat_map in heat_maps if heat_map.image is not None), None):
        figures.append(HeatFigure(Picture(_data_uri(pictured.image), pictured.size(), alt), "as it is"))
    for heat_map in heat_maps:
        caption = " · ".join(
            [heat_map.method, *(f"{name} {value}" for name, value in row_view.details_of(heat_map))]
        ).strip(" ·")
        image = "" if heat_map.image is None else _data_uri(heat_map.image)
        alt_text = f"{alt}, under the scores of its patches; target {heat_map.target}"
        covered = Picture(image, heat_map.size(), alt_text, patches(heat_map), is_covered=True)
        figures.append(HeatFigure(covered, caption or "scored", heat_map))
    return figures


def pieces(
    heat_map: HeatMap, segment: int, *, marks: Sequence[Span] = (), end: int | None = None, is_named: bool = True
) -> list[Piece]:
    """Split a text, up to `end`, at units and marks. With `is_named`, titles name the units."""
    text = heat_map.texts[segment][1]
    units = [unit for unit in heat_map.inside(segment) if end is None or unit.bounds[0] < end]
    cut_pieces = []
    for piece_text, covering in split_at_spans(text[:end], [*(unit.span for unit in units), *merge_spans(marks)]):
        scored = [units[number] for number in covering if number < len(units)]
        piece = _piece(piece_text, scored, heat_map, is_named=is_named)
        is_marked = len(scored) < len(covering)
        cut_pieces.append(replace(piece, look=f"{piece.look} mark".strip()) if is_marked else piece)
    return cut_pieces if end is None or end >= len(text) else [*cut_pieces, Piece(" …")]


def outside_pieces(heat_map: HeatMap, *, is_named: bool = True) -> list[Piece]:
    """Pieces for the units that no text shows."""
    return [_piece(unit.token or "(empty)", [unit], heat_map, is_named=is_named) for unit in heat_map.outside()]


def _piece(text: str, units: Sequence[Unit], heat_map: HeatMap, *, is_named: bool) -> Piece:
    """A piece with the colour of the strongest unit that covers it and a title with the scores of all of them."""
    if not units:
        return Piece(text)
    best = max(units, key=lambda unit: abs(unit.score))
    names = [f"{unit.token}: " if is_named else "" for unit in units]
    title = ", ".join(name + unit.read(heat_map.kind) for name, unit in zip(names, units, strict=True))
    return Piece(text, heat_map.shade(best.score).look, title)


def patches(heat_map: HeatMap) -> list[Patch]:
    """The patches of a picture with their colours and titles."""
    scored_patches = []
    for unit in heat_map.patches():
        top, left, bottom, right = unit.bounds
        shade = heat_map.shade(unit.score)
        title = f"rows {top} to {bottom}, columns {left} to {right}: {unit.read(heat_map.kind)}"
        look = Shade(shade.hue, LEVELS).look if shade.level else ""
        scored_patches.append(Patch((top, left, bottom, right), look, title, opacity(shade)))
    return scored_patches


def scales(kinds: Sequence[str]) -> list[Scale]:
    """The legend of the colours that these kinds of scores use."""
    meaning_of = dict(meanings(kinds))
    steps = range(1, LEVELS + 1, 3)
    scale_lines = []
    if "for" in meaning_of:
        looks = [*(f"against{step}" for step in reversed(steps)), *(f"for{step}" for step in steps)]
        scale_lines.append(Scale(meaning_of["against"], looks, meaning_of["for"]))
    if "strength" in meaning_of:
        scale_lines.append(Scale("", [f"strength{step}" for step in steps], meaning_of["strength"]))
    return scale_lines


def _data_uri(image: Any) -> str:
    return "data:image/png;base64," + base64.b64encode(encode_png(image)).decode()


def shade_css(scope: str) -> Markup:
    """CSS rules for the steps of the scale: classes for1 … strength10 inside `scope`, for light and dark pages.

    Markup: numbers computed here, and a scope that the calling code chooses.
    """
    light, dark = _classes(scope, WHITE, FULL), _classes(scope, _DARK, _DARK_FULL)
    return Markup(f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n")


def _classes(scope: str, page: Colour, full: dict[str, Colour]) -> str:
    lines = []
    for hue in sorted(full):
        for level in range(1, LEVELS + 1):
            background, ink = (_hex(colour) for colour in colours(Shade(hue, level), page=page, full=full))
            lines.append(f"{scope} .{hue}{level} {{ background: {background}; color: {ink}; fill: {background}; }}\n")
    return "".join(lines)


def _hex(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
