"""Task measures: how well one set of answers agrees with another."""

import re
import string
from collections import Counter
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from didact.core.outputs import Outputs
from didact.errors import ShapeError

BALANCED: Final = "balanced_accuracy"


def measure(answers: Outputs, reference: Outputs, *, balanced: bool = False) -> float:
    """The task measure over all rows: accuracy, Pearson's r or token F1, at most 1. NaN if r is undefined.

    With `balanced`, accuracy becomes the mean of the recalls of the classes in `reference`. Raises `ShapeError` if the
    answers are to different rows or tasks.
    """
    _check(answers, reference)
    return answers.task.overall(answers, reference, balanced=balanced)


def class_weights(labels: Int[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
    """Weights of the rows, with mean 1, that give all classes in `labels` the same total weight."""
    classes, positions, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return (len(labels) / (len(classes) * counts))[positions]


def agreement(answers: Outputs, reference: Outputs) -> Float[np.ndarray, " row"]:
    """Agreement of each row: 0 or 1 for classes, token F1 for spans. Raises `ShapeError` for regression."""
    _check(answers, reference)
    return answers.task.agreement(answers, reference)


def pearson(first: Float[np.ndarray, " row"], second: Float[np.ndarray, " row"]) -> float:
    """Pearson's r; NaN if either side is constant or there are fewer than two rows."""
    if not len(first) or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    first, second = first - first.mean(), second - second.mean()
    scale = np.sqrt((first**2).sum() * (second**2).sum())
    return float((first * second).sum() / scale) if scale > 0 else float("nan")


def token_f1(answer: str, accepted: str) -> float:
    """SQuAD's F1 of two answers as bags of words, without case, punctuation and articles. Two empty answers agree."""
    answer_words, accepted_words = Counter(_normalised_words(answer)), Counter(_normalised_words(accepted))
    if not answer_words or not accepted_words:
        return float(answer_words == accepted_words)
    shared = (answer_words & accepted_words).total()
    return 2 * shared / (answer_words.total() + accepted_words.total())


def _normalised_words(text: str) -> list[str]:
    letters = "".join(character for character in text.lower() if character not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", letters).split()


def _check(answers: Outputs, reference: Outputs) -> None:
    if answers.task != reference.task or answers.ids != reference.ids:
        raise ShapeError("Only answers of one task to the same rows, in the same order, can be compared.")
