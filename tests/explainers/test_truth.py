"""The control `truth`: contributions of exact teachers, else the true scores of the rows."""

from dataclasses import replace

import numpy as np
import pytest

import didact
from didact.errors import DataError, UnsupportedError
from teachers import examples, teacher


@pytest.fixture(scope="module")
def data():
    return didact.load_data("planted/graded(teach=0, explain=0, train=0, dev=0, test=12)")


@pytest.mark.parametrize("target", ["predicted", "negative", "positive", "contrast", "gold"])
def test_scores_of_rows_take_the_sign_of_the_explained_class(data, target):
    rows = data["test"]
    for row, explanation in zip(rows, didact.explain(data.oracle(), rows, "truth", target=target), strict=True):
        sign = 1 if explanation.target.startswith(data.classes[row.label]) else -1
        weights = {row.text_of(span): weight for span, weight in zip(row.rationale, row.rationale_weights, strict=True)}
        np.testing.assert_array_equal(
            explanation.scores, [sign * weights.get(token, 0) for token in explanation.tokens]
        )


def test_pieces_of_a_word_share_its_score():
    model = teacher("hf", "classification")
    rows = examples("classification")
    labels = model.predict(rows).labels.tolist()
    rows = [replace(row, label=label, rationale_weights=(-3.0,)) for row, label in zip(rows, labels, strict=True)]
    maps = didact.explain(model, rows, "truth")
    assert maps.kind == "signed"
    np.testing.assert_allclose([row.scores.sum() for row in maps], -3)


def test_an_exact_teacher_needs_no_rationales():
    lexicon = didact.teacher_from_lexicon({"good": 2.0, "bad": -1.0})
    maps = didact.explain(lexicon, ["a good film", "a bad good film"], "truth")
    np.testing.assert_allclose(maps.scores, [0, 1, 0, 0, -0.5, 1, 0])


def test_rows_without_truth_are_counted(data):
    rows = [replace(row, rationale_weights=None) if index % 3 else row for index, row in enumerate(data["test"])]
    with pytest.raises(DataError, match="true scores of 8 of 12 rows are unknown: .* Choose 'human'"):
        didact.explain(data.oracle(), rows, "truth")


def test_another_of_many_classes_is_refused():
    model = teacher("native", "classification")  # three classes
    rows = examples("classification")
    labels = model.predict(rows).labels.tolist()
    rows = [
        replace(row, label=(label + 1) % 3, rationale_weights=(1.0,)) for row, label in zip(rows, labels, strict=True)
    ]
    with pytest.raises(UnsupportedError, match="speak for its label .* Choose target='gold', or 'human'"):
        didact.explain(model, rows, "truth")
    assert didact.explain(model, rows, "truth", target="gold").scores.max() > 0
