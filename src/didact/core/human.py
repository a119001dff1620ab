"""The data set's own labels as a teacher."""

from collections.abc import Sequence

import numpy as np

from didact.core.outputs import Outputs
from didact.core.row import Row, Span
from didact.core.task import Task
from didact.errors import DataError


class HumanTeacher:
    """Answers with the gold label of each row (Pruthi et al., section 4). Refuses rows that have none."""

    name = "human"

    def __init__(self, task: Task, classes: Sequence[str] | None = None) -> None:
        self.task = task
        self.classes = None if classes is None else tuple(classes)

    def predict(self, rows: Sequence[Row], *, batch_size: int = 32) -> Outputs:  # noqa: ARG002
        bare = [row.id for row in rows if row.label is None or row.label == ()]
        if bare:
            raise DataError(
                f"{len(bare)} of {len(rows)} rows have no gold label, so people cannot be the teacher. "
                "Drop these rows, or choose a model as the teacher. The first are:",
                bare[: DataError.SHOWN],
                total=len(bare),
            )
        ids = tuple(row.id for row in rows)
        if self.task.has_classes:
            assert self.classes is not None
            # One-hot in log space; -30 instead of minus infinity keeps every later computation finite.
            values = np.full((len(rows), len(self.classes)), -30.0)
            values[np.arange(len(rows)), [_class(row) for row in rows]] = 0.0
            return Outputs(self.task, ids, values)
        if self.task.name == "reading":
            best = [_spans(row)[0] for row in rows]
            answers = tuple(tuple(row.text_of(span) for span in _spans(row)) for row in rows)
            return Outputs(
                self.task, ids, np.array([[s.start, s.end] for s in best], dtype=np.float64).reshape(-1, 2), answers
            )
        return Outputs(self.task, ids, np.array([row.label for row in rows], dtype=np.float64).reshape(-1, 1))


def _class(row: Row) -> int:
    assert isinstance(row.label, int)
    return row.label


def _spans(row: Row) -> tuple[Span, ...]:
    assert isinstance(row.label, tuple)
    return row.label
