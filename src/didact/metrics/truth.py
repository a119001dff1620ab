"""Agreement of scores with the true scores of a row, where an exact teacher or planted data know them."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from didact.core.row import Row
from didact.core.truth import Explained, has_truth, true_scores
from didact.errors import UnsupportedError
from didact.metrics.plausibility import marks_in
from didact.results.explanations import Explanations
from didact.stats.ranking import kendall


class TruthTau:
    """Kendall's τ-b between the scores of the words of a row and their true scores.

    Signed scores are compared with their signs, others with the absolute true scores. Words without a true score have
    0, so that a method should rank them between the words for and against. Scores are rounded to a millionth of the
    largest, so that words whose scores differ by rounding errors tie. NaN where the truth is unknown for the
    explained class, or where all scores, or all true scores, are equal.
    """

    def __call__(
        self, explanations: Explanations, rows: Sequence[Row], teacher: object = None
    ) -> Float[np.ndarray, " row"]:
        """One number per row. The explanations are of these rows, on words; labels are indices of their classes."""
        return np.array([self._of_row(explanations, index, row, teacher) for index, row in enumerate(rows)])

    def _of_row(self, explanations: Explanations, index: int, row: Row, teacher: object) -> float:
        explanation = explanations[index]
        explained = explained_classes(explanations.classes, explanation.target or explanation.prediction)
        if explained is None or not has_truth(row, teacher):
            return float("nan")
        try:
            truth = true_scores(row, explanation.segments, explanation.offsets, explained, teacher)
        except UnsupportedError:
            return float("nan")
        return kendall(_rounded(explanation.scores), _rounded(truth if explanation.kind == "signed" else np.abs(truth)))


def _rounded(scores: Float[np.ndarray, " word"]) -> Float[np.ndarray, " word"]:
    """The scores as multiples of a millionth of the largest."""
    largest = np.abs(scores).max(initial=0.0)
    return np.round(scores / largest * 1e6) if largest > 0 else scores


def explained_classes(classes: Sequence[str] | None, target: str) -> Explained | None:
    """The explained class, or class and foil, of a target in words. None if it names no class."""
    if classes is None:
        return Explained()
    names = target.split(" against ")
    if not set(names) <= set(classes):
        return None
    label, *foils = map(list(classes).index, names)
    return Explained(label, foils[0] if foils else None, len(classes))


def true_area(explanations: Explanations, rows: Sequence[Row], teacher: object = None) -> Float[np.ndarray, " row"]:
    """The probability, per row, that a word that truly matters more scores higher than one that matters less.

    Words are compared by size, without signs; ties count half. Of marked words (rationales) this is the ROC-AUC. Where
    true scores are known, pairs of words weigh as much as their true sizes differ, so that pairs of words that hardly
    matter hardly count. NaN where the truth is unknown, or where all words matter alike. The explanations are of these
    rows, on words.
    """
    marks = marks_in(explanations, rows)
    return np.array([_area_of_row(explanations, index, row, marks[index], teacher) for index, row in enumerate(rows)])


def _area_of_row(
    explanations: Explanations, index: int, row: Row, marks: Bool[np.ndarray, " word"], teacher: object
) -> float:
    explanation = explanations[index]
    truth = marks.astype(np.float64)
    if has_truth(row, teacher):
        explained = explained_classes(explanations.classes, explanation.target or explanation.prediction)
        if explained is None:
            return float("nan")
        try:
            truth = np.abs(true_scores(row, explanation.segments, explanation.offsets, explained, teacher))
        except UnsupportedError:
            return float("nan")
    weights = np.maximum(truth[:, None] - truth[None, :], 0)
    if not weights.any():
        return float("nan")
    sizes = _rounded(np.abs(explanation.scores))
    higher, equal = sizes[:, None] > sizes[None, :], sizes[:, None] == sizes[None, :]
    return float((weights * (higher + equal / 2)).sum() / weights.sum())
