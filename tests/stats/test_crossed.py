"""Intervals over people and items: the full table as `bootstrap` has it, missing answers by least squares, coverage."""

import numpy as np
import pytest
from scipy import stats

from didact.errors import OptionError, ShapeError
from didact.stats.contrast import crossed_contrast
from didact.stats.crossed import (
    CrossedAnswers,
    crossed_intervals,
    crossed_variances,
    crossed_weights,
    remove_effects,
    simultaneous_quantile,
)


def full(people, items, groups=1):
    person, item = np.repeat(np.arange(people), items), np.tile(np.arange(items), people)
    return CrossedAnswers(person, item, person % groups)


def mean_influence(table):
    """Of a mean over all answers."""
    return ((table - table.mean()) / table.size).reshape(-1, 1)


def test_a_full_table_is_a_crossed_contrast():
    table = np.random.default_rng(0).normal(size=(6, 15)) + np.arange(6)[:, None] / 3
    found = crossed_variances(mean_influence(table), full(6, 15))
    contrast = crossed_contrast(table, np.zeros_like(table))
    assert (np.sqrt(found.total[0]), found.df[0]) == pytest.approx((contrast.se, contrast.df))


def test_variances_by_hand():
    """Two people, two items, answers 0, 2, 4, 10. Means 1, 7 and 2, 6, overall 4; what is left is ±1.

    person: 2·9/(2·1) = 9; item: 2·4/(2·1) = 4; cell: 4·1/(4·1) = 1; total 12.
    """
    found = crossed_variances(mean_influence(np.array([[0.0, 2], [4, 10]])), full(2, 2))
    assert (found.person[0], found.item[0], found.cell[0], found.total[0]) == pytest.approx((9, 4, 1, 12))
    assert found.df[0] == pytest.approx(144 / (81 + 16 + 1))


def test_effects_are_taken_out_by_least_squares():
    dice = np.random.default_rng(1)
    cells = full(5, 12)
    kept = dice.random(60) < 0.6
    person, item, values = cells.person[kept], cells.item[kept], dice.normal(size=(60, 2))[kept]
    dummies = np.column_stack([person[:, None] == np.arange(5), item[:, None] == np.arange(12)]).astype(float)
    wanted = values - dummies @ np.linalg.lstsq(dummies, values, rcond=None)[0]
    left, free = remove_effects(values, [person, item])
    np.testing.assert_allclose(left, wanted, atol=1e-7)
    assert free == kept.sum() - np.linalg.matrix_rank(dummies)


@pytest.mark.slow
@pytest.mark.parametrize("share", [1.0, 0.7])
def test_the_variance_is_right_on_average(share):
    """Of a mean over answers of 6 people about 15 items, a third of which may be missing; everything varies."""
    dice = np.random.default_rng(2)
    whole, estimates, variances = full(6, 15), [], []
    for _ in range(1000):
        kept = dice.random(90) < share
        cells = CrossedAnswers(whole.person[kept], whole.item[kept], whole.group[kept])
        truth = 0.4 * dice.normal(size=6)[cells.person] + 0.5 * dice.normal(size=15)[cells.item]
        answers = truth + dice.normal(size=kept.sum())
        estimates.append(answers.mean())
        found = crossed_variances(((answers - answers.mean()) / len(answers))[:, None], cells)
        variances.append((found.person + found.item - found.cell)[0])
    assert np.mean(variances) == pytest.approx(np.var(estimates), rel=0.12)


def test_groups_add_up():
    """People of two groups vary apart from one another: variances of a difference are sums."""
    table = np.random.default_rng(3).normal(size=(7, 9))
    person, item = np.repeat(np.arange(7), 9), np.tile(np.arange(9), 7)
    groups = (np.arange(7) < 3).astype(int)
    first, second = mean_influence(table[:3]), mean_influence(table[3:])
    found = crossed_variances(np.concatenate([first, -second]), CrossedAnswers(person, item, groups[person]))
    parts = [crossed_variances(first, full(3, 9)), crossed_variances(second, full(4, 9))]
    assert found.person[0] == pytest.approx(sum(one.person[0] for one in parts))
    assert found.cell[0] == pytest.approx(sum(one.cell[0] for one in parts))
    by_item = table[:3].mean(0) - table[3:].mean(0)
    assert found.item[0] == pytest.approx(by_item.var(ddof=1) / 9)


def test_weights_multiply_and_people_stay_in_their_groups():
    cells = full(6, 10, groups=2)
    weights = crossed_weights(cells, replicates=400, seed=1).reshape(400, 6, 10)
    assert (weights == weights[:, :, :].astype(int)).all()
    people = weights.sum(2) / 10
    np.testing.assert_allclose(people[:, ::2].sum(1), 3)
    np.testing.assert_allclose(people[:, 1::2].sum(1), 3)
    items = weights.sum(1) / 6
    np.testing.assert_allclose(weights, people[:, :, None] * items[:, None, :])
    assert people.var() == pytest.approx(2 / 3, rel=0.1)
    np.testing.assert_array_equal(weights.reshape(400, -1), crossed_weights(cells, replicates=400, seed=1))


def test_one_person_is_about_items_and_one_answer_about_nothing():
    table = np.random.default_rng(4).normal(size=(1, 20))
    found = crossed_variances(mean_influence(table), full(1, 20))
    assert found.total[0] == pytest.approx(table.var(ddof=1) / 20)
    assert found.df[0] == pytest.approx(19)
    alone = crossed_variances(np.zeros((1, 1)), full(1, 1))
    ends = crossed_intervals(np.zeros(1), np.zeros((5, 1)), alone)
    assert np.isnan([ends.low[0], ends.high[0], ends.error[0]]).all()


def test_of_these_people_only_items_vary():
    table = np.random.default_rng(5).normal(size=(4, 30)) + np.arange(4)[:, None]
    found = crossed_variances(mean_influence(table), full(4, 30))
    here = found.for_same_people()
    assert here.total[0] == pytest.approx(table.mean(0).var(ddof=1) / 30)
    assert here.df[0] == pytest.approx(29)
    assert found.total[0] > 20 * here.total[0]


def test_moderated_variances_are_halfway_to_their_mean():
    found = crossed_variances(np.random.default_rng(6).normal(size=(40, 3)), full(4, 10))
    half = found.moderated(df_factor=2.0)
    np.testing.assert_allclose(half.person, (found.person + found.person.mean()) / 2)
    np.testing.assert_allclose(half.person_df, 6)
    np.testing.assert_allclose(half.item, found.item)


def test_the_floor_holds():
    cells = full(3, 5)
    found = crossed_variances(np.zeros((15, 2)), cells, floor=np.array([0.25, 0.0]))
    assert found.total.tolist() == [0.25, 0.0]
    ends = crossed_intervals(np.zeros(2), np.zeros((9, 2)), found)
    assert (ends.low[0], ends.high[0]) == pytest.approx((-0.98, 0.98), abs=1e-3)
    assert np.isnan(ends.low[1])


def test_intervals_are_as_lopsided_as_the_draws():
    table = np.random.default_rng(7).normal(size=(8, 25))
    variances = crossed_variances(mean_influence(table), full(8, 25))
    skewed = np.random.default_rng(8).exponential(size=(20_000, 1))
    ends = crossed_intervals(np.array([1.0]), skewed, variances)
    assert (ends.high[0] - 1) / (1 - ends.low[0]) == pytest.approx(
        (np.log(40) - np.log(2)) / (np.log(2) + np.log(0.975)), rel=0.1
    )
    half = stats.t.ppf(0.975, variances.df[0]) * np.sqrt(variances.total[0])
    assert ends.high[0] - ends.low[0] == pytest.approx(2 * half)


def test_together_lies_between_one_and_bonferroni():
    """Of independent quantities it is Šidák's; of one and the same, that of one."""
    draws = np.random.default_rng(9).normal(size=(50_000, 4))
    assert simultaneous_quantile(draws, level=0.95) == pytest.approx(stats.norm.ppf((1 + 0.95**0.25) / 2), abs=0.03)
    assert simultaneous_quantile(np.repeat(draws[:, :1], 4, axis=1), level=0.95) == pytest.approx(1.96, abs=0.03)
    assert simultaneous_quantile(np.zeros((9, 2)), level=0.9) == pytest.approx(1.645, abs=1e-3)


def test_names_do_not_matter():
    values = np.random.default_rng(10).normal(size=(12, 1))
    people, items = [f"p{one % 3}" for one in range(12)], [f"i{one // 3}" for one in range(12)]
    plain = crossed_variances(values, CrossedAnswers.of(people, items))
    renamed = crossed_variances(values, CrossedAnswers.of([f"x{9 - int(one[1])}" for one in people], items))
    order = np.random.default_rng(0).permutation(12)
    moved = crossed_variances(
        values[order], CrossedAnswers.of([people[one] for one in order], [items[one] for one in order])
    )
    for other in (renamed, moved):
        assert plain.total[0] == pytest.approx(other.total[0])
        assert plain.df[0] == pytest.approx(other.df[0])


def test_refused():
    with pytest.raises(ShapeError, match="one group only"):
        CrossedAnswers.of(["a", "a"], ["1", "2"], ["x", "y"])
    with pytest.raises(ShapeError, match="one influence per answer"):
        crossed_variances(np.zeros((3, 1)), full(2, 2))
    with pytest.raises(OptionError, match="replicates"):
        crossed_weights(full(2, 2), replicates=0, seed=0)
    with pytest.raises(OptionError, match="level"):
        crossed_intervals(np.zeros(1), np.zeros((2, 1)), crossed_variances(np.zeros((4, 1)), full(2, 2)), level=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("people", "items"), [(3, 60), (5, 40), (10, 20)])
@pytest.mark.parametrize(("by_person", "by_item"), [(0.0, 0.0), (0.0, 0.5), (0.42, 0.0), (0.42, 0.5), (1.0, 0.0)])
def test_coverage(people, items, by_person, by_item):
    """Of 95 % intervals, 90 to 99 % hold the truth, whether people differ or not. Answers vary by 1.75."""
    dice, cells, held = np.random.default_rng(11), full(people, items), 0
    for _ in range(1000):
        table = by_person * dice.normal(size=(people, 1)) + by_item * dice.normal(size=items)
        table = table + 1.75 * dice.normal(size=(people, items))
        variances = crossed_variances(mean_influence(table), cells)
        ends = crossed_intervals(table.mean(keepdims=True)[0], np.array([[-1.0], [0.0], [1.0]]), variances)
        held += bool(ends.low[0] <= 0 <= ends.high[0])
    assert 900 <= held <= 990
