"""Agreement of scores with the true scores of a row, where an exact teacher or planted data know them."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from didact.core.row import Row
from didact.core.truth import Explained, has_truth, true_scores
from didact.errors import UnsupportedError
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
