"""Whether two groups of people differ: what if they had been dealt into the groups in another way?"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, combinations, islice
from math import comb
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from didact.errors import ShapeError

_ENUMERATED: Final = 200_000  # ways to deal people up to which all are tried
_DEALS: Final = 100_000
_BLOCK: Final = 10_000


@dataclass(frozen=True)
class PermutationResult:
    """A p-value. None where there can be none; `reason` then says why, and is otherwise empty or a remark."""

    p: float | None
    reason: str = ""


def permutation_test(
    right: Float[np.ndarray, " person"],
    asked: Float[np.ndarray, " _"],
    is_first: Float[np.ndarray, " _"],
    *,
    level: float = 0.05,
    seed: int = 0,
) -> PermutationResult:
    """Two-sided test of the difference in the share of `asked` that is `right`; `is_first` is 1 in the first group.

    p is the share of all ways to deal the people into groups of these sizes that give at least as large a difference;
    with more than 200,000 ways, of 100,000 random ones and the observed one (Phipson and Smyth, 2010). None where even
    the largest difference would not reach `level`.
    """
    if not right.shape == asked.shape == is_first.shape:
        raise ShapeError("Each person has what was right, what was asked and a group.")
    people, first = len(right), int(is_first.sum())
    if min(first, people - first) < 1:
        return PermutationResult(None, f"a test needs people in both groups, not {first} and {people - first}")
    ways = comb(people, first)
    smallest = (2 if 2 * first == people else 1) / ways  # groups of one size can be swapped
    if smallest > level:
        return PermutationResult(
            None, f"{first} and {people - first} people cannot reach {level:g}: the smallest possible p is {smallest:g}"
        )
    dealt = np.flatnonzero(is_first)[None]
    observed = abs(_differences(right, asked, dealt)[0]) - 1e-12
    if ways <= _ENUMERATED:
        deals, found = combinations(range(people), first), 0
        while len(block := _numbers(islice(deals, _BLOCK), first)):
            found += int((np.abs(_differences(right, asked, block)) >= observed).sum())
        return PermutationResult(found / ways)
    dice, found = np.random.default_rng(seed), 0
    for _ in range(_DEALS // _BLOCK):
        block = dice.permuted(np.tile(np.arange(people), (_BLOCK, 1)), axis=1)[:, :first]
        found += int((np.abs(_differences(right, asked, block)) >= observed).sum())
    return PermutationResult(
        (1 + found) / (1 + _DEALS), f"{_DEALS:,} random deals of {people} people, as all are too many"
    )


def _numbers(deals: Iterable[tuple[int, ...]], first: int) -> Int[np.ndarray, "deal first"]:
    return np.fromiter(chain.from_iterable(deals), dtype=np.int64).reshape(-1, first)


def _differences(
    right: Float[np.ndarray, " person"], asked: Float[np.ndarray, " person"], dealt: Int[np.ndarray, "deal first"]
) -> Float[np.ndarray, " deal"]:
    """For people who are dealt into the first group, all others being in the second."""
    ours, of = right[dealt].sum(1), asked[dealt].sum(1)
    return np.asarray(ours / of - (right.sum() - ours) / (asked.sum() - of))
