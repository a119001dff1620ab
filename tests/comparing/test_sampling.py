"""Which rows serve a comparison: limits, balance by the teacher's answers, files without splits."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from didact.comparing.sampling import Answers, RowLimits, data_for_students, draw_sample
from didact.core.dataset import Dataset, Split
from didact.core.function import FunctionTeacher
from didact.core.row import Row
from didact.core.task import CLASSIFICATION, REGRESSION
from didact.data.subset import balanced_counts, balanced_subset, subset
from didact.errors import OptionError


class Counting:
    """A black box that answers "rare" to texts with an x, and remembers every text it was asked about."""

    def __init__(self):
        self.asked: list[str] = []

    def __call__(self, texts):
        self.asked += texts
        rare = np.array(["x" in text for text in texts], dtype=float)
        return np.stack([1 - rare, rare], 1)


def teacher(function=None) -> FunctionTeacher:
    return FunctionTeacher(function or Counting(), ["common", "rare"])


def data(share: float, sizes=(200, 40, 100), **options) -> Dataset:
    """Rows of which this share is rare."""
    splits = {}
    for name, size in zip(("train", "dev", "test"), sizes, strict=True):
        every = round(1 / share) if share else None
        texts = [f"{name} {place}" + (" x" if every and place % every == 0 else "") for place in range(size)]
        splits[name] = Split(name, [Row(f"{name}-{place}", (text,)) for place, text in enumerate(texts)])
    return Dataset("rows", CLASSIFICATION, splits, **options)


class TestBalancedCounts:
    @pytest.mark.parametrize(
        ("counts", "size", "wanted"),
        [
            ([100, 100], 60, [30, 30]),
            ([100, 100], 61, [30, 30]),
            ([100, 10], 60, [10, 10]),  # the larger never more than all others
            ([5, 100, 100], 60, [5, 28, 27]),
            ([2, 3, 100], 60, [2, 3, 5]),
            ([7], 5, [5]),
            ([4, 4], 100, [4, 4]),
            ([0, 9], 6, [0, 6]),
        ],
    )
    def test_cases(self, counts, size, wanted):
        assert balanced_counts(counts, size) == wanted

    def test_never_more_than_there_are_nor_than_asked_for(self):
        dice = np.random.default_rng(0)
        for _ in range(300):
            counts = dice.integers(0, 40, size=dice.integers(1, 6)).tolist()
            size = int(dice.integers(1, 120))
            chosen = balanced_counts(counts, size)
            assert all(part <= count for part, count in zip(chosen, counts, strict=True))
            assert sum(chosen) <= size
            smaller = balanced_counts(counts, max(size - 1, 1))
            assert all(a <= b for a, b in zip(smaller, chosen, strict=True))


class TestBalancedSubset:
    labels = (*[0] * 50, *[1] * 9)
    ids = tuple(f"r{place}" for place in range(59))

    def test_classes_are_equal_and_the_seed_decides(self):
        first = balanced_subset(self.ids, self.labels, size=12, seed=0)
        assert Counter(self.labels[place] for place in first) == {0: 6, 1: 6}
        assert sorted(first) != sorted(balanced_subset(self.ids, self.labels, size=12, seed=1))

    def test_larger_ones_hold_smaller_ones(self):
        sets = [set(balanced_subset(self.ids, self.labels, size=size, seed=3).tolist()) for size in (4, 8, 12, 18)]
        assert all(small < large for small, large in pairwise(sets))

    def test_is_the_same_among_the_rows_in_use(self):
        """Workers see only rows that some seed uses, and must find the same subset there."""
        used = sorted(
            {place for seed in range(4) for place in balanced_subset(self.ids, self.labels, size=10, seed=seed)}
        )
        ids, labels = [self.ids[place] for place in used], [self.labels[place] for place in used]
        for seed in range(4):
            whole = [self.ids[place] for place in balanced_subset(self.ids, self.labels, size=10, seed=seed)]
            assert [ids[place] for place in balanced_subset(ids, labels, size=10, seed=seed)] == whole


class TestDrawing:
    def test_nothing_is_cut_where_the_limits_are_not_reached(self):
        whole = data(0.5)
        sample = draw_sample(teacher(), whole, RowLimits())
        assert sample.data is whole
        assert (sample.notes, sample.balance) == ((), None)

    def test_limits_draw_at_random_and_are_stated(self):
        sample = draw_sample(teacher(), data(0.5), RowLimits(train=50, dev=10, test=20))
        assert [len(sample.data[name]) for name in ("train", "dev", "test")] == [50, 10, 20]
        assert "20 of 100 rows of 'test' are used, drawn at random." in sample.notes
        wanted = subset(data(0.5)["test"].ids, size=20, seed=0)
        assert sample.data["test"].ids == tuple(data(0.5)["test"].ids[place] for place in sorted(wanted))

    def test_only_the_test_rows_in_use_are_labelled(self):
        function = Counting()
        draw_sample(teacher(function), data(0.5), RowLimits(test=20))
        assert len(function.asked) == 20

    def test_a_dominant_answer_balances_and_says_so(self):
        sample = draw_sample(teacher(), data(0.05), RowLimits())
        assert sample.balance is not None
        assert "'common' on 95% of 340 rows" in sample.balance
        assert "train: 190 common, 10 rare" in sample.balance
        assert sample.notes == (sample.balance,)

    def test_rare_test_rows_come_first(self):
        sample = draw_sample(teacher(), data(0.05), RowLimits(test=30))
        rare = sum("x" in row.texts[0] for row in sample.data["test"])
        assert (rare, len(sample.data["test"])) == (5, 30)

    def test_not_where_it_is_switched_off_or_does_not_dominate(self):
        assert draw_sample(teacher(), data(0.05), RowLimits(), balance=False).balance is None
        assert draw_sample(teacher(), data(0.25), RowLimits()).balance is None
        assert draw_sample(teacher(), data(0.25), RowLimits(), balance=True).balance is not None

    def test_switched_off_nobody_is_asked(self):
        function = Counting()
        draw_sample(teacher(function), data(0.05), RowLimits(), balance=False)
        assert not function.asked

    def test_one_answer_to_everything_is_refused(self):
        with pytest.raises(
            OptionError, match="answers 'common' on every train or every test row of 'rows'.*several answers"
        ):
            draw_sample(teacher(), data(0.0), RowLimits())

    def test_scores_are_never_balanced(self):
        function = FunctionTeacher(lambda texts: [float(len(text)) for text in texts], task="regression")
        rows = data(0.5)
        assert draw_sample(function, replace(rows, task=REGRESSION), RowLimits()).balance is None


def test_answers_are_asked_for_once():
    function = Counting()
    answers = Answers(teacher(function))
    rows = data(0.5)["test"].rows
    first = answers.of(rows[:30])
    again = answers.of(rows[10:40])
    assert len(function.asked) == 40
    assert again.ids == tuple(row.id for row in rows[10:40])
    np.testing.assert_array_equal(again.values[:20], first.values[10:])


class TestFilesWithoutSplits:
    def cut(self, sizes=(25, 5, 20)) -> Dataset:
        rows = data(0.5, sizes=sizes)
        teach = Split("teach", [Row(f"teach-{place}", (f"teach {place}",)) for place in range(50)])
        return replace(rows, splits={**rows.splits, "teach": teach}, all_rows=Split("all", [*teach, *rows["train"]]))

    def test_what_a_teacher_would_learn_from_serves_students(self):
        found, notes = data_for_students(teacher(), self.cut())
        assert len(found["train"]) == 75
        assert "75 rows for students to learn from, 5 to choose their epochs by, 20 to test on" in notes[0]
        assert "1,500 rows or more are advised" in notes[0]

    def test_not_if_didact_trained_the_teacher(self):
        trained = teacher()
        trained.record = {"kind": "native"}
        found, notes = data_for_students(trained, self.cut())
        assert len(found["train"]) == 25
        assert "may have trained the model on" in notes[1]

    def test_data_with_splits_stay_as_they_are(self):
        whole = data(0.5)
        assert data_for_students(teacher(), whole) == (whole, ())
