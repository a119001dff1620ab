"""`HumanTeacher`: the labels of the data as a teacher."""

from collections.abc import Sequence

from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.rows import Rows, as_rows
from didact.core.task import Task
from didact.core.teacher import Teacher, describe_teacher
from didact.errors import DataError, OptionError


class HumanTeacher(Teacher):
    """Answers with the gold label of each row (Pruthi et al. 2022, section 4). Rows without one raise `DataError`."""

    name = "human"
    is_identified_by_answers = False
    reads_labels = True

    def __init__(self, task: Task, classes: Sequence[str] | None = None) -> None:
        if task.has_classes and classes is None:
            raise OptionError(f"Task {task} needs class names: classes=[…].")
        self.task = task
        self.classes = None if classes is None else tuple(classes)

    def knows(self, row: Row) -> bool:
        """Whether the row has a gold label for this task."""
        return self.task.knows(row, self.classes)

    def fingerprint(self, rows: Sequence[Row], outputs: Outputs | None = None) -> str:  # noqa: ARG002
        """A constant: labels are part of the fingerprint of the rows."""
        return self.name

    def __repr__(self) -> str:
        return describe_teacher(self, "the labels of the data", {})

    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs:  # noqa: ARG002
        rows = as_rows(rows)
        unlabelled = [f"{row.id}: {row.label!r}" for row in rows if not self.knows(row)]
        if unlabelled:
            raise DataError(
                f"{len(unlabelled)} of {len(rows)} rows have no gold label for this task, so teacher "
                "'human' cannot answer them. "
                "Remove these rows, or choose a model as the teacher. The first are:",
                unlabelled[: DataError.SHOWN],
                total=len(unlabelled),
            )
        return self.task.gold(rows, self.classes)
