"""Split texts at spans, for terminals and HTML pages, and format completeness."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

# Plain tuples, so that viz needs no other package: (start, end) in a text; (top, left, bottom, right) in an image.
Span: TypeAlias = tuple[int, int]
Box: TypeAlias = tuple[int, int, int, int]
COMPLETENESS_TOLERANCE = 0.05  # a larger completeness error causes a warning
Image: TypeAlias = Any  # height x width x channel, anything with such indices


def split_at_spans(text: str, spans: Sequence[Span]) -> list[tuple[str, tuple[int, ...]]]:
    """Split the text wherever a span starts or ends. Each piece has the indices of the spans that cover it.

    Spans may overlap: all pieces of one emoji cover the same character.
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
    """Split the text into marked and unmarked runs. Overlapping and adjacent marks are merged."""
    return [(piece, bool(covering)) for piece, covering in split_at_spans(text, merge_spans(spans))]


def merge_spans(spans: Sequence[Span]) -> list[Span]:
    """Merge overlapping and adjacent spans, in order."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def percent(share: float) -> str:
    """A probability in percent with one decimal. Only exact 1 and 0 become 100.0 % and 0.0 %: >99.9 %, <0.1 %."""
    if 0.9995 <= share < 1:
        return ">99.9 %"
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %"


def completeness(residual: float) -> float:
    """1 minus the completeness error, at least 0; NaN if completeness is not promised."""
    return max(0.0, 1.0 - residual) if not math.isnan(residual) else residual


def completeness_note(residual: float) -> str:
    """`adds up to 99.99 %`, rounded down, or a warning for an error above 5 %; empty without promised completeness."""
    if math.isnan(residual):
        return ""
    if residual > COMPLETENESS_TOLERANCE:
        return f"scores do not add up: off by {_format_percent(100 * residual)} %"
    share = math.floor(10_000 * completeness(residual)) / 100
    return f"adds up to {share:.0f} %" if share == 100 else f"adds up to {share:.2f} %"


def _format_percent(share: float) -> str:
    """Three significant digits, or all digits before the decimal point."""
    return f"{share:,.0f}" if share >= 100 else f"{share:.3g}"
