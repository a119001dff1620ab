"""True scores: what each unit of a row contributes, known from an exact teacher or from planted data."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from didact.core.row import Row, Span
from didact.errors import UnsupportedError


@dataclass(frozen=True, eq=False)
class Contributions:
    """The exact contribution of each word of a row to the logit of each class. With `base` they add up to the logits.

    `base` has the logits of the row without words.
    """

    spans: tuple[Span, ...]
    values: Float[np.ndarray, "word class"]
    base: Float[np.ndarray, " class"]


@runtime_checkable
class ExactTeacher(Protocol):
    """A teacher that knows what each word contributes to its answers."""

    def contributions(self, row: Row) -> Contributions: ...


@dataclass(frozen=True)
class Explained:
    """What an explanation explains: the index of a class, or of a class against another; None for a score."""

    label: int | None = None
    foil: int | None = None
    classes: int = 0


def has_truth(row: Row, teacher: object) -> bool:
    """Whether the true scores of the row are known."""
    return isinstance(teacher, ExactTeacher) or row.rationale_weights is not None


def true_scores(
    row: Row,
    segments: Int[np.ndarray, " unit"],
    offsets: Int[np.ndarray, "unit 2"],
    explained: Explained,
    teacher: object = None,
) -> Float[np.ndarray, " unit"]:
    """The true score of each unit: from the teacher if it is exact, else from the weights of the row's rationale.

    The score of a span is divided among the units that overlap it, in proportion to shared characters.

    Raises:
        UnsupportedError: neither is known, or not for the explained class.
    """
    if isinstance(teacher, ExactTeacher):
        exact = teacher.contributions(row)
        weights = exact.values[:, explained.label or 0]
        if explained.foil is not None:
            weights = weights - exact.values[:, explained.foil]
        return shared_scores(zip(exact.spans, weights.tolist(), strict=True), segments, offsets)
    if row.rationale_weights is None or row.image is not None:
        raise UnsupportedError(
            f"The true scores of row {row.id!r} are unknown: the teacher is not exact (teacher_from_sklearn, "
            "teacher_from_lexicon), and the row has no rationale_weights (planted/graded). Choose 'human' if rows have "
            "rationales, or another method."
        )
    spans = [span for span in row.rationale or () if isinstance(span, Span)]
    sign = _sign(row, explained)
    weighted = [(span, sign * weight) for span, weight in zip(spans, row.rationale_weights, strict=True)]
    return shared_scores(weighted, segments, offsets)


def _sign(row: Row, explained: Explained) -> int:
    """1 if what speaks for the label of the row speaks for what is explained; −1 if it speaks against it."""
    if explained.label is None:
        return 1
    has_two = explained.classes == 2
    if row.label is not None and (has_two or (explained.label == row.label and explained.foil is None)):
        return 1 if explained.label == row.label else -1
    raise UnsupportedError(
        f"The true scores of row {row.id!r} speak for its label ({row.label}), and class {explained.label} of "
        f"{explained.classes} is explained. Choose target='gold', or 'human' instead of 'truth'."
    )


def shared_scores(
    weighted: Iterable[tuple[Span, float]], segments: Int[np.ndarray, " unit"], offsets: Int[np.ndarray, "unit 2"]
) -> Float[np.ndarray, " unit"]:
    """The scores of spans on units, divided in proportion to shared characters. What no unit covers is lost."""
    scores = np.zeros(len(segments))
    for (segment, start, end), weight in weighted:
        shared = np.minimum(offsets[:, 1], end) - np.maximum(offsets[:, 0], start)
        shared = np.where(segments == segment, np.maximum(shared, 0), 0)
        if shared.any():
            scores += weight * shared / shared.sum()
    return scores
