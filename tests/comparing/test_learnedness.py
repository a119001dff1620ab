"""Students that learned nothing are found out, and those that learned are not."""

import numpy as np
import pytest

from didact.comparing.chance_level import ChanceLevel, columns_above_chance

COLUMN = ("same/attention", 100)


def judge(arms, floor, *, controls=("none", "random")):
    scores = {(name, *COLUMN): dict(enumerate(rows)) for name, rows in arms.items()}
    (found,) = columns_above_chance(scores, [COLUMN], floor, controls=controls)
    return found


def students(dice, share, *, seeds=6, rows=300):
    """Agreement of students that are right on this share of rows."""
    return [(dice.random(rows) < share).astype(float) for _ in range(seeds)]


@pytest.fixture
def dice():
    return np.random.default_rng(0)


@pytest.fixture
def floor(dice):
    labels = (dice.random(300) < 0.6).astype(np.int64)
    return ChanceLevel.of_classes(labels, ["negative", "positive"], balanced=False)


def test_the_floor_is_the_share_of_the_most_frequent_answer(floor):
    assert floor.answer == "positive"
    assert floor.value == pytest.approx(floor.labels.mean())


def test_students_above_it_learned(dice, floor):
    assert judge({"none": students(dice, 0.8)}, floor).learned is True


def test_students_no_better_than_it_did_not(dice, floor):
    found = judge({"none": students(dice, floor.value), "lime": students(dice, floor.value)}, floor)
    assert found.learned is False
    assert found.reason.endswith("% of always answering 'positive'")
    assert found.reason.startswith("students (without controls) reach at most "), (
        "a control may be above the best of these"
    )


def test_students_that_answer_one_class_did_not(floor):
    """They are exactly at the floor, or below it with the other class; intervals around the floor are empty."""
    always = [(floor.labels == label).astype(float) for label in (0, 1, 1)]
    found = judge({"none": always, "lime": always}, floor)
    assert (found.learned, found.reason) == (False, "every student gives the same answer to all test rows")


def test_a_method_that_teaches_what_answers_alone_do_not_is_a_finding(dice, floor):
    always = [(floor.labels == 1).astype(float)] * 6
    assert judge({"none": always, "lime": students(dice, 0.8)}, floor).learned is True


def test_a_control_alone_is_none(dice, floor):
    always = [(floor.labels == 1).astype(float)] * 6
    assert judge({"none": always, "random": students(dice, 0.8)}, floor).learned is False


def test_false_alarms_and_misses_are_rare(floor):
    """Over 60 draws: students at the floor are called learned in at most 5 % of them, good ones nearly always."""
    dice = np.random.default_rng(1)
    wrong = sum(judge({"none": students(dice, floor.value)}, floor).learned for _ in range(60))
    right = sum(judge({"none": students(dice, floor.value + 0.12)}, floor).learned for _ in range(60))
    assert wrong <= 4
    assert right >= 57


class TestBalanced:
    def floor(self, dice):
        labels = (dice.random(300) < 0.05).astype(np.int64)
        return ChanceLevel.of_classes(labels, ["common", "rare"], balanced=True)

    def test_the_floor_of_two_classes_is_a_half(self, dice):
        assert self.floor(dice).value == pytest.approx(0.5)

    def test_agreement_with_the_common_class_is_not_enough(self, dice):
        floor = self.floor(dice)
        common = [np.where(floor.labels == 0, dice.random(300) < 0.97, dice.random(300) < 0.03).astype(float)] * 6
        found = judge({"none": common}, floor)
        assert found.learned is False
        assert "balanced agreement" in found.reason

    def test_recall_of_both_is(self, dice):
        floor = self.floor(dice)
        both = [(dice.random(300) < 0.9).astype(float) for _ in range(6)]
        assert judge({"none": both}, floor).learned is True


class TestScores:
    def test_correlation(self, dice):
        reference = dice.normal(size=200)
        good = [reference + dice.normal(size=200) for _ in range(5)]
        bad = [dice.normal(size=200) for _ in range(5)]
        floor = ChanceLevel.of_values(reference)
        assert judge({"none": good}, floor).learned is True
        found = judge({"none": bad}, floor)
        assert found.learned is False
        assert "correlate" in found.reason
        assert judge({"none": [np.ones(200)] * 3}, floor).reason.startswith("every student gives the same")


def test_without_a_floor_nothing_is_said(dice):
    assert judge({"none": students(dice, 0.1)}, None).learned is None
