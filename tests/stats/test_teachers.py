"""Differences over teachers: against Student's t, `crossed_contrast`, loops, and how often intervals hold the truth."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from didact.errors import ShapeError
from didact.stats.contrast import crossed_contrast
from didact.stats.teachers import TeacherTable, teacher_contrast

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "bench_teachers.py"


def differences(teachers=4, seeds=3, rows=12, *, seed=0, wide=3.0):
    dice = np.random.default_rng(seed)
    shared = dice.normal(size=(1, 1, rows)) + dice.normal(size=(1, seeds, 1))
    return 1 + shared + wide * dice.normal(size=(teachers, 1, 1)) + dice.normal(size=(teachers, seeds, rows))


def tables(values, *, rows=True, seeds=False):
    _, count, width = values.shape
    return [TeacherTable(each, range(width) if rows else None, range(count) if seeds else None) for each in values]


def against_0(values):
    return crossed_contrast(values, np.zeros_like(values))


def test_that_share_nothing_it_is_students_t_over_teachers():
    values = differences()
    contrast = teacher_contrast(tables(values, rows=False))
    test = stats.ttest_1samp(values.mean((1, 2)), 0)
    assert contrast.p == pytest.approx(test.pvalue)
    assert contrast.interval() == pytest.approx(tuple(test.confidence_interval()))
    assert contrast.df == pytest.approx(3)
    assert (contrast.seed_variance, contrast.row_variance, contrast.cell_variance) == (0, 0, 0)
    assert contrast.by_teacher == pytest.approx(values.mean((1, 2)))
    assert contrast.difference == pytest.approx(values.mean())


def test_on_the_same_rows_it_is_crossed_teachers_and_rows():
    """Averaged over seeds, which are each teacher's: the variance of a mean over two crossed samples."""
    values = differences()
    contrast, crossed = teacher_contrast(tables(values)), against_0(values.mean(1))
    assert contrast.se == pytest.approx(crossed.se)
    assert contrast.teacher_variance == pytest.approx(crossed.seed_variance)
    assert contrast.row_variance == pytest.approx(crossed.row_variance - crossed.cell_variance)


def test_one_teacher_is_her_contrast():
    values = differences()[0]
    labels = (np.arange(12) < 4).astype(np.int64)
    for strata in (None, labels):
        contrast = teacher_contrast([TeacherTable(values, range(12), range(3), strata)])
        alone = crossed_contrast(values, np.zeros_like(values), strata=strata)
        for name in ("difference", "se", "df", "seeds", "rows", "p", "low", "high"):
            assert getattr(contrast, name) == getattr(alone, name)
        assert (contrast.teachers, contrast.teacher_sd) == (1, None)


def test_the_covariance_of_shared_rows_and_seeds_by_loops():
    """Two teachers who have some rows and some seeds in common: every shared unit once, by the book."""
    first, second = differences(2)
    rows = [range(12), [5, 7, 9, 11, *range(20, 28)]]  # the second has these of the first's, and others
    seeds = [[0, 1, 2], [2, 9, 0]]
    contrast = teacher_contrast([TeacherTable(*each) for each in zip((first, second), rows, seeds, strict=True)])
    mean, other_mean = first.mean(), second.mean()
    row = seed = cell = 0.0
    for (a, key), (b, other_key) in itertools.product(enumerate(rows[0]), enumerate(rows[1])):
        if key == other_key:
            row += (first[:, a].mean() - mean) * (second[:, b].mean() - other_mean) / (12 * 11)
    for (s, key), (u, other_key) in itertools.product(enumerate(seeds[0]), enumerate(seeds[1])):
        if key == other_key:
            seed += (first[s].mean() - mean) * (second[u].mean() - other_mean) / (3 * 2)
            for (a, name), (b, other_name) in itertools.product(enumerate(rows[0]), enumerate(rows[1])):
                if name == other_name:
                    left = first[s, a] - first[s].mean() - first[:, a].mean() + mean
                    right = second[u, b] - second[u].mean() - second[:, b].mean() + other_mean
                    cell += left * right / (12 * 11 * 3 * 2)
    assert (contrast.row_variance, contrast.seed_variance, contrast.cell_variance) == pytest.approx((row, seed, cell))
    spread = (mean - other_mean) ** 2 / 2
    assert contrast.se**2 == pytest.approx(spread / 2 + max(row + seed - cell, 0))
    within = (against_0(first).se ** 2 + against_0(second).se ** 2) / 2
    assert contrast.teacher_sd == pytest.approx(np.sqrt(max(spread - within + max(row + seed - cell, 0), 0)))


def test_order_does_not_matter():
    values, dice = differences(), np.random.default_rng(1)
    first = teacher_contrast([TeacherTable(each, range(12), range(3)) for each in values])
    shuffled = []
    for index in dice.permutation(4):
        seeds, rows = dice.permutation(3), dice.permutation(12)
        shuffled.append(TeacherTable(values[index][seeds][:, rows], tuple(rows.tolist()), tuple(seeds.tolist())))
    second = teacher_contrast(shuffled)
    for name in ("difference", "se", "df", "row_variance", "seed_variance", "cell_variance", "teacher_sd"):
        assert getattr(first, name) == pytest.approx(getattr(second, name))


def test_the_other_way_round():
    values = differences()
    first, second = teacher_contrast(tables(values, seeds=True)), teacher_contrast(tables(-values, seeds=True))
    assert second.difference == -first.difference
    assert second.interval() == pytest.approx(tuple(-end for end in reversed(first.interval())))


def test_teachers_that_are_equal_by_chance_are_not_certain():
    """Two teachers with the same difference, each with its own error: no interval of width 0."""
    values = differences(2, wide=0)
    values -= values.mean((1, 2), keepdims=True) - 0.02
    contrast = teacher_contrast(tables(values, rows=False))
    within = np.mean([against_0(each).se ** 2 for each in values])
    assert contrast.se == pytest.approx(np.sqrt(within / 2))
    assert contrast.df == pytest.approx(1)
    same = teacher_contrast(tables(np.ones((2, 3, 4))))
    assert (same.se, same.difference, same.teacher_sd) == (0, 1, 0)


def test_df_are_never_fewer_than_those_of_a_part():
    """Covariances may be negative, and take away from the sum what they add to its uncertainty."""
    fewest = []
    for seed in range(30):
        contrast = teacher_contrast(tables(np.random.default_rng(seed).normal(size=(2, 3, 6)), seeds=True))
        parts = contrast.teacher_variance, contrast.seed_variance, contrast.row_variance
        total, dfs = contrast.se**2, [df for part, df in zip(parts, (1, 2, 5), strict=True) if part > 0]
        satterthwaite = total**2 / sum(max(part, 0) ** 2 / df for part, df in zip(parts, (1, 2, 5), strict=True))
        assert contrast.df == pytest.approx(max(satterthwaite, min(dfs)))
        fewest.append(satterthwaite < min(dfs))
    assert any(fewest)


def test_the_sd_of_teachers_is_found():
    """Teachers vary by 2; seeds, rows and chance add to what is seen, and are taken out."""
    values = differences(60, 3, 20, wide=2.0, seed=3)
    assert teacher_contrast(tables(values)).teacher_sd == pytest.approx(2, rel=0.2)
    assert teacher_contrast(tables(differences(40, 3, 20, wide=0.0, seed=3), seeds=True)).teacher_sd < 0.2


def test_what_cannot_be_combined():
    with pytest.raises(ShapeError, match="at least one teacher"):
        teacher_contrast([])
    with pytest.raises(ShapeError, match="different key"):
        TeacherTable(np.zeros((2, 3)), (1, 1, 2))
    with pytest.raises(ShapeError, match="2 seeds"):
        TeacherTable(np.zeros((2, 3)), seed_keys=(1, 2, 3))


# -- how often a 95 % interval holds the truth ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("bench_teachers", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_intervals_hold_the_truth_quickly(benchmark, monkeypatch):
    monkeypatch.setattr(benchmark, "ROWS", 60)
    monkeypatch.setattr(benchmark, "SEEDS", 4)
    shares = benchmark.coverage("rows and seeds", 0.5, repetitions=100)
    assert 0.89 <= shares["combine"] <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("shared", ["nothing", "rows", "rows and seeds"])
def test_intervals_hold_the_truth(benchmark, shared, spread):
    shares = benchmark.coverage(shared, spread, repetitions=700, seed=1)
    assert 0.92 <= shares["combine"] <= 0.98
    if (shared, spread) == ("rows and seeds", 0.0):
        assert shares["t over teachers"] < 0.8, "what teachers share must not be left out"
