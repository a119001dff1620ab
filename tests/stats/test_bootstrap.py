"""Intervals of a gain: against loops over repeated rows, and by how often they hold the truth."""

import numpy as np
import pytest

from didact.errors import OptionError, ShapeError
from didact.stats import bootstrap
from didact.stats.bootstrap import (
    crossed_bootstrap,
    crossed_bootstrap_pearson,
    draws,
    mean_gains,
    pearson_gains,
    stretch,
)


def answers(seeds=4, rows=30, seed=0):
    """Two arms of outputs that follow a reference more or less, with an effect of seed and of row."""
    dice = np.random.default_rng(seed)
    reference = dice.normal(size=rows)
    shared = dice.normal(size=rows)
    arm, control = (
        reference * follow + 0.5 * shared + 0.3 * dice.normal(size=(seeds, 1)) + dice.normal(size=(seeds, rows)) + 5
        for follow in (1.0, 0.6)
    )
    return arm, control, reference


def listed(counts):
    """Counts written out: the places drawn, each as often as it was."""
    return np.repeat(np.arange(len(counts)), counts.astype(int))


def r_or_0(first, second):
    return np.corrcoef(first, second)[0, 1] if np.ptp(first) and np.ptp(second) else 0.0


def literal(measure, arm, control, seeds, rows):
    """One replicate as the paper has it: copy the drawn seeds and rows, and measure them."""
    rows = listed(rows)
    return np.mean([measure(arm[s, rows], rows) - measure(control[s, rows], rows) for s in listed(seeds)])


def test_draws_are_counts_of_draws_with_replacement(monkeypatch):
    monkeypatch.setattr(bootstrap, "_BLOCK", 100)
    blocks = list(draws(3, 40, replicates=2001, seed=0))
    assert [len(seeds) for seeds, _ in blocks] == [2] * 1000 + [1]
    seeds, rows = (np.concatenate(part) for part in zip(*blocks, strict=True))
    for counts, size in ((seeds, 3), (rows, 40)):
        assert (counts.sum(1) == size).all()
        np.testing.assert_allclose(counts.mean(0), 1, atol=0.12)
        np.testing.assert_allclose(counts.var(0), 1 - 1 / size, atol=0.15)
    assert abs(np.corrcoef(seeds[:, 0], rows[:, 0])[0, 1]) < 0.1, "seeds and rows are drawn apart"


def test_means_as_loops_have_them():
    arm, control, _ = answers()
    ((seeds, rows),) = draws(4, 30, replicates=50, seed=1)
    expected = [literal(lambda part, _: part.mean(), arm, control, *drawn) for drawn in zip(seeds, rows, strict=True)]
    np.testing.assert_allclose(mean_gains(arm - control, seeds, rows), expected)


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_pearson_as_numpy_has_it_on_repeated_rows(offset):
    arm, control, reference = answers()
    ((seeds, rows),) = draws(4, 30, replicates=50, seed=1)
    expected = [
        literal(lambda part, where: r_or_0(part, reference[where]), arm, control, *drawn)
        for drawn in zip(seeds, rows, strict=True)
    ]
    found = pearson_gains(arm - 5 + offset, control - 5, reference + offset, seeds, rows)
    np.testing.assert_allclose(found, expected, atol=1e-9 if offset else 1e-14)


def test_a_replicate_without_variety_counts_as_0():
    """Seven rows, of which a draw often repeats one value only; sums of 0.1 and 0.7 are not exact."""
    arm = np.array([[0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.7], [0.3, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7]])
    control = np.full((2, 7), 0.1)
    reference = np.array([0.3, 0.3, 0.1, 0.1, 0.6, 0.2, 0.1])
    ((seeds, rows),) = draws(2, 7, replicates=300, seed=0)
    expected = [
        literal(lambda part, where: r_or_0(part, reference[where]), arm, control, *drawn)
        for drawn in zip(seeds, rows, strict=True)
    ]
    assert np.mean(np.array(expected) == 0) > 0.1
    np.testing.assert_allclose(pearson_gains(arm, control, reference, seeds, rows), expected, atol=1e-9)


def test_plain_intervals_are_percentiles_of_the_replicates():
    arm, control, reference = answers()
    ((seeds, rows),) = draws(4, 30, replicates=400, seed=7)
    found = crossed_bootstrap(arm, control, replicates=400, level=0.9, seed=7, corrected=False)
    low, high = np.quantile(mean_gains(arm - control, seeds, rows), [0.05, 0.95])
    assert (found.gain, found.low, found.high) == pytest.approx(((arm - control).mean(), low, high))
    found = crossed_bootstrap_pearson(arm, control, reference, replicates=400, level=0.9, seed=7, corrected=False)
    low, high = np.quantile(pearson_gains(arm, control, reference, seeds, rows), [0.05, 0.95])
    gain = np.mean([r_or_0(a, reference) - r_or_0(c, reference) for a, c in zip(arm, control, strict=True)])
    assert (found.gain, found.low, found.high) == pytest.approx((gain, low, high))


def test_blocks_change_nothing(monkeypatch):
    arm, control, _ = answers(rows=300)
    whole = crossed_bootstrap(arm, control, replicates=2000)
    monkeypatch.setattr(bootstrap, "_BLOCK", 900)
    parts = crossed_bootstrap(arm, control, replicates=2000)
    assert (parts.low, parts.high) == pytest.approx((whole.low, whole.high), abs=0.1 * (whole.high - whole.low))
    assert parts.gain == whole.gain


def test_stretch_when_only_seeds_differ_is_students_t():
    """Rows all alike: the plain interval is that of a mean of 5 values, too short by √(4/5) and by t over z."""
    parts = np.repeat(np.random.default_rng(0).normal(size=(5, 1)), 40, axis=1)
    assert stretch(parts, level=0.95) == pytest.approx(np.sqrt(5 / 4) * 2.7764451 / 1.9599640)


def test_stretch_when_only_rows_differ_is_nothing():
    parts = np.repeat(np.random.default_rng(0).normal(size=(1, 4000)), 5, axis=0)
    assert stretch(parts, level=0.95) == pytest.approx(1, abs=1e-3)
    assert stretch(parts[:1], level=0.95) == pytest.approx(1, abs=1e-3)


def test_stretch_when_all_is_chance_takes_it_once_instead_of_three_times():
    parts = np.random.default_rng(0).normal(size=(1000, 1000))
    assert stretch(parts, level=0.95) == pytest.approx(np.sqrt(1 / 3), rel=0.05)


def test_stretch_matches_the_variance_of_draws():
    """The factor's denominator is what draws give in fact; recomputed here by their variance."""
    parts = np.random.default_rng(1).normal(size=(6, 1)) + np.random.default_rng(2).normal(size=(6, 20))
    ((seeds, rows),) = draws(6, 20, replicates=100_000, seed=0)
    means, places = parts.mean(1), parts.mean(0)
    left = parts - means[:, None] - places + parts.mean()
    by_seed, by_row, rest = means.var(ddof=1) / 6, places.var(ddof=1) / 20, (left**2).sum() / (5 * 19) / 120
    truth = max(by_seed + by_row - rest, by_seed, by_row)
    freedom = truth**2 / (by_seed**2 / 5 + by_row**2 / 19 + rest**2 / (5 * 19))
    from scipy import stats

    expected = np.sqrt(truth / mean_gains(parts, seeds, rows).var()) * stats.t.ppf(0.95, freedom) / stats.norm.ppf(0.95)
    assert stretch(parts, level=0.9) == pytest.approx(expected, rel=0.01)


def test_equal_arms_have_no_gain_and_no_width():
    arm, _, reference = answers()
    for found in (crossed_bootstrap(arm, arm), crossed_bootstrap_pearson(arm, arm, reference)):
        assert (found.gain, found.low, found.high) == (0, 0, 0)


def test_constant_students_predict_nothing():
    arm, _, reference = answers()
    found = crossed_bootstrap_pearson(arm, np.full_like(arm, 0.1), reference)
    assert found.gain == pytest.approx(np.mean([r_or_0(a, reference) for a in arm]))
    nothing = crossed_bootstrap_pearson(arm, arm[::-1].copy(), np.full_like(reference, 0.1))
    assert (nothing.gain, nothing.low, nothing.high) == (0, 0, 0)


def test_pearson_does_not_care_about_units():
    arm, control, reference = answers()
    found = crossed_bootstrap_pearson(arm, control, reference)
    moved = crossed_bootstrap_pearson(1e-9 * arm, 1e6 * control - 1e9, 1e12 + reference * 1e9)
    assert (found.gain, found.low, found.high) == pytest.approx((moved.gain, moved.low, moved.high), abs=1e-6)


def test_one_seed():
    arm, control, reference = answers(seeds=1)
    for found in (crossed_bootstrap(arm, control), crossed_bootstrap_pearson(arm, control, reference)):
        assert found.low < found.gain < found.high


@pytest.mark.parametrize(
    ("arm", "control", "message"),
    [
        (np.zeros((2, 5)), np.zeros((2, 4)), "paired"),
        (np.zeros((0, 5)), np.zeros((0, 5)), "at least 1 seed"),
        (np.zeros((2, 1)), np.zeros((2, 1)), "2 rows"),
        (np.full((2, 5), np.nan), np.zeros((2, 5)), "not numbers"),
        (np.zeros((2, 5)), np.full((2, 5), np.inf), "not numbers"),
    ],
)
def test_arms_that_cannot_be_compared(arm, control, message):
    with pytest.raises(ShapeError, match=message):
        crossed_bootstrap(arm, control)
    with pytest.raises(ShapeError, match=message):
        crossed_bootstrap_pearson(arm, control, np.zeros(arm.shape[1]))


def test_references_and_options_that_cannot_be_used():
    arm, control, reference = answers()
    with pytest.raises(ShapeError, match="30"):
        crossed_bootstrap_pearson(arm, control, reference[:-1])
    with pytest.raises(ShapeError, match="not numbers"):
        crossed_bootstrap_pearson(arm, control, np.where(reference > 0, np.nan, reference))
    for options in ({"level": 1.0}, {"replicates": 0}):
        with pytest.raises(OptionError):
            crossed_bootstrap(arm, control, **options)


# How often a 95 % interval holds the truth


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def simulated(dice, *, seed_sd, rows=500, seeds=8, lift=0.3, base=1.0, difficulty=1.5, taste=0.3):
    """Right or wrong answers of both arms, and the true gain: difficulty is shared, `taste` is a row's own by arm.

    `seed_sd` is the standard deviation over seeds of the paired difference of true accuracies, in points.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    weights /= weights.sum()
    chance = sigmoid(base + np.hypot(difficulty, taste) * nodes)
    effect = seed_sd / 100 / (weights @ (chance * (1 - chance))) / np.sqrt(2)
    spread = np.sqrt(difficulty**2 + taste**2 + effect**2)  # all parts are normal, so their sum is
    truth = weights @ (sigmoid(base + lift + spread * nodes) - sigmoid(base + spread * nodes))
    hard = difficulty * dice.normal(size=rows)
    arms = []
    for gift in (lift, 0.0):
        logits = base + gift + hard + taste * dice.normal(size=rows) + effect * dice.normal(size=(seeds, 1))
        arms.append((dice.random((seeds, rows)) < sigmoid(logits)).astype(float))
    return *arms, truth


def coverage(repetitions, *, corrected=True, **options):
    dice = np.random.default_rng(0)
    hits = 0
    for repetition in range(repetitions):
        arm, control, truth = simulated(dice, **options)
        found = crossed_bootstrap(arm, control, replicates=500, seed=repetition, corrected=corrected)
        hits += found.low <= truth <= found.high
    return hits / repetitions


@pytest.mark.parametrize("seed_sd", [0.5, 1.5, 3.0])
@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say(seed_sd):
    """Over the spread of seeds that students have."""
    assert 0.92 <= coverage(500, seed_sd=seed_sd) <= 0.98


@pytest.mark.slow
def test_plain_intervals_do_not():
    """Why the correction is there: too wide where single answers are chance, too narrow where seeds dominate."""
    assert coverage(200, corrected=False, seed_sd=0.5) > 0.98
    assert coverage(500, corrected=False, seed_sd=12.0) < 0.92


def test_row_parts_are_slopes_of_r():
    """The influence of a row is the slope of r as that row gets a little more weight, and all others less."""
    arm, _, reference = (bootstrap._standard(values) for values in answers(seeds=1))
    step = 1e-6
    rows = np.full((30, 30), 1 - step) + step * 30 * np.eye(30)
    shifted = pearson_gains(arm, np.zeros_like(arm), reference, np.ones((30, 1)), rows)
    r = r_or_0(arm[0], reference)
    parts = bootstrap._row_parts(arm, reference)[0]
    np.testing.assert_allclose(parts - r, (shifted - r) / step, atol=1e-4)
    assert parts.mean() == pytest.approx(r)


@pytest.mark.slow
def test_intervals_of_pearson_hold_the_truth():
    """Outputs follow the reference by more or less, a row misleads all students alike, and each errs for itself."""
    dice = np.random.default_rng(0)

    def follows(lift, size):
        return 1 + lift + 0.15 * dice.normal(size=size)

    def population(follow):  # r of one student over all rows there are: the other parts have variance 0.5² + 1²
        return follow / np.sqrt(follow**2 + 1.25)

    truth = (population(follows(0.3, 1_000_000)) - population(follows(0.0, 1_000_000))).mean()
    hits = 0
    for repetition in range(400):
        reference, misleading = dice.normal(size=200), 0.5 * dice.normal(size=200)
        arm, control = (
            follows(lift, (8, 1)) * reference + misleading + dice.normal(size=(8, 200)) for lift in (0.3, 0.0)
        )
        found = crossed_bootstrap_pearson(arm, control, reference, replicates=500, seed=repetition)
        hits += found.low <= truth <= found.high
    assert 0.92 <= hits / 400 <= 0.98, f"{hits / 4} %"


def test_several_series_share_their_draws():
    """Each interval is the one that its series has alone."""
    from didact.stats.bootstrap import mean_intervals

    values = np.random.default_rng(0).normal(size=(3, 40))
    for found, series in zip(mean_intervals(values), values, strict=True):
        alone = crossed_bootstrap(series[None], np.zeros((1, 40)))
        assert (found.gain, found.low, found.high) == pytest.approx((alone.gain, alone.low, alone.high), abs=1e-12)


class TestStrata:
    """Rows resampled within classes: the interval of a mean of class recalls."""

    def weighted(self, dice, seeds=6, rows=120, share=0.1):
        labels = (np.arange(rows) < share * rows).astype(np.int64)
        weights = np.where(labels == 1, 0.5 / labels.mean(), 0.5 / (1 - labels.mean()))
        arm, control = (dice.random((seeds, rows)) < 0.7, dice.random((seeds, rows)) < 0.5)
        return arm * weights, control * weights, labels

    def test_the_number_of_rows_of_each_stratum_is_fixed(self):
        strata = np.array([0, 0, 0, 1, 1, 2])
        for seeds, rows in draws(3, 6, replicates=50, seed=0, strata=strata):
            assert (seeds.sum(1) == 3).all()
            for stratum, count in ((0, 3), (1, 2), (2, 1)):
                assert (rows[:, strata == stratum].sum(1) == count).all()

    def test_one_stratum_is_none(self):
        dice = np.random.default_rng(0)
        arm, control = dice.random((2, 5, 60))
        plain = crossed_bootstrap(arm, control, replicates=300)
        assert crossed_bootstrap(arm, control, replicates=300, strata=np.zeros(60, dtype=np.int64)) == plain

    def test_is_narrower_than_without_where_classes_differ(self):
        arm, control, labels = self.weighted(np.random.default_rng(1))
        control[:] = 0  # a floor that is wrong everywhere: all that differs is between classes
        inside = crossed_bootstrap(arm, control, replicates=500, strata=labels)
        outside = crossed_bootstrap(arm, control, replicates=500)
        assert inside.gain == pytest.approx(outside.gain)
        assert inside.high - inside.low < 0.8 * (outside.high - outside.low)

    def test_covers_the_truth(self):
        """Gains in balanced agreement: students differ by seed, rows by difficulty, one class in ten is rare."""
        dice = np.random.default_rng(2)
        held = 0
        for _ in range(120):
            rows, seeds = 150, 6
            labels = (np.arange(rows) < 15).astype(np.int64)
            weights = np.where(labels == 1, 5.0, 0.5 / 0.9)
            hard, skill = dice.normal(0, 0.15, rows), dice.normal(0, 0.05, (seeds, 1))
            arm = dice.random((seeds, rows)) < np.clip(0.7 + hard + skill, 0, 1)
            control = dice.random((seeds, rows)) < np.clip(0.6 + hard + dice.normal(0, 0.05, (seeds, 1)), 0, 1)
            found = crossed_bootstrap(arm * weights, control * weights, replicates=200, strata=labels)
            held += found.low <= 0.1 <= found.high
        assert held >= 108  # 95 % of 120 are 114
