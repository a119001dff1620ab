"""`true_area`: the ROC-AUC of scikit-learn for marks, and a double loop over words for graded truth."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import didact
from didact.core.row import Row, Span
from didact.metrics.truth import true_area


def by_loop(scores, truth):
    """Of all pairs of words, weighted by how much more one matters: the share in which it scores higher."""
    right = total = 0.0
    for first, truth_of_first in zip(np.abs(scores), np.abs(truth), strict=True):
        for second, truth_of_second in zip(np.abs(scores), np.abs(truth), strict=True):
            weight = max(truth_of_first - truth_of_second, 0.0)
            total += weight
            right += weight * (1.0 if first > second else 0.5 if first == second else 0.0)
    return right / total if total else np.nan


@pytest.fixture(scope="module")
def marked():
    data = didact.load_data("planted/sentiment(teach=0, explain=0, train=0, dev=0, test=30)")
    return list(data["test"]), didact.explain(data.oracle(), data["test"], "occlusion")


def noisy(explanations, kind="signed"):
    """Small whole numbers: many words tie."""
    scores = np.random.default_rng(0).integers(-3, 4, len(explanations.scores)).astype(np.float64)
    return replace(explanations, scores=scores if kind == "signed" else np.abs(scores), kind=kind)


@pytest.mark.parametrize("kind", ["signed", "magnitude"])
def test_of_marks_it_is_the_roc_auc(marked, kind):
    rows, explanations = marked
    explanations = noisy(explanations, kind)
    areas = true_area(explanations, rows)
    for area, explanation, row in zip(areas, explanations, rows, strict=True):
        words = {row.text_of(span) for span in row.rationale}
        marks = [token in words for token in explanation.tokens]
        assert area == pytest.approx(roc_auc_score(marks, np.abs(explanation.scores)), abs=1e-12)
        assert area == pytest.approx(by_loop(explanation.scores, np.array(marks, dtype=float)), abs=1e-12)
    assert np.std(areas) > 0.1


def test_of_graded_words():
    data = didact.load_data("planted/graded(teach=0, explain=0, train=0, dev=0, test=20)")
    rows = list(data["test"])
    exact = didact.explain(data.oracle(), rows, "truth")
    np.testing.assert_allclose(true_area(exact, rows), 1)
    np.testing.assert_allclose(
        true_area(replace(exact, scores=-exact.scores), rows), 1, err_msg="sizes count, not signs"
    )
    np.testing.assert_allclose(true_area(replace(exact, scores=np.zeros_like(exact.scores)), rows), 0.5)
    areas = true_area(noisy(exact), rows)
    grades = set()
    for area, explanation, row in zip(areas, noisy(exact), rows, strict=True):
        weights = {row.text_of(span): weight for span, weight in zip(row.rationale, row.rationale_weights, strict=True)}
        truth = np.array([weights.get(token, 0.0) for token in explanation.tokens])
        grades |= set(np.abs(truth))
        assert area == pytest.approx(by_loop(explanation.scores, truth), abs=1e-12)
    assert len(grades) > 2


def test_of_a_lexicon():
    weights = {"good": 2.0, "bad": -3.0, "fine": 0.5}
    teacher = didact.teacher_from_lexicon(weights)
    rows = [Row("a", ("a good film with bad fine jokes",)), Row("b", ("good good bad",)), Row("c", ("a film",))]
    explanations = didact.explain(teacher, rows, "truth")
    scores = np.array([1, -5, 3, 0, 5, 2, 0, 1, -4, 4, 1, 2], dtype=np.float64)
    changed = replace(explanations, scores=scores)
    areas = true_area(changed, rows, teacher)
    for area, explanation in zip(areas, changed, strict=True):
        truth = np.array([weights.get(token, 0.0) for token in explanation.tokens])
        assert area == pytest.approx(by_loop(explanation.scores, truth), abs=1e-12, nan_ok=True)
    assert np.isnan(areas[2]), "no word of it matters"
    np.testing.assert_allclose(true_area(explanations, rows, teacher)[:2], 1)
    assert np.isnan(true_area(changed, rows)).all(), "without the teacher the truth is unknown"


def test_rounding_errors_tie(marked):
    rows, explanations = marked
    wiggled = np.full(len(explanations.scores), 0.3) + np.random.default_rng(0).normal(
        0, 1e-12, len(explanations.scores)
    )
    np.testing.assert_allclose(true_area(replace(explanations, scores=wiggled), rows), 0.5)


def test_no_mark_and_nothing_but_marks_are_unknown(marked):
    rows, explanations = marked
    rows = [replace(rows[0], rationale=()), replace(rows[1], rationale=(Span(0, 0, len(rows[1].texts[0])),)), *rows[2:]]
    areas = true_area(explanations, rows)
    assert np.isnan(areas[:2]).all()
    assert np.isfinite(areas[2:]).all()


def test_truth_that_is_unknown_for_the_explained_class():
    """Weights speak for the label of the row: with three classes, nothing is known of the others."""
    row = Row("a", ("good bad film",), label=0, rationale=(Span(0, 0, 4),), rationale_weights=(1.0,))
    teacher = didact.teacher_from_function(lambda texts: np.tile([0.1, 0.1, 0.8], (len(texts), 1)), ["x", "y", "z"])
    explanations = didact.explain(teacher, [row], "occlusion")
    assert np.isnan(true_area(explanations, [row], teacher)).all()
    right = replace(explanations, predictions=("x",), targets=("x",), scores=np.array([3.0, 2.0, 1.0]))
    assert true_area(right, [row], teacher) == [1.0]
