"""Checks whether students predict the teacher better than a constant answer. If not, a comparison says nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from didact.comparing.statistics import contrast_of, simulability
from didact.results.comparison import Scores
from didact.results.run_record import ColumnInfo


@dataclass(frozen=True)
class ChanceLevel:
    """The result of a student that always gives the teacher's most frequent answer (scikit-learn: DummyClassifier).

    `rows` is its agreement on each test row. For a correlation the chance level is 0, and `reference` holds the
    teacher's answers. `strata` are the teacher's classes if all classes have the same weight.
    """

    rows: Float[np.ndarray, " row"]
    answer: str
    labels: Int[np.ndarray, " row"] | None = None
    reference: Float[np.ndarray, " row"] | None = None
    strata: Int[np.ndarray, " row"] | None = None

    @classmethod
    def of_classes(cls, labels: Int[np.ndarray, " row"], classes: Sequence[str], *, balanced: bool) -> "ChanceLevel":
        majority = int(np.bincount(labels).argmax())
        return cls(
            (labels == majority).astype(np.float64), classes[majority], labels, None, labels if balanced else None
        )

    @classmethod
    def of_values(cls, reference: Float[np.ndarray, " row"]) -> "ChanceLevel":
        return cls(np.zeros(len(reference)), "the same value", reference=reference)

    @property
    def value(self) -> float:
        return simulability(self.rows, self.reference, self.strata)


def columns_above_chance(
    scores: Scores,
    columns: Sequence[tuple[str, int]],
    chance_level: ChanceLevel | None,
    *,
    controls: Sequence[str],
) -> list[ColumnInfo]:
    """For every column, whether the interval of any arm is above the chance level.

    The arm without explanations is tested at 95 %, the arms of the methods at 95 % jointly (Bonferroni), so one lucky
    arm among many methods does not count.
    """
    return [_column_info(scores, student, size, chance_level, controls) for student, size in columns]


def _column_info(
    scores: Scores, student: str, size: int, chance_level: ChanceLevel | None, controls: Sequence[str]
) -> ColumnInfo:
    arms = {
        name: list(by_seed.values())
        for (name, arm_student, arm_size), by_seed in scores.items()
        if (arm_student, arm_size) == (student, size) and by_seed and (name == "none" or name not in controls)
    }
    if chance_level is None or not arms:
        return ColumnInfo(student, size, None)
    if all(_answers_one_class(row, chance_level) for rows in arms.values() for row in rows):
        return ColumnInfo(student, size, False, "every student gives the same answer to all test rows")
    method_count = max(len(arms) - ("none" in arms), 1)
    for name, rows in arms.items():
        level = 0.95 if name == "none" else 1 - 0.05 / method_count
        if _is_above_chance(rows, chance_level, level):
            return ColumnInfo(student, size, True)
    best = max(
        float(np.mean([simulability(row, chance_level.reference, chance_level.strata) for row in rows]))
        for rows in arms.values()
    )
    if chance_level.reference is not None:
        reason = (
            f"the answers of no student correlate with the model's: no interval is above 0 (best mean r {best:.3f})"
        )
    else:
        measure = "balanced agreement" if chance_level.strata is not None else "agreement"
        reason = (
            f"students (without controls) reach at most {100 * best:.1f} % {measure} with the model, and no interval "
            f"is above the {100 * chance_level.value:.1f} % of always answering {chance_level.answer!r}"
        )
    return ColumnInfo(student, size, False, reason)


def _is_above_chance(rows: Sequence[Float[np.ndarray, " row"]], chance_level: ChanceLevel, level: float) -> bool:
    contrast = contrast_of(rows, [chance_level.rows] * len(rows), chance_level.reference, chance_level.strata)
    return contrast.interval(level)[0] > 0


def _answers_one_class(row: Float[np.ndarray, " row"], chance_level: ChanceLevel) -> bool:
    """Whether the student's correct rows are exactly those of one class, or none at all."""
    if chance_level.labels is None:
        return bool(np.ptp(row) == 0)
    correct = row > 0
    return not correct.any() or any(
        np.array_equal(correct, chance_level.labels == label) for label in np.unique(chance_level.labels)
    )
