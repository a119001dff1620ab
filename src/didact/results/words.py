"""Join pieces of words to whole words. Needs no torch."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from didact.errors import OptionError

LEVELS = ("word", "token")


class Units(NamedTuple):
    """Scored units in order. `rows` has the row index of each unit."""

    rows: Int[np.ndarray, " unit"]
    tokens: tuple[str, ...]
    segments: Int[np.ndarray, " unit"]
    word_index: Int[np.ndarray, " unit"]
    offsets: Int[np.ndarray, "unit side"]
    scores: Float[np.ndarray, " unit"]

    def columns(self) -> dict[str, object]:
        """The columns by name, without `rows`."""
        return {name: getattr(self, name) for name in UNIT_COLUMNS}


UNIT_COLUMNS: Final = Units._fields[1:]


def check_level(level: str) -> None:
    if level not in LEVELS:
        raise OptionError(
            f"Option 'level' must be 'word' (whole words) or 'token' (the method's units), got {level!r}."
        )


def join_words(units: Units, texts: Sequence[Sequence[str]], *, kind: str, is_image: bool = False) -> Units:
    """Join the pieces of each word. Pieces that belong to no word are unchanged. `texts` has the texts of each row.

    Signed scores and distributions are summed; magnitudes are combined as the root of the sum of squares; a word is
    marked if any of its pieces is.
    """
    group, first = word_groups(units.rows, units.segments, units.word_index)
    sizes = np.bincount(group, minlength=len(first))
    half = units.offsets.shape[1] // 2
    offsets = units.offsets[first]
    for side in range(2 * half):
        (np.minimum if side < half else np.maximum).at(offsets[:, side], group, units.offsets[:, side])
    tokens = [units.tokens[position] for position in first.tolist()]
    rows, segments = units.rows[first], units.segments[first]
    if not is_image:
        words = np.flatnonzero((units.word_index[first] >= 0) & (segments >= 0))
        spans = np.column_stack([words, rows[words], segments[words], offsets[words]])
        for word, row, segment, start, end in spans.tolist():
            tokens[word] = texts[row][segment][start:end]
    scores = np.where(sizes == 1, units.scores[first], _sum_groups(units.scores, kind, group, len(first)))
    return Units(rows, tuple(tokens), segments, units.word_index[first], offsets, scores)


def word_groups(
    rows: Int[np.ndarray, " unit"], segments: Int[np.ndarray, " unit"], word_index: Int[np.ndarray, " unit"]
) -> tuple[Int[np.ndarray, " unit"], Int[np.ndarray, " group"]]:
    """The word of each unit, numbered in reading order, and the first unit of each word.

    A unit that belongs to no word is a group of its own.
    """
    # One number per (row, segment, word). A unit that belongs to no word gets a unique negative number.
    segment_count, word_count = int(segments.max(initial=0)) + 2, int(word_index.max(initial=0)) + 1
    keys = (rows * segment_count + segments + 1) * word_count + word_index
    keys = np.where(word_index >= 0, keys, -1 - np.arange(len(rows)))
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[group], first[order]


def _sum_groups(
    scores: Float[np.ndarray, " unit"], kind: str, group: Int[np.ndarray, " unit"], groups: int
) -> Float[np.ndarray, " group"]:
    if kind == "magnitude":
        return np.sqrt(np.bincount(group, scores**2, minlength=groups))
    if kind == "binary":
        return (np.bincount(group, scores != 0, minlength=groups) > 0).astype(np.float64)
    return np.bincount(group, scores, minlength=groups).astype(np.float64)
