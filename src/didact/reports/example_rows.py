"""Explained rows for the example browser: how each method explains a row, and facts about the row."""

import base64
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from didact.results.comparison import Comparison
from didact.results.explanations import Explanations
from didact.results.measured import MeasuredMethod, MeasuredRow
from didact.results.number_format import minus
from didact.results.row_explanation import RowExplanation
from didact.viz.heat_map import HeatMap, Unit, number
from didact.viz.html import cut, replace_control_characters
from didact.viz.page import HeatText, Patch, Picture, Piece, outside_pieces, patches, pieces
from didact.viz.text_spans import Box, Span

LONG: Final = 1200  # characters of a row; longer texts scroll
_NAME: Final = 200  # characters of a name
_WIDEST: Final = 320  # pixels of a picture
_LIGHT: Final = 20_000  # bytes; smaller pictures are embedded unchanged


@dataclass(frozen=True)
class Method:
    """A method as the page names it."""

    name: str
    kind: str
    control: bool


class Fact(NamedTuple):
    """A fact about a row."""

    name: str
    value: str
    look: str = ""


@dataclass(frozen=True)
class Source:
    """A method whose explanations could be read. `indices` has the index of each row by id."""

    method: MeasuredMethod
    explanations: Explanations
    indices: Mapping[str, int]

    def explanation_of(self, name: str) -> RowExplanation | None:
        index = self.indices.get(name)
        return None if index is None else self.explanations[index]

    def to_method(self) -> Method:
        name = replace_control_characters(cut(self.method.label, _NAME)) or "(no name)"
        return Method(name, self.explanations.kind, self.method.is_control)


@dataclass(frozen=True)
class Example:
    """A row and the heat map of each method that explains it.

    `shown_lengths` has the number of characters shown of each text. `image` is the picture as a data URL, and `size`
    its height and width: None for a row of texts.
    """

    row: MeasuredRow
    heat_maps: Sequence[tuple[Method, HeatMap | None]]
    shown_lengths: Sequence[int]
    note: str
    image: str = ""
    size: tuple[int, int] | None = None

    @cached_property
    def first_heat_map(self) -> HeatMap:
        return next(heat_map for _, heat_map in self.heat_maps if heat_map is not None)

    @cached_property
    def targets(self) -> set[str]:
        """The explained targets that differ from the prediction."""
        return {heat_map.target for _, heat_map in self.heat_maps if heat_map is not None} - {self.row.prediction}

    @property
    def id(self) -> str:
        return replace_control_characters(cut(self.row.id, _NAME)) or "(no id)"

    @property
    def facts(self) -> list[Fact]:
        return _row_facts(self.row, self.targets)

    @property
    def length(self) -> int:
        """The number of characters shown."""
        texts = zip(self.first_heat_map.texts, self.shown_lengths, strict=True)
        return sum(end + 2 * (end < len(text)) for (_, text), end in texts)

    @property
    def is_long(self) -> bool:
        return self.length > LONG

    @property
    def frames(self) -> list[Box]:
        """The patches in the rationale."""
        boxes = [entry for entry in self.row.rationale if len(entry) == 4] if self.size else []
        return [(top, left, bottom, right) for top, left, bottom, right in boxes]

    def marks(self, segment: int) -> list[Span]:
        """The spans of a text in the rationale."""
        spans = [entry for entry in self.row.rationale if len(entry) == 3]
        return [(start, end) for entry_segment, start, end in spans if entry_segment == segment]

    def target(self, heat_map: HeatMap) -> str:
        """The target of a heat map if methods explain different targets, else ""."""
        return replace_control_characters(cut(heat_map.target, _NAME)) if len(self.targets) > 1 else ""

    def units(self, heat_map: HeatMap) -> tuple[list[Unit], int]:
        """The shown units, those in texts or on the picture first, and how many of these there are."""
        text_units = [
            unit
            for segment, end in enumerate(self.shown_lengths)
            for unit in heat_map.inside(segment)
            if unit.bounds[0] < end
        ]
        shown_inside = heat_map.patches() if heat_map.is_image else text_units
        return [*shown_inside, *heat_map.outside()], len(shown_inside)

    def texts(self, heat_map: HeatMap | None = None) -> list[HeatText]:
        """The texts in the colours of a heat map, or plain."""
        heat_map = heat_map or replace(self.first_heat_map, units=())
        return [
            HeatText(
                name,
                pieces(heat_map, segment, marks=self.marks(segment), end=self.shown_lengths[segment], is_named=False),
            )
            for segment, (name, _) in enumerate(heat_map.texts)
        ]

    def picture(self, method: str = "", heat_map: HeatMap | None = None) -> Picture:
        """The picture under the patches of a heat map, or plain."""
        assert self.size is not None
        alt = f"The picture of row {self.id}"
        frames = [Patch(box, look) for box in self.frames for look in ("under", "over")]
        if heat_map is None:
            return Picture(self.image, self.size, alt, frames)
        words = f"{alt}, under the scores of {method}. {self.strongest(heat_map)}"
        return Picture(self.image, self.size, words, [*patches(heat_map), *frames], is_covered=True)

    def outside(self, heat_map: HeatMap) -> list[Piece]:
        return outside_pieces(heat_map, is_named=False)

    def strongest(self, heat_map: HeatMap) -> str:
        """The strongest units of a heat map in words, for screen readers."""
        units, _ = self.units(heat_map)
        strong = sorted((unit for unit in units if unit.score), key=lambda unit: -abs(unit.score))[:5]
        if not strong:
            return "Nothing is marked."
        descriptions = (
            f"{replace_control_characters(cut(_unit_name(unit, heat_map), 40))} "
            f"{number(unit.score, heat_map.kind)}".strip()
            for unit in strong
        )
        return f"Strongest: {', '.join(descriptions)}."


def example(
    run: Comparison, sources: Sequence[Source], row: MeasuredRow, *, longest: int | None = None
) -> Example | None:
    """A row as the methods explain it, cut to `longest` characters. None if no method explains it."""
    rows = [source.explanation_of(row.id) for source in sources]
    first = next((explained for explained in rows if explained is not None), None)
    if first is None:
        return None
    task_and_texts = (first.task, first.texts)
    heat_maps = [
        None
        if explanation is None or (explanation.task, explanation.texts) != task_and_texts
        else explanation.heat_map()
        for explanation in rows
    ]
    available_maps = [heat_map for heat_map in heat_maps if heat_map is not None]
    shown_lengths, note = _limit_lengths(available_maps[0], longest)
    shown = Example(
        row,
        [(source.to_method(), heat_map) for source, heat_map in zip(sources, heat_maps, strict=True)],
        shown_lengths,
        note,
    )
    if not available_maps[0].is_image:
        return shown
    path = None if row.picture is None or run.measured is None else run.measured.inside(row.picture)
    picture = None if path is None else _picture_data(path)
    if picture is not None:
        return replace(shown, image=picture[0], size=picture[1])
    height, width = np.array([heat_map.size() for heat_map in available_maps]).max(0).tolist()
    return replace(shown, size=(height, width), note="Its picture was not stored, or cannot be read.")


def _row_facts(row: MeasuredRow, targets: Collection[str]) -> list[Fact]:
    """Facts about the row. The target is among them if it is not the prediction."""
    facts = [Fact("prediction", _readable(row.prediction))]
    if row.sureness is not None:
        facts.append(Fact("confidence", "> 99.9 %" if 0.9995 <= row.sureness < 1 else f"{100 * row.sureness:.1f} %"))
    if len(targets) == 1:
        facts.append(Fact("target", _readable(next(iter(targets)))))
    if row.gold is not None:
        facts.append(Fact("label", _readable(row.gold)))
    if row.is_right is not None:
        facts.append(Fact("", "✓ right", "right") if row.is_right else Fact("", "✗ wrong", "wrong"))
    if row.agreement is not None:
        facts.append(Fact("agreement of methods", minus(f"τ = {row.agreement:.2f}")))
    return facts


def _readable(text: str) -> str:
    return replace_control_characters(cut(text, _NAME)) or "–"


def _limit_lengths(heat_map: HeatMap, longest: int | None) -> tuple[list[int], str]:
    """The number of characters shown of each text, and a note if the row is cut."""
    lengths = [len(text) for _, text in heat_map.texts]
    total = sum(lengths)
    if longest is None or total <= longest:
        return lengths, ""
    shown_lengths = [longest * length // total for length in lengths]
    return shown_lengths, f"This row is long: {sum(shown_lengths):,} of its {total:,} characters are shown."


def _unit_name(unit: Unit, heat_map: HeatMap) -> str:
    if heat_map.is_image and unit.segment >= 0:
        top, left, bottom, right = unit.bounds
        return f"rows {top} to {bottom}, columns {left} to {right}:"
    if unit.segment < 0 or unit.bounds[1] <= unit.bounds[0]:
        return unit.token
    return heat_map.texts[unit.segment][1][unit.bounds[0] : unit.bounds[1]]


def _picture_data(path: Path) -> tuple[str, tuple[int, int]] | None:
    """A picture, made small, as a data URL with its original height and width. None if it cannot be read."""
    from PIL import Image

    try:
        content = path.read_bytes()
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            size = (image.height, image.width)
            image.verify()  # checks the checksums; PIL must reopen a verified file
            if len(content) <= _LIGHT:
                return f"data:image/png;base64,{base64.b64encode(content).decode()}", size
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            small = image.convert("RGB")
            small.thumbnail((_WIDEST, _WIDEST))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    buffer = io.BytesIO()
    small.save(buffer, format="JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}", size
