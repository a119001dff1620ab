"""The share of the remaining gap: against loops, the delta method, and how often its interval holds the truth."""

import numpy as np
import pytest

from didact.stats.contrast import crossed_contrast
from didact.stats.remaining_gap import closed_gap


def answers(dice, *, base=0.8, gain=0.05, seeds=6, rows=120):
    """Right or wrong answers of two arms that share how hard rows are."""
    hard = dice.normal(0, 0.15, rows)
    chances = base + gain + hard + dice.normal(0, 0.03, (seeds, 1)), base + hard + dice.normal(0, 0.03, (seeds, 1))
    return [(dice.random((seeds, rows)) < np.clip(chance, 0, 1)).astype(float) for chance in chances]


def test_by_hand():
    none = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])  # 3 of 8 right: 5 are left
    method = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])  # 5 right: 2 of the 5
    assert closed_gap(method, none).share == pytest.approx(2 / 5)
    assert closed_gap(none, method).share == pytest.approx(-2 / 3)
    always = closed_gap(np.ones((4, 20)), np.tile(none, (2, 5)), level=0.95)
    assert (always.share, always.low, always.high) == (1, 1, 1), "students that are always right close every gap"


def test_the_ends_are_where_the_test_just_rejects():
    method, none = answers(np.random.default_rng(0))
    for level in (0.9, 0.99):
        gap = closed_gap(method, none, level=level)
        for end in (gap.low, gap.high):
            contrast = crossed_contrast(method - end * (1 - none), none)
            low, high = contrast.interval(level)
            assert min(abs(low), abs(high)) == pytest.approx(0, abs=1e-9)


def test_it_excludes_0_exactly_if_the_gain_does():
    dice, both = np.random.default_rng(1), 0
    for _ in range(100):
        method, none = answers(dice, gain=dice.uniform(-0.15, 0.15))
        level = dice.choice([0.95, 0.975, 0.99])
        low, high = crossed_contrast(method, none).interval(level)
        gap = closed_gap(method, none, level=level)
        assert (low > 0) == (gap.low > 0)
        assert (high < 0) == (gap.high < 0)
        both += low > 0 or high < 0
    assert 20 < both < 90


def test_with_many_rows_it_is_the_delta_method():
    method, none = answers(np.random.default_rng(2), seeds=40, rows=3000)
    gap = closed_gap(method, none, level=0.95)
    terms = (method - none - gap.share * (1 - none)) / (1 - none).mean()
    delta = crossed_contrast(terms, np.zeros_like(terms))
    assert (gap.low, gap.high) == pytest.approx((gap.share + delta.low, gap.share + delta.high), abs=3e-3)


def test_strata_are_fixed():
    """Balanced agreement: the ends are those of contrasts within classes."""
    dice = np.random.default_rng(3)
    method, none = answers(dice)
    labels = (np.arange(120) < 12).astype(np.int64)
    weights = np.where(labels == 1, 5.0, 0.5 / 0.9)
    gap = closed_gap(method * weights, none * weights, level=0.95, strata=labels)
    assert gap.share == pytest.approx(((method - none) * weights).mean() / (1 - (none * weights).mean()))
    contrast = crossed_contrast(method * weights - gap.low * (weights - none * weights), none * weights, strata=labels)
    assert contrast.low == pytest.approx(0, abs=1e-9)


def test_where_it_is_undefined():
    method, none = answers(np.random.default_rng(4))
    assert closed_gap(method, np.ones_like(none), level=0.95) is None, "there is no gap"
    assert closed_gap(method, none).low is None, "no level, no interval"
    nearly = np.ones((2, 40))
    nearly[0, 0] = 0
    near = closed_gap(np.ones_like(nearly), nearly, level=0.95)
    assert (near.share, near.low, near.high) == (1, None, None), "the gap itself may be 0"


def test_order_of_seeds_and_rows_does_not_matter():
    dice = np.random.default_rng(5)
    method, none = answers(dice)
    seeds, rows = dice.permutation(6), dice.permutation(120)
    first = closed_gap(method, none, level=0.95)
    second = closed_gap(method[seeds][:, rows], none[seeds][:, rows], level=0.95)
    assert (first.low, first.high) == pytest.approx((second.low, second.high))


def test_covers_the_truth():
    """20 % is left and a quarter of it is closed; chances are not clipped here, so the truth is known."""
    dice, hits = np.random.default_rng(6), 0
    for _ in range(200):
        hard = dice.uniform(-0.1, 0.1, 200)
        none = (dice.random((6, 200)) < 0.8 + hard + dice.uniform(-0.04, 0.04, (6, 1))).astype(float)
        method = (dice.random((6, 200)) < 0.85 + hard + dice.uniform(-0.04, 0.04, (6, 1))).astype(float)
        gap = closed_gap(method, none, level=0.95)
        hits += gap.low <= 0.25 <= gap.high
    assert 0.91 <= hits / 200 <= 0.985
