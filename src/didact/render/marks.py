"""Texts cut into marked and unmarked runs: what terminal and HTML pages both draw."""

from collections.abc import Sequence
from typing import Any, TypeAlias

# Plain tuples, so that this room needs no other: (start, end) of a text; (top, left, bottom, right) of an image.
Span: TypeAlias = tuple[int, int]
Box: TypeAlias = tuple[int, int, int, int]
Image: TypeAlias = Any  # height x width x channel, anything that can be indexed so


def runs(text: str, spans: Sequence[Span]) -> list[tuple[str, bool]]:
    """The text in order, cut where a mark begins or ends. Overlapping and touching marks become one."""
    parts: list[tuple[str, bool]] = []
    at = 0
    for start, end in merged(spans):
        start, end = max(start, 0), min(end, len(text))
        if start > at:
            parts.append((text[at:start], False))
        if end > start:
            parts.append((text[start:end], True))
        at = max(at, end)
    return [*parts, (text[at:], False)] if at < len(text) else parts


def merged(spans: Sequence[Span]) -> list[Span]:
    """The same characters in as few spans as possible, in order."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif end > start:
            found.append((start, end))
    return found
