"""Batches of rows of similar length.

All functions give indices of rows. Rows of equal length keep their order, so results are deterministic.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int
from torch import Tensor

from didact.core.row import Row

Lengths = Int[np.ndarray | Tensor, " row"]
Indices = Int[np.ndarray, " _"]


def text_lengths(rows: Sequence[Row]) -> Int[np.ndarray, " row"]:
    """The number of characters of each row, a cheap estimate of its number of tokens; 0 for images."""
    return np.array([sum(map(len, row.texts)) for row in rows], dtype=np.int64)


def longest_first(lengths: Lengths) -> Indices:
    """All rows, longest first, so that memory runs out in the first batch or never."""
    return np.argsort(-_numpy(lengths), kind="stable")


def length_batches(lengths: Lengths, batch_size: int) -> list[Indices]:
    """All rows in batches of `batch_size`, longest first."""
    return _split(longest_first(lengths), batch_size)


def row_batches(rows: Sequence[Row], batch_size: int) -> list[list[int]]:
    """`length_batches` of rows that are not encoded yet, by the lengths of their texts."""
    return [indices.tolist() for indices in length_batches(text_lengths(rows), batch_size)]


def length_buckets(lengths: Lengths, batch_size: int) -> Iterator[Indices]:
    """All rows in batches of at most `batch_size`, longest first, with little padding in each.

    A batch ends where the next row is a tenth shorter than its first row. It holds at least a quarter of `batch_size`
    rows, because smaller batches cost nearly as much as full ones.
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

    A row that alone exceeds `area` is a batch of its own.
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
    """All rows once, in batches of similar length and in random order, for training.

    Rows are shuffled and divided into windows of `window` batches; each window is sorted by length and then divided.
    The last batch of a window may be small. With `is_even`, sizes of batches differ by one row at most.
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
