"""What a teacher or a student answered to each row, in terms that no tokenizer changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from jaxtyping import Float, Int

from didact.core.row import Span
from didact.core.task import Task
from didact.errors import ShapeError


@dataclass(frozen=True, eq=False)
class Outputs:
    """One answer per row.

    `values` are class logits (log-probabilities, for a black box), the score of a regression, or the first and last
    (exclusive) character of a reading answer. `answers` are the texts of a reading answer: one where a model spoke,
    all acceptable ones where people did.
    """

    task: Task
    ids: tuple[str, ...]
    values: Float[np.ndarray, "row width"]
    answers: tuple[tuple[str, ...], ...] | None = None

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.values):
            raise ShapeError(f"{len(self.ids)} row ids do not fit {len(self.values)} answers.")

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, indices: Int[np.ndarray, " chosen"]) -> "Outputs":
        answers = None if self.answers is None else tuple(self.answers[index] for index in indices)
        return Outputs(self.task, tuple(self.ids[index] for index in indices), self.values[indices], answers)

    @classmethod
    def joined(cls, parts: Sequence["Outputs"]) -> "Outputs":
        """The rows of all parts, one after another."""
        answers = [part.answers for part in parts if part.answers is not None]
        return cls(
            parts[0].task,
            tuple(chain.from_iterable(part.ids for part in parts)),
            np.concatenate([part.values for part in parts]),
            tuple(chain(*answers)) if len(answers) == len(parts) else None,
        )

    @property
    def labels(self) -> Int[np.ndarray, " row"]:
        """The predicted class of each row."""
        assert self.task.has_classes
        return self.values.argmax(axis=1).astype(np.int64)

    @property
    def probabilities(self) -> Float[np.ndarray, "row width"]:
        assert self.task.has_classes
        shifted = np.exp(self.values - self.values.max(axis=1, keepdims=True))
        return shifted / shifted.sum(axis=1, keepdims=True)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The answers of a reading task, as spans of the passage."""
        assert self.task.name == "reading"
        return tuple(Span(1, int(start), int(end)) for start, end in self.values)
