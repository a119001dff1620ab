"""The teacher's answers for faithfulness metrics, from the perturbation engine that explainers use, too."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from didact.core.needs import require
from didact.core.perturb import DEFAULT, MaskedForward, Masks
from didact.core.row import Row
from didact.core.teacher import Teacher

PRESETS: Final = {"eraser": "delete", "l2e": "mask"}


class Probe:
    """A teacher and rows: answers to the rows, and to the rows with only some of their units.

    Answers are probabilities, or scores for regression. `masked` is the `MaskedForward` that removes units. Raises
    `UnsupportedError` for teachers that answer spans.
    """

    def __init__(self, teacher: Teacher, rows: Sequence[Row], *, replace: str = DEFAULT, batch_size: int = 64) -> None:
        advice = "Compare its explanations with rationales instead (roc_auc)."
        require(teacher, "a class or a score", "Faithfulness", advice=advice)
        self.teacher, self.rows = teacher, list(rows)
        self.masked = MaskedForward(teacher, teacher.encode(self.rows), replace=replace, batch_size=batch_size)
        self.batch = self.masked.batch

    def full(self) -> Float[np.ndarray, "row output"]:
        """The answers to the unchanged rows: class probabilities, or the score."""
        return self._answers(self.teacher.predict(self.rows, batch_size=self.masked.batch_size).values)

    def predict_masked(
        self, masks: Sequence[Masks], *, rows: Sequence[int] | None = None
    ) -> list[Float[np.ndarray, "_ output"]]:
        """For each row and each of its masks (at least one), the answer with only the marked units present."""
        return [self._answers(logits) for logits in self.masked(masks, rows=rows)]

    def _answers(self, values: Float[np.ndarray, "_ output"]) -> Float[np.ndarray, "_ output"]:
        return self.teacher.task.probabilities(values)


def covering_units(
    segments: Int[np.ndarray, " unit"],
    offsets: Int[np.ndarray, "unit side"],
    position_segments: Int[np.ndarray, " position"],
    position_offsets: Int[np.ndarray, "position 2"],
) -> Int[np.ndarray, " position"]:
    """For each position of the teacher, the unit of an explanation that covers it, by characters; -1 without one.

    Positions with segment -1 are skipped. A position belongs to the unit with its first character, else to the next
    unit that it overlaps.
    """
    content = np.flatnonzero(position_segments >= 0)
    covering = np.full(len(position_segments), -1, dtype=np.int64)
    if np.array_equal(position_segments[content], segments) and np.array_equal(position_offsets[content], offsets):
        covering[content] = np.arange(len(content))
        return covering
    for segment in np.unique(segments):
        units = np.flatnonzero(segments == segment)
        units = units[np.argsort(offsets[units, 0], kind="stable")]
        starts, ends = offsets[units, 0], offsets[units, 1]
        positions = content[position_segments[content] == segment]
        position_starts, position_ends = position_offsets[positions].T
        previous = np.searchsorted(starts, position_starts, side="right") - 1
        is_inside = (previous >= 0) & (ends[previous.clip(0)] > position_starts)
        following = (previous + 1).clip(max=len(units) - 1)
        reaches_next = (previous + 1 < len(units)) & (starts[following] < position_ends)
        covering[positions] = np.where(is_inside, units[previous.clip(0)], np.where(reaches_next, units[following], -1))
    return covering
