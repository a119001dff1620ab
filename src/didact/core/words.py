"""Words that do not depend on a tokenizer: runs of letters and digits, and single other signs.

Tokens are matched with words and rationales by the characters they cover, so models with different tokenizers share
the same words. Words are identified by segment and number, so the words of two texts never merge.
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Bool, Int

from didact.core.row import Box, Row, Span

_WORD = re.compile(r"\w+|[^\w\s]")


def words(text: str, segment: int = 0) -> list[Span]:
    """The words of a text, in order."""
    return [Span(segment, *match.span()) for match in _WORD.finditer(text)]


def words_of(texts: Sequence[str]) -> list[Span]:
    """The words of all texts of a row, in order."""
    return [word for segment, text in enumerate(texts) for word in words(text, segment)]


def word_index(
    texts: Sequence[str], segments: Int[np.ndarray, " token"], offsets: Int[np.ndarray, "token 2"]
) -> Int[np.ndarray, " token"]:
    """For each token, the number within its text of the word with its first visible character; -1 without one.

    White space belongs to no word. A token that spans several words belongs to the first.
    """
    word_indices = np.full(len(segments), -1, dtype=np.int64)
    for segment, text in enumerate(texts):
        starts, ends = np.array([word[1:] for word in words(text)], dtype=np.int64).reshape(-1, 2).T
        pieces = np.flatnonzero((segments == segment) & (offsets[:, 1] > offsets[:, 0]))
        if not len(ends) or not len(pieces):
            continue
        # The first word that ends after the piece starts; it must also start before the piece ends.
        nearest = np.searchsorted(ends, offsets[pieces, 0], side="right")
        inside = nearest < len(ends)
        inside[inside] &= starts[nearest[inside]] < offsets[pieces[inside], 1]
        word_indices[pieces[inside]] = nearest[inside]
    return word_indices


def touches(
    spans: Iterable[Span], segments: Int[np.ndarray, " token"], offsets: Int[np.ndarray, "token 2"]
) -> Bool[np.ndarray, " token"]:
    """Whether each token shares a character with any of the spans."""
    marked = np.zeros(len(segments), dtype=bool)
    for span in spans:
        marked |= (segments == span.segment) & (offsets[:, 0] < span.end) & (offsets[:, 1] > span.start)
    return marked


def patches_touched(boxes: Iterable[Box], *, size: int, grid: tuple[int, int]) -> Bool[np.ndarray, " patch"]:
    """Whether each square patch, row by row, shares a pixel with any of the boxes."""
    marked = np.zeros(grid, dtype=bool)
    for box in boxes:
        marked[box.top // size : -(-box.bottom // size), box.left // size : -(-box.right // size)] = True
    return marked.reshape(-1)


def squares_of(row: Row, *, patch: int | None = None) -> list[Box]:
    """Squares that tile the image of a row, row by row. A remainder at the right and bottom belongs to no square."""
    assert row.image is not None
    height, width = row.image.shape[:2]
    size = patch or max(height // 8, 1)
    corners = [(top * size, left * size) for top in range(height // size) for left in range(width // size)]
    return [Box(top, left, top + size, left + size) for top, left in corners]


def marked_words(spans: Iterable[Span], texts: Sequence[str]) -> list[bool]:
    """Whether each word of the row shares a character with any of the spans."""
    spans = list(spans)
    return [
        any(word.segment == span.segment and word.start < span.end and word.end > span.start for span in spans)
        for word in words_of(texts)
    ]
