"""Holm's correction against numbers by hand and against its definition."""

import numpy as np
import pytest

from didact.errors import OptionError
from didact.stats.claims import holm


def literal(values):
    """Adjusted p of each: the largest, over tests up to it in order, of p times the tests not yet passed; at most 1."""
    values = np.asarray(values)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    for place in range(len(values)):
        adjusted[order[place]] = min(1, max((len(values) - k) * values[order[k]] for k in range(place + 1)))
    return adjusted


def test_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_none_does_not_count():
    assert holm([None, 0.01, None, 0.04]) == [None, pytest.approx(0.02), None, pytest.approx(0.04)]
    assert holm([None, None]) == [None, None]


@pytest.mark.parametrize("seed", range(5))
def test_as_defined(seed):
    values = np.random.default_rng(seed).choice([0.001, 0.01, 0.02, 0.04, 0.3], size=12)
    assert holm(values.tolist()) == pytest.approx(literal(values).tolist())


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_what_is_no_p(value):
    with pytest.raises(OptionError, match="between 0 and 1"):
        holm([0.1, value])
