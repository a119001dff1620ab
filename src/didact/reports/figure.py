"""Charts as inline SVG. Their colours become CSS classes, so that the page's style sets them in light and dark mode.
Files for papers keep the colours of the light page."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from xml.etree import ElementTree

from markupsafe import Markup

from didact.viz.chart import altair, picture
from didact.viz.heat_map import printable
from didact.viz.html import cut

# The colours that charts may use, and their CSS classes. Colour-blind readers can distinguish blue, orange, green and
# purple; shape or words repeat whatever a colour means.
INK, QUIET, LINE, PAGE = "#1b1d21", "#5c6370", "#e1e4e8", "#fffffe"
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072b2", "#d95f02", "#009e73", "#9a5fa8", "#8a919d"
SERIES: Final = (BLUE, ORANGE, GREEN, PURPLE)
_COLOURS: Final = (INK, QUIET, LINE, PAGE, *SERIES, GREY)
_CLASSES: Final = ("ink", "quiet", "line", "page", "blue", "orange", "green", "purple", "grey")
COLOUR_CLASSES: Final = dict(zip(_COLOURS, _CLASSES, strict=True))
DataRow: TypeAlias = Mapping[str, object]  # a row of the data of a chart
_SVG: Final = "http://www.w3.org/2000/svg"
_ALLOWED_TAGS: Final = {"svg", "g", "path", "line", "rect", "text", "tspan", "circle", "defs", "clipPath", "title"}
_DROPPED_ATTRIBUTES: Final = {"class", "role", "pointer-events", "font-family", "version"}
_MARK_ROLES: Final = {"circle", "point", "rule", "bar", "square", "rect mark", "symbol mark", "line mark", "rule mark"}
_FONT: Final = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif"

WIDE: Final = 820
NARROW: Final = 320


@dataclass(frozen=True)
class Figure:
    """A chart, drawn for each width in pixels. `alt` is its text for screen readers."""

    name: str
    alt: str
    draw: Callable[[int], Any]
    widths: Sequence[int] = (WIDE, NARROW)
    caption: str = ""

    @property
    def drawings(self) -> list[tuple[str, Markup]]:
        """The CSS class and the SVG for each width."""
        looks = ("wide", "narrow") if len(self.widths) > 1 else ("",)
        return [
            (look, inline(picture(self.draw(width), "svg", title="").decode(), f"{self.name}-{width}", self.alt))
            for look, width in zip(looks, self.widths, strict=True)
        ]

    def file(self, kind: str, *, title: str | None = None) -> bytes:
        """The content of a picture file: png, svg or pdf. `title` replaces the caption; "" leaves it out."""
        chart = self.draw(self.widths[0])
        if title := self.caption if title is None else title:
            chart_title = altair().TitleParams(label(title, 100), anchor="start", fontSize=13, color=INK, offset=10)
            chart = chart.properties(title=chart_title)
        if kind != "pdf":
            return picture(chart, kind, title=self.caption or self.name)
        buffer = io.BytesIO()
        chart.save(buffer, format="pdf")
        return buffer.getvalue()


def label(text: str, longest: int = 60) -> str:
    """A name for a chart: one line, printable, at most `longest` characters."""
    return cut(" ".join(printable(text).split()) or "(no name)", longest)


def apply_theme(chart: Any, width: int, height: int | None = None) -> Any:
    """Apply the common style: size, faint lines, no frame."""
    sized = chart.properties(width=width, autosize={"type": "fit", "contains": "padding"}, background="transparent")
    if height is not None:
        sized = sized.properties(height=height)
    text = {"labelColor": QUIET, "titleColor": QUIET, "labelFontSize": 12, "titleFontSize": 12}
    lines = {"domainColor": LINE, "tickColor": LINE, "gridColor": LINE}
    # `configure` comes first, because it discards earlier settings. Letters can be wider in the page than measured
    # here, so names get extra room.
    return (
        sized.configure(font=_FONT, padding={"left": 16, "right": 8, "top": 4, "bottom": 4})
        .configure_view(stroke=None)
        .configure_axis(titleFontWeight="normal", titlePadding=8, **text, **lines)
        .configure_legend(titleFontWeight="normal", symbolStrokeWidth=2, **text)
    )


def inline(svg: str, name: str, alt: str) -> Markup:
    """An SVG for the page: colours as CSS classes, ids prefixed by `name`, only known elements.

    The `description` of a mark becomes its tooltip. Markup: the XML writer escapes all text, and unknown elements are
    removed.
    """
    root = ElementTree.fromstring(svg)
    _clean(root, re.sub(r"\W+", "-", name))
    root.attrib.pop("width", None)
    root.attrib.pop("height", None)
    size = root.get("viewBox", "0 0 1 1").split()
    root.set("style", f"max-width:{float(size[2]):g}px")
    root.set("role", "img")
    root.set("aria-label", _printable(alt))
    ElementTree.register_namespace("", _SVG)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _clean(element: ElementTree.Element, name: str) -> None:
    # Vega marks single marks, axes and groups by aria-roledescription.
    is_mark = element.get("role") == "graphics-symbol" and element.get("aria-roledescription") in _MARK_ROLES
    tooltip = element.get("aria-label") if is_mark else None
    for key in list(element.attrib):
        value = element.attrib[key]
        if key.startswith(("aria-", "on", "{")) or key in _DROPPED_ATTRIBUTES:
            del element.attrib[key]
        elif key in ("fill", "stroke") and value.lower() in COLOUR_CLASSES:
            del element.attrib[key]
            look = f"{key[0]}-{COLOUR_CLASSES[value.lower()]}"
            element.set("class", f"{element.get('class', '')} {look}".strip())
        elif key == "id":
            element.set(key, f"{name}-{value}")
        elif "url(#" in value:
            element.set(key, value.replace("url(#", f"url(#{name}-"))
    for child in list(element):
        tag = child.tag.removeprefix(f"{{{_SVG}}}") if isinstance(child.tag, str) else ""
        is_ground = tag == "rect" and child.get("fill") in ("transparent", "white")
        is_empty = tag == "path" and not child.get("d", "").strip("MmHhVvZzLl0,. ")
        if tag not in _ALLOWED_TAGS or is_ground or is_empty:
            element.remove(child)
        else:
            _clean(child, name)
    if tooltip:
        title = ElementTree.Element(f"{{{_SVG}}}title")
        title.text = tooltip
        element.insert(0, title)


def chart_data(rows: Sequence[DataRow]) -> Any:
    """The rows as chart data. Characters that XML does not allow become spaces."""
    return altair().Data(values=[{name: _printable(value) for name, value in row.items()} for row in rows])


def _printable(value: Any) -> Any:
    return (
        "".join(character if character.isprintable() else " " for character in value)
        if isinstance(value, str)
        else value
    )
