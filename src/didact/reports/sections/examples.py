"""The browser of examples: pick a row, and see how every method explains it.

Rows go into the page as JSON, and its script builds elements from them; a few are there as HTML, for readers without.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np

from didact.render.heat import LEVELS, Shade, meanings, opacity
from didact.render.page import safe
from didact.render.tables import cut
from didact.reports.article import LONG, article
from didact.reports.assets import asset
from didact.reports.part import AGAIN, Part, lead, missing, notes
from didact.reports.rows import Source, encoded_row
from didact.results.comparison import Comparison
from didact.results.explanations import Explanations
from didact.results.measured import Measured, MeasuredRow
from didact.results.row_explanation import RowExplanation as Explained
from didact.results.row_explanation import count_of

BUDGET: Final = 3_000_000  # bytes of the whole section
_AROUND: Final = 100_000  # of them for style, script and controls
_PLAIN_BYTES: Final = 300_000  # and for what is there without a script
_PLAIN: Final = 3  # rows
_MISSES: Final = 4  # rows, one after another, that do not fit before the rest is given up
_TOP: Final = 0.25  # the share of units that counts as a method's marks
_ID, _TITLE = "examples", "Examples"


@dataclass(frozen=True)
class Group:
    """Rows that can be asked for."""

    name: str
    title: str
    ids: frozenset[str]


@dataclass(frozen=True)
class Kept:
    """A row of the page, and the same as JSON."""

    row: Mapping[str, Any]
    text: str


def part(run: Comparison) -> Part | None:
    """None where no row was explained one by one."""
    if run.measured is None:
        return None
    sources, reasons = _sources(run, run.measured)
    if not sources or not run.measured.rows:
        told = "No explanation of a row could be read." if run.measured.rows else "No row was explained."
        return Part(_ID, _TITLE, missing(f"{told} {AGAIN}") + notes(reasons))
    groups = _groups(run.measured, sources)
    kept = _kept(run, sources, groups, run.measured.rows)
    if not kept:
        told = "No row can be shown here: each is too large, or in no file of the methods."
        return Part(_ID, _TITLE, missing(told) + notes(reasons))
    methods = [source.about() for source in sources]
    body = [
        lead(
            f"Rows of {run.measured.split}, each as every method explains it. Colours show what a method finds "
            "important for the model's prediction. Each row has its own scale: its strongest unit has the full colour."
        ),
        _legend(methods, run.measured),
        _browser(methods, groups, kept, run.measured),
        f"<noscript>{_without_script(kept, methods)}</noscript>",
        f'<script type="application/json" id="examples-data">{_document(methods, kept)}</script>',
        notes([*_left_out(kept, run.measured), *reasons]),
    ]
    return Part(_ID, _TITLE, "\n".join(body), style=asset("examples.css"), script=asset("examples.js"))


def _sources(run: Comparison, measured: Measured) -> tuple[list[Source], list[str]]:
    """The methods that can be shown, controls last, and why others cannot."""
    found: list[Source] = []
    reasons = []
    for method in measured.methods:
        maps = measured.explanations(method)
        if isinstance(maps, Explanations):
            found.append(Source(method, maps, {name: place for place, name in enumerate(maps.ids)}))
        else:
            # A report is passed on: where its folder lay is nobody's business.
            reason = maps.replace(f"{run.folder}/", "")
            reasons.append(f"{cut(method.label)} is not shown: {reason.rstrip('.')}.")
    for one in measured.skipped:
        reason = one.reason or "no reason was kept"
        reasons.append(f"{cut(one.label)} did not explain these rows: {reason.rstrip('.')}.")
    return sorted(found, key=lambda source: source.method.is_control), reasons


# -- which rows can be asked for --------------------------------------------------------------------------------------


def _groups(measured: Measured, sources: Sequence[Source]) -> list[Group]:
    """What rows can be filtered by. What nothing is known of is left out."""
    rows = measured.rows
    found = []
    if any(row.is_right is not None for row in rows):
        found.append(Group("wrong", "Model is wrong", frozenset(row.id for row in rows if row.is_right is False)))
    ranked = [row.id for row in sorted(rows, key=_tau) if row.agreement is not None]
    third = math.ceil(len(ranked) / 3)
    if len(ranked) >= 3:
        found.append(Group("apart", "Methods disagree most", frozenset(ranked[:third])))
        found.append(Group("alike", "Methods agree most", frozenset(ranked[-third:])))
    own = [source for source in sources if not source.method.is_control]
    if len(own) > 1:
        alone = frozenset(row.id for row in rows if _shares_mark(own, row) is False)
        found.append(Group("unshared", "No unit leads in all methods", alone))
    ranked = [row.id for row in sorted(rows, key=lambda row: row.sureness or 0.0) if row.sureness is not None]
    if len(ranked) >= 3:
        found.append(Group("unsure", "Model is least confident", frozenset(ranked[: math.ceil(len(ranked) / 3)])))
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


# -- which rows have room ---------------------------------------------------------------------------------------------


def _kept(
    run: Comparison, sources: Sequence[Source], groups: Sequence[Group], rows: Sequence[MeasuredRow]
) -> list[Kept]:
    """As many rows as fit, in the order of the data."""
    room = BUDGET - _PLAIN_BYTES - _AROUND
    kept: dict[int, Kept] = {}
    misses = 0
    for place in _order(rows):
        names = [group.name for group in groups if rows[place].id in group.ids]
        found = _fitted(run, sources, rows[place], names)
        size = 0 if found is None else len(found.text.encode()) + 1
        if found is not None and size <= room:
            room, misses, kept[place] = room - size, 0, found
        else:
            misses += 1
        if misses >= _MISSES:
            break
    return [kept[place] for place in sorted(kept)]


def _order(rows: Sequence[MeasuredRow]) -> Iterator[int]:
    """Who comes first where not all have room: by turns a row worth a look, and the next of the data."""
    telling = sorted(range(len(rows)), key=lambda place: (rows[place].is_right is not False, _tau(rows[place])))
    return iter(dict.fromkeys(chain.from_iterable(zip(telling, range(len(rows)), strict=True))))


def _fitted(run: Comparison, sources: Sequence[Source], row: MeasuredRow, groups: Sequence[str]) -> Kept | None:
    """The row, its texts cut as far as needed; None where that is not enough, or nobody explains it."""
    most = BUDGET // 4
    longest: int | None = None
    for _ in range(8):
        found = encoded_row(run, sources, row, groups, longest=longest)
        if found is None:
            return None
        text = _json(found)
        size = len(text.encode())
        if size <= most:
            return Kept(found, text)
        whole = sum(len(piece) for one in found["texts"] for piece in one["pieces"])
        longest = int(0.9 * whole * most / size)
    return None


def _left_out(kept: Sequence[Kept], measured: Measured) -> list[str]:
    if len(kept) == len(measured.rows):
        return []
    return [
        f"{len(kept):,} of {len(measured.rows):,} explained rows are shown, to keep the page small: by turns one that "
        "the model got wrong or where methods disagree most, and the next of the data."
    ]


# -- what stands in the page ------------------------------------------------------------------------------------------


def _json(value: Any) -> str:
    """JSON that can stand inside a script element of a page, whatever it holds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _document(methods: Sequence[Mapping[str, Any]], kept: Sequence[Kept]) -> str:
    cover = opacity(Shade("for", LEVELS))
    about = _json({"methods": list(methods), "cover": cover, "levels": LEVELS, "long": LONG})
    return f'{about[:-1]},"rows":[{",".join(one.text for one in kept)}]}}'


def _legend(methods: Sequence[Mapping[str, Any]], measured: Measured) -> str:
    words = dict(meanings([method["kind"] for method in methods]))
    steps = range(1, LEVELS + 1, 3)
    scales = []
    if "for" in words:
        chips = [Shade("against", step) for step in reversed(steps)] + [Shade("for", step) for step in steps]
        scales.append(f'<span><span class="against0">{words["against"]}</span>{_chips(chips)}{words["for"]}</span>')
    if "strength" in words:
        scales.append(f"<span>{_chips([Shade('strength', step) for step in steps])}{words['strength']}</span>")
    if any(row.rationale for row in measured.rows):
        mark = (
            '<span class="frame">framed</span>' if measured.task == "image" else '<span class="mark">underlined</span>'
        )
        scales.append(f"<span>{mark} the rationale of the data</span>")
    return f'<p class="legend">{"".join(scales)}</p>'


def _chips(chips: Iterable[Shade]) -> str:
    inside = "".join(f'<i class="{chip.hue}{chip.level}"></i>' for chip in chips)
    return f'<span class="chips">{inside}</span>'


def _browser(
    methods: Sequence[Mapping[str, Any]], groups: Sequence[Group], kept: Sequence[Kept], measured: Measured
) -> str:
    """What the script brings to life; hidden until then."""
    counts = {group.name: sum(group.name in one.row["in"] for one in kept) for group in groups}
    filters = [("all", f"All rows ({len(kept):,})")]
    filters += [(group.name, f"{group.title} ({counts[group.name]:,})") for group in groups]
    sorts = [("data", "As in the data")]
    if any(row.agreement is not None for row in measured.rows):
        sorts.append(("tau", "Most disagreement first"))
    if any(row.sureness is not None for row in measured.rows):
        sorts.append(("sure", "Least confident first"))
    checks = "".join(
        f'<label class="check"><input type="checkbox" value="{place}" checked>{safe(method["name"])}</label>'
        for place, method in enumerate(methods)
    )
    has_controls = len({method["control"] for method in methods}) > 1
    has_marks = any(row.rationale for row in measured.rows)
    return (
        '<div class="browser" hidden><div class="controls">'
        '<label class="find"><span>Find</span>'
        '<input type="search" id="examples-find" placeholder="words or an id" autocomplete="off"></label>'
        f"{_select('filter', 'Show', filters)}{_select('sort', 'Order', sorts)}</div>"
        '<div class="controls turn">'
        '<button type="button" id="examples-back" aria-label="Previous row" title="Previous row (← or k)">←</button>'
        '<button type="button" id="examples-next" aria-label="Next row" title="Next row (→ or j)">→</button>'
        '<label class="pick"><span class="unseen">Row</span><select id="examples-row"></select></label>'
        '<span class="count" id="examples-count"></span></div>'
        f'<div class="controls extras"><details><summary>Methods ({len(methods)})</summary>'
        f'<fieldset id="examples-methods"><legend class="unseen">Methods to show</legend>{checks}</fieldset></details>'
        f"{_toggle('controls', 'controls') if has_controls else ''}{_toggle('marks', 'rationale') if has_marks else ''}"
        '<span class="keys">Keys: ← → or k j turn the rows, comma and full stop step through the units.</span></div>'
        '<p class="unseen" role="status" id="examples-said"></p>'
        '<div class="view" id="examples-view" tabindex="0" role="group" aria-label="The row, as methods explain it">'
        "</div></div>"
    )


def _toggle(name: str, title: str) -> str:
    return f'<label class="check"><input type="checkbox" id="examples-{name}" checked>{title}</label>'


def _select(name: str, title: str, options: Sequence[tuple[str, str]]) -> str:
    inside = "".join(f'<option value="{value}">{safe(text)}</option>' for value, text in options)
    return f'<label><span>{title}</span><select id="examples-{name}">{inside}</select></label>'


def _without_script(kept: Sequence[Kept], methods: Sequence[Mapping[str, Any]]) -> str:
    drawn: list[str] = []
    size = 0
    for one in kept[:_PLAIN]:
        html = article(one.row, methods)
        size += len(html.encode())
        if size > _PLAIN_BYTES:
            break
        drawn.append(html)
    if len(drawn) == len(kept):
        return "".join(drawn)
    others = f"{len(drawn)} of {len(kept):,} rows are shown; the others are" if drawn else "The rows are"
    return f'<p class="missing">{others} drawn by a script, and this browser runs none.</p>{"".join(drawn)}'
