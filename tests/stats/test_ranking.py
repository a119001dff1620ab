"""Ranks by hand, Kendall's τ against scipy and by counting pairs."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from didact.errors import ShapeError
from didact.stats.ranking import kendall, kendall_matrix, ranks

NAN = float("nan")


def pairs_counted(first, second):
    """τ-b as Kendall defined it in 1945."""
    signs = [
        (np.sign(first[i] - first[j]), np.sign(second[i] - second[j])) for i, j in combinations(range(len(first)), 2)
    ]
    agreeing = sum(a * b for a, b in signs)
    return agreeing / np.sqrt(sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs))


def test_ranks_by_hand():
    np.testing.assert_array_equal(ranks(np.array([0.1, 0.9, 0.5])), [3, 1, 2])
    np.testing.assert_array_equal(ranks(np.array([0.5, 0.9, 0.5, 0.1])), [2.5, 1, 2.5, 4])
    np.testing.assert_array_equal(ranks(np.array([NAN, 0.9, NAN, -np.inf])), [3.5, 1, 3.5, 2])
    np.testing.assert_array_equal(ranks(np.array([NAN])), [1])
    assert len(ranks(np.array([]))) == 0


@pytest.mark.parametrize("seed", range(5))
def test_kendall_as_scipy_has_it_and_by_pairs(seed):
    first, second = np.random.default_rng(seed).integers(0, 6, size=(2, 12)).astype(float)
    assert kendall(first, second) == pytest.approx(stats.kendalltau(first, second).statistic)
    assert kendall(first, second) == pytest.approx(pairs_counted(first, second))


def test_kendall_looks_at_what_both_have():
    first, second = np.array([1.0, 2, 3, NAN, 5]), np.array([1.0, 3, 2, 9, NAN])
    assert kendall(first, second) == pytest.approx(1 / 3)


@pytest.mark.parametrize("second", [[1, 1, 1], [NAN, NAN, 2], [NAN] * 3])
def test_kendall_where_undefined(second):
    assert np.isnan(kendall(np.array([1.0, 2, 3]), np.array(second, dtype=float)))


def test_kendall_of_unlike_lengths():
    with pytest.raises(ShapeError, match="3 and 2"):
        kendall(np.zeros(3), np.zeros(2))


def test_kendall_matrix():
    columns = np.array([[1.0, 2, 3], [3, 2, 1], [1, 3, 2], [1, 1, 1]])
    third = 1 / 3
    expected = [[1, -1, third, NAN], [-1, 1, -third, NAN], [third, -third, 1, NAN], [NAN] * 4]
    np.testing.assert_allclose(kendall_matrix(columns), expected)
    assert kendall_matrix(np.empty((0, 3))).shape == (0, 0)
