"""The browser of examples: pick a row, and see how every method explains it.

Rows go into the page as JSON, and its script builds elements from them; a few are there as HTML, for readers without.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from markupsafe import Markup

from didact.reports.example_json import EncodedRow, encode
from didact.reports.example_rows import LONG, Example, Source, example
from didact.reports.section import MEASURE_HINT, Browser, Notes, Section, lead, missing
from didact.results.comparison import Comparison
from didact.results.explanations import Explanations
from didact.results.measured import MeasuredRow, Measurements
from didact.results.row_explanation import RowExplanation as Explained
from didact.results.row_explanation import top_count
from didact.viz.colours import LEVELS, Shade, opacity
from didact.viz.html import cut, render, script_json
from didact.viz.page import scales

BUDGET: Final = 3_000_000  # bytes of the whole section
_AROUND: Final = 100_000  # of them for style, script and controls
_PLAIN_BYTES: Final = 300_000  # and for what is there without a script
_PLAIN: Final = 3  # rows
_MISSES: Final = 4  # rows, one after another, that do not fit before the rest is given up
_TOP: Final = 0.25  # the share of units that counts as a method's marks
_ID, _TITLE = "examples", "Examples"


@dataclass(frozen=True)
class Filter:
    """Rows that can be asked for."""

    name: str
    title: str
    ids: frozenset[str]


@dataclass(frozen=True)
class EncodedExample:
    """A row of the page, the same for its script, and how many bytes that takes."""

    example: Example
    row: EncodedRow
    size: int


def section(run: Comparison) -> Section | None:
    """None where no row was explained one by one."""
    if run.measured is None:
        return None
    sources, reasons = _sources(run, run.measured)
    if not sources or not run.measured.rows:
        told = "No explanation of a row could be read." if run.measured.rows else "No row was explained."
        return Section(_ID, _TITLE, [missing(f"{told} {MEASURE_HINT}"), Notes(reasons)])
    filters = _filters(run.measured, sources)
    kept = _kept(run, sources, filters, run.measured.rows)
    if not kept:
        told = "No row can be shown here: each is too large, or in no file of the methods."
        return Section(_ID, _TITLE, [missing(told), Notes(reasons)])
    first = lead(
        f"Rows of {run.measured.split}, each as every method explains it. Colours show what a method finds "
        "important for the model's prediction. Each row has its own scale: its strongest unit has the full colour."
    )
    browser = _browser(sources, filters, kept, run.measured)
    notes = Notes([*_left_out(kept, run.measured), *reasons])
    return Section(_ID, _TITLE, [first, browser, notes], style="examples.css", script="examples.js")


def _sources(run: Comparison, measured: Measurements) -> tuple[list[Source], list[str]]:
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


def _filters(measured: Measurements, sources: Sequence[Source]) -> list[Filter]:
    """What rows can be filtered by. What nothing is known of is left out."""
    rows = measured.rows
    found = []
    if any(row.is_right is not None for row in rows):
        found.append(Filter("wrong", "Model is wrong", frozenset(row.id for row in rows if row.is_right is False)))
    ranked = [row.id for row in sorted(rows, key=_tau) if row.agreement is not None]
    third = math.ceil(len(ranked) / 3)
    if len(ranked) >= 3:
        found.append(Filter("apart", "Methods disagree most", frozenset(ranked[:third])))
        found.append(Filter("alike", "Methods agree most", frozenset(ranked[-third:])))
    own = [source for source in sources if not source.method.is_control]
    if len(own) > 1:
        alone = frozenset(row.id for row in rows if _shares_mark(own, row) is False)
        found.append(Filter("unshared", "No unit leads in all methods", alone))
    ranked = [row.id for row in sorted(rows, key=lambda row: row.sureness or 0.0) if row.sureness is not None]
    if len(ranked) >= 3:
        found.append(Filter("unsure", "Model is least confident", frozenset(ranked[: math.ceil(len(ranked) / 3)])))
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
    best = np.argsort(-ranks, kind="stable")[: top_count(_TOP, len(row))]
    strong = [unit for unit in best.tolist() if ranks[unit] > 0 and row.segments[unit] >= 0]
    if row.is_image:
        return {tuple(row.offsets[unit].tolist()) for unit in strong}
    spans = ((int(row.segments[unit]), *row.offsets[unit].tolist()) for unit in strong)
    return {(segment, place) for segment, start, end in spans for place in range(start, end)}


# -- which rows have room ---------------------------------------------------------------------------------------------


def _kept(
    run: Comparison, sources: Sequence[Source], filters: Sequence[Filter], rows: Sequence[MeasuredRow]
) -> list[EncodedExample]:
    """As many rows as fit, in the order of the data."""
    room = BUDGET - _PLAIN_BYTES - _AROUND
    kept: dict[int, EncodedExample] = {}
    misses = 0
    for place in _order(rows):
        names = [one.name for one in filters if rows[place].id in one.ids]
        found = _fitted(run, sources, rows[place], names)
        if found is not None and found.size < room:
            room, misses, kept[place] = room - found.size - 1, 0, found
        else:
            misses += 1
        if misses >= _MISSES:
            break
    return [kept[place] for place in sorted(kept)]


def _order(rows: Sequence[MeasuredRow]) -> Iterator[int]:
    """Who comes first where not all have room: by turns a row worth a look, and the next of the data."""
    telling = sorted(range(len(rows)), key=lambda place: (rows[place].is_right is not False, _tau(rows[place])))
    return iter(dict.fromkeys(chain.from_iterable(zip(telling, range(len(rows)), strict=True))))


def _fitted(
    run: Comparison, sources: Sequence[Source], row: MeasuredRow, groups: Sequence[str]
) -> EncodedExample | None:
    """The row, its texts cut as far as needed; None where that is not enough, or nobody explains it."""
    most = BUDGET // 4
    longest: int | None = None
    for _ in range(8):
        shown = example(run, sources, row, longest=longest)
        if shown is None:
            return None
        encoded = encode(shown, groups)
        size = len(script_json(encoded).encode())
        if size <= most:
            return EncodedExample(shown, encoded, size)
        longest = int(0.9 * shown.length * most / size)
    return None


def _left_out(kept: Sequence[EncodedExample], measured: Measurements) -> list[str]:
    if len(kept) == len(measured.rows):
        return []
    return [
        f"{len(kept):,} of {len(measured.rows):,} explained rows are shown, to keep the page small: by turns one that "
        "the model got wrong or where methods disagree most, and the next of the data."
    ]


# -- what stands in the page ------------------------------------------------------------------------------------------


def _browser(
    sources: Sequence[Source], filters: Sequence[Filter], kept: Sequence[EncodedExample], measured: Measurements
) -> Browser:
    methods = [source.about() for source in sources]
    counts = {one.name: sum(one.name in entry.row.groups for entry in kept) for one in filters}
    sorts = [("data", "As in the data")]
    if any(row.agreement is not None for row in measured.rows):
        sorts.append(("tau", "Most disagreement first"))
    if any(row.sureness is not None for row in measured.rows):
        sorts.append(("sure", "Least confident first"))
    has_controls = len({method.control for method in methods}) > 1
    has_marks = any(row.rationale for row in measured.rows)
    mark = ("frame", "framed") if measured.is_image else ("mark", "underlined")
    static = _static_rows(kept)
    return Browser(
        scales=scales([method.kind for method in methods]),
        mark=mark if has_marks else None,
        filters=[
            ("all", f"All rows ({len(kept):,})"),
            *((one.name, f"{one.title} ({counts[one.name]:,})") for one in filters),
        ],
        sorts=sorts,
        methods=[method.name for method in methods],
        switches=[("controls", "controls")] * has_controls + [("marks", "rationale")] * has_marks,
        static_note=_static_note(len(static), len(kept)),
        static_rows=static,
        data=script_json(
            {
                "methods": methods,
                "cover": opacity(Shade("for", LEVELS)),
                "levels": LEVELS,
                "long": LONG,
                "rows": [entry.row for entry in kept],
            }
        ),
    )


def _static_rows(kept: Sequence[EncodedExample]) -> list[Markup]:
    """The first rows, as far as there is room. Markup: a template with autoescape made them."""
    drawn: list[Markup] = []
    size = 0
    for entry in kept[:_PLAIN]:
        html = Markup(render("didact.reports", "example.html.j2", row=entry.example))
        size += len(html.encode())
        if size > _PLAIN_BYTES:
            break
        drawn.append(html)
    return drawn


def _static_note(shown: int, kept: int) -> str:
    if shown == kept:
        return ""
    others = f"{shown} of {kept:,} rows are shown; the others are" if shown else "The rows are"
    return f"{others} drawn by a script, and this browser runs none."
