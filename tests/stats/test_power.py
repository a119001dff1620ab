"""How many people: closed forms, and a simulated study of the size that was told."""

import numpy as np
import pytest
from scipy import stats

from didact.errors import OptionError
from didact.stats.crossed import CrossedAnswers, crossed_variances
from didact.stats.power import VarianceComponents, detectable_difference, people_needed, variance


def test_parts_are_recovered():
    dice, found = np.random.default_rng(0), []
    cells = CrossedAnswers(np.repeat(np.arange(20), 50), np.tile(np.arange(50), 20), np.zeros(1000, dtype=int))
    for _ in range(40):
        table = 0.5 * dice.normal(size=(20, 1)) + 0.8 * dice.normal(size=50) + 2 * dice.normal(size=(20, 50))
        influence = ((table - table.mean()) / 1000).reshape(-1, 1)
        found.append(VarianceComponents.of(crossed_variances(influence, cells), cells, 0))
    assert np.mean([one.person for one in found]) == pytest.approx(0.25, rel=0.15)
    assert np.mean([one.item for one in found]) == pytest.approx(0.64, rel=0.1)
    assert np.mean([one.cell for one in found]) == pytest.approx(4, rel=0.03)


def test_people_alone_as_the_t_test_has_it():
    """With people's variance alone it is the one-sample t-test: (t₀.₉₇₅ + t₀.₈)·σ/√n ≤ difference."""
    parts = VarianceComponents(person=1.0, item=0.0, cell=0.0)
    needed = people_needed(parts, difference=0.5, items=60)
    assert needed.people == 34  # as every table of the t-test says for d = 0.5
    for people, enough in ((34, True), (33, False)):
        free = people - 1
        assert ((stats.t.ppf(0.975, free) + stats.t.ppf(0.8, free)) / np.sqrt(people) <= 0.5) is np.bool_(enough)


def test_two_groups_as_the_two_sample_t_test_has_it():
    """64 in each group for d = 0.5; the difference has twice the variance."""
    assert people_needed(VarianceComponents(2.0, 0.0, 0.0, groups=2), difference=0.5, items=20).people == 64


def test_what_is_told_is_detectable_and_one_less_is_not():
    parts = VarianceComponents(person=0.1, item=0.2, cell=3.0)
    needed = people_needed(parts, difference=0.3, items=80)
    assert needed.limit == ""
    assert detectable_difference(parts, people=needed.people, items=80) <= 0.3
    assert detectable_difference(parts, people=needed.people - 1, items=80) > 0.3


def test_items_may_be_what_limits():
    parts = VarianceComponents(person=0.1, item=1.0, cell=1.0)
    needed = people_needed(parts, difference=0.3, items=20)
    assert "20 items are too few for any number of people" in needed.limit
    assert needed.items > 20
    assert needed.people is not None
    assert detectable_difference(parts, people=needed.people, items=needed.items) <= 0.3
    assert detectable_difference(parts, people=10**6, items=20) > 0.3


def test_more_power_takes_more_people():
    parts = VarianceComponents(person=0.5, item=0.0, cell=1.0)
    sizes = [people_needed(parts, difference=0.4, items=30, power=power).people for power in (0.5, 0.8, 0.95)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3
    assert variance(parts, people=10, items=5) == pytest.approx(0.05 + 0.02)


def test_refused():
    parts = VarianceComponents(1.0, 1.0, 1.0)
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(OptionError, match="above 0"):
            people_needed(parts, difference=wrong, items=10)
    with pytest.raises(OptionError, match="at least 2"):
        detectable_difference(parts, people=1, items=10)


@pytest.mark.slow
def test_a_study_of_that_size_has_that_power():
    parts = VarianceComponents(person=0.16, item=0.09, cell=2.0)
    people = people_needed(parts, difference=0.4, items=50).people
    dice, told = np.random.default_rng(1), 0
    cells = CrossedAnswers(
        np.repeat(np.arange(people), 50), np.tile(np.arange(50), people), np.zeros(people * 50, dtype=int)
    )
    for _ in range(600):
        table = 0.4 + 0.4 * dice.normal(size=(people, 1)) + 0.3 * dice.normal(size=50)
        table = table + np.sqrt(2) * dice.normal(size=(people, 50))
        found = crossed_variances(((table - table.mean()) / table.size).reshape(-1, 1), cells)
        told += table.mean() > stats.t.ppf(0.975, found.df[0]) * np.sqrt(found.total[0])
    assert told / 600 == pytest.approx(0.8, abs=0.07)
