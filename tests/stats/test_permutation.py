"""Permutation of people between groups, with counts by hand."""

from itertools import combinations

import numpy as np
import pytest

from didact.errors import ShapeError
from didact.stats.permutation import permutation_test


def test_three_and_three_counted_by_hand():
    """0, 1, 2 against 3, 4, 5 of 10: only this deal and its mirror are as extreme, of 20: 0.1, which is no 0.05."""
    found = permutation_test(np.arange(6.0), np.full(6, 10.0), np.array([1.0, 1, 1, 0, 0, 0]), level=0.2)
    assert found.p == pytest.approx(2 / 20)
    refused = permutation_test(np.arange(6.0), np.full(6, 10.0), np.array([1.0, 1, 1, 0, 0, 0]))
    assert refused.p is None
    assert "smallest possible p is 0.1" in refused.reason


def test_unequal_groups_have_no_mirror():
    """1 of 20 people alone at the top: one deal of 20, p = 0.05."""
    right = np.array([9.0, *range(19)]) / 2
    right[0] = 30
    found = permutation_test(right, np.full(20, 40.0), np.array([1.0, *[0.0] * 19]))
    assert found.p == pytest.approx(1 / 20)


def test_as_a_literal_count_with_unequal_numbers_of_answers():
    dice = np.random.default_rng(0)
    asked = dice.integers(5, 20, 9).astype(float)
    right = np.floor(asked * dice.random(9))
    group = np.array([1.0] * 4 + [0.0] * 5)

    def difference(first):
        rest = [one for one in range(9) if one not in first]
        return right[list(first)].sum() / asked[list(first)].sum() - right[rest].sum() / asked[rest].sum()

    seen = abs(difference((0, 1, 2, 3)))
    every = [abs(difference(first)) for first in combinations(range(9), 4)]
    assert permutation_test(right, asked, group).p == pytest.approx(np.mean([one >= seen - 1e-12 for one in every]))


def test_many_people_are_dealt_at_random():
    dice = np.random.default_rng(0)
    right = dice.binomial(20, 0.6, 40).astype(float)
    right[:20] += 2
    asked, group = np.full(40, 25.0), np.repeat([1.0, 0.0], 20)
    first, again = (permutation_test(right, asked, group, seed=3) for _ in range(2))
    assert first == again
    assert "100,000" in first.reason
    scipy = pytest.importorskip("scipy.stats")
    close = scipy.ttest_ind(right[:20], right[20:]).pvalue
    assert first.p == pytest.approx(close, rel=0.4)


def test_nobody_differs():
    assert permutation_test(np.full(8, 3.0), np.full(8, 5.0), np.repeat([1.0, 0.0], 4)).p == 1


def test_refused():
    assert permutation_test(np.ones(3), np.ones(3), np.ones(3)).p is None
    with pytest.raises(ShapeError):
        permutation_test(np.ones(3), np.ones(2), np.ones(3))
