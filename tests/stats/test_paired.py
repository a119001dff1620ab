"""Paired tests against scipy and against every choice of signs."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from didact.errors import OptionError, ShapeError
from didact.stats.paired import paired_test

DICE = np.random.default_rng(0)


def by_hand(differences, statistic):
    """The share of all sign choices at least as far from 0 as the one seen."""
    seen = abs(statistic(differences))
    flips = [abs(statistic(differences * signs)) for signs in product([1, -1], repeat=len(differences))]
    return np.mean(np.array(flips) >= seen - 1e-9)


def signed_ranks(differences):
    """Pratt's: zeros take part in the ranking, and then have no sign."""
    return np.sign(differences) @ stats.rankdata(np.abs(differences))


@pytest.mark.parametrize("count", [6, 8, 13, 40])
def test_wilcoxon_as_scipy_has_it(count):
    for shift in (0, 0.5, 3):
        differences = DICE.normal(shift, size=count)
        expected = stats.wilcoxon(differences, method="exact").pvalue
        assert paired_test(differences).p == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_wilcoxon_with_ties_and_zeros(seed):
    differences = np.random.default_rng(seed).integers(-2, 5, size=9) / 10
    assert paired_test(differences).p == pytest.approx(by_hand(differences, signed_ranks))


@pytest.mark.parametrize("seed", range(10))
def test_sign_flip_as_every_flip_has_it(seed):
    differences = np.random.default_rng(seed).integers(-2, 5, size=9) / 10
    assert paired_test(differences, kind="sign_flip").p == pytest.approx(by_hand(differences, np.sum))


def test_sign_flip_as_scipy_has_it():
    differences = DICE.normal(0.4, size=8)
    found = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert paired_test(differences, kind="sign_flip").p == pytest.approx(found.pvalue)


def test_sign_flip_of_many_seeds_is_drawn_and_says_so():
    differences = np.random.default_rng(3).normal(0.4, size=21)
    found = paired_test(differences, kind="sign_flip")
    sums = np.zeros(1)
    for difference in differences:
        sums = np.concatenate([sums + difference, sums - difference])
    assert found.p == pytest.approx(np.mean(np.abs(sums) >= abs(differences.sum()) - 1e-9), abs=0.004)
    assert "100,000 random flips" in found.reason
    assert paired_test(differences, kind="sign_flip") == found
    assert paired_test(differences, kind="sign_flip", seed=1).p != found.p
    assert paired_test(np.ones(40), kind="sign_flip").p == pytest.approx(1 / 100_001)


def test_equal_differences_are_ties_though_rounding_parts_them():
    """0.3 − 0.2 is not 0.9 − 0.8 for a computer."""
    differences = np.array(
        [0.3 - 0.2, 0.8 - 0.9, 0.5 - 0.4, 0.7 - 0.6, 0.2 - 0.1, 0.1 + 0.2 - 0.3, 0.4 - 0.3, 0.6 - 0.5]
    )
    clean = np.array([1.0, -1, 1, 1, 1, 0, 1, 1])
    for kind in ("wilcoxon", "sign_flip"):
        assert paired_test(differences, kind=kind).p == paired_test(clean, kind=kind).p == 2 * 8 / 128


@pytest.mark.parametrize("kind", ["wilcoxon", "sign_flip"])
def test_what_few_seeds_cannot_say(kind):
    five = paired_test(np.arange(1.0, 6), kind=kind)
    assert five.p is None
    assert five.reason == "5 seeds cannot reach 0.05: the smallest possible p is 0.0625"
    assert paired_test(np.arange(1.0, 6), kind=kind, level=0.0625).p == 0.0625
    assert paired_test(np.arange(1.0, 7), kind=kind).p == 2 / 64
    for count in (0, 1):
        alone = paired_test(np.ones(count), kind=kind, level=1.0)
        assert alone.p is None
        assert f"not {count}" in alone.reason


@pytest.mark.parametrize("kind", ["wilcoxon", "sign_flip"])
def test_no_difference_at_all(kind):
    assert paired_test(np.zeros(8), kind=kind).p == 1


def test_a_thousand_seeds():
    assert paired_test(np.arange(1.0, 1001)).p == pytest.approx(2.0**-999, rel=1e-9)
    differences = np.random.default_rng(0).normal(0.05, size=1000)
    expected = stats.wilcoxon(differences, method="asymptotic").pvalue
    assert paired_test(differences).p == pytest.approx(expected, rel=0.01)


def test_what_is_not_a_test():
    with pytest.raises(OptionError, match="wilcoxon or sign_flip"):
        paired_test(np.ones(8), kind="t")
    with pytest.raises(ShapeError, match="must be numbers"):
        paired_test(np.array([1.0, np.nan] * 4))
