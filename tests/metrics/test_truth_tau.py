"""Kendall's τ-b to the true scores, pair by pair and as scipy has it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau

import didact
from didact.core.row import Row, Span
from didact.core.truth import Explained, has_truth, shared_scores, true_scores
from didact.errors import UnsupportedError
from didact.metrics.plausibility import RocAuc
from didact.metrics.truth import TruthTau, explained_classes


@pytest.fixture(scope="module")
def data():
    return didact.load_data("planted/graded(teach=0, explain=0, train=0, dev=0, test=40)")


@pytest.fixture(scope="module")
def occluded(data):
    return didact.explain(data.oracle(), data["test"], "occlusion")


def tau(scores, truth):
    """τ-b by definition, over all pairs."""
    pairs = [(i, j) for i in range(len(scores)) for j in range(i)]
    first = [np.sign(scores[i] - scores[j]) for i, j in pairs]
    second = [np.sign(truth[i] - truth[j]) for i, j in pairs]
    size = np.sqrt(np.square(first).sum() * np.square(second).sum())
    return np.dot(first, second) / size if size else np.nan


def truth_of(row, explanation, signed=True):
    """The weight of each word, found by its text."""
    weights = {row.text_of(span): weight for span, weight in zip(row.rationale, row.rationale_weights, strict=True)}
    values = np.array([weights.get(token, 0.0) for token in explanation.tokens])
    return values if signed else np.abs(values)


@pytest.mark.parametrize("kind", ["signed", "magnitude"])
def test_it_is_kendalls_tau(data, occluded, kind):
    rng = np.random.default_rng(0)
    noisy = occluded.scores + rng.integers(-2, 3, len(occluded.scores))  # with ties
    explanations = replace(occluded, scores=noisy if kind == "signed" else np.abs(noisy), kind=kind)
    values = TruthTau()(explanations, list(data["test"]))
    for value, explanation, row in zip(values, explanations, data["test"], strict=True):
        truth = truth_of(row, explanation, signed=kind == "signed")
        assert value == pytest.approx(tau(explanation.scores, truth), abs=1e-12)
        assert value == pytest.approx(kendalltau(explanation.scores, truth).statistic, abs=1e-12)
    assert np.std(values) > 0.1


def test_the_truth_has_one_and_its_opposite_minus_one(data, occluded):
    rows = list(data["test"])
    np.testing.assert_allclose(TruthTau()(occluded, rows), 1)
    np.testing.assert_allclose(TruthTau()(replace(occluded, scores=-occluded.scores), rows), -1)
    np.testing.assert_allclose(RocAuc()(occluded, rows), 1)  # the marks of graded rows, as everywhere


def test_rounding_errors_break_no_ties(data, occluded):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=len(occluded.scores)) * 1e-12
    np.testing.assert_allclose(TruthTau()(replace(occluded, scores=occluded.scores + noise), list(data["test"])), 1)


def test_the_other_of_two_classes_has_the_other_sign(data, occluded):
    other = tuple({"negative": "positive", "positive": "negative"}[target] for target in occluded.targets)
    np.testing.assert_allclose(TruthTau()(replace(occluded, targets=other), list(data["test"])), -1)
    against = tuple(f"{first} against {second}" for first, second in zip(occluded.targets, other, strict=True))
    np.testing.assert_allclose(TruthTau()(replace(occluded, targets=against), list(data["test"])), 1)


def test_where_it_is_undefined(data, occluded):
    rows = list(data["test"])
    constant = replace(occluded, scores=np.ones(len(occluded.scores)))
    assert np.isnan(TruthTau()(constant, rows)).all()
    unknown = [replace(row, rationale_weights=None) for row in rows]
    assert np.isnan(TruthTau()(occluded, unknown)).all()
    assert np.isnan(TruthTau()(occluded, [replace(row, label=None) for row in rows])).all()
    assert np.isnan(TruthTau()(replace(occluded, targets=("elsewhere",) * len(rows)), rows)).all()


def test_an_exact_teacher_knows_the_truth():
    """Its contributions count, not the rationales of the data."""
    teacher = didact.teacher_from_lexicon({"good": 2.0, "bad": -3.0, "fine": 1.0})
    rows = [Row("a", ("a good film",)), Row("b", ("bad but fine, fine",)), Row("c", ("nothing",))]
    found = didact.explain(teacher, rows, "occlusion")
    np.testing.assert_allclose(TruthTau()(found, rows, teacher), [1, 1, np.nan])
    evaluation = didact.evaluate(found, teacher, rows, metrics=["truth_tau"])
    assert evaluation.attrs["heading"] == "truth"
    assert evaluation.attrs["notes"] == ["truth_tau compares with the exact contributions of the teacher."]
    both = didact.evaluate(found, teacher, [replace(row, rationale=(Span(0, 0, 1),)) for row in rows])
    assert both.attrs["heading"] == "plausibility"
    assert {"truth_tau", "roc_auc", "comprehensiveness"} <= set(both["metric"])


def test_rows_without_truth_are_refused_by_name(occluded):
    with pytest.raises(didact.errors.OptionError, match="truth_tau: it needs true scores: give data that know them"):
        didact.evaluate(occluded, metrics=["truth_tau"])


def test_a_verified_teacher_of_graded_data_has_the_truth(data, occluded):
    frame = didact.evaluate(occluded, data.oracle(), data, metrics=["truth_tau"])
    assert frame.attrs["heading"] == "truth"
    assert frame.loc[frame["method"] == "occlusion", "value"].item() == pytest.approx(1)


def test_explained_classes_are_read_from_the_target():
    assert explained_classes(None, "value") == Explained()
    assert explained_classes(("no", "yes"), "yes") == Explained(1, None, 2)
    assert explained_classes(("no", "yes"), "yes against no") == Explained(1, 0, 2)
    assert explained_classes(("no", "yes"), "maybe") is None


class TestTrueScores:
    row = Row("a", ("unbelievable film",), label=1, rationale=(Span(0, 0, 12), Span(0, 13, 17)),
              rationale_weights=(6.0, -1.0))  # fmt: skip
    segments = np.zeros(4, dtype=np.int64)
    offsets = np.array([[0, 2], [2, 8], [8, 12], [13, 17]])

    def scores(self, *explained, row=row):
        return true_scores(row, self.segments, self.offsets, Explained(*explained)).tolist()

    def test_pieces_share_by_characters(self):
        assert self.scores(1, None, 2) == [1, 3, 2, -1]
        lost = shared_scores([(Span(1, 0, 4), 5.0), (Span(0, 30, 34), 5.0)], self.segments, self.offsets)
        assert lost.tolist() == [0, 0, 0, 0]

    def test_signs(self):
        assert self.scores(0, None, 2) == [-1, -3, -2, 1]
        assert self.scores(1, 0, 2) == [1, 3, 2, -1]
        assert self.scores() == [1, 3, 2, -1]
        assert self.scores(1, None, 5) == [1, 3, 2, -1]

    @pytest.mark.parametrize("explained", [(0, None, 3), (1, 0, 3)])
    def test_another_of_many_classes_is_unknown(self, explained):
        with pytest.raises(UnsupportedError, match="speak for its label .* target='gold', or 'human'"):
            self.scores(*explained)

    def test_no_label_no_direction(self):
        with pytest.raises(UnsupportedError, match="speak for its label"):
            self.scores(1, None, 2, row=replace(self.row, label=None))

    def test_no_weights_no_truth(self):
        bare = replace(self.row, rationale_weights=None)
        assert has_truth(self.row, None)
        assert not has_truth(bare, None)
        with pytest.raises(UnsupportedError, match="Choose 'human'"):
            self.scores(1, None, 2, row=bare)
