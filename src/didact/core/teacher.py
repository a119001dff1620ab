"""The promise of a teacher: it answers rows. What it is made of is nobody's business but the explainers'."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from didact.core.outputs import Outputs
from didact.core.rows import Rows
from didact.core.task import Task

_NAMED = 12  # classes that are named when a teacher is printed


@runtime_checkable
class Teacher(Protocol):
    """Anything that answers rows: a model, a Python function, or the people who labelled the data."""

    name: str
    task: Task
    classes: tuple[str, ...] | None

    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs: ...


def described(teacher: Teacher, kind: str, facts: Mapping[str, object]) -> str:
    """A teacher in a few lines, for `print`: its name, kind, task and classes, and more `facts` about it."""
    classes = teacher.classes or ()
    named = ", ".join(classes[:_NAMED]) + (f", … ({len(classes)} classes)" if len(classes) > _NAMED else "")
    lines = {"kind": kind, "task": teacher.task, **({"classes": named} if classes else {}), **facts}
    width = max(map(len, lines))
    return "\n".join([f"Teacher {teacher.name!r}", *(f"  {name:<{width}}  {value}" for name, value in lines.items())])
