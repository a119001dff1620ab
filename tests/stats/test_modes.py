"""Seeds that fall into two groups are found, and seeds that merely vary are not."""

import numpy as np
import pytest

from didact.results.gains import GainRow
from didact.stats.modes import lower_group_size


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([0.6, 0.61, 0.9, 0.91, 0.92, 0.89, 0.9, 0.9], 2),
        ([0.6, 0.9, 0.91, 0.9, 0.89, 0.91], 1),
        ([0.6, 0.6, 0.6, 0.61, 0.6, 0.9], 5),
        ([0.88, 0.9, 0.91, 0.87, 0.92, 0.93, 0.9, 0.89], 0),
        ([0.6, 0.9, 0.9, 0.9, 0.9], 0),  # too few
        ([0.9, 0.9, 0.9, 0.9, 0.94, 0.94, 0.94], 0),  # two groups, but close
        ([0.9] * 8, 0),
    ],
)
def test_groups(values, count):
    assert lower_group_size(np.array(values)) == count
    assert lower_group_size(np.array(values[::-1])) == count


def test_false_alarms_are_rare_and_failures_are_found():
    dice = np.random.default_rng(0)
    false = sum(lower_group_size(dice.normal(0.8, 0.05, 8)) > 0 for _ in range(2000))
    assert false <= 20
    found = [
        lower_group_size(dice.binomial(500, np.where(failed, 0.6, 0.9)) / 500) == failed.sum()
        for _ in range(300)
        if 0 < (failed := dice.random(8) < 0.2).sum() < 8
    ]
    assert np.mean(found) > 0.95


def sentence(lower: int) -> str:
    return GainRow("lime", "same", 9, 8, "accuracy", low_seeds=lower).modes_sentence


def test_sentences():
    assert "lime: 2 of 8 students failed to learn" in sentence(2)
    assert "lime: 1 of 8 students learned what the others did not" in sentence(7)
    assert "too narrow" in sentence(2)
