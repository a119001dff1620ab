"""The example browser: choose a row and see how every method explains it.

Rows are in the page as JSON, from which its script builds elements. A few are also there as HTML for readers without
scripts.
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
from didact.results.row_explanation import RowExplanation, top_count
from didact.viz.colours import LEVELS, Shade, opacity
from didact.viz.html import cut, render, script_json
from didact.viz.page import scales

BUDGET: Final = 3_000_000  # bytes of the whole section
_FIXED_BYTES: Final = 100_000  # of BUDGET for style, script and controls
_STATIC_BYTES: Final = 300_000  # of BUDGET for the rows as HTML
_STATIC_ROWS: Final = 3  # rows
_MAX_MISSES: Final = 4  # consecutive rows that do not fit; then no more are tried
_TOP_SHARE: Final = 0.25  # the share of units that counts as a method's marks
_ID, _TITLE = "examples", "Examples"


@dataclass(frozen=True)
class Filter:
    """A filter of the browser and the rows that pass it."""

    name: str
    title: str
    ids: frozenset[str]


@dataclass(frozen=True)
class EncodedExample:
    """A row of the page, its encoding for the script, and the size of that in bytes."""

    example: Example
    row: EncodedRow
    size: int


def section(run: Comparison) -> Section | None:
    """The section, or None if nothing was measured."""
    if run.measured is None:
        return None
    sources, reasons = _sources(run, run.measured)
    if not sources or not run.measured.rows:
        message = "No explanation of a row could be read." if run.measured.rows else "No row was explained."
        return Section(_ID, _TITLE, [missing(f"{message} {MEASURE_HINT}"), Notes(reasons)])
    filters = _filters(run.measured, sources)
    examples = _fitting_examples(run, sources, filters, run.measured.rows)
    if not examples:
        message = "No row can be shown here: each is too large, or missing from the files of all methods."
        return Section(_ID, _TITLE, [missing(message), Notes(reasons)])
    intro = lead(
        f"Rows of {run.measured.split}, each as every method explains it. Colours show what a method finds "
        "important for the model's prediction. Each row has its own scale: its strongest unit has the full colour."
    )
    browser = _browser(sources, filters, examples, run.measured)
    notes = Notes([*_left_out(examples, run.measured), *reasons])
    return Section(_ID, _TITLE, [intro, browser, notes], style="examples.css", script="examples.js")


def _sources(run: Comparison, measured: Measurements) -> tuple[list[Source], list[str]]:
    """The methods that can be shown, controls last, and the reasons why others cannot."""
    sources: list[Source] = []
    reasons = []
    for method in measured.methods:
        explanations = measured.explanations(method)
        if isinstance(explanations, Explanations):
            sources.append(Source(method, explanations, {name: index for index, name in enumerate(explanations.ids)}))
        else:
            # Reports are shared, so they must not contain the path of the run's folder.
            reason = explanations.replace(f"{run.folder}/", "")
            reasons.append(f"{cut(method.label)} is not shown: {reason.rstrip('.')}.")
    for skipped in measured.skipped:
        reason = skipped.reason or "no reason was recorded"
        reasons.append(f"{cut(skipped.label)} did not explain these rows: {reason.rstrip('.')}.")
    return sorted(sources, key=lambda source: source.method.is_control), reasons


# -- filters ----------------------------------------------------------------------------------------------------------


def _filters(measured: Measurements, sources: Sequence[Source]) -> list[Filter]:
    """The filters of the browser. A filter without data is left out."""
    rows = measured.rows
    filters = []
    if any(row.is_right is not None for row in rows):
        filters.append(Filter("wrong", "Model is wrong", frozenset(row.id for row in rows if row.is_right is False)))
    ranked = [row.id for row in sorted(rows, key=_tau) if row.agreement is not None]
    third = math.ceil(len(ranked) / 3)
    if len(ranked) >= 3:
        filters.append(Filter("apart", "Methods disagree most", frozenset(ranked[:third])))
        filters.append(Filter("alike", "Methods agree most", frozenset(ranked[-third:])))
    method_sources = [source for source in sources if not source.method.is_control]
    if len(method_sources) > 1:
        unshared = frozenset(row.id for row in rows if _shares_mark(method_sources, row) is False)
        filters.append(Filter("unshared", "No unit leads in all methods", unshared))
    ranked = [row.id for row in sorted(rows, key=lambda row: row.sureness or 0.0) if row.sureness is not None]
    if len(ranked) >= 3:
        filters.append(Filter("unsure", "Model is least confident", frozenset(ranked[: math.ceil(len(ranked) / 3)])))
    return filters


def _tau(row: MeasuredRow) -> float:
    return math.inf if row.agreement is None else row.agreement


def _shares_mark(sources: Sequence[Source], row: MeasuredRow) -> bool | None:
    """True if some text or patch is in the top quarter of every method. None if fewer than two explain the row."""
    rows = [explanation for source in sources if (explanation := source.explanation_of(row.id)) is not None]
    return bool(set.intersection(*map(_marked, rows))) if len(rows) > 1 else None


def _marked(row: RowExplanation) -> set[tuple[int, ...]]:
    """The characters or patches of the strongest quarter of units."""
    if not len(row):
        return set()
    ranks = np.abs(row.scores)
    best = np.argsort(-ranks, kind="stable")[: top_count(_TOP_SHARE, len(row))]
    strong = [unit for unit in best.tolist() if ranks[unit] > 0 and row.segments[unit] >= 0]
    if row.is_image:
        return {tuple(row.offsets[unit].tolist()) for unit in strong}
    spans = ((int(row.segments[unit]), *row.offsets[unit].tolist()) for unit in strong)
    return {(segment, position) for segment, start, end in spans for position in range(start, end)}


# -- rows that fit into the page --------------------------------------------------------------------------------------


def _fitting_examples(
    run: Comparison, sources: Sequence[Source], filters: Sequence[Filter], rows: Sequence[MeasuredRow]
) -> list[EncodedExample]:
    """The rows that fit into the page, in the order of the data."""
    room = BUDGET - _STATIC_BYTES - _FIXED_BYTES
    fitting: dict[int, EncodedExample] = {}
    misses = 0
    for index in _priority_order(rows):
        names = [row_filter.name for row_filter in filters if rows[index].id in row_filter.ids]
        encoded = _fit_example(run, sources, rows[index], names)
        if encoded is not None and encoded.size < room:
            room, misses, fitting[index] = room - encoded.size - 1, 0, encoded
        else:
            misses += 1
        if misses >= _MAX_MISSES:
            break
    return [fitting[index] for index in sorted(fitting)]


def _priority_order(rows: Sequence[MeasuredRow]) -> Iterator[int]:
    """Indices of rows in the order in which they get room: alternately a notable row and the next of the data."""
    notable = sorted(range(len(rows)), key=lambda index: (rows[index].is_right is not False, _tau(rows[index])))
    return iter(dict.fromkeys(chain.from_iterable(zip(notable, range(len(rows)), strict=True))))


def _fit_example(
    run: Comparison, sources: Sequence[Source], row: MeasuredRow, groups: Sequence[str]
) -> EncodedExample | None:
    """The encoded row, its texts cut to fit. None if it does not fit or no method explains it."""
    max_bytes = BUDGET // 4
    longest: int | None = None
    for _ in range(8):
        shown = example(run, sources, row, longest=longest)
        if shown is None:
            return None
        encoded = encode(shown, groups)
        size = len(script_json(encoded).encode())
        if size <= max_bytes:
            return EncodedExample(shown, encoded, size)
        longest = int(0.9 * shown.length * max_bytes / size)
    return None


def _left_out(examples: Sequence[EncodedExample], measured: Measurements) -> list[str]:
    if len(examples) == len(measured.rows):
        return []
    return [
        f"{len(examples):,} of {len(measured.rows):,} explained rows are shown, to keep the page small: in turn a "
        "row that the model got wrong or where methods disagree most, and the next row of the data."
    ]


# -- the data of the browser ------------------------------------------------------------------------------------------


def _browser(
    sources: Sequence[Source], filters: Sequence[Filter], examples: Sequence[EncodedExample], measured: Measurements
) -> Browser:
    methods = [source.to_method() for source in sources]
    counts = {row_filter.name: sum(row_filter.name in entry.row.groups for entry in examples) for row_filter in filters}
    sorts = [("data", "As in the data")]
    if any(row.agreement is not None for row in measured.rows):
        sorts.append(("tau", "Most disagreement first"))
    if any(row.sureness is not None for row in measured.rows):
        sorts.append(("sure", "Least confident first"))
    has_controls = len({method.control for method in methods}) > 1
    has_marks = any(row.rationale for row in measured.rows)
    mark = ("frame", "framed") if measured.is_image else ("mark", "underlined")
    static = _static_rows(examples)
    return Browser(
        scales=scales([method.kind for method in methods]),
        mark=mark if has_marks else None,
        filters=[
            ("all", f"All rows ({len(examples):,})"),
            *((row_filter.name, f"{row_filter.title} ({counts[row_filter.name]:,})") for row_filter in filters),
        ],
        sorts=sorts,
        methods=[method.name for method in methods],
        switches=[("controls", "controls")] * has_controls + [("marks", "rationale")] * has_marks,
        static_note=_static_note(len(static), len(examples)),
        static_rows=static,
        data=script_json(
            {
                "methods": methods,
                "cover": opacity(Shade("for", LEVELS)),
                "levels": LEVELS,
                "long": LONG,
                "rows": [entry.row for entry in examples],
            }
        ),
    )


def _static_rows(examples: Sequence[EncodedExample]) -> list[Markup]:
    """The first rows, as far as there is room. Markup: a template with autoescape made them."""
    drawn: list[Markup] = []
    size = 0
    for entry in examples[:_STATIC_ROWS]:
        html = Markup(render("didact.reports", "example.html.j2", row=entry.example))
        size += len(html.encode())
        if size > _STATIC_BYTES:
            break
        drawn.append(html)
    return drawn


def _static_note(shown: int, total: int) -> str:
    if shown == total:
        return ""
    others = f"{shown} of {total:,} rows are shown; the others are" if shown else "The rows are"
    return f"{others} drawn by a script, but this browser runs no scripts."
