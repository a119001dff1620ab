"""Symmetric relevance gain where it is known exactly, and its symmetry; test_faithfulness.py has its definition."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

import teachers
from didact.core.function import FunctionTeacher
from didact.core.row import Row
from didact.evaluation.evaluate import run_evaluation
from didact.explaining.explain import explain
from didact.metrics.faithfulness import DeletionArea, InsertionArea, SymmetricRelevanceGain, faithfulness
from didact.metrics.probe import Probe

WEIGHTS = {"a": 0.2, "b": -0.1, "c": 0.05, "d": 0.15, "e": 0.0, "f": -0.05}


def additive(power=1):
    """A teacher whose probability is 0.4 plus the weights of the words that are there (or a power of it)."""

    def predict(texts):
        chance = np.array([(0.4 + sum(WEIGHTS[word] for word in text.split())) ** power for text in texts])
        return np.stack([1 - chance, chance], 1)

    return FunctionTeacher(predict, ["no", "yes"])


def gain(teacher, words, rankings, **options):
    """The metric of each ranking of the words, for class yes."""
    rows = [Row(f"{number}", (" ".join(words),)) for number in range(len(rankings))]
    maps = explain(teacher, rows, "occlusion", target="yes")
    maps = replace(maps, scores=np.concatenate([np.asarray(scores, dtype=np.float64) for scores in rankings]))
    return faithfulness([SymmetricRelevanceGain(**options)], [maps], Probe(teacher, rows))[0, 0]


def test_where_words_add_up_each_counts_by_its_rank():
    """p = 0.4 + Σ w gives SRG = Σ w (n + 1 − 2 rank) / n, whatever the ranking."""
    generator = np.random.default_rng(0)
    rankings = [list(WEIGHTS.values()), *generator.random((5, len(WEIGHTS)))]
    values = gain(additive(), list(WEIGHTS), rankings)
    for scores, value in zip(rankings, values, strict=True):
        order = np.argsort(-np.asarray(scores), kind="stable")
        units = len(order)
        terms = [WEIGHTS[list(WEIGHTS)[unit]] * (units + 1 - 2 * (rank + 1)) / units for rank, unit in enumerate(order)]
        assert value == pytest.approx(sum(terms))
    assert values[0] == max(values) == pytest.approx(2.15 / 6)


def test_no_ranking_is_better_on_average_than_none():
    """Over all orders the mean is 0, and a reversed ranking has the negative: for any teacher, curved ones too."""
    words = list("abcd")
    orders = [list(map(float, order)) for order in permutations(range(4))]
    values = gain(additive(power=3), words, orders)
    assert values.mean() == pytest.approx(0, abs=1e-12)
    assert np.abs(values).max() > 0.05
    by_order = dict(zip(map(tuple, orders), values, strict=True))
    for order, value in by_order.items():
        assert by_order[tuple(3 - rank for rank in order)] == pytest.approx(-value)


def test_random_explanations_have_none():
    """The control of an evaluation, on many rows: 0 within its standard error, while the truth is far from it."""
    generator = np.random.default_rng(1)
    rows = [Row(f"{number}", (" ".join(generator.permutation(list(WEIGHTS))),)) for number in range(80)]
    teacher = additive(power=2)
    maps = explain(teacher, rows, "occlusion", target="yes")
    truth, control = run_evaluation(maps, teacher, rows, metrics="srg").values[0]
    error = control.std(ddof=1) / np.sqrt(len(rows))
    assert abs(control.mean()) < 2 * error
    assert truth.mean() > 10 * error


def test_it_is_insertion_minus_deletion_and_costs_nothing_beside_them():
    """Where every unit is a point of the curves; equal masks of a row are answered once."""
    teacher, rows = teachers.teacher("hf", "classification"), teachers.examples("classification")
    maps = explain(teacher, rows, "gradient_input")
    alone, beside = Probe(teacher, rows), Probe(teacher, rows)
    deletion, insertion = faithfulness([DeletionArea(), InsertionArea()], [maps], alone)[:, 0]
    metrics = [SymmetricRelevanceGain(), DeletionArea(), InsertionArea()]
    np.testing.assert_allclose(faithfulness(metrics, [maps], beside)[0, 0], insertion - deletion, atol=1e-12)
    assert beside.masked.passes == alone.masked.passes
    assert gain(additive(), ["a"], [[1.0]]).tolist() == [0.0]  # one unit has one order
