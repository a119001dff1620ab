"""Whether two groups of people differ: what if they had been dealt into the groups in another way?"""

from itertools import combinations
from math import comb
from typing import Final

import numpy as np
from jaxtyping import Float

from didact.errors import ShapeError
from didact.stats.paired import Test

_ENUMERATED: Final = 200_000  # ways to deal people up to which all are tried
_DEALS: Final = 100_000
_BLOCK: Final = 10_000


def permutation_test(
    right: Float[np.ndarray, " person"],
    asked: Float[np.ndarray, " _"],
    is_first: Float[np.ndarray, " _"],
    *,
    level: float = 0.05,
    seed: int = 0,
) -> Test:
    """Two-sided test of the difference in the share of `asked` that is `right`; `is_first` is 1 in the first group.

    p is the share of all ways to deal the people into groups of these sizes that give at least as large a difference;
    with more than 200,000 ways, of 100,000 random ones and the observed one (Phipson and Smyth, 2010). None where even
    the largest difference would not reach `level`.
    """
    if not right.shape == asked.shape == is_first.shape:
        raise ShapeError("Each person has what was right, what was asked and a group.")
    people, first = len(right), int(is_first.sum())
    if min(first, people - first) < 1:
        return Test(None, f"a test needs people in both groups, not {first} and {people - first}")
    ways = comb(people, first)
    smallest = (2 if 2 * first == people else 1) / ways  # groups of one size can be swapped
    if smallest > level:
        return Test(
            None, f"{first} and {people - first} people cannot reach {level:g}: the smallest possible p is {smallest:g}"
        )
    observed = abs(_differences(right, asked, is_first[None])[0]) - 1e-12
    if ways <= _ENUMERATED:
        found = 0
        deals = combinations(range(people), first)
        while block := [deal for deal, _ in zip(deals, range(_BLOCK), strict=False)]:
            groups = np.zeros((len(block), people))
            groups[np.arange(len(block))[:, None], np.array(block)] = 1
            found += int((np.abs(_differences(right, asked, groups)) >= observed).sum())
        return Test(found / ways)
    dice, found = np.random.default_rng(seed), 0
    for _ in range(_DEALS // _BLOCK):
        groups = dice.permuted(np.tile(is_first, (_BLOCK, 1)), axis=1)
        found += int((np.abs(_differences(right, asked, groups)) >= observed).sum())
    return Test((1 + found) / (1 + _DEALS), f"{_DEALS:,} random deals of {people} people, as all are too many")


def _differences(
    right: Float[np.ndarray, " person"], asked: Float[np.ndarray, " person"], groups: Float[np.ndarray, "deal person"]
) -> Float[np.ndarray, " deal"]:
    others = 1 - groups
    return np.asarray((groups @ right) / (groups @ asked) - (others @ right) / (others @ asked))
