"""Terminal output: texts with marks, and images as coloured blocks."""

from collections.abc import Sequence
from typing import Any

from rich.style import Style
from rich.text import Text

from didact.viz.text_spans import Box, Image, Span, marked_runs

_HIGHLIGHT = Style(bold=True, reverse=True)
_BRIGHTNESS = " .:-=+*#%@"


def highlight(text: str, spans: Sequence[Span], *, colour: bool = True) -> Text:
    """The text with these spans highlighted, or in [brackets] without colour.

    Control characters are replaced and never reach the terminal.
    """
    output = Text()
    for piece, is_marked in marked_runs(text, spans):
        visible_text = "".join(map(visible, piece))
        if is_marked:
            output.append(visible_text if colour else f"[{visible_text}]", _HIGHLIGHT)
        else:
            output.append(visible_text)
    return output


def draw_image(image: Image, boxes: Sequence[Box], *, widest: int = 64, colour: bool = True) -> Text:
    """An image as half-block characters, one pixel wide and two high. Everything outside the boxes is dimmed.

    Without colour, each character stands for a brightness, and everything outside the boxes becomes a dot.
    """
    step = max(1, -(-len(image[0]) // widest))
    height, width = len(image) // step, len(image[0]) // step

    def is_inside(row: int, column: int) -> bool:
        top, left = row * step, column * step
        return not boxes or any(b[0] <= top < b[2] and b[1] <= left < b[3] for b in boxes)

    def tone(row: int, column: int) -> str:
        divisor = 1 if is_inside(row, column) else 3
        red, green, blue = (value // divisor for value in _rgb(image[row * step][column * step]))
        return f"rgb({red},{green},{blue})"

    def shade(row: int, column: int) -> str:
        brightness = sum(_rgb(image[row * step][column * step])) / 3 / 256
        return _BRIGHTNESS[int(brightness * len(_BRIGHTNESS))] if is_inside(row, column) else "·"

    output = Text()
    for row in range(0, height - 1, 2):
        for column in range(width):
            if colour:
                output.append("▀", Style(color=tone(row, column), bgcolor=tone(row + 1, column)))
            else:
                output.append(shade(row, column))
        output.append("\n")
    return output


def visible(character: str) -> str:
    """The character itself, or a replacement for a control character."""
    if character.isprintable():
        return character
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"


def _rgb(pixel: Any) -> tuple[int, int, int]:
    red, green, blue = (int(pixel[channel if len(pixel) >= 3 else 0]) for channel in range(3))
    return red, green, blue
