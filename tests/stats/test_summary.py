"""Median and quartiles by hand."""

import numpy as np
import pytest

from didact.errors import ShapeError
from didact.stats.summary import Summary


def test_by_hand():
    assert Summary.of(np.array([4.0, 1.0, 3.0, 2.0])) == Summary(median=2.5, q25=1.75, q75=3.25)
    assert Summary.of(np.array([0.7])) == Summary(0.7, 0.7, 0.7)


def test_undefined_values_show():
    found = Summary.of(np.array([1.0, np.nan]))
    assert np.isnan([found.median, found.q25, found.q75]).all()


def test_nothing_cannot_be_summed_up():
    with pytest.raises(ShapeError, match="at least one seed"):
        Summary.of(np.array([]))
