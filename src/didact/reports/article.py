"""An explained row as HTML: element for element what the page's script makes of it, for readers without scripts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from didact.render.heat import LEVELS, Shade, opacity
from didact.render.page import safe
from didact.reports.rows import DIGITS

LONG: Final = 1200  # characters of a row above which its texts scroll


@dataclass(frozen=True)
class _Heat:
    """What one method says of a row, as `rows.py` encodes it."""

    kind: str
    layout: int
    levels: list[int]
    scores: list[str]
    strongest: str
    target: str


Lines = list[tuple[Mapping[str, Any], _Heat | None]]


def article(row: Mapping[str, Any], methods: Sequence[Mapping[str, Any]]) -> str:
    """A row as HTML, element for element what the script makes of it."""
    facts = "".join(
        f"<span{class_of(look)}>{f'{safe(name)} ' if name else ''}<b>{safe(value)}</b></span>"
        for name, value, look in row["facts"]
    )
    note = f'<p class="note">{safe(row["note"])}</p>' if row["note"] else ""
    lines = [(method, _opened(method, one)) for method, one in zip(methods, row["maps"], strict=True)]
    inside = _pictures(row, lines) if "size" in row else _lines(row, lines)
    look = "row long" if is_long(row) else "row"
    return f'<article class="{look}"><h3>{safe(row["id"])}</h3><p class="facts">{facts}</p>{note}{inside}</article>'


def is_long(row: Mapping[str, Any]) -> bool:
    return sum(len(piece) for text in row["texts"] for piece in text["pieces"]) > LONG


def _opened(method: Mapping[str, Any], found: Sequence[Any] | None) -> _Heat | None:
    if found is None:
        return None
    layout, levels, scores, strongest, target = found
    return _Heat(method["kind"], layout, list(map(DIGITS.index, levels)), scores.split(" "), strongest, target)


def _lines(row: Mapping[str, Any], methods: Lines) -> str:
    name = "text" if len(row["texts"]) == 1 else "texts"
    who = f'<div class="who"><p class="name">{name}</p></div>'
    lines = [f'<div class="line plain">{who}<div class="what">{_inside(row, None)}</div></div>']
    for method, heat in methods:
        what = '<p class="quiet">no explanation of this row</p>' if heat is None else _inside(row, heat)
        lines.append(f'<div class="line">{_who(method, heat)}<div class="what">{what}</div></div>')
    return "".join(lines)


def _who(method: Mapping[str, Any], heat: _Heat | None) -> str:
    badge = '<span class="badge">control</span>' if method["control"] else ""
    target = f'<p class="kind">target {safe(heat.target)}</p>' if heat is not None and heat.target else ""
    return (
        f'<div class="who"><p class="name">{safe(method["name"])}</p>'
        f'<p class="kind">{safe(method["kind"])}{badge}<b class="score"></b></p>{target}</div>'
    )


def _inside(row: Mapping[str, Any], heat: _Heat | None) -> str:
    """All texts of a row, coloured by one method, or without colours."""
    found = []
    for text in row["texts"]:
        units = [-1] * len(text["pieces"]) if heat is None else text["units"][heat.layout]
        pieces = zip(units, text["marked"], text["pieces"], strict=True)
        spans = []
        for (covering, marked), run in groupby(pieces, key=lambda piece: piece[:2]):
            shown = "".join(piece for _, _, piece in run)
            spans.append(_span(shown, _covering(covering), heat, marked == "1"))
        scrolls = ' tabindex="0"' if is_long(row) else ""  # what scrolls can be reached by keys
        body = f'<p class="text" lang="" dir="auto"{scrolls}>{"".join(spans)}</p>'
        named = f'<div class="named"><p class="name">{safe(text["name"])}</p>{body}</div>'
        found.append(named if len(row["texts"]) > 1 else body)
    if heat is not None:
        found.append(_outside(row, heat) + f'<p class="unseen">{safe(heat.strongest)}</p>')
    return "".join(found)


def _outside(row: Mapping[str, Any], heat: _Heat) -> str:
    outside = row["layouts"][heat.layout]["outside"]
    inside = " ".join(_span(token or "(empty)", [unit], heat, False) for unit, token in outside)
    return f'<p class="quiet">not in the text: {inside}</p>' if outside else ""


def _covering(value: Any) -> list[int]:
    return value if isinstance(value, list) else [] if value < 0 else [value]


def _span(text: str, units: Sequence[int], heat: _Heat | None, is_marked: bool) -> str:
    mark = " mark" if is_marked else ""
    if heat is None or not units:
        return f'<span class="mark">{safe(text)}</span>' if is_marked else safe(text)
    look, title = _shown(units, heat)
    return f'<span{class_of(f"{look}{mark}".strip())} title="{safe(title)}">{safe(text)}</span>'


def _shown(units: Sequence[int], heat: _Heat) -> tuple[str, str]:
    """The class of the strongest of some units, and what is read by pointing at it."""
    levels = [heat.levels[unit] for unit in units]
    if heat.kind == "binary":
        level = max(levels)
        return (f"strength{level}" if level else ""), ", ".join("marked" if one else "not marked" for one in levels)
    scores = heat.scores
    best = max(range(len(units)), key=lambda place: abs(float(scores[units[place]])))
    hue = "strength" if heat.kind != "signed" else "for" if float(scores[units[best]]) > 0 else "against"
    return (f"{hue}{levels[best]}" if levels[best] else ""), ", ".join(scores[unit] for unit in units)


def _pictures(row: Mapping[str, Any], methods: Lines) -> str:
    frames = "".join(f'<rect class="{look}" {_box(box)}></rect>' for box in row["frames"] for look in ("under", "over"))
    alt = f"The picture of row {row['id']}"
    plain = '<div class="who"><p class="name">as it is</p></div>'
    found = [f"<figure>{_picture_of(row, frames, alt, 'picture')}<figcaption>{plain}</figcaption></figure>"]
    for method, heat in methods:
        if heat is None:
            what = '<p class="quiet">no explanation of this row</p>'
            found.append(f"<figure>{what}<figcaption>{_who(method, heat)}</figcaption></figure>")
            continue
        boxes = enumerate(row["layouts"][heat.layout]["boxes"])
        rects = "".join(_patch(box, unit, heat) for unit, box in boxes) + frames
        said = f"{alt}, under the scores of {method['name']}. {heat.strongest}"
        drawn = _picture_of(row, rects, said, "picture grey")
        found.append(f"<figure>{drawn}<figcaption>{_who(method, heat)}</figcaption>{_outside(row, heat)}</figure>")
    return f'<div class="pictures">{"".join(found)}</div>'


def _picture_of(row: Mapping[str, Any], rects: str, alt: str, look: str) -> str:
    height, width = row["size"]
    image = f'<img alt="{safe(alt)}" src="{safe(row["picture"])}">' if row["picture"] else ""
    spoken = 'aria-hidden="true"' if image else f'role="img" aria-label="{safe(alt)}"'
    box = f'viewBox="0 0 {width} {height}" preserveAspectRatio="none"'
    return f'<div class="{look}">{image}<svg {box} {spoken}>{rects}</svg></div>'


def _patch(box: Sequence[int], unit: int, heat: _Heat) -> str:
    look, title = _shown([unit], heat)
    level = heat.levels[unit]
    hue = look.rstrip("0123456789")
    full = f'{class_of(f"{hue}{LEVELS}" if hue else "")} {_box(box)} fill-opacity="{opacity(Shade("for", level)):g}"'
    top, left, bottom, right = box
    return f"<rect{full}><title>rows {top} to {bottom}, columns {left} to {right}: {safe(title)}</title></rect>"


def _box(box: Sequence[int]) -> str:
    top, left, bottom, right = box
    return f'x="{left}" y="{top}" width="{max(right - left, 0)}" height="{max(bottom - top, 0)}"'


def class_of(look: str) -> str:
    return f' class="{look}"' if look else ""
