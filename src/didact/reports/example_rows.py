"""Explained rows for the browser of examples: as JSON for the page's script, and as views for readers without one.

Texts are cut into pieces here, since a script counts characters in another way. JSON has the names of the fields.
"""

import base64
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from didact.records.explanations import Explained, Explanations
from didact.render.heat import Heat, Unit, number, parts
from didact.render.html import cut, readable
from didact.render.page import HeatText, Patch, Picture, Piece, outside_pieces, patches, pieces
from didact.results.comparison import Comparison
from didact.results.measured import MeasuredMethod, MeasuredRow
from didact.results.number_format import minus

DIGITS: Final = "0123456789a"  # a level as one sign
LONG: Final = 1200  # characters of a row above which its texts scroll
_NAME: Final = 200  # characters of a name
_WIDEST: Final = 320  # pixels of a picture
_LIGHT: Final = 20_000  # bytes of a picture that is kept as it is


@dataclass(frozen=True)
class Source:
    """A method whose explanations could be read; `places` tells where each row stands in them."""

    method: MeasuredMethod
    maps: Explanations
    places: Mapping[str, int]

    def row(self, name: str) -> Explained | None:
        place = self.places.get(name)
        return None if place is None else self.maps[place]

    def about(self) -> "Method":
        name = readable(cut(self.method.label, _NAME)) or "(no name)"
        return Method(name, self.maps.kind, self.method.is_control)


@dataclass(frozen=True)
class Method:
    """What the page says of a method."""

    name: str
    kind: str
    control: bool


class Fact(NamedTuple):
    """What is said about a row."""

    name: str
    value: str
    look: str = ""


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


class HeatMap(NamedTuple):
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
    maps: Sequence[HeatMap | None]
    picture: str
    size: tuple[int, int] | None
    frames: Sequence[Sequence[int]]


@dataclass(frozen=True)
class StaticHeat:
    """What one method says of a row, for readers without a script."""

    target: str
    strongest: str
    outside: Sequence[Piece]
    texts: Sequence[HeatText]
    picture: Picture | None


@dataclass(frozen=True)
class StaticRow:
    """A row for readers without a script: the row as it is, then as each method explains it."""

    id: str
    facts: Sequence[Fact]
    note: str
    is_long: bool
    texts: Sequence[HeatText]
    picture: Picture | None
    heats: Sequence[tuple[Method, StaticHeat | None]]


@dataclass(frozen=True)
class Example:
    """A row that some methods explain; of its texts as much is shown as `ends` say."""

    row: MeasuredRow
    methods: Sequence[Method]
    heats: Sequence[Heat | None]
    ends: Sequence[int]
    note: str
    picture: str
    size: tuple[int, int] | None

    @property
    def first(self) -> Heat:
        return next(heat for heat in self.heats if heat is not None)

    @cached_property
    def targets(self) -> set[str]:
        """What methods explain where that is not the prediction."""
        return {heat.target for heat in self.heats if heat is not None} - {self.row.prediction}

    @property
    def id(self) -> str:
        return readable(cut(self.row.id, _NAME)) or "(no id)"

    @property
    def length(self) -> int:
        """The characters that are shown."""
        texts = zip(self.first.texts, self.ends, strict=True)
        return sum(end + 2 * (end < len(text)) for (_, text), end in texts)

    @property
    def frames(self) -> list[tuple[int, int, int, int]]:
        """The patches of the rationale."""
        return [(top, left, bottom, right) for top, left, bottom, right in self._rationale(4)]

    def _marks(self, segment: int) -> list[tuple[int, int]]:
        """The characters of the rationale."""
        return [(start, end) for place, start, end in self._rationale(3) if place == segment]

    def _rationale(self, length: int) -> list[Sequence[int]]:
        return [entry for entry in self.row.rationale if len(entry) == length]

    def target(self, heat: Heat) -> str:
        """What one method explains, where methods explain different things."""
        return readable(cut(heat.target, _NAME)) if len(self.targets) > 1 else ""

    def encoded(self, groups: Sequence[str] = ()) -> EncodedRow:
        drawn = [None if heat is None else _shown(heat, self.ends) for heat in self.heats]
        looks = list(dict.fromkeys(one.look for one in drawn if one is not None))
        layouts = [next(one for one in drawn if one is not None and one.look == look) for look in looks]
        texts = [self._text(segment, layouts) for segment in range(len(self.first.texts))]
        maps = [None if one is None else self._map(one, looks.index(one.look)) for one in drawn]
        shared = [Layout(one.boxes, one.outside) for one in layouts]
        row = self.row
        return EncodedRow(
            id=self.id,
            facts=_facts(row, self.targets),
            groups=list(groups),
            note=self.note,
            tau=row.agreement,
            sure=row.sureness,
            texts=texts,
            layouts=shared,
            maps=maps,
            picture=self.picture,
            size=self.size,
            frames=self.frames if self.size else [],
        )

    def _text(self, segment: int, layouts: Sequence["_Shown"]) -> Text:
        name, text = self.first.texts[segment]
        spans = list(self._marks(segment))
        owners = [(-1, -1)] * len(spans)
        for place, layout in enumerate(layouts):
            for n, unit in enumerate(layout.units[: layout.inner]):
                if unit.segment == segment:
                    spans.append(unit.span)
                    owners.append((place, n))
        cuts = parts(text[: self.ends[segment]], spans)
        if self.ends[segment] < len(text):
            cuts.append((" …", ()))
        covers = [[owners[number] for number in covering] for _, covering in cuts]
        units = [
            [_cover([n for owner, n in cover if owner == place]) for cover in covers] for place in range(len(layouts))
        ]
        marked = "".join("1" if (-1, -1) in cover else "0" for cover in covers)
        return Text(readable(name), [readable(piece) for piece, _ in cuts], marked, units)

    def _map(self, shown: "_Shown", layout: int) -> HeatMap:
        heat = shown.heat
        levels = "".join(DIGITS[heat.shade(unit.score).level] for unit in shown.units)
        scores = " ".join(number(unit.score, heat.kind) for unit in shown.units) if heat.kind != "binary" else ""
        return HeatMap(layout, levels, scores, _strongest(heat, shown.units), self.target(heat))

    def static(self) -> StaticRow:
        """The row for readers without a script."""
        alt = f"The picture of row {self.id}"
        frames = [Patch(box, look) for box in self.frames for look in ("under", "over")]
        bare = replace(self.first, units=())
        heats = []
        for method, heat in zip(self.methods, self.heats, strict=True):
            heats.append((method, None if heat is None else self._static(method, heat, alt, frames)))
        picture = None if self.size is None else Picture(self.picture, self.size, alt, frames)
        facts = _facts(self.row, self.targets)
        return StaticRow(self.id, facts, self.note, self.length > LONG, self._pieces(bare), picture, heats)

    def _static(self, method: Method, heat: Heat, alt: str, frames: Sequence[Patch]) -> StaticHeat:
        strongest = _strongest(heat, _shown(heat, self.ends).units)
        picture = None
        if self.size is not None:
            words = f"{alt}, under the scores of {method.name}. {strongest}"
            picture = Picture(self.picture, self.size, words, [*patches(heat), *frames], is_covered=True)
        outside = outside_pieces(heat, is_named=False)
        return StaticHeat(self.target(heat), strongest, outside, self._pieces(heat), picture)

    def _pieces(self, heat: Heat) -> list[HeatText]:
        texts = zip(heat.texts, self.ends, strict=True)
        return [
            HeatText(name, pieces(heat, segment, marks=self._marks(segment), end=end, is_named=False))
            for segment, ((name, _), end) in enumerate(texts)
        ]


def example(
    run: Comparison, sources: Sequence[Source], row: MeasuredRow, *, longest: int | None = None
) -> Example | None:
    """A row as the methods explain it; of its texts the first `longest` characters. None if nobody explains it."""
    rows = [source.row(row.id) for source in sources]
    first = next((explained for explained in rows if explained is not None), None)
    if first is None:
        return None
    same = (first.task, first.texts)
    heats = [None if one is None or (one.task, one.texts) != same else one.heat() for one in rows]
    known = [heat for heat in heats if heat is not None]
    ends, note = _ends(known[0], longest)
    methods = [source.about() for source in sources]
    if not known[0].is_image:
        return Example(row, methods, heats, ends, note, "", None)
    path = None if row.picture is None or run.measured is None else run.measured.inside(row.picture)
    image = None if path is None else _image(path)
    if image is not None:
        return Example(row, methods, heats, ends, note, *image)
    height, width = np.array([heat.size() for heat in known]).max(0).tolist()
    note = "Its picture was not kept, or cannot be read."
    return Example(row, methods, heats, ends, note, "", (height, width))


def _facts(row: MeasuredRow, targets: Collection[str]) -> list[Fact]:
    """What is said about the row. A target is told where it is not the prediction."""
    facts = [Fact("prediction", _written(row.prediction))]
    if row.sureness is not None:
        facts.append(Fact("confidence", "> 99.9 %" if 0.9995 <= row.sureness < 1 else f"{100 * row.sureness:.1f} %"))
    if len(targets) == 1:
        facts.append(Fact("target", _written(next(iter(targets)))))
    if row.gold is not None:
        facts.append(Fact("label", _written(row.gold)))
    if row.is_right is not None:
        facts.append(Fact("", "✓ right", "right") if row.is_right else Fact("", "✗ wrong", "wrong"))
    if row.agreement is not None:
        facts.append(Fact("agreement of methods", minus(f"τ = {row.agreement:.2f}")))
    return facts


def _written(text: str) -> str:
    return readable(cut(text, _NAME)) or "–"


def _ends(heat: Heat, longest: int | None) -> tuple[list[int], str]:
    """Where each text ends on the page, and what is said if that is early."""
    lengths = [len(text) for _, text in heat.texts]
    whole = sum(lengths)
    if longest is None or whole <= longest:
        return lengths, ""
    ends = [longest * length // whole for length in lengths]
    return ends, f"This row is long: {sum(ends):,} of its {whole:,} characters are shown."


@dataclass(frozen=True)
class _Shown:
    """A heat map as far as it is shown: `units` in the order of its scores, first those in texts or on the picture."""

    heat: Heat
    units: Sequence[Unit]
    inner: int

    @cached_property
    def look(self) -> tuple[Any, ...]:
        """What tells layouts apart. A unit inside a text is shown as the text; only others need their names."""
        return tuple(
            (unit.segment, unit.place, unit.token if n >= self.inner else "") for n, unit in enumerate(self.units)
        )

    @property
    def boxes(self) -> list[tuple[int, ...]]:
        return [unit.place for unit in self.units[: self.inner]] if self.heat.is_image else []

    @property
    def outside(self) -> list[tuple[int, str]]:
        return [(n, readable(self.units[n].token)) for n in range(self.inner, len(self.units))]


def _shown(heat: Heat, ends: Sequence[int]) -> _Shown:
    inside = [unit for n, end in enumerate(ends) for unit in heat.inside(n) if unit.place[0] < end]
    inner = heat.patches() if heat.is_image else inside
    return _Shown(heat, [*inner, *heat.outside()], len(inner))


def _cover(units: list[int]) -> int | list[int]:
    """No unit is -1, one is its number, several are a list."""
    return units if len(units) > 1 else units[0] if units else -1


def _strongest(heat: Heat, units: Sequence[Unit]) -> str:
    """What a heat map says to those who do not see colours."""
    strong = sorted((unit for unit in units if unit.score), key=lambda unit: -abs(unit.score))[:5]
    if not strong:
        return "Nothing is marked."
    said = (f"{readable(cut(_name(unit, heat), 40))} {number(unit.score, heat.kind)}".strip() for unit in strong)
    return f"Strongest: {', '.join(said)}."


def _name(unit: Unit, heat: Heat) -> str:
    if heat.is_image and unit.segment >= 0:
        top, left, bottom, right = unit.place
        return f"rows {top} to {bottom}, columns {left} to {right}:"
    if unit.segment < 0 or unit.place[1] <= unit.place[0]:
        return unit.token
    return heat.texts[unit.segment][1][unit.place[0] : unit.place[1]]


def _image(path: Path) -> tuple[str, tuple[int, int]] | None:
    """A picture as an address that holds it, made small, with its height and width; None if it cannot be read."""
    from PIL import Image

    try:
        content = path.read_bytes()
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            size = (image.height, image.width)
            image.verify()  # its checksums; what was verified must be opened again
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
