"""The colour scale of scores, shared by terminals and HTML pages.

Orange is for the target, blue against it, green for scores without a sign. Colour-blind people can distinguish the
three. Each row has its own scale: the largest |score| has the full colour.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

LEVELS = 10  # the eye hardly distinguishes more, and a page defines one class per level

Colour: TypeAlias = tuple[int, int, int]
FULL: dict[str, Colour] = {"for": (230, 106, 8), "against": (0, 114, 178), "strength": (0, 158, 115)}
WHITE: Colour = (255, 255, 255)
_TEXT_COLOURS: tuple[Colour, Colour] = (
    (0, 0, 0),
    (255, 255, 255),
)  # one of the two always has a contrast of at least 4.5
_MAX_OPACITY = 0.75  # opacity of the strongest patch over a picture


class Shade(NamedTuple):
    """A step of the scale. `hue` is "for", "against" or "strength"; level 0 has no colour."""

    hue: str
    level: int

    @property
    def look(self) -> str:
        """The CSS class of the step, for1 … strength10; empty for level 0."""
        return f"{self.hue}{self.level}" if self.level else ""


def shade(score: float, scale: float, kind: str) -> Shade:
    """The step for a score in a row whose largest |score| is `scale`."""
    strength = min(abs(score) / scale, 1.0) if scale > 0 else 0.0
    hue = "strength" if kind != "signed" else "for" if score > 0 else "against"
    return Shade(hue, round(strength * LEVELS))


def colours(shade: Shade, *, page: Colour = WHITE, full: dict[str, Colour] | None = None) -> tuple[Colour, Colour]:
    """Background and text colour: a mix of the page colour and the full hue, and the more readable text colour."""
    fraction = shade.level / LEVELS
    background = _mix(page, (full or FULL)[shade.hue], fraction)
    return background, max(_TEXT_COLOURS, key=lambda ink: contrast(ink, background))


def contrast(first: Colour, second: Colour) -> float:
    """The WCAG 2 contrast ratio: 1 for equal colours, 21 for black on white. Text is readable from 4.5 on."""
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def opacity(shade: Shade) -> float:
    """The opacity of a patch over a picture."""
    return round(_MAX_OPACITY * shade.level / LEVELS, 3)


def meanings(kinds: Sequence[str]) -> list[tuple[str, str]]:
    """The hues that these kinds of scores use, each with its meaning."""
    signed = [("against", "against the target"), ("for", "for the target")] if "signed" in kinds else []
    return signed + ([("strength", "important, for or against")] if set(kinds) - {"signed"} else [])


def _mix(start: Colour, end: Colour, fraction: float) -> Colour:
    red, green, blue = (
        round(start_value + (end_value - start_value) * fraction)
        for start_value, end_value in zip(start, end, strict=True)
    )
    return red, green, blue


def _luminance(colour: Colour) -> float:
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (channel / 255 for channel in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
