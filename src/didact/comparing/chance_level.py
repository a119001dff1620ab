"""Whether the students of a comparison learned anything about the teacher. If not, it says nothing of explanations."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from didact.comparing.statistics import contrast_of, simulability
from didact.results.comparison import Scores
from didact.results.run_record import ColumnInfo


@dataclass(frozen=True)
class ChanceLevel:
    """What a student reaches that always gives the teacher's most frequent answer, row by row.

    A correlation has the floor 0, of a constant answer. `strata` are the teacher's classes where all count the same.
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
    """For every column, whether any of its students beat the floor by their interval.

    Students without explanations are judged at 95 %, those of the methods at 95 % for all of them together
    (Bonferroni): a method that teaches what answers alone do not is a finding, one lucky arm is not.
    """
    return [_column_facts(scores, student, size, chance_level, controls) for student, size in columns]


def _column_facts(
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
        return ColumnInfo(student, size, False, "every student gives one and the same answer to all test rows")
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
        reason = f"no student's answers correlate with the model's by their interval (best mean r {best:.3f})"
    else:
        measure = "balanced agreement" if chance_level.strata is not None else "agreement"
        reason = (
            f"students (controls aside) reach {100 * best:.1f} % {measure} with the model at best, not above the "
            f"{100 * chance_level.value:.1f} % of always answering {chance_level.answer!r} by their interval"
        )
    return ColumnInfo(student, size, False, reason)


def _is_above_chance(rows: Sequence[Float[np.ndarray, " row"]], chance_level: ChanceLevel, level: float) -> bool:
    contrast = contrast_of(rows, [chance_level.rows] * len(rows), chance_level.reference, chance_level.strata)
    return contrast.interval(level)[0] > 0


def _answers_one_class(row: Float[np.ndarray, " row"], chance_level: ChanceLevel) -> bool:
    """Whether the rows that a student has right are just those of one class, or none."""
    if chance_level.labels is None:
        return bool(np.ptp(row) == 0)
    correct = row > 0
    return not correct.any() or any(
        np.array_equal(correct, chance_level.labels == label) for label in np.unique(chance_level.labels)
    )
