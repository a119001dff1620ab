"""Explained rows as JSON for the page's script, which has the names of the fields.

Texts are cut into pieces here, since a script counts characters in another way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from didact.reports.example_rows import Example, Fact
from didact.viz.heat_map import HeatMap, Unit, number
from didact.viz.html import replace_control_characters
from didact.viz.text_spans import split_at_spans

DIGITS: Final = "0123456789a"  # a level as one sign


@dataclass(frozen=True)
class Text:
    """A text cut wherever a unit or a mark begins or ends.

    `marked` has a sign for each piece: 1 in the rationale, else 0. `units` has for each layout the unit that covers
    each piece: -1 for none, a list for several.
    """

    name: str
    pieces: Sequence[str]
    marked: str
    units: Sequence[Sequence[int | list[int]]]


@dataclass(frozen=True)
class Layout:
    """The units that some methods share, as far as they are in no text: places in a picture, (number, token)."""

    boxes: Sequence[Sequence[int]]
    outside: Sequence[tuple[int, str]]


class EncodedHeatMap(NamedTuple):
    """What one method says of a row: a sign for each level and a word for each score, in the order of the layout."""

    layout: int
    levels: str
    scores: str
    strongest: str
    target: str


@dataclass(frozen=True)
class EncodedRow:
    """A row as the script reads it. `size` is the height and width of a picture."""

    id: str
    facts: Sequence[Fact]
    groups: Sequence[str]
    note: str
    tau: float | None
    sure: float | None
    texts: Sequence[Text]
    layouts: Sequence[Layout]
    maps: Sequence[EncodedHeatMap | None]
    picture: str
    size: tuple[int, int] | None
    frames: Sequence[Sequence[int]]


@dataclass(frozen=True)
class _Shown:
    """A heat map as far as it is shown; the first `inner` units are in texts or on the picture."""

    heat: HeatMap
    units: Sequence[Unit]
    inner: int

    @property
    def key(self) -> tuple[object, ...]:
        """What tells layouts apart. A unit inside a text is shown as the text; only others need their names."""
        inner = [(unit.segment, unit.bounds) for unit in self.units[: self.inner]]
        return (*inner, *((unit.segment, unit.bounds, unit.token) for unit in self.units[self.inner :]))

    @property
    def layout(self) -> Layout:
        boxes = [unit.bounds for unit in self.units[: self.inner]] if self.heat.is_image else []
        outside = [(n, replace_control_characters(self.units[n].token)) for n in range(self.inner, len(self.units))]
        return Layout(boxes, outside)


def encode(example: Example, groups: Sequence[str] = ()) -> EncodedRow:
    """The row for the script; `groups` are the filters that it passes."""
    shown = [None if heat is None else _Shown(heat, *example.units(heat)) for _, heat in example.heats]
    layouts: dict[tuple[object, ...], _Shown] = {}
    for one in shown:
        if one is not None:
            layouts.setdefault(one.key, one)
    keys, shared = list(layouts), list(layouts.values())
    return EncodedRow(
        id=example.id,
        facts=example.facts,
        groups=groups,
        note=example.note,
        tau=example.row.agreement,
        sure=example.row.sureness,
        texts=[_text(example, segment, shared) for segment in range(len(example.first.texts))],
        layouts=[one.layout for one in shared],
        maps=[None if one is None else _map(example, one, keys.index(one.key)) for one in shown],
        picture=example.image,
        size=example.size,
        frames=example.frames,
    )


def _text(example: Example, segment: int, layouts: Sequence[_Shown]) -> Text:
    (name, text), end = example.first.texts[segment], example.ends[segment]
    spans = example.marks(segment)
    owners = [(-1, -1)] * len(spans)
    for place, layout in enumerate(layouts):
        for n, unit in enumerate(layout.units[: layout.inner]):
            if unit.segment == segment:
                spans.append(unit.span)
                owners.append((place, n))
    cuts = split_at_spans(text[:end], spans)
    if end < len(text):
        cuts.append((" …", ()))
    covers = [[owners[number] for number in covering] for _, covering in cuts]
    units = [[_cover(cover, place) for cover in covers] for place in range(len(layouts))]
    marked = "".join("1" if (-1, -1) in cover else "0" for cover in covers)
    return Text(
        replace_control_characters(name), [replace_control_characters(piece) for piece, _ in cuts], marked, units
    )


def _cover(owners: Sequence[tuple[int, int]], layout: int) -> int | list[int]:
    """No unit of a layout is -1, one is its number, several are a list."""
    units = [unit for place, unit in owners if place == layout]
    return units if len(units) > 1 else units[0] if units else -1


def _map(example: Example, shown: _Shown, layout: int) -> EncodedHeatMap:
    heat = shown.heat
    levels = "".join(DIGITS[heat.shade(unit.score).level] for unit in shown.units)
    scores = " ".join(number(unit.score, heat.kind) for unit in shown.units) if heat.kind != "binary" else ""
    return EncodedHeatMap(layout, levels, scores, example.strongest(heat), example.target(heat))
