"""The answers that faithfulness metrics need, by the perturbation engine that explainers use too."""

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
    """A teacher that is asked about rows with only some of their units left, and answers with probabilities or scores.

    `masked` is what takes the units away.
    """

    def __init__(self, teacher: Teacher, rows: Sequence[Row], *, replace: str = DEFAULT, batch_size: int = 64) -> None:
        advice = "Measure its explanations against rationales instead (roc_auc)."
        require(teacher, "a class or a score", "Faithfulness", advice=advice)
        self.teacher, self.rows = teacher, list(rows)
        self.masked = MaskedForward(teacher, teacher.encode(self.rows), replace=replace, batch_size=batch_size)
        self.batch = self.masked.batch

    def full(self) -> Float[np.ndarray, "row output"]:
        """What the teacher answers to the rows as they are: probabilities of classes, or the score."""
        return self._answers(self.teacher.predict(self.rows, batch_size=self.masked.batch_size).values)

    def ask(self, kept: Sequence[Masks], *, rows: Sequence[int] | None = None) -> list[Float[np.ndarray, "_ output"]]:
        """For each row and each of its masks (one at least) the answer with only the marked units there."""
        return [self._answers(logits) for logits in self.masked(kept, rows=rows)]

    def _answers(self, values: Float[np.ndarray, "_ output"]) -> Float[np.ndarray, "_ output"]:
        return self.teacher.task.probabilities(values)


def covering_units(
    segments: Int[np.ndarray, " unit"],
    offsets: Int[np.ndarray, "unit side"],
    own_segments: Int[np.ndarray, " position"],
    own_offsets: Int[np.ndarray, "position 2"],
) -> Int[np.ndarray, " position"]:
    """For each of the teacher's positions the unit of an explanation that covers it, by characters; -1 where none does.

    Positions of segment -1 are no units. A position belongs to the unit that holds its first character, else to the
    next one that it reaches into.
    """
    real = np.flatnonzero(own_segments >= 0)
    found = np.full(len(own_segments), -1, dtype=np.int64)
    if np.array_equal(own_segments[real], segments) and np.array_equal(own_offsets[real], offsets):
        found[real] = np.arange(len(real))
        return found
    for segment in np.unique(segments):
        units = np.flatnonzero(segments == segment)
        units = units[np.argsort(offsets[units, 0], kind="stable")]
        starts, ends = offsets[units, 0], offsets[units, 1]
        here = real[own_segments[real] == segment]
        begins, stops = own_offsets[here].T
        last = np.searchsorted(starts, begins, side="right") - 1
        holds = (last >= 0) & (ends[last.clip(0)] > begins)
        after = (last + 1).clip(max=len(units) - 1)
        reaches = (last + 1 < len(units)) & (starts[after] < stops)
        found[here] = np.where(holds, units[last.clip(0)], np.where(reaches, units[after], -1))
    return found
