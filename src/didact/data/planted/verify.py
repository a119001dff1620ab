"""`verify`: whether a teacher depends on the planted units and on nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Bool

from didact.core.classes import match_classes
from didact.core.dataset import Dataset
from didact.core.human import HumanTeacher
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.teacher import Predictor
from didact.data.planted.dataset import PlantedDataset
from didact.data.planted.rules import check_integers
from didact.errors import OptionError, UnsupportedError

MIN_UNCHANGED: Final = 0.99
MIN_FOLLOWED: Final = 0.95


@dataclass(frozen=True)
class Verification:
    """How often a teacher keeps its answer when all but the rationale is redrawn, and follows a redrawn rationale.

    `unchanged` and `followed` are shares of `rows`. Planted rationales are the truth about the task. They are the truth
    about the teacher, too, if it is `verified`.
    """

    unchanged: float
    followed: float
    rows: int
    verified: bool


def verify(teacher: Predictor, data: Dataset, *, split: str = "test", rows: int = 500, seed: int = 0) -> Verification:
    """Verify a teacher on the first `rows` rows of a split, and on the same rows with one region redrawn.

    Raises `UnsupportedError` if the data are not planted.
    """
    if not isinstance(data, PlantedDataset):
        raise UnsupportedError(
            f"{data.name} is not planted data, so the units that decide its labels are unknown. Choose planted/…."
        )
    check_integers(1, rows=rows)
    original = data[split][:rows]
    if not len(original):
        raise OptionError(
            f"Option 'split' is {split!r}, which has no rows. Choose another split, or generate rows for it."
        )
    other_rest = [data.redraw(row, "rest", seed) for row in original]
    other_rationale = _relabelled([data.redraw(row, "rationale", seed) for row in original], data, teacher)
    gold = HumanTeacher(data.task, teacher.classes or data.classes).predict(other_rationale)
    before, after = teacher.predict(list(original)), teacher.predict(other_rest)
    unchanged = _answers_agree(data, (original, before), (other_rest, after)).mean()
    followed = _answers_agree(data, (other_rationale, teacher.predict(other_rationale)), (other_rationale, gold)).mean()
    return Verification(
        float(unchanged), float(followed), len(original), bool(unchanged >= MIN_UNCHANGED and followed >= MIN_FOLLOWED)
    )


def _relabelled(rows: list[Row], data: PlantedDataset, teacher: Predictor) -> list[Row]:
    """Rows with labels as the teacher's class indices. If the class names differ, indices stay as they are."""
    data_classes = data.rules.classes
    if data_classes is None or teacher.classes is None or len(data_classes) > len(teacher.classes):
        return rows
    try:
        return match_classes(data_classes, teacher.classes).relabel(rows)
    except OptionError:
        return rows


_Answered = tuple[Sequence[Row], Outputs]


def _answers_agree(data: PlantedDataset, first: _Answered, second: _Answered) -> Bool[np.ndarray, " row"]:
    """Whether answers agree: the same class, the same text, or scores that differ by less than half a step."""
    if data.task.has_classes:
        return np.asarray(first[1].labels == second[1].labels)
    if data.task.is_per_token:
        return np.array([answer == other for answer, other in zip(_texts(*first), _texts(*second), strict=True)])
    return np.abs(first[1].values - second[1].values)[:, 0] < data.rules.step / 2


def _texts(rows: Sequence[Row], answers: Outputs) -> list[str]:
    return [row.text_of(span) for row, span in zip(rows, answers.spans, strict=True)]
