"""The table of tasks. `didact.core.tasks` has one module per kind of task."""

from typing import Final

from didact.core.tasks.base import Task as Task
from didact.core.tasks.classification import CLASSIFICATION as CLASSIFICATION
from didact.core.tasks.classification import PAIR as PAIR
from didact.core.tasks.image import IMAGE as IMAGE
from didact.core.tasks.reading import READING as READING
from didact.core.tasks.regression import REGRESSION as REGRESSION
from didact.errors import UnknownNameError, UnsupportedError
from didact.registry import unknown_name_message

TASKS: Final[dict[str, Task]] = {task.name: task for task in (CLASSIFICATION, PAIR, REGRESSION, READING, IMAGE)}

_UNSUPPORTED: Final = {
    "generation": "a generated text has no single output to simulate",
    "token_classification": "it has one label per token, and a student is judged by one answer per row",
    "multi_label": "several labels at once have no single predicted class",
}


def task_named(name: str) -> Task:
    """The task with this name. Raises `UnsupportedError`, with the reason, for kinds of task that didact lacks."""
    if name in TASKS:
        return TASKS[name]
    normalised = name.replace("-", "_").replace("multilabel", "multi_label").removesuffix("_classification_multi")
    if normalised in _UNSUPPORTED:
        raise UnsupportedError(
            f"Task {name!r} is not supported: {_UNSUPPORTED[normalised]}. Supported: {', '.join(TASKS)}."
        )
    raise UnknownNameError(unknown_name_message("task", name, TASKS))
