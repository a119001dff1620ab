"""Heat maps as HTML: one self-contained page, or a fragment for a notebook.

A page asks the network for nothing and runs no script; its own policy forbids both. All words that came with the data
are escaped. Colours are classes, one per step of the scale, in a light and a dark set.
"""

import base64
import io
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from didact.render import GENERATOR
from didact.render.heat import (
    LEVELS,
    WHITE,
    Colour,
    Heat,
    Section,
    Shade,
    Unit,
    colours,
    meanings,
    number,
    opacity,
    parts,
)

SHOWN = 500  # rows on one page: more make a browser slow, and nobody reads them

_DARK: Colour = (24, 26, 30)
_DARK_FULL: dict[str, Colour] = {"for": (244, 134, 42), "against": (64, 156, 226), "strength": (38, 186, 140)}
_HUES = ("against", "for", "strength")
_JOINERS = "\n\t\u200c\u200d"  # not printable by themselves, and needed to lay out texts, emoji and many scripts

_STYLE = """
.didact { --page: #ffffff; --ink: #1b1d21; --quiet: #5c6370; --line: #d9dce1; --warning: #9a3412;
  color: var(--ink); background: var(--page); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
.didact h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; color: inherit; }
.didact h2 { font-size: 1rem; margin: 0; color: inherit; }
.didact section { border-top: 1px solid var(--line); padding: 1rem 0; break-inside: avoid; }
.didact .quiet, .didact .facts, .didact .name { color: var(--quiet); font-size: .875rem; margin: 0; }
.didact .facts b { color: var(--ink); font-weight: 600; }
.didact .warning { color: var(--warning); font-size: .875rem; margin: .2rem 0 0; }
.didact .facts span { display: inline-block; margin-right: 1.25em; }
.didact .text { margin: .2rem 0 0; font-size: 1.0625rem; line-height: 1.8; white-space: pre-wrap; text-align: start; }
.didact .text span { padding: .14em 0; }
.didact .named { display: grid; grid-template-columns: 6rem 1fr; column-gap: 1rem; align-items: baseline; }
.didact .method { display: grid; grid-template-columns: 11rem 1fr; column-gap: 1rem; align-items: baseline; }
.didact .method, .didact .named { margin-top: .4rem; }
.didact .method > .name { font-weight: 600; }
.didact .legend { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; margin: .75rem 0 1rem; align-items: center;
  color: var(--quiet); font-size: .875rem; }
.didact .scale { display: inline-flex; align-items: center; gap: .5rem; }
.didact .scale i { display: inline-block; width: .9rem; height: 1rem; }
.didact .scale i + i { margin-left: -.5rem; }
.didact .pictures { display: flex; flex-wrap: wrap; gap: 1rem; margin-top: .5rem; }
.didact figure { margin: 0; width: 14rem; max-width: 100%; }
.didact figcaption { color: var(--quiet); font-size: .875rem; }
.didact .picture { position: relative; background: #808080; }
.didact .picture img, .didact .picture svg { display: block; width: 100%; height: auto; image-rendering: pixelated; }
.didact .picture img + svg { position: absolute; inset: 0; height: 100%; }
.didact .picture.grey img { filter: grayscale(1); }
.didact span[class], .didact i[class] { forced-color-adjust: none; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
@media (max-width: 36rem) { .didact .named, .didact .method { grid-template-columns: 1fr; } }
@media print { .didact [class^=against] { text-decoration: underline dotted; } }
"""
_PAGE_STYLE = """
body { margin: 0; background: #ffffff; }
main.didact { max-width: 56rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
@media (prefers-color-scheme: dark) { body { background: rgb(24,26,30); } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """A whole document. Beyond 500 rows the rest is left out, and a line says so."""
    shown = sections[:SHOWN]
    body = [f"<h1>{safe(title)}</h1>"]
    if lead:
        body.append(f'<p class="quiet">{safe(lead)}</p>')
    body += [_legend(shown), *map(_section, shown)]
    if len(sections) > len(shown):
        body.append(
            f'<p class="quiet">The first {SHOWN} of {len(sections)} rows are shown. '
            f"Write the others to pages of their own: maps[{SHOWN}:{min(2 * SHOWN, len(sections))}].to_html(…).</p>"
        )
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            GENERATOR,
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f"<title>{safe(title)}</title>",
            f"<style>{_PAGE_STYLE}{_style()}</style>",
            "</head>",
            '<body><main class="didact">',
            *body,
            "</main></body>",
            "</html>\n",
        ]
    )


def fragment(sections: Sequence[Section], *, more: str = "") -> str:
    """The same for a notebook: a piece of a page that brings its own style."""
    last = f'<p class="quiet">{safe(more)}</p>' if more else ""
    inside = "\n".join([_legend(sections), *map(_section, sections), last])
    return f'<style>{_style()}</style>\n<div class="didact" style="padding: .5rem 1rem">\n{inside}\n</div>'


def _section(section: Section) -> str:
    # Heats of one row show the same picture: once as it is, then under each method's patches.
    return "\n".join(
        [
            "<section>",
            f"<h2>{safe(section.id)}</h2>",
            _facts(section.facts(), section.heats[0].note if len(section.heats) == 1 else ""),
            *_bodies(section),
            "</section>",
        ]
    )


def _bodies(section: Section) -> list[str]:
    if any(heat.is_image for heat in section.heats):
        plain = next((heat for heat in section.heats if heat.image is not None), None)
        figures = [] if plain is None else [_figure(plain, section, covered=False)]
        return ['<div class="pictures">', *figures, *(_figure(heat, section) for heat in section.heats), "</div>"]
    found = []
    for heat in section.heats:
        note = heat.note if len(section.heats) > 1 else ""
        inside = "\n".join([*_texts(heat), _outside(heat), _facts(section.facts_of(heat), note), _warning(heat)])
        name = f'<p class="name">{safe(heat.method)}</p>'
        found.append(f'<div class="method">{name}<div>{inside}</div></div>' if heat.method else inside)
    return found


def _texts(heat: Heat) -> list[str]:
    found = []
    for segment, (name, text) in enumerate(heat.texts):
        units = heat.inside(segment)
        inside = "".join(
            _span(part, [units[number] for number in covering], heat)
            for part, covering in parts(text, [(unit.place[0], unit.place[1]) for unit in units])
        )
        # The language of the data is not the page's, and not known; its direction follows from its letters.
        body = f'<p class="text" lang="" dir="auto">{inside}</p>'
        is_named = len(heat.texts) > 1
        found.append(f'<div class="named"><p class="name">{safe(name)}</p>{body}</div>' if is_named else body)
    return found


def _span(part: str, units: Sequence[Unit], heat: Heat) -> str:
    if not units:
        return safe(part)
    best = max(units, key=lambda unit: abs(unit.score))
    title = safe(", ".join(_read(unit, heat) for unit in units))
    return f'<span{_class(heat.shade(best.score))} title="{title}">{safe(part)}</span>'


def _outside(heat: Heat) -> str:
    """Special tokens, and pieces without a character: in no text, and scored all the same."""
    units = heat.outside()
    if not units:
        return ""
    inside = " ".join(_span(unit.token or "(empty)", [unit], heat) for unit in units)
    return f'<p class="quiet">not in the text: {inside}</p>'


def _figure(heat: Heat, section: Section, *, covered: bool = True) -> str:
    height, width = heat.size()
    alt = f"The picture of row {section.id}"
    caption, patches = "as it is", ""
    if covered:
        alt = f"{alt}, under the scores of its patches; target {heat.target}"
        caption = " · ".join([heat.method, *(f"{name} {value}" for name, value in section.facts_of(heat))]).strip(" ·")
        caption = caption or "scored"
        rects = "".join(_patch(unit, heat) for unit in heat.patches())
        spoken = f'role="img" aria-label="{safe(alt)}"' if heat.image is None else 'aria-hidden="true"'
        patches = f'<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" {spoken}>{rects}</svg>'
    image = "" if heat.image is None else f'<img alt="{safe(alt)}" src="{_data_uri(heat.image)}">'
    kind = "picture grey" if covered else "picture"
    return (
        f'<figure><div class="{kind}">{image}{patches}</div><figcaption>{safe(caption)}</figcaption>'
        f"{_outside(heat) + _warning(heat) if covered else ''}</figure>"
    )


def _patch(unit: Unit, heat: Heat) -> str:
    top, left, bottom, right = unit.place
    shade = heat.shade(unit.score)
    box = f'x="{left}" y="{top}" width="{max(right - left, 0)}" height="{max(bottom - top, 0)}"'
    full = _class(Shade(shade.hue, LEVELS))
    read = f"rows {top} to {bottom}, columns {left} to {right}: {number(unit.score, heat.kind) or _mark(unit)}"
    return f'<rect{full} {box} fill-opacity="{opacity(shade)}"><title>{safe(read)}</title></rect>'


def _data_uri(image: Any) -> str:
    from PIL import Image as Pictures

    pixels = np.asarray(image)
    pixels = pixels[..., 0] if pixels.shape[-1] < 3 else pixels[..., :4]
    buffer = io.BytesIO()
    Pictures.fromarray(np.ascontiguousarray(pixels)).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _legend(sections: Sequence[Section]) -> str:
    kinds = [heat.kind for section in sections for heat in section.heats]
    words = dict(meanings(kinds))
    steps = range(1, LEVELS + 1, 3)
    scales = []
    if "for" in words:
        chips = [Shade("against", step) for step in reversed(steps)] + [Shade("for", step) for step in steps]
        scales.append((words["against"], chips, words["for"]))
    if "strength" in words:
        scales.append(("", [Shade("strength", step) for step in steps], words["strength"]))
    inside = "".join(
        f'<span class="scale">{before} {"".join(f"<i{_class(chip)}></i>" for chip in chips)} {after}</span>'
        for before, chips, after in scales
    )
    how = "The strongest unit of each row has the full colour. Point at a unit to read its score."
    return f'<div class="legend">{inside}<span>{how}</span></div>' if scales else ""


def _facts(facts: Sequence[tuple[str, str]], note: str = "") -> str:
    inside = "".join(f"<span>{safe(name)} <b>{safe(value)}</b></span>" for name, value in facts)
    inside += f"<span>{safe(note)}</span>" if note else ""
    return f'<p class="facts">{inside}</p>' if inside else ""


def _warning(heat: Heat) -> str:
    return f'<p class="warning">{safe(heat.warning)}</p>' if heat.warning else ""


def _read(unit: Unit, heat: Heat) -> str:
    return f"{unit.token}: {number(unit.score, heat.kind) or _mark(unit)}"


def _mark(unit: Unit) -> str:
    return "marked" if unit.score else "not marked"


def _class(shade: Shade) -> str:
    return f' class="{shade.hue}{shade.level}"' if shade.level else ""


def _style() -> str:
    dark = "--page: rgb(24,26,30); --ink: #e8eaed; --quiet: #a3a9b3; --line: #3a3f47; --warning: #f5b041;"
    return f"{_STYLE}@media (prefers-color-scheme: dark) {{ .didact {{ {dark} }} }}\n{shades('.didact')}"


def shades(scope: str) -> str:
    """The steps of the scale as style: classes for1 … strength10 inside `scope`, on a light page and on a dark one."""
    light, dark = _classes(scope, WHITE, None), _classes(scope, _DARK, _DARK_FULL)
    return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _classes(scope: str, page: Colour, full: dict[str, Colour] | None) -> str:
    lines = []
    for hue in _HUES:
        for level in range(1, LEVELS + 1):
            back, ink = (_hex(colour) for colour in colours(Shade(hue, level), page=page, full=full))
            lines.append(f"{scope} .{hue}{level} {{ background: {back}; color: {ink}; fill: {back}; }}\n")
    return "".join(lines)


def _hex(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def safe(text: str) -> str:
    """Escaped for element and attribute alike; control characters, which HTML has no place for, are replaced."""
    return escape("".join(sign if sign.isprintable() or sign in _JOINERS else _replaced(sign) for sign in text))


def _replaced(sign: str) -> str:
    return " " if sign.isspace() else "\N{REPLACEMENT CHARACTER}"
