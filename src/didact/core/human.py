"""The data set's own labels as a teacher."""

from collections.abc import Sequence

import numpy as np

from didact.core.outputs import Outputs
from didact.core.row import Row, Span
from didact.core.rows import Rows, as_rows
from didact.core.task import Task
from didact.core.teacher import described
from didact.errors import DataError, OptionError


class HumanTeacher:
    """Answers with the gold label of each row (Pruthi et al., section 4). Refuses rows that have none."""

    name = "human"

    def __init__(self, task: Task, classes: Sequence[str] | None = None) -> None:
        if task.has_classes and classes is None:
            raise OptionError(f"Task {task} has classes: people's labels need their names, classes=[…].")
        self.task = task
        self.classes = None if classes is None else tuple(classes)

    def knows(self, row: Row) -> bool:
        """Whether the row has a gold label of this task."""
        if self.classes is not None:
            return isinstance(row.label, int | np.integer) and 0 <= row.label < len(self.classes)
        if self.task.name == "reading":
            return isinstance(row.label, tuple) and len(row.label) > 0
        return isinstance(row.label, int | float | np.number)

    def __repr__(self) -> str:
        return described(self, "the labels of the data", {})

    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs:  # noqa: ARG002
        rows = as_rows(rows)
        wrong = [f"{row.id}: {row.label!r}" for row in rows if not self.knows(row)]
        if wrong:
            raise DataError(
                f"{len(wrong)} of {len(rows)} rows have no gold label of this task, so people cannot be the teacher. "
                "Drop these rows, or choose a model as the teacher. The first are:",
                wrong[: DataError.SHOWN],
                total=len(wrong),
            )
        ids = tuple(row.id for row in rows)
        if self.classes is not None:
            # One-hot in log space; -30 instead of minus infinity keeps every later computation finite.
            values = np.full((len(rows), len(self.classes)), -30.0)
            values[np.arange(len(rows)), np.array([row.label for row in rows], dtype=np.int64)] = 0.0
            return Outputs(self.task, ids, values, classes=self.classes)
        if self.task.name == "reading":
            best = [_spans(row)[0] for row in rows]
            answers = tuple(tuple(row.text_of(span) for span in _spans(row)) for row in rows)
            return Outputs(
                self.task, ids, np.array([[s.start, s.end] for s in best], dtype=np.float64).reshape(-1, 2), answers
            )
        return Outputs(self.task, ids, np.array([row.label for row in rows], dtype=np.float64).reshape(-1, 1))


def _spans(row: Row) -> tuple[Span, ...]:
    assert isinstance(row.label, tuple)
    return row.label
