"""The table of tasks: what a row holds, what a model answers, how an answer is measured. Each is a file of `tasks`."""

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
    """The task called `name`. The kinds that are not served yet are refused by name, with the reason."""
    if name in TASKS:
        return TASKS[name]
    normalised = name.replace("-", "_").replace("multilabel", "multi_label").removesuffix("_classification_multi")
    if normalised in _UNSUPPORTED:
        raise UnsupportedError(
            f"Task {name!r} is not supported: {_UNSUPPORTED[normalised]}. Supported: {', '.join(TASKS)}."
        )
    raise UnknownNameError(unknown_name_message("task", name, TASKS))
