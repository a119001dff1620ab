"""Texts cut into marked and unmarked runs: what terminal and HTML pages both draw."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

# Plain tuples, so that this room needs no other: (start, end) of a text; (top, left, bottom, right) of an image.
Span: TypeAlias = tuple[int, int]
Box: TypeAlias = tuple[int, int, int, int]
COMPLETENESS_TOLERANCE = 0.05  # scores that are off by more are worth a warning
Image: TypeAlias = Any  # height x width x channel, anything that can be indexed so


def split_at_spans(text: str, spans: Sequence[Span]) -> list[tuple[str, tuple[int, ...]]]:
    """The text in order, each stretch with the numbers of the spans that cover it.

    Spans may overlap: the pieces of one emoji all cover the same character.
    """
    clipped = [(max(start, 0), min(end, len(text))) for start, end in spans]
    nonempty = [(index, start, end) for index, (start, end) in enumerate(clipped) if end > start]
    starting: dict[int, list[int]] = {}
    ending: dict[int, list[int]] = {}
    for span_index, start, end in nonempty:
        starting.setdefault(start, []).append(span_index)
        ending.setdefault(end, []).append(span_index)
    pieces = []
    covering: set[int] = set()
    for start_of_piece, end_of_piece in pairwise(sorted({0, len(text), *starting, *ending})):
        covering = covering - set(ending.get(start_of_piece, ())) | set(starting.get(start_of_piece, ()))
        pieces.append((text[start_of_piece:end_of_piece], tuple(sorted(covering))))
    return pieces


def marked_runs(text: str, spans: Sequence[Span]) -> list[tuple[str, bool]]:
    """The text in order, cut where a mark begins or ends. Overlapping and touching marks become one."""
    return [(piece, bool(covering)) for piece, covering in split_at_spans(text, merge_spans(spans))]


def merge_spans(spans: Sequence[Span]) -> list[Span]:
    """The same characters in as few spans as possible, in order."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def percent(share: float) -> str:
    """A probability with one decimal: 99.8 %. Only an exact 1 or 0 reads as certain: >99.9 %, <0.1 %."""
    if 0.9995 <= share < 1:
        return ">99.9 %"
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %"


def completeness(residual: float) -> float:
    """The share of what scores promise to add up to that they explain; NaN where they promise nothing."""
    return max(0.0, 1.0 - residual) if not math.isnan(residual) else residual


def completeness_note(residual: float) -> str:
    """`adds up to 99.99 %`, rounded down; in words where scores are off by more than 5 %; nothing without a promise."""
    if math.isnan(residual):
        return ""
    if residual > COMPLETENESS_TOLERANCE:
        return f"scores do not add up: off by {_format_percent(100 * residual)} %"
    share = math.floor(10_000 * completeness(residual)) / 100
    return f"adds up to {share:.0f} %" if share == 100 else f"adds up to {share:.2f} %"


def _format_percent(share: float) -> str:
    """Three digits, and all of those before the point."""
    return f"{share:,.0f}" if share >= 100 else f"{share:.3g}"
