"""Stability against the definition written out, and cases with known answers."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import teachers
from didact.core.row import Row, Span
from didact.errors import OptionError, UnsupportedError
from didact.explaining.explain import explain
from didact.metrics.stability import (
    LexicalStability,
    SemanticStability,
    lexical_similarity,
    nearest,
    semantic_similarity,
    word_overlap,
)

TEXTS = ("a good film", "a good play", "a bad film", "the plot", "a good film", "good", "")


def rows(texts=TEXTS):
    return [Row(f"r{number}", (text,)) for number, text in enumerate(texts)]


def test_likeness_in_words():
    """Overlap of n-grams, mean over n = 1 to 4, written out."""

    def grams(text, n):
        words = text.casefold().split()
        return {" ".join(words[start : start + n]) for start in range(len(words) - n + 1)}

    found = lexical_similarity(rows())
    for one, first in enumerate(TEXTS):
        for other, second in enumerate(TEXTS):
            shares = []
            for n in (1, 2, 3, 4):
                either = grams(first, n) | grams(second, n)
                shares.append(len(grams(first, n) & grams(second, n)) / len(either) if either else 0.0)
            assert found[one, other] == pytest.approx(np.mean(shares)), (first, second)


def test_likeness_in_meaning():
    """The cosine of mean last states, row by row; batches and padding change nothing."""
    teacher = teachers.teacher("hf", "classification")
    some = rows(("a good film", "the plot is not very good", "bad"))
    found = semantic_similarity(teacher, some, batch_size=2)
    vectors = []
    with torch.no_grad():
        for row in some:
            vectors.append(teacher(teacher.encode([row]), listen=["hidden"]).hidden[-1][0].mean(0).numpy())
    for one in range(3):
        for other in range(3):
            cosine = vectors[one] @ vectors[other] / np.linalg.norm(vectors[one]) / np.linalg.norm(vectors[other])
            assert found[one, other] == pytest.approx(cosine, abs=1e-9)


def test_neighbours_are_of_the_class():
    alike = np.array([[1, 0.9, 0.8, 0.1], [0.9, 1, 0.5, 0.5], [0.8, 0.5, 1, 0.2], [0.1, 0.5, 0.2, 1.0]])
    assert nearest(alike, ("a", "b", "a", "b"), 3) == [[2], [3], [0], [1]]
    assert nearest(alike, ("a", "a", "a", "b"), 1) == [[1], [0], [0], []]
    assert nearest(alike, ("a",) * 4, 2)[1] == [0, 2]  # of equally near ones the first


def test_overlap():
    words = [({"good", "film"}, {"bad"}), ({"good"}, set()), ({"good", "film"}, {"bad"}), (set(), set())]
    found = word_overlap(words, [[1], [0, 2], [0], [3]])
    assert found[0] == pytest.approx(1 / 3)
    assert found[1] == pytest.approx(1 / 3)
    assert found[2] == 1.0  # identical
    assert math.isnan(found[3])  # neither has a word
    assert math.isnan(word_overlap(words, [[], [0], [0], [0]])[0])  # nobody of its class


def scored(scores, texts, kind="signed", predictions=None):
    teacher = teachers.black_box()
    maps = explain(teacher, rows(texts), "random")
    return replace(
        maps, kind=kind, scores=np.array(scores, dtype=float), predictions=predictions or ("x",) * len(texts)
    )


def test_labels_and_top():
    texts = ("good film bad", "good bad film")
    maps = scored([3, 0, -2, -1, 4, 0], texts)
    own = rows(texts)
    metric = LexicalStability(k=0.4)
    near = metric.near(maps, own)
    assert near == [[1], [0]]
    # Row 0: positive {good}, negative {bad}. Row 1: positive {bad}, negative {good}. Nothing is shared.
    assert metric.with_shared_side([maps])(maps, own, near).tolist() == [0.0, 0.0]
    # Positive {good} and {film}, negative {bad} and {bad}: one of three is shared.
    half = scored([3, 0, -2, 0, -2, 4], texts)
    assert metric.with_shared_side([half])(half, own, near).tolist() == pytest.approx([1 / 3, 1 / 3])
    # By size: {good, bad} and {bad, good}.
    assert LexicalStability(k=0.4, side="top")(maps, own, near).tolist() == [1.0, 1.0]
    sizes = replace(maps, kind="magnitude", scores=np.abs(maps.scores))
    assert metric.with_shared_side([maps, sizes])(maps, own, near).tolist() == [
        1.0,
        1.0,
    ]  # one without signs: all by size


def test_filters():
    texts = ("the good film", "the good play")
    maps, own = scored([3, 2, 0, 3, 2, 0], texts, "magnitude"), rows(texts)
    near = [[1], [0]]
    assert LexicalStability(k=0.4)(maps, own, near).tolist() == [1.0, 1.0]
    only_the = replace(maps, scores=np.array([3.0, 0, 0, 3, 0, 0]))
    assert np.isnan(LexicalStability(k=0.4, only="content")(only_the, own, near)).all()
    marked = [replace(own[0], rationale=(Span(0, 4, 8),)), replace(own[1], rationale=(Span(0, 0, 3),))]
    assert LexicalStability(k=0.4, only="annotated")(maps, marked, near).tolist() == [0.0, 0.0]
    with pytest.raises(OptionError, match="rationale"):
        LexicalStability(only="annotated")(maps, own, near)


def test_a_class_alone():
    texts = ("good film", "good play", "bad film")
    maps = scored([1, 0, 1, 0, 1, 0], texts, "magnitude", ("x", "x", "y"))
    metric = LexicalStability()
    assert np.isnan(metric(maps, rows(texts), metric.near(maps, rows(texts)))).tolist() == [False, False, True]


def test_what_cannot_be():
    maps = scored([1, 0], ("good film",))
    with pytest.raises(OptionError, match="encoder"):
        SemanticStability().near(maps, rows(("good film",)))
    teacher = teachers.teacher("native", "image")
    with pytest.raises(UnsupportedError, match="images"):
        LexicalStability().near(explain(teacher, teachers.examples("image"), "random"), teachers.examples("image"))
    for wrong in ({"side": "left"}, {"only": "verbs"}, {"neighbours": 0}, {"k": 0}):
        with pytest.raises(OptionError):
            LexicalStability(**wrong)


def test_stop_words_are_left_out():
    left_out = LexicalStability(only="content")._stop_words()
    assert {"the", "and", "of"} <= left_out
    assert "film" not in left_out
    assert not LexicalStability(only="all")._stop_words()
