"""Scores as colours: the scale that terminal and HTML pages share.

Orange speaks for the target, blue against it; scores without a sign have one hue of their own. The three are told
apart by people who are colour-blind. Each row has its own scale: the largest |score| is the full colour.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

LEVELS = 10  # the eye tells hardly more, and a page names each level once

Colour: TypeAlias = tuple[int, int, int]
FULL: dict[str, Colour] = {"for": (230, 106, 8), "against": (0, 114, 178), "strength": (0, 158, 115)}
WHITE: Colour = (255, 255, 255)
_TEXT_COLOURS: tuple[Colour, Colour] = ((0, 0, 0), (255, 255, 255))  # one of the two always has a contrast of 4.5
_MAX_OPACITY = 0.75  # how much of a picture the strongest patch hides


class Shade(NamedTuple):
    """A step of the scale: `hue` is for, against or strength; level 0 has no colour."""

    hue: str
    level: int

    @property
    def look(self) -> str:
        """The class of the step in a page: for1 … strength10."""
        return f"{self.hue}{self.level}" if self.level else ""


def shade(score: float, scale: float, kind: str) -> Shade:
    """The colour of a score in a row whose largest |score| is `scale`."""
    strength = min(abs(score) / scale, 1.0) if scale > 0 else 0.0
    hue = "strength" if kind != "signed" else "for" if score > 0 else "against"
    return Shade(hue, round(strength * LEVELS))


def colours(shade: Shade, *, page: Colour = WHITE, full: dict[str, Colour] | None = None) -> tuple[Colour, Colour]:
    """Background and ink: from the page's own colour to the full hue, with the ink that is read best on it."""
    fraction = shade.level / LEVELS
    background = _mix(page, (full or FULL)[shade.hue], fraction)
    return background, max(_TEXT_COLOURS, key=lambda ink: contrast(ink, background))


def contrast(first: Colour, second: Colour) -> float:
    """The contrast of WCAG 2: 1 for equal colours, 21 for black on white; text is read well from 4.5 on."""
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def opacity(shade: Shade) -> float:
    """How much of the picture a patch hides."""
    return round(_MAX_OPACITY * shade.level / LEVELS, 3)


def meanings(kinds: Sequence[str]) -> list[tuple[str, str]]:
    """The hues that the kinds use, in words."""
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
