"""Where the truth is known, methods find it, and controls do not: the table of docs/explainers.md, in part."""

import numpy as np
import pytest

import didact
from didact.core.words import touches


def roc_auc(scores: np.ndarray, truth: np.ndarray) -> float:
    """The chance that a marked unit scores above an unmarked one, pair by pair; ties count half."""
    above = scores[truth][:, None] > scores[~truth]
    equal = scores[truth][:, None] == scores[~truth]
    return float((above + equal / 2).mean())


@pytest.fixture(scope="module")
def planted():
    data = didact.load_data("planted/sentiment")
    return data, didact.train_teacher(data, "native")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "least"),
    [
        ("integrated_gradients", 0.90), ("kernel_shap", 0.90), ("lime", 0.90), ("occlusion", 0.90),
        ("gradient_norm", 0.85), ("deeplift", 0.90), ("lrp", 0.90),
    ],
)  # fmt: skip
def test_methods_find_the_planted_words(planted, method, least):
    data, teacher = planted
    assert teacher.record["metrics"]["test_accuracy"] >= 0.99
    assert mean_area(teacher, data["test"][:200], method) >= least


@pytest.mark.slow
def test_chance_finds_nothing(planted):
    data, teacher = planted
    assert abs(mean_area(teacher, data["test"][:1000], "random") - 0.5) <= 0.03


def mean_area(teacher, split, method) -> float:
    areas = []
    for row, one in zip(split, didact.explain(teacher, split, method), strict=True):
        truth = touches(row.rationale, one.segments, one.offsets)
        if 0 < truth.sum() < len(truth):
            areas.append(roc_auc(np.abs(one.scores), truth))
    assert len(areas) > 0.9 * len(split)
    return float(np.mean(areas))
