"""Batches of rows of similar length: which rows pass through a model together, and in which order.

Every function gives indices and is deterministic: of rows of equal length the first comes first.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int
from torch import Tensor

from didact.core.row import Row

Lengths = Int[np.ndarray | Tensor, " row"]
Indices = Int[np.ndarray, " _"]


def text_lengths(rows: Sequence[Row]) -> Int[np.ndarray, " row"]:
    """The characters of each row's texts, a cheap stand-in for its tokens; 0 for images."""
    return np.array([sum(map(len, row.texts)) for row in rows], dtype=np.int64)


def longest_first(lengths: Lengths) -> Indices:
    """All rows in the order of their lengths, so that memory runs out in the first batch or never."""
    return np.argsort(-_numpy(lengths), kind="stable")


def length_batches(lengths: Lengths, batch_size: int) -> list[Indices]:
    """All rows in batches of `batch_size`, longest first."""
    return _split(longest_first(lengths), batch_size)


def row_batches(rows: Sequence[Row], batch_size: int) -> list[list[int]]:
    """`length_batches` of rows that are not encoded yet, by the lengths of their texts."""
    return [indices.tolist() for indices in length_batches(text_lengths(rows), batch_size)]


def length_buckets(lengths: Lengths, batch_size: int) -> Iterator[Indices]:
    """All rows in batches of at most `batch_size`, longest first, with little padding in each.

    A batch ends where the next row is a tenth shorter than its first, but not below a quarter of `batch_size`, where a
    pass costs nearly as much as a full one.
    """
    order = longest_first(lengths)
    sizes = _numpy(lengths)[order].tolist()
    start = 0
    for index, size in enumerate(sizes):
        count = index - start
        if count == batch_size or (size <= 0.9 * sizes[start] and 4 * count >= batch_size):
            yield order[start:index]
            start = index
    if sizes:
        yield order[start:]


def area_batches(lengths: Lengths, area: int) -> Iterator[Indices]:
    """All rows, longest first, in batches whose padded token × token matrices have at most `area` entries.

    A row that needs more than that is a batch of its own.
    """
    order = longest_first(lengths)
    sizes = _numpy(lengths)
    while len(order):
        count = max(1, area // int(sizes[order[0]]) ** 2)
        yield order[:count]
        order = order[count:]


def shuffled_batches(
    lengths: Lengths, batch_size: int, generator: np.random.Generator, *, window: int, is_even: bool = False
) -> Iterator[Indices]:
    """All rows once, in batches in random order, for training.

    Rows of similar length meet: of the shuffled rows, `window` batches' worth are sorted by length before they are cut.
    The last batch of a window is what is left over; with `is_even` batches differ by one row at most instead.
    """
    split = _split_evenly if is_even else _split
    sizes = _numpy(lengths)
    batches: list[Indices] = []
    for window_rows in split(generator.permutation(len(sizes)), window * batch_size):
        batches += split(window_rows[np.argsort(sizes[window_rows], kind="stable")], batch_size)
    for index in generator.permutation(len(batches)):
        yield batches[index]


def _split(order: Indices, size: int) -> list[Indices]:
    return [order[start : start + size] for start in range(0, len(order), size)]


def _split_evenly(order: Indices, size: int) -> list[Indices]:
    return np.array_split(order, -(-len(order) // size))


def _numpy(lengths: Lengths) -> Int[np.ndarray, " row"]:
    return lengths.cpu().numpy() if isinstance(lengths, Tensor) else lengths
