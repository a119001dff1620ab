"""The promise of a teacher: it answers rows. What it is made of is nobody's business but the explainers'."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.task import Task


@runtime_checkable
class Teacher(Protocol):
    """Anything that answers rows: a model, a Python function, or the people who labelled the data."""

    name: str
    task: Task
    classes: tuple[str, ...] | None

    def predict(self, rows: Sequence[Row], *, batch_size: int = 32) -> Outputs: ...
