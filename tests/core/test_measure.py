"""Measures against closed forms and other libraries."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from didact.core.human import HumanTeacher
from didact.core.measure import agreement, measure, pearson, token_f1
from didact.core.outputs import Outputs
from didact.core.row import Row, Span
from didact.core.task import CLASSIFICATION, PAIR, READING, REGRESSION
from didact.errors import DataError, OptionError, ShapeError

DICE = np.random.default_rng(0)


def outputs(task, values, answers=None):
    values = np.asarray(values, dtype=float)
    return Outputs(task, tuple(f"r{i}" for i in range(len(values))), values, answers)


def test_balanced_agreement_as_scikit_learn_has_it():
    ours, theirs = DICE.normal(size=(60, 3)), DICE.normal(loc=(2.0, 0.5, 0.0), size=(60, 3))
    expected = balanced_accuracy_score(theirs.argmax(1), ours.argmax(1))
    assert measure(outputs(CLASSIFICATION, ours), outputs(CLASSIFICATION, theirs), balanced=True) == pytest.approx(
        expected
    )
    scores = outputs(REGRESSION, ours[:, :1]), outputs(REGRESSION, theirs[:, :1])
    assert measure(*scores, balanced=True) == measure(*scores)  # a correlation has no classes


def test_accuracy_as_scikit_learn_has_it():
    ours, theirs = DICE.normal(size=(50, 3)), DICE.normal(size=(50, 3))
    expected = accuracy_score(theirs.argmax(1), ours.argmax(1))
    assert measure(outputs(CLASSIFICATION, ours), outputs(CLASSIFICATION, theirs)) == pytest.approx(expected)


def test_pearson_as_scipy_has_it():
    first, second = DICE.normal(size=30), DICE.normal(size=30)
    assert pearson(first, second) == pytest.approx(stats.pearsonr(first, second).statistic)
    assert measure(outputs(REGRESSION, first[:, None]), outputs(REGRESSION, -first[:, None])) == pytest.approx(-1)


def test_a_constant_score_has_no_correlation():
    assert np.isnan(pearson(np.ones(5), DICE.normal(size=5)))
    assert np.isnan(pearson(np.full(3, 0.1), np.array([1.0, 2.0, 3.0]))), "0.1 has no exact mean"


@pytest.mark.parametrize(
    ("given", "accepted", "score"),
    [
        ("the Eiffel tower", "Eiffel Tower", 1.0),
        ("in Paris", "Paris", 2 / 3),
        ("paris paris", "paris", 2 / 3),
        ("rome", "paris", 0.0),
        ("", "", 1.0),
        ("the", "paris", 0.0),
        ("U.S.", "us", 1.0),
    ],
)
def test_token_f1(given, accepted, score):
    assert token_f1(given, accepted) == pytest.approx(score)


def test_f1_takes_the_best_of_the_accepted_answers():
    said = outputs(READING, [[0, 5]], (("paris",),))
    gold = outputs(READING, [[9, 20]], (("rome", "in paris"),))
    assert measure(said, gold) == pytest.approx(2 / 3)


def test_other_rows_or_tasks_cannot_be_compared():
    one, other = outputs(CLASSIFICATION, [[0.0, 1.0]]), Outputs(CLASSIFICATION, ("x",), np.zeros((1, 2)))
    for bad in (other, outputs(PAIR, [[0.0, 1.0]])):
        with pytest.raises(ShapeError, match="answers of one task to the same rows"):
            measure(one, bad)
    with pytest.raises(ShapeError, match="defined over all rows, not per row"):
        agreement(outputs(REGRESSION, [[1.0]]), outputs(REGRESSION, [[1.0]]))
    with pytest.raises(ShapeError, match="2 row ids do not fit 1 answers"):
        Outputs(CLASSIFICATION, ("a", "b"), np.zeros((1, 2)))


class TestHuman:
    def test_answers_with_the_gold_labels(self):
        rows = [Row("a", ("x",), label=1), Row("b", ("y",), label=0)]
        said = HumanTeacher(CLASSIFICATION, ["no", "yes"]).predict(rows)
        assert said.labels.tolist() == [1, 0]
        np.testing.assert_allclose(said.probabilities, [[0, 1], [1, 0]], atol=1e-12)
        assert HumanTeacher(REGRESSION).predict([Row("a", ("x",), label=0.5)]).values.tolist() == [[0.5]]

    def test_reading_accepts_all_gold_answers(self):
        row = Row("a", ("who", "anna or ben"), label=(Span(1, 0, 4), Span(1, 8, 11)))
        said = HumanTeacher(READING).predict([row])
        assert said.answers == (("anna", "ben"),)
        assert said.spans == (Span(1, 0, 4),)

    @pytest.mark.parametrize("label", [-1, 2, 0.5, (Span(0, 0, 1),)])
    def test_labels_of_another_kind_are_named(self, label):
        """-1, which some sets write for "no gold label", must not become the last class."""
        with pytest.raises(DataError, match=r"(?s)1 of 1 rows.*- a: "):
            HumanTeacher(CLASSIFICATION, ["n", "y"]).predict([Row("a", ("x",), label=label)])

    def test_classes_need_names(self):
        with pytest.raises(OptionError, match="classes="):
            HumanTeacher(CLASSIFICATION)

    def test_rows_without_labels_are_named(self):
        with pytest.raises(DataError, match=r"(?s)1 of 2 rows have no gold label.*- b: None"):
            HumanTeacher(CLASSIFICATION, ["n", "y"]).predict([Row("a", ("x",), label=1), Row("b", ("y",))])
