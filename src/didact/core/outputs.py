"""`Outputs`: the answers of a teacher or student, independent of any tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from jaxtyping import Float, Int

from didact.core.row import Span
from didact.core.tasks.base import Task
from didact.errors import ShapeError
from didact.viz.text_spans import percent

_SHOWN = 10  # rows shown by `print`


@dataclass(frozen=True, eq=False, repr=False)
class Outputs:
    """One answer per row.

    `values` are class logits (log-probabilities for a black box that returns probabilities), the score of a
    regression, or start and end (exclusive) of the characters of a reading answer. `answers` are the texts of a
    reading answer: one from a model, all acceptable ones from people. `classes` names the columns of `values`.
    """

    task: Task
    ids: tuple[str, ...]
    values: Float[np.ndarray, "row width"]
    answers: tuple[tuple[str, ...], ...] | None = None
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.values):
            raise ShapeError(f"{len(self.ids)} row ids do not fit {len(self.values)} answers.")

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, indices: Int[np.ndarray, " chosen"]) -> "Outputs":
        answers = None if self.answers is None else tuple(self.answers[index] for index in indices)
        ids = tuple(self.ids[index] for index in indices)
        return Outputs(self.task, ids, self.values[indices], answers, self.classes)

    @classmethod
    def joined(cls, outputs: Sequence["Outputs"]) -> "Outputs":
        """Concatenate outputs of the same task."""
        answers = [chunk.answers for chunk in outputs if chunk.answers is not None]
        return cls(
            outputs[0].task,
            tuple(chain.from_iterable(chunk.ids for chunk in outputs)),
            np.concatenate([chunk.values for chunk in outputs]),
            tuple(chain(*answers)) if len(answers) == len(outputs) else None,
            outputs[0].classes,
        )

    def __repr__(self) -> str:
        """One line per row: its id, its answer and the probability."""
        lines = [
            f"  {row_id}: {answer}"
            for row_id, answer in zip(self.ids[:_SHOWN], self.format_answers(_SHOWN), strict=True)
        ]
        remaining = len(self) - len(lines)
        lines += [f"  … and {remaining:,} more"] if remaining > 0 else []
        return "\n".join([f"Outputs of {len(self):,} {'row' if len(self) == 1 else 'rows'} ({self.task})", *lines])

    def format_answers(self, count: int | None = None) -> list[str]:
        """The answers of the first `count` rows, or of all, as text: `positive (99.8 %)`, a number or a quoted span."""
        shown = self.select(np.arange(len(self))[:count])
        words = self.task.format_answers(shown, self.classes)
        if self.task.has_classes:
            highest = shown.probabilities.max(axis=1).tolist()
            return [f"{word} ({percent(probability)})" for word, probability in zip(words, highest, strict=True)]
        return words if shown.answers is None else list(map(repr, words))

    @property
    def labels(self) -> Int[np.ndarray, " row"]:
        """The predicted class of each row."""
        assert self.task.has_classes
        return self.values.argmax(axis=1).astype(np.int64)

    @property
    def probabilities(self) -> Float[np.ndarray, "row width"]:
        """The class probabilities; for tasks without classes, the values."""
        return self.task.probabilities(self.values)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The answers of a reading task as spans of the passage."""
        assert self.task.is_per_token
        return tuple(Span(1, int(start), int(end)) for start, end in self.values)


def softmax(logits: Float[np.ndarray, "row width"]) -> Float[np.ndarray, "row width"]:
    """Class probabilities of logits."""
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)
