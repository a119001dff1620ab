"""The browser of examples: pick a row, and see how every method explains it.

Rows are cut into pieces here, since a script counts characters in another way, and put into the page as JSON; the
script only builds elements from them. `article` draws the same row as HTML, for readers without scripts.
"""

import base64
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import chain, groupby
from typing import Any, Final

import numpy as np

from didact.records.explanations import Explained, Explanations, count_of
from didact.render.heat import LEVELS, Heat, Shade, Unit, meanings, number, opacity, parts
from didact.render.page import safe, shades
from didact.reports.assets import asset
from didact.reports.part import AGAIN, Part, lead, missing, notes
from didact.reports.read import Measured, MeasuredRow, Method, Run, minus
from didact.reports.table import cut

BUDGET: Final = 3_000_000  # bytes of the whole section
_ROW: Final = BUDGET // 4  # bytes of one row, above which its texts are cut
_PLAIN: Final = 3  # rows that are there without a script, and the bytes they may take
_PLAIN_BYTES: Final = 300_000
_MISSES: Final = 20  # rows in a row that do not fit before the rest is given up
_LONG: Final = 1200  # characters of a row above which its texts scroll
_NAME: Final = 200  # characters of a name
_TOP: Final = 0.25  # the share of units that counts as a method's marks
_WIDEST: Final = 320  # pixels of a picture
_LIGHT: Final = 20_000  # bytes of a picture that is kept as it is
_DIGITS: Final = "0123456789a"  # a level as one sign

_ID, _TITLE = "examples", "Examples"


@dataclass(frozen=True)
class Source:
    """A method whose explanations could be read; `places` tells where each row stands in them."""

    method: Method
    maps: Explanations
    places: Mapping[str, int]

    def row(self, name: str) -> Explained | None:
        place = self.places.get(name)
        return None if place is None else self.maps[place]

    def about(self) -> dict[str, Any]:
        name = seen(cut(self.method.label, _NAME)) or "(no name)"
        return {"name": name, "kind": self.maps.kind, "control": self.method.is_control}


def part(run: Run) -> Part:
    if run.measured is None:
        return Part(_ID, _TITLE, missing(f"No row was explained one by one in this run. {AGAIN}"))
    sources, reasons = _sources(run, run.measured)
    if not sources or not run.measured.rows:
        told = "No explanation of a single row can be shown." if run.measured.rows else "No row was explained."
        return Part(_ID, _TITLE, missing(f"{told} {AGAIN}") + notes(reasons))
    groups = _groups(run.measured, sources)
    kept, left = _kept(run, sources, groups)
    if not kept:
        told = (
            "Every row is too large to be shown here. Open the files in the folder measured/ with didact.Explanations."
        )
        return Part(_ID, _TITLE, missing(told) + notes(reasons))
    methods = [source.about() for source in sources]
    told = [json.loads(row) for row in kept[:_PLAIN]]
    body = [
        lead(
            f"One row of {run.measured.split} at a time, as every method explains it. Colours show what a method finds "
            "important for what the model predicted; each row has its own scale, and its strongest unit the full colour."
        ),
        _legend(methods, has_marks=any(row.rationale for row in run.measured.rows)),
        _controls(methods, groups, kept, run.measured),
        f"<noscript>{_without_script(told, methods, len(kept))}</noscript>",
        f'<script type="application/json" id="examples-data">{_document(methods, kept)}</script>',
        notes([*left, *reasons]),
    ]
    return Part(_ID, _TITLE, "\n".join(body), style=asset("examples.css") + shades("#examples"), script=_script())


def _script() -> str:
    return asset("examples.js")


def seen(text: str) -> str:
    """The text as a page shows it, not escaped: what would control a page is replaced."""
    return unescape(safe(text))


# -- which rows -------------------------------------------------------------------------------------------------------


def _sources(run: Run, measured: Measured) -> tuple[list[Source], list[str]]:
    """The methods that can be shown, and why others cannot."""
    found, reasons = [], []
    for method in measured.methods:
        maps = run.explanations(method)
        if isinstance(maps, Explanations):
            found.append(Source(method, maps, {name: place for place, name in enumerate(maps.ids)}))
        else:
            # A report is passed on: where the folder lay is nobody's business.
            reason = maps.replace(f"{run.folder}/", "")
            reasons.append(f"{cut(method.label)} is not shown: {reason.rstrip('.')}.")
    for one in measured.skipped:
        reason = str(one.get("reason") or "no reason was kept")
        reasons.append(f"{cut(str(one.get('label')))} did not explain these rows: {reason.rstrip('.')}.")
    return found, reasons


def _groups(measured: Measured, sources: Sequence[Source]) -> dict[str, tuple[str, set[str]]]:
    """What rows can be filtered by: a title, and the ids of the rows. What nothing is known of is left out."""
    rows = measured.rows
    found: dict[str, tuple[str, set[str]]] = {}
    if any(row.is_right is not None for row in rows):
        found["wrong"] = ("Model is wrong", {row.id for row in rows if row.is_right is False})
    apart = [row.id for row in sorted(rows, key=_tau) if row.agreement is not None]
    third = math.ceil(len(apart) / 3)
    if len(apart) >= 3:
        found["apart"] = ("Methods disagree most", set(apart[:third]))
        found["alike"] = ("Methods agree most", set(apart[-third:]))
    own = [source for source in sources if not source.method.is_control]
    if len(own) > 1:
        alone = {row.id for row in rows if _shares_mark(own, row) is False}
        found["none"] = ("Methods share no mark", alone)
    unsure = [row.id for row in sorted(rows, key=lambda row: row.sureness or 0.0) if row.sureness is not None]
    if len(unsure) >= 3:
        found["unsure"] = ("Model is least sure", set(unsure[: math.ceil(len(unsure) / 3)]))
    return found


def _tau(row: MeasuredRow) -> float:
    return math.inf if row.agreement is None else row.agreement


def _shares_mark(sources: Sequence[Source], row: MeasuredRow) -> bool | None:
    """Whether anything is in the top quarter of every method; None where fewer than two explain the row."""
    rows = [found for source in sources if (found := source.row(row.id)) is not None]
    return bool(set.intersection(*map(_marked, rows))) if len(rows) > 1 else None


def _marked(row: Explained) -> set[tuple[int, ...]]:
    """The characters or patches of a method's strongest units."""
    if not len(row):
        return set()
    ranks = np.abs(row.scores)
    best = np.argsort(-ranks, kind="stable")[: count_of(_TOP, len(row))]
    strong = [unit for unit in best.tolist() if ranks[unit] > 0 and row.segments[unit] >= 0]
    if row.task == "image":
        return {tuple(row.offsets[unit].tolist()) for unit in strong}
    spans = ((int(row.segments[unit]), *row.offsets[unit].tolist()) for unit in strong)
    return {(segment, place) for segment, start, end in spans for place in range(start, end)}


def _kept(
    run: Run, sources: Sequence[Source], groups: Mapping[str, tuple[str, set[str]]]
) -> tuple[list[str], list[str]]:
    """As many rows as fit, as JSON in the order of the data, and what is to be said of the others."""
    assert run.measured is not None
    rows = run.measured.rows
    room = BUDGET - _PLAIN_BYTES - 100_000  # the last for style, script and controls
    kept: dict[int, str] = {}
    misses = 0
    for place in _order(rows):
        if misses >= _MISSES:
            break
        found = _fitted(run, sources, rows[place], [name for name, (_, ids) in groups.items() if rows[place].id in ids])
        size = 0 if found is None else len(found.encode()) + 300  # and its line in the list of rows
        if found is None or size > room:
            misses += 1
            continue
        misses = 0
        room -= size
        kept[place] = found
    said = []
    if len(kept) < len(rows):
        said.append(
            f"{len(kept):,} of {len(rows):,} explained rows are shown, to keep the page small: half of them those that "
            "the model got wrong and those where methods disagree most, the others as they come."
        )
    return [kept[place] for place in sorted(kept)], said


def _order(rows: Sequence[MeasuredRow]) -> Iterator[int]:
    """Who comes first where not all have room: by turns a row worth a look, and the next of the data."""
    telling = sorted(range(len(rows)), key=lambda place: (rows[place].is_right is not False, _tau(rows[place])))
    return iter(dict.fromkeys(chain.from_iterable(zip(telling, range(len(rows)), strict=True))))


def _fitted(run: Run, sources: Sequence[Source], row: MeasuredRow, groups: Sequence[str]) -> str | None:
    """The row as JSON, its texts cut as far as needed; None where that is not enough, or nobody explains it."""
    longest: int | None = None
    for _ in range(8):
        encoded = encoded_row(run, sources, row, groups, longest=longest)
        if encoded is None:
            return None
        found = _json(encoded)
        size = len(found.encode())
        if size <= _ROW:
            return found
        whole = sum(len(piece) for text in encoded["texts"] for piece in text["pieces"])
        longest = int(0.9 * whole * _ROW / size)
    return None


def _json(value: Any) -> str:
    """JSON that can stand inside a page's script element, whatever it holds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _document(methods: Sequence[Mapping[str, Any]], rows: Sequence[str]) -> str:
    cover = opacity(Shade("for", LEVELS))
    about = _json({"methods": list(methods), "cover": cover, "levels": LEVELS, "long": _LONG})
    return f'{about[:-1]},"rows":[{",".join(rows)}]}}'


# -- one row as plain content -----------------------------------------------------------------------------------------


def encoded_row(
    run: Run, sources: Sequence[Source], row: MeasuredRow, groups: Sequence[str] = (), *, longest: int | None = None
) -> dict[str, Any] | None:
    """What the script is told of a row; of its texts the first `longest` characters. None if nobody explains it.

    `texts` are cut wherever a unit or a mark begins or ends; `layouts` tell for every piece the units that cover it,
    once for all methods that share them; a method's map is its layout, levels, scores, strongest units and target.
    """
    rows = [source.row(row.id) for source in sources]
    first = next((found for found in rows if found is not None), None)
    if first is None:
        return None
    heats = [None if one is None or one.texts != first.texts else one.heat() for one in rows]
    known = [heat for heat in heats if heat is not None]
    ends, note = _ends(known[0], longest)
    layouts, numbers = _layouts(known, ends)
    found: dict[str, Any] = {
        "id": seen(cut(row.id, _NAME)) or "(no id)", "facts": _facts(row), "in": list(groups), "note": note,
        "tau": row.agreement, "sure": row.sureness, "texts": _texts(known[0], ends, row, layouts),
        "layouts": [_plain(layout) for layout in layouts],
        "maps": [None if heat is None else _map(heat, ends, numbers, row) for heat in heats],
    }  # fmt: skip
    return found | (_picture(run, known, row) if known[0].is_image else {})


def _facts(row: MeasuredRow) -> list[list[str]]:
    """(name, value, look) of what is said about the row."""
    found = [["prediction", seen(cut(row.prediction, _NAME)) or "–", ""]]
    if row.sureness is not None:
        found.append(["sure", "> 99.9 %" if 0.9995 <= row.sureness < 1 else f"{100 * row.sureness:.1f} %", ""])
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
class _Layout:
    """Units by their places: those of a text by its number, patches, and what stands in no text."""

    spans: list[list[tuple[int, int, int]]]  # (unit, start, end) for each text
    boxes: list[list[int]]
    outside: list[tuple[int, str]]


def _units(heat: Heat, ends: Sequence[int]) -> list[Unit]:
    """The units that are shown, in the order of a map's scores."""
    inside = [unit for n, end in enumerate(ends) for unit in heat.inside(n) if unit.place[0] < end]
    return [*(heat.patches() if heat.is_image else inside), *heat.outside()]


def _layouts(heats: Sequence[Heat], ends: Sequence[int]) -> tuple[list[_Layout], dict[Any, int]]:
    """The different layouts of a row, and the number of each by what it looks like."""
    found: list[_Layout] = []
    numbers: dict[Any, int] = {}
    for heat in heats:
        units = _units(heat, ends)
        look = _look(units)
        if look in numbers:
            continue
        numbers[look] = len(found)
        outer = len(units) - len(heat.outside())
        spans: list[list[tuple[int, int, int]]] = [[] for _ in ends]
        for place, unit in enumerate(units[:outer]):
            if not heat.is_image:
                spans[unit.segment].append((place, unit.place[0], unit.place[1]))
        boxes = [list(unit.place) for unit in units[:outer]] if heat.is_image else []
        outside = [(place, seen(units[place].token)) for place in range(outer, len(units))]
        found.append(_Layout(spans, boxes, outside))
    return found, numbers


def _look(units: Sequence[Unit]) -> tuple[Any, ...]:
    # What is shown of a unit in a text is the text; only units outside need their names.
    return tuple(
        (unit.segment, unit.place, unit.token if unit.segment < 0 or len(unit.place) == 2 else "")
        if unit.segment < 0 or unit.place[-1] <= unit.place[0] else (unit.segment, unit.place)
        for unit in units
    )  # fmt: skip


def _plain(layout: _Layout) -> dict[str, Any]:
    return {"boxes": layout.boxes, "outside": [list(one) for one in layout.outside]}


def _texts(heat: Heat, ends: Sequence[int], row: MeasuredRow, layouts: Sequence[_Layout]) -> list[dict[str, Any]]:
    """Each text in pieces; for each piece whether it belongs to the rationale, and by layout the units that cover it."""
    found = []
    for segment, (name, text) in enumerate(heat.texts):
        marks = [(span[1], span[2]) for span in row.rationale if len(span) == 3 and span[0] == segment]
        spans, owners = list(marks), [(-1, -1)] * len(marks)
        for place, layout in enumerate(layouts):
            for unit, start, end in layout.spans[segment]:
                spans.append((start, end))
                owners.append((place, unit))
        pieces, marked = [], []
        units: list[list[Any]] = [[] for _ in layouts]
        for piece, covering in parts(text[: ends[segment]], spans):
            pieces.append(seen(piece))
            own = [owners[cover] for cover in covering]
            marked.append("1" if (-1, -1) in own else "0")
            for place, line in enumerate(units):
                covers = [unit for layout, unit in own if layout == place]
                line.append(covers[0] if len(covers) == 1 else covers or -1)
        if ends[segment] < len(text):
            pieces.append(" …")
            marked.append("0")
            for line in units:
                line.append(-1)
        found.append({"name": seen(name), "pieces": pieces, "marked": "".join(marked), "units": units})
    return found


def _map(heat: Heat, ends: Sequence[int], numbers: Mapping[Any, int], row: MeasuredRow) -> list[Any]:
    units = _units(heat, ends)
    levels = "".join(_DIGITS[heat.shade(unit.score).level] for unit in units)
    scores = " ".join(number(unit.score, heat.kind) for unit in units) if heat.kind != "binary" else ""
    target = "" if heat.target == row.prediction else seen(cut(heat.target, _NAME))
    return [numbers[_look(units)], levels, scores, _strongest(heat, units), target]


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


def _picture(run: Run, heats: Sequence[Heat], row: MeasuredRow) -> dict[str, Any]:
    """The picture of a row as it stands in the page, its height and width, and the patches of its rationale."""
    path = None if row.picture is None else run.inside(row.picture)
    frames = [list(box) for box in row.rationale if len(box) == 4]
    found = None if path is None else _image(path.read_bytes())
    if found is None:
        sizes = np.array([heat.size() for heat in heats])
        return {"picture": "", "size": sizes.max(0).tolist(), "frames": frames, "note": "Its picture was not kept."}
    return {"picture": found[0], "size": found[1], "frames": frames}


def _image(content: bytes) -> tuple[str, list[int]] | None:
    """A picture as an address that holds it, made small, with its height and width; None if it cannot be read."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            size = [image.height, image.width]
            if len(content) <= _LIGHT:
                image.verify()
                return f"data:image/png;base64,{base64.b64encode(content).decode()}", size
            small = image.convert("RGB")
            small.thumbnail((_WIDEST, _WIDEST))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    buffer = io.BytesIO()
    small.save(buffer, format="JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}", size


# -- the same row as HTML ---------------------------------------------------------------------------------------------


def article(row: Mapping[str, Any], methods: Sequence[Mapping[str, Any]]) -> str:
    """A row as HTML, element for element what the script makes of it."""
    facts = "".join(
        f"<span{_class(look)}>{f'{safe(name)} ' if name else ''}<b>{safe(value)}</b></span>"
        for name, value, look in row["facts"]
    )
    note = f'<p class="note">{safe(row["note"])}</p>' if row["note"] else ""
    inside = _pictures(row, methods) if "size" in row else _lines(row, methods)
    long = sum(len(piece) for text in row["texts"] for piece in text["pieces"]) > _LONG
    look = "row long" if long else "row"
    return f'<article class="{look}"><h3>{safe(row["id"])}</h3><p class="facts">{facts}</p>{note}{inside}</article>'


def _lines(row: Mapping[str, Any], methods: Sequence[Mapping[str, Any]]) -> str:
    name = "text" if len(row["texts"]) == 1 else "texts"
    who = f'<div class="who"><p class="name">{name}</p></div>'
    lines = [f'<div class="line plain">{who}<div class="what">{_inside(row, None, {})}</div></div>']
    for method, heat in zip(methods, row["maps"], strict=True):
        what = '<p class="quiet">no explanation of this row</p>' if heat is None else _inside(row, heat, method)
        lines.append(f'<div class="line">{_who(method, heat)}<div class="what">{what}</div></div>')
    return "".join(lines)


def _who(method: Mapping[str, Any], heat: Sequence[Any] | None) -> str:
    badge = '<span class="badge">control</span>' if method["control"] else ""
    target = f'<p class="kind">target {safe(heat[4])}</p>' if heat is not None and heat[4] else ""
    return (
        f'<div class="who"><p class="name">{safe(method["name"])}</p>'
        f'<p class="kind">{safe(method["kind"])}{badge}<b class="score"></b></p>{target}</div>'
    )


def _inside(row: Mapping[str, Any], heat: Sequence[Any] | None, method: Mapping[str, Any]) -> str:
    """All texts of a row, coloured by one method, or without colours."""
    found = []
    for text in row["texts"]:
        units = [-1] * len(text["pieces"]) if heat is None else text["units"][heat[0]]
        pieces = zip(units, text["marked"], text["pieces"], strict=True)
        spans = []
        for (covering, marked), run in groupby(pieces, key=lambda piece: piece[:2]):
            shown = "".join(piece for _, _, piece in run)
            spans.append(_span(shown, _covering(covering), heat, method, marked == "1"))
        body = f'<p class="text" lang="" dir="auto">{"".join(spans)}</p>'
        named = f'<div class="named"><p class="name">{safe(text["name"])}</p>{body}</div>'
        found.append(named if len(row["texts"]) > 1 else body)
    if heat is not None:
        found.append(_outside(row, heat, method) + f'<p class="unseen">{safe(heat[3])}</p>')
    return "".join(found)


def _outside(row: Mapping[str, Any], heat: Sequence[Any], method: Mapping[str, Any]) -> str:
    outside = row["layouts"][heat[0]]["outside"]
    inside = " ".join(_span(token or "(empty)", [unit], heat, method, False) for unit, token in outside)
    return f'<p class="quiet">not in the text: {inside}</p>' if outside else ""


def _covering(value: Any) -> list[int]:
    return value if isinstance(value, list) else [] if value < 0 else [value]


def _span(
    text: str, units: Sequence[int], heat: Sequence[Any] | None, method: Mapping[str, Any], is_marked: bool
) -> str:
    mark = " mark" if is_marked else ""
    if heat is None or not units:
        return f'<span class="mark">{safe(text)}</span>' if is_marked else safe(text)
    look, title = _shown(units, heat, method)
    return f'<span{_class(f"{look}{mark}".strip())} title="{safe(title)}">{safe(text)}</span>'


def _shown(units: Sequence[int], heat: Sequence[Any], method: Mapping[str, Any]) -> tuple[str, str]:
    """The class of the strongest of some units, and what is read by pointing at it."""
    levels = [_DIGITS.index(heat[1][unit]) for unit in units]
    if method["kind"] == "binary":
        level = max(levels)
        return (f"strength{level}" if level else ""), ", ".join("marked" if one else "not marked" for one in levels)
    scores = heat[2].split(" ")
    best = max(range(len(units)), key=lambda place: abs(float(scores[units[place]])))
    hue = "strength" if method["kind"] != "signed" else "for" if float(scores[units[best]]) > 0 else "against"
    return (f"{hue}{levels[best]}" if levels[best] else ""), ", ".join(scores[unit] for unit in units)


def _pictures(row: Mapping[str, Any], methods: Sequence[Mapping[str, Any]]) -> str:
    frames = "".join(f'<rect class="{look}" {_box(box)}></rect>' for box in row["frames"] for look in ("under", "over"))
    alt = f"The picture of row {row['id']}"
    plain = '<div class="who"><p class="name">as it is</p></div>'
    found = [f"<figure>{_picture_of(row, frames, alt, 'picture')}<figcaption>{plain}</figcaption></figure>"]
    for method, heat in zip(methods, row["maps"], strict=True):
        if heat is None:
            what = '<p class="quiet">no explanation of this row</p>'
            found.append(f"<figure>{what}<figcaption>{_who(method, heat)}</figcaption></figure>")
            continue
        boxes = enumerate(row["layouts"][heat[0]]["boxes"])
        rects = "".join(_patch(box, unit, heat, method) for unit, box in boxes) + frames
        said = f"{alt}, under the scores of {method['name']}. {heat[3]}"
        drawn = _picture_of(row, rects, said, "picture grey")
        found.append(
            f"<figure>{drawn}<figcaption>{_who(method, heat)}</figcaption>{_outside(row, heat, method)}</figure>"
        )
    return f'<div class="pictures">{"".join(found)}</div>'


def _picture_of(row: Mapping[str, Any], rects: str, alt: str, look: str) -> str:
    height, width = row["size"]
    image = f'<img alt="{safe(alt)}" src="{safe(row["picture"])}">' if row["picture"] else ""
    spoken = 'aria-hidden="true"' if image else f'role="img" aria-label="{safe(alt)}"'
    box = f'viewBox="0 0 {width} {height}" preserveAspectRatio="none"'
    return f'<div class="{look}">{image}<svg {box} {spoken}>{rects}</svg></div>'


def _patch(box: Sequence[int], unit: int, heat: Sequence[Any], method: Mapping[str, Any]) -> str:
    look, title = _shown([unit], heat, method)
    level = _DIGITS.index(heat[1][unit])
    hue = look.rstrip("0123456789")
    full = f'{_class(f"{hue}{LEVELS}" if hue else "")} {_box(box)} fill-opacity="{opacity(Shade("for", level)):g}"'
    top, left, bottom, right = box
    return f"<rect{full}><title>rows {top} to {bottom}, columns {left} to {right}: {safe(title)}</title></rect>"


def _box(box: Sequence[int]) -> str:
    top, left, bottom, right = box
    return f'x="{left}" y="{top}" width="{max(right - left, 0)}" height="{max(bottom - top, 0)}"'


def _class(look: str) -> str:
    return f' class="{look}"' if look else ""


# -- what stands around the row ---------------------------------------------------------------------------------------


def _legend(methods: Sequence[Mapping[str, Any]], *, has_marks: bool) -> str:
    words = dict(meanings([method["kind"] for method in methods]))
    steps = range(1, LEVELS + 1, 3)
    scales = []
    if "for" in words:
        chips = [Shade("against", step) for step in reversed(steps)] + [Shade("for", step) for step in steps]
        scales.append(f"<span>{words['against']}{_chips(chips)}{words['for']}</span>")
    if "strength" in words:
        scales.append(f"<span>{_chips([Shade('strength', step) for step in steps])}{words['strength']}</span>")
    if has_marks:
        scales.append(
            '<span><span class="mark">underlined</span>, framed in pictures: the rationale of the data</span>'
        )
    return f'<p class="legend">{"".join(scales)}</p>'


def _chips(chips: Iterable[Shade]) -> str:
    return f'<span class="chips">{"".join(f"<i{_class(f"{one.hue}{one.level}")}></i>" for one in chips)}</span>'


def _controls(
    methods: Sequence[Mapping[str, Any]],
    groups: Mapping[str, tuple[str, set[str]]],
    kept: Sequence[str],
    measured: Measured,
) -> str:
    """What the script brings to life; hidden until then."""
    rows = [json.loads(row) for row in kept]
    counts = {name: sum(name in row["in"] for row in rows) for name in groups}
    filters = [("all", f"All rows ({len(kept):,})")]
    filters += [(name, f"{title} ({counts[name]:,})") for name, (title, _) in groups.items()]
    sorts = [("data", "As in the data")]
    if any(row.agreement is not None for row in measured.rows):
        sorts.append(("tau", "Most disagreement first"))
    if any(row.sureness is not None for row in measured.rows):
        sorts.append(("sure", "Least sure first"))
    checks = "".join(
        f'<label class="check"><input type="checkbox" value="{place}" checked>{safe(method["name"])}</label>'
        for place, method in enumerate(methods)
    )
    has_controls = any(method["control"] for method in methods) and not all(method["control"] for method in methods)
    has_marks = any(row.rationale for row in measured.rows)
    toggles = _toggle("controls", "controls") * has_controls + _toggle("marks", "rationale") * has_marks
    return (
        '<div class="browser" hidden>'
        '<div class="controls">'
        '<label class="find"><span>Find</span>'
        '<input type="search" id="examples-find" placeholder="words or an id" autocomplete="off"></label>'
        f"{_select('filter', 'Show', filters)}{_select('sort', 'Order', sorts)}"
        "</div>"
        '<div class="controls turn">'
        '<button type="button" id="examples-back" aria-label="Previous row" title="Previous row (← or k)">←</button>'
        '<button type="button" id="examples-next" aria-label="Next row" title="Next row (→ or j)">→</button>'
        '<label class="pick"><span class="unseen">Row</span><select id="examples-row"></select></label>'
        '<span class="count" id="examples-count"></span>'
        "</div>"
        '<div class="controls extras">'
        f"<details><summary>Methods <span>({len(methods)})</span></summary>"
        f'<fieldset id="examples-methods"><legend class="unseen">Methods to show</legend>{checks}</fieldset></details>'
        f"{toggles}"
        '<span class="keys">Keys: ← → or k j turn the rows, comma and full stop step through their units.</span>'
        "</div>"
        '<p class="unseen" role="status" id="examples-said"></p>'
        '<div class="view" id="examples-view" tabindex="0" role="group" aria-label="The row and its explanations"></div>'
        "</div>"
    )


def _toggle(name: str, title: str) -> str:
    return f'<label class="check"><input type="checkbox" id="examples-{name}" checked>{title}</label>'


def _select(name: str, title: str, options: Sequence[tuple[str, str]]) -> str:
    inside = "".join(f'<option value="{value}">{safe(text)}</option>' for value, text in options)
    return f'<label><span>{title}</span><select id="examples-{name}">{inside}</select></label>'


def _without_script(rows: Sequence[Mapping[str, Any]], methods: Sequence[Mapping[str, Any]], count: int) -> str:
    drawn, size = [], 0
    for row in rows:
        one = article(row, methods)
        size += len(one.encode())
        if size > _PLAIN_BYTES:
            break
        drawn.append(one)
    said = f"The first {len(drawn)} of {count:,} rows are shown; turning to others needs JavaScript."
    return f'<p class="quiet">{said}</p>{"".join(drawn)}'
