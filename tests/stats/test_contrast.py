"""Contrasts of two arms: against closed forms and loops, and by how often their intervals hold the truth."""

import itertools
import time

import numpy as np
import pytest
from scipy import stats

from didact.errors import OptionError, ShapeError
from didact.results.contrast import Contrast, ContrastTable
from didact.stats.contrast import crossed_contrast, pairwise_contrasts, pearson_terms, row_contrasts


def arms(seeds=4, rows=30, seed=0):
    """Two arms of outputs that follow a reference more or less, with an effect of seed and of row."""
    dice = np.random.default_rng(seed)
    reference = dice.normal(size=rows)
    shared = dice.normal(size=rows)
    first, second = (
        reference * follow + 0.5 * shared + 0.3 * dice.normal(size=(seeds, 1)) + dice.normal(size=(seeds, rows)) + 5
        for follow in (1.0, 0.6)
    )
    return first, second, reference


def correlation(first, second):
    return np.corrcoef(first, second)[0, 1] if np.ptp(first) and np.ptp(second) else 0.0


class TestClosedForm:
    def test_the_variance_as_textbooks_have_it(self):
        """Mean squares of a two-way layout, computed by loops."""
        first, second, _ = arms(6, 20)
        parts = first - second
        seeds, rows = parts.shape
        mean = parts.mean()
        by_seed = sum((parts[s].mean() - mean) ** 2 for s in range(seeds)) / (seeds - 1) / seeds
        by_row = sum((parts[:, r].mean() - mean) ** 2 for r in range(rows)) / (rows - 1) / rows
        rest = sum(
            (parts[s, r] - parts[s].mean() - parts[:, r].mean() + mean) ** 2 for s in range(seeds) for r in range(rows)
        )
        rest /= (seeds - 1) * (rows - 1) * seeds * rows
        total = max(by_seed + by_row - rest, by_seed, by_row)
        df = total**2 / (by_seed**2 / 5 + by_row**2 / 19 + rest**2 / (5 * 19))
        found = crossed_contrast(first, second)
        assert (found.difference, found.se, found.df) == pytest.approx((mean, np.sqrt(total), df))
        assert (found.seed_variance, found.row_variance, found.cell_variance) == pytest.approx((by_seed, by_row, rest))
        assert (found.seeds, found.rows) == (6, 20)

    def test_where_only_seeds_differ_it_is_students_t_over_seeds(self):
        gaps = np.random.default_rng(0).normal(size=5)
        parts = np.repeat(gaps[:, None], 40, axis=1)
        found = crossed_contrast(parts, np.zeros_like(parts))
        test = stats.ttest_1samp(gaps, 0)
        assert found.p == pytest.approx(test.pvalue)
        assert found.interval(0.9) == pytest.approx(tuple(test.confidence_interval(0.9)))

    def test_one_seed_is_students_t_over_rows(self):
        first, second, _ = arms(seeds=1)
        found = crossed_contrast(first, second)
        test = stats.ttest_rel(first[0], second[0])
        assert found.p == pytest.approx(test.pvalue)
        assert (found.low, found.high) == pytest.approx(tuple(test.confidence_interval()))

    def test_where_all_is_chance_it_counts_once(self):
        """Seeds, rows and cells each show the chance in single answers; the mean has it once."""
        parts = np.random.default_rng(0).normal(size=(400, 400))
        assert crossed_contrast(parts, np.zeros_like(parts)).se == pytest.approx(1 / 400, rel=0.1)

    def test_p_and_interval_are_one_statement(self):
        for difference in (0.0, 0.011, 0.0203, 0.0204, -0.05):
            contrast = Contrast(difference, 0.01, 31.0, 8, 100)
            for level in (0.8, 0.95, 0.99):
                low, high = contrast.interval(level)
                assert (contrast.p < 1 - level) == (low > 0 or high < 0)

    def test_the_other_way_round(self):
        first, second, _ = arms()
        one, two = crossed_contrast(first, second), crossed_contrast(second, first)
        assert (-one).difference == two.difference
        assert (-one).interval() == pytest.approx(two.interval())

    def test_equal_arms_and_constant_gaps(self):
        first, _, _ = arms()
        same = crossed_contrast(first, first)
        assert (same.difference, same.interval(), same.p) == (0, (0, 0), 1)
        gap = crossed_contrast(np.ones((3, 4)), np.zeros((3, 4)))
        assert (gap.interval(), gap.p) == ((1, 1), 0)

    @pytest.mark.parametrize(
        ("first", "second", "message"),
        [
            (np.zeros((2, 5)), np.zeros((2, 4)), "paired"),
            (np.zeros((0, 5)), np.zeros((0, 5)), "at least 1 seed"),
            (np.zeros((2, 1)), np.zeros((2, 1)), "2 rows"),
            (np.full((2, 5), np.nan), np.zeros((2, 5)), "NaN or infinite"),
            (np.zeros((2, 5)), np.full((2, 5), np.inf), "NaN or infinite"),
        ],
    )
    def test_arms_that_cannot_be_contrasted(self, first, second, message):
        with pytest.raises(ShapeError, match=message):
            crossed_contrast(first, second)

    def test_a_level_that_is_none(self):
        with pytest.raises(OptionError, match="level"):
            Contrast(0.1, 0.1, 5.0, 2, 2).interval(1.0)


class TestPearson:
    def test_the_difference_is_that_of_the_mean_correlations(self):
        first, second, reference = arms()
        found = crossed_contrast(pearson_terms(first, reference), pearson_terms(second, reference))
        wanted = np.mean(
            [correlation(a, reference) - correlation(b, reference) for a, b in zip(first, second, strict=True)]
        )
        assert found.difference == pytest.approx(wanted)

    def test_parts_are_slopes_of_r(self):
        """The influence of a row is the slope of r as that row gets a little more weight, and all others less."""
        outputs, _, reference = arms(seeds=1)
        parts, step = pearson_terms(outputs, reference)[0], 1e-6

        def weighted(weights):
            weights = weights / weights.sum()
            x, y = outputs[0] - weights @ outputs[0], reference - weights @ reference
            return weights @ (x * y) / np.sqrt((weights @ x**2) * (weights @ y**2))

        r = weighted(np.ones(30))
        slopes = [(weighted(np.full(30, 1 - step) + step * 30 * unit) - r) / step for unit in np.eye(30)]
        np.testing.assert_allclose(parts - r, slopes, atol=1e-4)
        assert parts.mean() == pytest.approx(r)

    def test_units_do_not_matter_and_constants_predict_nothing(self):
        first, _, reference = arms()
        parts = pearson_terms(first, reference)
        np.testing.assert_allclose(pearson_terms(1e6 * first - 1e9, 1e12 + reference * 1e9), parts, atol=1e-4)
        assert (pearson_terms(np.full_like(first, 0.1), reference) == 0).all()
        assert (pearson_terms(first, np.full_like(reference, 0.1)) == 0).all()

    def test_what_cannot_be_correlated(self):
        first, _, reference = arms()
        with pytest.raises(ShapeError, match="30"):
            pearson_terms(first, reference[:-1])
        with pytest.raises(ShapeError, match="NaN or infinite"):
            pearson_terms(first, np.where(reference > 0, np.nan, reference))


class TestStrata:
    def test_is_narrower_where_classes_differ(self):
        """A floor that is wrong everywhere: all that differs is between classes."""
        dice = np.random.default_rng(1)
        labels = (np.arange(120) < 12).astype(np.int64)
        first = (dice.random((6, 120)) < 0.7) * np.where(labels == 1, 5.0, 0.5 / 0.9)
        inside = crossed_contrast(first, np.zeros_like(first), strata=labels)
        outside = crossed_contrast(first, np.zeros_like(first))
        assert inside.difference == outside.difference
        assert inside.se < 0.8 * outside.se

    def test_one_stratum_is_none(self):
        first, second = np.random.default_rng(0).random((2, 5, 60))
        with_one = crossed_contrast(first, second, strata=np.zeros(60, dtype=np.int64))
        assert with_one.se == pytest.approx(crossed_contrast(first, second).se)

    def test_covers_the_truth(self):
        """Gains in balanced agreement: students differ by seed, rows by difficulty, one class in ten is rare."""
        dice, held = np.random.default_rng(2), 0
        for _ in range(120):
            rows, seeds = 150, 6
            labels = (np.arange(rows) < 15).astype(np.int64)
            weights = np.where(labels == 1, 5.0, 0.5 / 0.9)
            hard, skill = dice.normal(0, 0.15, rows), dice.normal(0, 0.05, (seeds, 1))
            first = dice.random((seeds, rows)) < np.clip(0.7 + hard + skill, 0, 1)
            second = dice.random((seeds, rows)) < np.clip(0.6 + hard + dice.normal(0, 0.05, (seeds, 1)), 0, 1)
            found = crossed_contrast(first * weights, second * weights, strata=labels)
            held += found.low <= 0.1 <= found.high
        assert held >= 108  # 95 % of 120 are 114


@pytest.mark.parametrize("sizes", [(7, 3), (10, 20, 7), (91, 13)])
def test_rounding_is_no_difference(sizes):
    """Students who always give one class each have the same mean of recalls; weights of classes leave 1e-17."""
    strata = np.repeat(np.arange(len(sizes)), sizes)
    weights = np.repeat([len(strata) / (len(sizes) * size) for size in sizes], sizes)
    for first, second in itertools.permutations(range(len(sizes)), 2):
        arms = [np.repeat((weights * (strata == number))[None], 4, axis=0) for number in (first, second)]
        found = crossed_contrast(*arms, strata=strata)
        assert (found.difference, found.se, found.p) == (0.0, 0.0, 1.0)


def test_means_over_the_rows_that_there_are():
    values = np.array([[1.0, 2.0, 4.0, np.nan], [np.nan, 3.0, np.nan, np.nan], [np.nan] * 4])
    whole, alone, nothing = row_contrasts(values)
    assert whole.difference == pytest.approx(7 / 3)
    assert whole.interval() == pytest.approx(tuple(stats.ttest_1samp([1, 2, 4], 0).confidence_interval()))
    assert alone is nothing is None


# -- how often a 95 % interval holds the truth ------------------------------------------------------------------------


def students(dice, seeds, rows, seed_sd, row_sd, *, base=0.8, gain=0.02):
    """Right or wrong answers of two arms that share how hard rows are."""
    hard, taste = dice.normal(0, row_sd, rows), dice.normal(0, row_sd / 2, rows)
    chances = (
        base + gain + hard + taste + dice.normal(0, seed_sd, (seeds, 1)),
        base + hard + dice.normal(0, seed_sd, (seeds, 1)),
    )
    return [(dice.random((seeds, rows)) < np.clip(chance, 0, 1)).astype(float) for chance in chances]


def true_gain(seed_sd, row_sd, *, base=0.8, gain=0.02):
    """The gain of clipped normal chances, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    wide, narrow = np.sqrt(row_sd**2 * 1.25 + seed_sd**2), np.sqrt(row_sd**2 + seed_sd**2)
    first, second = np.clip(base + gain + wide * nodes, 0, 1), np.clip(base + narrow * nodes, 0, 1)
    return float(weights @ (first - second) / weights.sum())


@pytest.mark.parametrize(
    ("seeds", "rows", "seed_sd", "row_sd"),
    [(8, 500, 0.01, 0.15), (8, 500, 0.05, 0.15), (3, 500, 0.03, 0.15), (8, 200, 0.02, 0.3), (5, 2000, 0.03, 0.1)],
)
def test_intervals_hold_the_truth(seeds, rows, seed_sd, row_sd):
    dice, truth, held = np.random.default_rng(1), true_gain(seed_sd, row_sd), 0
    for _ in range(600):
        contrast = crossed_contrast(*students(dice, seeds, rows, seed_sd, row_sd))
        held += contrast.low <= truth <= contrast.high
    assert 0.93 <= held / 600 <= 0.985


def test_intervals_of_pearson_hold_the_truth():
    dice, held = np.random.default_rng(2), 0
    for _ in range(400):
        reference = dice.normal(size=300)
        parts = []
        for r in (0.7, 0.6):
            own = np.clip(r + dice.normal(0, 0.05, (8, 1)), -0.95, 0.95)
            parts.append(pearson_terms(own * reference + np.sqrt(1 - own**2) * dice.normal(size=(8, 300)), reference))
        contrast = crossed_contrast(*parts)
        held += contrast.low <= 0.1 <= contrast.high
    assert 0.93 <= held / 400 <= 0.985


# -- all pairs --------------------------------------------------------------------------------------------------------


class TestTable:
    def entries(self):
        dice = np.random.default_rng(0)
        own = {name: dict(enumerate(dice.random((4, 20)))) for name in ("none", "a", "b")}
        del own["b"][2]
        return {(f, s, ("x", 5)): contrast for f, s, contrast in pairwise_contrasts(own)}, own

    def test_every_two_arms_on_the_seeds_that_both_have(self):
        entries, own = self.entries()
        table = ContrastTable(entries)
        assert len(entries) == 3
        assert table.get("a", "b", ("x", 5)).seeds == 3
        wanted = np.mean([own["a"][seed] - own["b"][seed] for seed in (0, 1, 3)])
        assert table.get("a", "b", ("x", 5)).difference == pytest.approx(wanted)
        assert table.get("b", "a", ("x", 5)).difference == pytest.approx(-wanted)
        assert table.get("a", "b", ("x", 6)) is None

    def test_read_back(self):
        table = ContrastTable(self.entries()[0])
        assert ContrastTable.from_document(table.to_document()) == table

    @pytest.mark.parametrize("damage", [{"se": None}, {"se": float("nan")}, {"df": "x"}, {"first": ...}])
    def test_damage_is_told(self, damage):
        line = ContrastTable(self.entries()[0]).to_document()[0]
        line = {name: value for name, value in (line | damage).items() if value is not ...}
        with pytest.raises((LookupError, TypeError, ValueError)):
            ContrastTable.from_document([line])

    def test_no_seed_in_common(self):
        rows = np.ones(3)
        assert not list(pairwise_contrasts({"a": {0: rows}, "b": {1: rows}}))

    def test_twenty_explainers_take_seconds(self):
        dice = np.random.default_rng(0)
        own = {str(name): dict(enumerate(dice.random((8, 2000)))) for name in range(20)}
        began = time.process_time()
        assert len(list(pairwise_contrasts(own))) == 190
        assert time.process_time() - began < 2
