"""Permutation test of whether two groups of people differ."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, combinations, islice
from math import comb
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from didact.errors import ShapeError

_ENUMERATED: Final = 200_000  # assignments to groups up to which all are evaluated
_SAMPLES: Final = 100_000
_BLOCK: Final = 10_000


@dataclass(frozen=True)
class PermutationResult:
    """A p-value, or None if there can be none. `reason` then says why; otherwise it is empty or a remark."""

    p: float | None
    reason: str = ""


def permutation_test(
    right: Float[np.ndarray, " person"],
    answered: Float[np.ndarray, " _"],
    is_first: Float[np.ndarray, " _"],
    *,
    level: float = 0.05,
    seed: int = 0,
) -> PermutationResult:
    """Two-sided test of the difference in the share of `answered` that is `right`; `is_first` is 1 in the first group.

    p is the share of all assignments of people to groups of these sizes that give at least as large a difference; with
    more than 200,000 assignments, of 100,000 random ones and the observed one (Phipson and Smyth, 2010). None if even
    the largest difference would not reach `level`.
    """
    if not right.shape == answered.shape == is_first.shape:
        raise ShapeError("Each person must have a number of right answers, a number of answers and a group.")
    people, first_size = len(right), int(is_first.sum())
    if min(first_size, people - first_size) < 1:
        return PermutationResult(
            None, f"a test needs people in both groups, not {first_size} and {people - first_size}"
        )
    ways = comb(people, first_size)
    smallest = (2 if 2 * first_size == people else 1) / ways  # groups of one size can be swapped
    if smallest > level:
        return PermutationResult(
            None,
            f"{first_size} and {people - first_size} people cannot reach {level:g}: "
            f"the smallest possible p is {smallest:g}",
        )
    observed_group = np.flatnonzero(is_first)[None]
    observed = abs(_differences(right, answered, observed_group)[0]) - 1e-12
    if ways <= _ENUMERATED:
        groups, extreme = combinations(range(people), first_size), 0
        while len(block := _group_array(islice(groups, _BLOCK), first_size)):
            extreme += int((np.abs(_differences(right, answered, block)) >= observed).sum())
        return PermutationResult(extreme / ways)
    rng, extreme = np.random.default_rng(seed), 0
    for _ in range(_SAMPLES // _BLOCK):
        block = rng.permuted(np.tile(np.arange(people), (_BLOCK, 1)), axis=1)[:, :first_size]
        extreme += int((np.abs(_differences(right, answered, block)) >= observed).sum())
    return PermutationResult(
        (1 + extreme) / (1 + _SAMPLES), f"{_SAMPLES:,} random assignments of {people} people, as all are too many"
    )


def _group_array(groups: Iterable[tuple[int, ...]], first_size: int) -> Int[np.ndarray, "deal first"]:
    return np.fromiter(chain.from_iterable(groups), dtype=np.int64).reshape(-1, first_size)


def _differences(
    right: Float[np.ndarray, " person"],
    answered: Float[np.ndarray, " person"],
    first_groups: Int[np.ndarray, "deal first"],
) -> Float[np.ndarray, " deal"]:
    """The difference for each assignment. People who are not in the first group are in the second."""
    first_right, first_answered = right[first_groups].sum(1), answered[first_groups].sum(1)
    return np.asarray(first_right / first_answered - (right.sum() - first_right) / (answered.sum() - first_answered))
