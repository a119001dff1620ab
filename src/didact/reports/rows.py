"""Explained rows as plain content for the page: texts cut into pieces, units that methods share, levels and scores.

Texts are cut here, since a script counts characters in another way. `article.py` and the page's script draw the same
from it.
"""

import base64
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from pathlib import Path
from typing import Any, Final

import numpy as np

from didact.render.heat import Heat, Unit, number, parts
from didact.render.page import safe
from didact.render.tables import cut
from didact.results.comparison import Comparison
from didact.results.explanations import Explanations
from didact.results.measured import MeasuredMethod, MeasuredRow
from didact.results.number_format import minus
from didact.results.row_explanation import RowExplanation as Explained

DIGITS: Final = "0123456789a"  # a level as one sign
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

    def about(self) -> dict[str, Any]:
        name = seen(cut(self.method.label, _NAME)) or "(no name)"
        return {"name": name, "kind": self.maps.kind, "control": self.method.is_control}


def seen(text: str) -> str:
    """The text as a page shows it, not escaped: what would control a page is replaced."""
    return text if text.isprintable() else unescape(safe(text))


def encoded_row(
    run: Comparison,
    sources: Sequence[Source],
    row: MeasuredRow,
    groups: Sequence[str] = (),
    *,
    longest: int | None = None,
) -> dict[str, Any] | None:
    """What the script is told of a row; of its texts the first `longest` characters. None if nobody explains it.

    `texts` are cut wherever a unit or a mark begins or ends; `layouts` tell for every piece the units that cover it,
    once for all methods that share them; a method's map is its layout, levels, scores, strongest units and target.
    """
    rows = [source.row(row.id) for source in sources]
    first = next((found for found in rows if found is not None), None)
    if first is None:
        return None
    same = (first.task, first.texts)
    heats = [None if one is None or (one.task, one.texts) != same else one.heat() for one in rows]
    known = [heat for heat in heats if heat is not None]
    ends, note = _ends(known[0], longest)
    drawn = [None if heat is None else _drawn(heat, ends) for heat in heats]
    looks = list(dict.fromkeys(one.look for one in drawn if one is not None))
    layouts = [next(one for one in drawn if one is not None and one.look == look) for look in looks]
    targets = {heat.target for heat in known} - {row.prediction}
    found: dict[str, Any] = {
        "id": seen(cut(row.id, _NAME)) or "(no id)", "facts": _facts(row, targets), "in": list(groups), "note": note,
        "tau": row.agreement, "sure": row.sureness, "texts": _texts(known[0], ends, row, layouts),
        "layouts": [{"boxes": one.boxes, "outside": one.outside} for one in layouts],
        "maps": [None if one is None else _map(one, looks, has_own=len(targets) > 1) for one in drawn],
    }  # fmt: skip
    return found | (_picture(run, known, row) if known[0].is_image else {})


def _facts(row: MeasuredRow, targets: Collection[str]) -> list[list[str]]:
    """(name, value, look) of what is said about the row. A target is told where it is not the prediction."""
    found = [["prediction", seen(cut(row.prediction, _NAME)) or "–", ""]]
    if row.sureness is not None:
        found.append(["confidence", "> 99.9 %" if 0.9995 <= row.sureness < 1 else f"{100 * row.sureness:.1f} %", ""])
    if len(targets) == 1:
        found.append(["target", seen(cut(next(iter(targets)), _NAME)) or "–", ""])
    if row.gold is not None:
        found.append(["label", seen(cut(row.gold, _NAME)) or "–", ""])
    if row.is_right is not None:
        found.append(["", "✓ right" if row.is_right else "✗ wrong", "right" if row.is_right else "wrong"])
    if row.agreement is not None:
        found.append(["agreement of methods", minus(f"τ = {row.agreement:.2f}"), ""])
    return found


def _ends(heat: Heat, longest: int | None) -> tuple[list[int], str]:
    """Where each text ends on the page, and what is said if that is early."""
    lengths = [len(text) for _, text in heat.texts]
    whole = sum(lengths)
    if longest is None or whole <= longest:
        return lengths, ""
    ends = [longest * length // whole for length in lengths]
    return ends, f"This row is long: {sum(ends):,} of its {whole:,} characters are shown."


@dataclass(frozen=True)
class _Drawn:
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
    def boxes(self) -> list[list[int]]:
        return [list(unit.place) for unit in self.units[: self.inner]] if self.heat.is_image else []

    @property
    def outside(self) -> list[list[Any]]:
        return [[n, seen(self.units[n].token)] for n in range(self.inner, len(self.units))]


def _drawn(heat: Heat, ends: Sequence[int]) -> _Drawn:
    inside = [unit for n, end in enumerate(ends) for unit in heat.inside(n) if unit.place[0] < end]
    inner = heat.patches() if heat.is_image else inside
    return _Drawn(heat, [*inner, *heat.outside()], len(inner))


def _texts(heat: Heat, ends: Sequence[int], row: MeasuredRow, layouts: Sequence[_Drawn]) -> list[dict[str, Any]]:
    """Each text in pieces; of each whether it belongs to the rationale, and by layout the units that cover it."""
    found = []
    for segment, (name, text) in enumerate(heat.texts):
        marks = [(span[1], span[2]) for span in row.rationale if len(span) == 3 and span[0] == segment]
        spans, owners = list(marks), [(-1, -1)] * len(marks)
        for place, layout in enumerate(layouts):
            for n, unit in enumerate(layout.units[: layout.inner]):
                if unit.segment == segment:
                    spans.append((unit.place[0], unit.place[1]))
                    owners.append((place, n))
        cuts = parts(text[: ends[segment]], spans)
        if ends[segment] < len(text):
            cuts.append((" …", ()))
        units: list[list[Any]] = [[-1] * len(cuts) for _ in layouts]
        marked = ["0"] * len(cuts)
        for piece, (_, covering) in enumerate(cuts):
            for place, n in (owners[cover] for cover in covering):
                if place < 0:
                    marked[piece] = "1"
                else:
                    units[place][piece] = _with(units[place][piece], n)
        pieces = [seen(piece) for piece, _ in cuts]
        found.append({"name": seen(name), "pieces": pieces, "marked": "".join(marked), "units": units})
    return found


def _with(covering: Any, unit: int) -> Any:
    """No unit is -1, one is its number, several are a list."""
    return [*covering, unit] if isinstance(covering, list) else unit if covering < 0 else [covering, unit]


def _map(one: _Drawn, looks: Sequence[Any], *, has_own: bool) -> list[Any]:
    heat = one.heat
    levels = "".join(DIGITS[heat.shade(unit.score).level] for unit in one.units)
    scores = " ".join(number(unit.score, heat.kind) for unit in one.units) if heat.kind != "binary" else ""
    target = seen(cut(heat.target, _NAME)) if has_own else ""
    return [looks.index(one.look), levels, scores, _strongest(heat, one.units), target]


def _strongest(heat: Heat, units: Sequence[Unit]) -> str:
    """What a heat map says to those who do not see colours."""
    strong = sorted((unit for unit in units if unit.score), key=lambda unit: -abs(unit.score))[:5]
    if not strong:
        return "Nothing is marked."
    said = (f"{seen(cut(_name(unit, heat), 40))} {number(unit.score, heat.kind)}".strip() for unit in strong)
    return f"Strongest: {', '.join(said)}."


def _name(unit: Unit, heat: Heat) -> str:
    if heat.is_image and unit.segment >= 0:
        top, left, bottom, right = unit.place
        return f"rows {top} to {bottom}, columns {left} to {right}:"
    if unit.segment < 0 or unit.place[1] <= unit.place[0]:
        return unit.token
    return heat.texts[unit.segment][1][unit.place[0] : unit.place[1]]


def _picture(run: Comparison, heats: Sequence[Heat], row: MeasuredRow) -> dict[str, Any]:
    """The picture of a row as it stands in the page, its height and width, and the patches of its rationale."""
    path = None if row.picture is None or run.measured is None else run.measured.inside(row.picture)
    frames = [list(box) for box in row.rationale if len(box) == 4]
    found = None if path is None else _image(path)
    if found is None:
        sizes = np.array([heat.size() for heat in heats])
        note = "Its picture was not kept, or cannot be read."
        return {"picture": "", "size": sizes.max(0).tolist(), "frames": frames, "note": note}
    return {"picture": found[0], "size": found[1], "frames": frames}


def _image(path: Path) -> tuple[str, list[int]] | None:
    """A picture as an address that holds it, made small, with its height and width; None if it cannot be read."""
    from PIL import Image

    try:
        content = path.read_bytes()
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            size = [image.height, image.width]
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
