"""Rows in a terminal: texts with their marks, images as coloured blocks."""

from collections.abc import Sequence
from typing import Any

from rich.style import Style
from rich.text import Text

from didact.viz.text_spans import Box, Image, Span, marked_runs

_HIGHLIGHT = Style(bold=True, reverse=True)
_BRIGHTNESS = " .:-=+*#%@"


def highlight(text: str, spans: Sequence[Span], *, colour: bool = True) -> Text:
    """The text with the characters of the spans highlighted, in [brackets] where there is no colour.

    Control characters are replaced, never sent to the terminal.
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
    """An image as half blocks, two pixels high, one wide per character. What lies outside the boxes fades.

    Where there is no colour, brightness becomes a character and what lies outside the boxes a dot.
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
    """The sign itself, or what stands for one that would control the terminal."""
    if character.isprintable():
        return character
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"


def _rgb(pixel: Any) -> tuple[int, int, int]:
    red, green, blue = (int(pixel[channel if len(pixel) >= 3 else 0]) for channel in range(3))
    return red, green, blue
