"""Explained rows as JSON for the page's script, which reads the fields by these names.

Texts are cut into pieces here, because JavaScript counts characters differently.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from didact.reports.example_rows import Example, Fact
from didact.viz.heat_map import HeatMap, Unit, number
from didact.viz.html import replace_control_characters
from didact.viz.text_spans import split_at_spans

DIGITS: Final = "0123456789a"  # a level as one character


@dataclass(frozen=True)
class Text:
    """A text, cut wherever a unit or a mark begins or ends.

    `marked` has one character per piece: 1 in the rationale, else 0. `units` has, per layout and piece, the unit that
    covers the piece: -1 for none, a list for several.
    """

    name: str
    pieces: Sequence[str]
    marked: str
    units: Sequence[Sequence[int | list[int]]]


@dataclass(frozen=True)
class Layout:
    """Units that methods share: boxes in a picture, and (unit, token) for units outside of all texts."""

    boxes: Sequence[Sequence[int]]
    outside: Sequence[tuple[int, str]]


class EncodedHeatMap(NamedTuple):
    """Scores of one method for a row, in the order of the layout: one character per level, one word per score."""

    layout: int
    levels: str
    scores: str
    strongest: str
    target: str


@dataclass(frozen=True)
class EncodedRow:
    """A row as the script reads it. `size` is the height and width of the picture."""

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
class _ShownHeatMap:
    """The shown units of a heat map. The first `inner` of them are in texts or on the picture."""

    heat_map: HeatMap
    units: Sequence[Unit]
    inner: int

    @property
    def key(self) -> tuple[object, ...]:
        """Identifies the layout. Units inside a text are shown as the text; only the others need their tokens."""
        inner = [(unit.segment, unit.bounds) for unit in self.units[: self.inner]]
        return (*inner, *((unit.segment, unit.bounds, unit.token) for unit in self.units[self.inner :]))

    @property
    def layout(self) -> Layout:
        boxes = [unit.bounds for unit in self.units[: self.inner]] if self.heat_map.is_image else []
        outside = [
            (index, replace_control_characters(self.units[index].token)) for index in range(self.inner, len(self.units))
        ]
        return Layout(boxes, outside)


def encode(example: Example, groups: Sequence[str] = ()) -> EncodedRow:
    """The row as JSON data; `groups` are the filters that it passes."""
    shown_maps = [
        None if heat_map is None else _ShownHeatMap(heat_map, *example.units(heat_map))
        for _, heat_map in example.heat_maps
    ]
    layouts: dict[tuple[object, ...], _ShownHeatMap] = {}
    for shown_map in shown_maps:
        if shown_map is not None:
            layouts.setdefault(shown_map.key, shown_map)
    keys, distinct_maps = list(layouts), list(layouts.values())
    return EncodedRow(
        id=example.id,
        facts=example.facts,
        groups=groups,
        note=example.note,
        tau=example.row.agreement,
        sure=example.row.sureness,
        texts=[_encode_text(example, segment, distinct_maps) for segment in range(len(example.first_heat_map.texts))],
        layouts=[shown_map.layout for shown_map in distinct_maps],
        maps=[
            None if shown_map is None else _encode_heat_map(example, shown_map, keys.index(shown_map.key))
            for shown_map in shown_maps
        ],
        picture=example.image,
        size=example.size,
        frames=example.frames,
    )


def _encode_text(example: Example, segment: int, shown_maps: Sequence[_ShownHeatMap]) -> Text:
    (name, text), end = example.first_heat_map.texts[segment], example.shown_lengths[segment]
    spans = example.marks(segment)
    owners = [(-1, -1)] * len(spans)
    for layout_index, shown_map in enumerate(shown_maps):
        for unit_index, unit in enumerate(shown_map.units[: shown_map.inner]):
            if unit.segment == segment:
                spans.append(unit.span)
                owners.append((layout_index, unit_index))
    pieces = split_at_spans(text[:end], spans)
    if end < len(text):
        pieces.append((" …", ()))
    covers = [[owners[span_index] for span_index in covering] for _, covering in pieces]
    units = [[_cover(cover, layout_index) for cover in covers] for layout_index in range(len(shown_maps))]
    marked = "".join("1" if (-1, -1) in cover else "0" for cover in covers)
    return Text(
        replace_control_characters(name), [replace_control_characters(piece) for piece, _ in pieces], marked, units
    )


def _cover(owners: Sequence[tuple[int, int]], layout_index: int) -> int | list[int]:
    """The units of a layout among `owners`: -1 for none, a number for one, a list for several."""
    units = [unit for owner_layout, unit in owners if owner_layout == layout_index]
    return units if len(units) > 1 else units[0] if units else -1


def _encode_heat_map(example: Example, shown: _ShownHeatMap, layout_index: int) -> EncodedHeatMap:
    heat_map = shown.heat_map
    levels = "".join(DIGITS[heat_map.shade(unit.score).level] for unit in shown.units)
    scores = " ".join(number(unit.score, heat_map.kind) for unit in shown.units) if heat_map.kind != "binary" else ""
    return EncodedHeatMap(layout_index, levels, scores, example.strongest(heat_map), example.target(heat_map))
