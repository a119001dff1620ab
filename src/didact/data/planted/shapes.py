"""Planted shapes: images with several glyphs on a noisy background. The shape of the red glyph is the label."""

from collections.abc import Mapping
from typing import ClassVar, Final, TypeAlias

import numpy as np

from didact.core.row import Box
from didact.core.task import IMAGE
from didact.data.planted.dataset import generator
from didact.data.planted.rules import Image, RandomStream, Region, Rules, Truth, check_integers, check_probabilities

SIDE: Final = 32
PATCH: Final = 8
PATCHES: Final = tuple((top, left) for top in range(0, SIDE, PATCH) for left in range(0, SIDE, PATCH))

_DRAWINGS: Final = {
    "circle": (".####.", "##..##", "#....#", "#....#", "##..##", ".####."),
    "cross": ("#....#", ".#..#.", "..##..", "..##..", ".#..#.", "#....#"),
    "square": ("######", "#....#", "#....#", "#....#", "#....#", "######"),
    "triangle": ("..##..", "..##..", ".#..#.", ".#..#.", "#....#", "######"),
}
GLYPHS: Final = tuple(np.array([[sign == "#" for sign in line] for line in lines]) for lines in _DRAWINGS.values())
_SIZE: Final = len(GLYPHS[0])
_LABEL: Final = {glyph.tobytes(): label for label, glyph in enumerate(GLYPHS)}

# The darkest shade of each colour; a glyph's pixels are lighter by less than `_SPREAD` in each channel.
DECIDING: Final = (190, 10, 10)
OTHERS: Final = ((10, 170, 10), (10, 50, 190), (190, 170, 10), (10, 170, 170), (170, 30, 190))
_SHADE_RANGE: Final = 60
_MAX_GROUND: Final = 160  # the background is darker than any glyph, so it is never red

Patch: TypeAlias = tuple[int, int]
Colour: TypeAlias = tuple[int, int, int]


class Shapes(Rules[Image]):
    """Images of 32 × 32 pixels with `glyphs` glyphs, each in its own patch of 8 × 8 pixels. One glyph is red.

    `noise` is the largest brightness of the background: 0 is black, 1 is nearly as bright as a glyph.
    """

    name = "planted/shapes"
    task = IMAGE
    classes: ClassVar = tuple(_DRAWINGS)

    def __init__(self, *, glyphs: int = 5, noise: float = 0.5) -> None:
        check_integers(1, len(PATCHES), glyphs=glyphs)
        check_probabilities(noise=noise)
        self.glyphs, self.noise = glyphs, noise

    def draw(self, rng: RandomStream, split: str) -> Image:  # noqa: ARG002
        first, *others = rng.sample(PATCHES, self.glyphs)
        return self._picture({first: DECIDING} | {patch: rng.choice(OTHERS) for patch in others}, rng)

    def read(self, inputs: Image) -> Truth:
        red, green, blue = (
            inputs[:, :, channel] - np.uint8(dark) < _SHADE_RANGE for channel, dark in enumerate(DECIDING)
        )
        glyph = red & green & blue
        top, left = int(glyph.any(axis=1).argmax()), int(glyph.any(axis=0).argmax())
        label = _LABEL.get(glyph[top : top + _SIZE, left : left + _SIZE].tobytes())
        top, left = top - top % PATCH, left - left % PATCH
        return Truth(label, () if label is None else (Box(top, left, top + PATCH, left + PATCH),))

    def redraw(self, inputs: Image, region: Region, rng: RandomStream) -> Image:
        ((top, left, bottom, right),) = self.read(inputs).rationale  # type: ignore[misc]
        inside = slice(top, bottom), slice(left, right)
        if region == "rationale":
            image = inputs.copy()
            image[inside] = self._picture({(top, left): DECIDING}, rng)[inside]
            return image
        others = rng.sample([patch for patch in PATCHES if patch != (top, left)], self.glyphs - 1)
        image = self._picture({patch: rng.choice(OTHERS) for patch in others}, rng)
        image[inside] = inputs[inside]
        return image

    def _picture(self, colours: Mapping[Patch, Colour], rng: RandomStream) -> Image:
        """A noisy background with one glyph of a random shape at a random position in each of the patches."""
        noise = np.frombuffer(rng.generator.bytes(3 * SIDE**2), dtype=np.uint8).astype(np.uint16).reshape(SIDE, SIDE, 3)
        darkest = np.zeros_like(noise)
        shade_range = np.full_like(noise, int(_MAX_GROUND * self.noise))
        for (top, left), colour in colours.items():
            top, left = top + rng.integer(0, PATCH - _SIZE), left + rng.integer(0, PATCH - _SIZE)
            area, glyph = (slice(top, top + _SIZE), slice(left, left + _SIZE)), rng.choice(GLYPHS)
            darkest[area][glyph], shade_range[area][glyph] = colour, _SHADE_RANGE
        return (darkest + (noise * shade_range >> 8)).astype(np.uint8)


shapes = generator(Shapes)
