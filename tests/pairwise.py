"""Fewer cases of a product of parameters, with the same values: every pair of them, or at least each of them."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import Any

import pytest


def pairwise(cases: Iterable[Sequence[Any]], strength: int = 2) -> list[tuple[Any, ...]]:
    """Return few of the cases, in their order: any two values that stand together in a case still do in one of these.

    Cases that cannot be are left out by the caller. With strength 1 each value is kept, with 3 every triple.
    """
    every = [tuple(case) for case in cases]
    covers = [_groups(case, strength) for case in every]
    missing = set().union(*covers)
    kept: set[int] = set()
    while missing:  # greedy: the case that covers most of what is missing, the first of equals
        best = max(range(len(every)), key=lambda place: len(covers[place] & missing))
        kept.add(best)
        missing -= covers[best]
    return [every[place] for place in sorted(kept)]


def thinned(cases: Iterable[Sequence[Any]], fast: int = 1) -> list[Any]:
    """Return the cases that keep every pair: those that keep each value stay in the fast tests, the others are slow.

    With fast=2 every pair is kept in the fast tests, and the whole product in the slow ones.
    """
    every = [tuple(case) for case in cases]
    quick = pairwise(every, fast)
    rest = [case for case in pairwise(every, fast + 1) if case not in quick]
    return [pytest.param(*case) for case in quick] + [pytest.param(*case, marks=pytest.mark.slow) for case in rest]


def _groups(case: tuple[Any, ...], strength: int) -> set[tuple[tuple[int, Hashable], ...]]:
    values = [(place, value if isinstance(value, Hashable) else repr(value)) for place, value in enumerate(case)]
    return set(combinations(values, min(strength, len(values))))
