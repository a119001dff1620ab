"""Contrasts of arms whose seeds have different rows: the complete case, dense matrices, and coverage."""

import numpy as np
import pytest

from didact.errors import ShapeError
from didact.stats.contrast import crossed_contrast
from didact.stats.incomplete import CellDesign
from references.cells import literal_contrast


def incomplete(seeds=5, pool=30, rows=12, seed=0):
    """Seeds, rows and strata of values: every seed has its own rows, some of them twice, and two strata."""
    rng = np.random.default_rng(seed)
    drawn = [(number, row) for number in range(seeds) for row in rng.choice(pool, rows, replace=False)]
    cells = np.array([*drawn, *drawn[::3]])
    strata = np.array([row % 3 == 0 for _, row in drawn] + [False] * len(drawn[::3])).astype(int)
    return cells[:, 0], cells[:, 1], strata


class TestCompleteCrossing:
    @pytest.mark.parametrize(("seeds", "rows"), [(2, 5), (6, 20), (8, 3), (1, 9)])
    def test_it_is_the_crossed_contrast(self, seeds, rows):
        rng = np.random.default_rng(0)
        first = rng.normal(size=(seeds, rows)) + rng.normal(size=(seeds, 1)) + 2 * rng.normal(size=(1, rows))
        second = rng.normal(size=(seeds, rows))
        by_seed, by_row = np.indices(first.shape)
        contrast = CellDesign.of(by_seed.ravel(), by_row.ravel()).contrast(first.ravel(), second.ravel())
        expected = crossed_contrast(first, second)
        for name in ("difference", "se", "df", "seeds", "rows", "seed_variance", "row_variance", "cell_variance"):
            assert getattr(contrast, name) == pytest.approx(getattr(expected, name), abs=1e-12), name

    def test_with_strata_it_is_close_to_it(self):
        """Only the degrees of freedom of the strata differ: the number of strata over the number of rows."""
        rng = np.random.default_rng(0)
        first, second = rng.normal(size=(2, 8, 400)) + rng.normal(size=(2, 1, 400))
        strata = (np.arange(400) % 4 == 0).astype(int)
        weights = np.where(strata, 2.0, 2 / 3)
        by_seed, by_row = np.indices(first.shape)
        design = CellDesign.of(by_seed.ravel(), by_row.ravel(), strata[by_row.ravel()])
        contrast = design.contrast(first.ravel(), second.ravel())
        expected = crossed_contrast(first * weights, second * weights, strata=strata)
        assert contrast.difference == pytest.approx(expected.difference)
        assert contrast.se == pytest.approx(expected.se, rel=0.01)


class TestIncompleteCrossing:
    def test_dense_matrices_give_the_same(self):
        seeds, rows, strata = incomplete()
        differences = np.random.default_rng(1).normal(size=len(seeds)) + seeds + np.sin(rows)
        for groups in (None, strata):
            contrast = CellDesign.of(seeds, rows, groups).contrast(differences, np.zeros(len(seeds)))
            expected = literal_contrast(differences, seeds, rows, np.zeros(len(seeds)) if groups is None else groups)
            difference, variance, by_seed, by_row = expected
            assert contrast.difference == pytest.approx(difference)
            assert contrast.seed_variance == pytest.approx(by_seed)
            assert contrast.row_variance == pytest.approx(by_row)
            assert contrast.se**2 == pytest.approx(max(variance, by_seed, by_row))

    def test_seeds_and_strata_count_the_same_whatever_their_numbers_of_rows(self):
        design = CellDesign.of([0, 0, 0, 1], [4, 5, 6, 4], [0, 0, 1, 0])
        values = np.array([1.0, 3.0, 10.0, 6.0])
        contrast = design.contrast(values, np.zeros(4))
        assert contrast.difference == pytest.approx(((1 + 3) / 2 / 2 + 6 / 2 + 10) / 2)

    def test_without_shared_rows_it_is_the_variance_of_the_seed_means(self):
        rng = np.random.default_rng(0)
        values = rng.normal(size=(6, 10)) + rng.normal(size=(6, 1))
        by_seed, _ = np.indices(values.shape)
        contrast = CellDesign.of(by_seed.ravel(), np.arange(60)).contrast(values.ravel(), np.zeros(60))
        assert contrast.se**2 == pytest.approx(values.mean(1).var(ddof=1) / 6, rel=0.05)
        assert contrast.df == pytest.approx(5, rel=0.2)

    def test_equal_arms_have_no_difference(self):
        seeds, rows, strata = incomplete()
        values = np.random.default_rng(0).normal(size=len(seeds))
        contrast = CellDesign.of(seeds, rows, strata).contrast(values, values)
        assert (contrast.difference, contrast.se, contrast.p) == (0.0, 0.0, 1.0)

    def test_what_cannot_be_contrasted(self):
        with pytest.raises(ShapeError, match="at least 1 seed and 2 rows"):
            CellDesign.of([0, 1], [3, 3])
        with pytest.raises(ShapeError, match="2 seeds, 3 rows"):
            CellDesign.of([0, 1], [3, 4, 5])
        with pytest.raises(ShapeError, match="the design has 2"):
            CellDesign.of([0, 1], [3, 4]).contrast(np.zeros(3), np.zeros(3))
        with pytest.raises(ShapeError, match="NaN"):
            CellDesign.of([0, 1], [3, 4]).contrast(np.array([np.nan, 0]), np.zeros(2))


def study(rng, *, seeds, pool, rows, seed_sd, row_sd, flips):
    """Agreement of two arms on two edits of each row: the first flips with probability `flips`, the second stays."""
    is_flip = rng.random(pool) < flips
    seed_effects = rng.normal(0, seed_sd, (2, 2, seeds))
    row_effects = rng.normal(0, row_sd, (2, pool))
    edit_effects = rng.normal(0, 0.5, (2, 2, pool)) + rng.normal(size=(2, pool))
    columns = []
    for seed in range(seeds):
        drawn = rng.choice(pool, rows, replace=False)
        for edit in (0, 1):
            flip = is_flip[drawn] & (edit == 0)
            arms = []
            for arm in (0, 1):
                mean = 0.8 - 0.9 * flip + 0.2 * arm * (1 + flip)
                mean = mean + seed_effects[arm, 0, seed] + flip * seed_effects[arm, 1, seed]
                noise = row_effects[arm, drawn] + edit_effects[arm, edit, drawn] + rng.normal(size=rows)
                arms.append((mean + noise > 0).astype(float))
            columns.append((np.full(rows, seed), drawn, flip.astype(int), arms[1], arms[0]))
    return [np.concatenate(column) for column in zip(*columns, strict=True)]


def expected_differences(*, seed_sd, row_sd):
    from scipy.stats import norm

    variance = 1 + 1 + 0.25 + row_sd**2 + seed_sd**2
    stays = norm.cdf(1.0 / np.sqrt(variance)) - norm.cdf(0.8 / np.sqrt(variance))
    variance += seed_sd**2
    flips = norm.cdf(0.3 / np.sqrt(variance)) - norm.cdf(-0.1 / np.sqrt(variance))
    return {"edited": (flips + stays) / 2, "flips": flips, "stays": stays}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pool", "seed_sd", "row_sd", "flips"),
    [
        (2000, 0.0, 0.5, 0.5),
        (2000, 0.15, 0.5, 0.5),
        (2000, 0.4, 0.5, 0.5),
        (300, 0.1, 1.5, 0.5),
        (2000, 0.15, 0.5, 0.05),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(pool, seed_sd, row_sd, flips):
    """8 seeds, each with 2 edits of 250 of the pool's rows; 800 studies (standard error .8 points)."""
    truth = expected_differences(seed_sd=seed_sd, row_sd=row_sd)
    rng, hits, studies = np.random.default_rng(0), dict.fromkeys(truth, 0), 800
    for _ in range(studies):
        seeds, rows, is_flip, first, second = study(
            rng, seeds=8, pool=pool, rows=250, seed_sd=seed_sd, row_sd=row_sd, flips=flips
        )
        for name in truth:
            chosen = np.full(len(seeds), True) if name == "edited" else is_flip == (name == "flips")
            strata = is_flip[chosen] if name == "edited" else None
            contrast = CellDesign.of(seeds[chosen], rows[chosen], strata).contrast(first[chosen], second[chosen])
            hits[name] += contrast.low <= truth[name] <= contrast.high
    coverage = {name: 100 * count / studies for name, count in hits.items()}
    assert all(92 < value <= 99 for value in coverage.values()), coverage
