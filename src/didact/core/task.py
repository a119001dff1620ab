"""The kinds of task: what a row holds, what a model answers, and how an answer is measured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from didact.errors import UnknownNameError, UnsupportedError
from didact.registry import unknown


@dataclass(frozen=True)
class Task:
    """One kind of task. `segments` names the texts of a row; a regression may also rate a single text."""

    name: str
    segments: tuple[str, ...]
    measure: str
    has_classes: bool
    fewest_texts: int

    @property
    def is_text(self) -> bool:
        return bool(self.segments)

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], "Task"], tuple[str]]:
        """A copy is the very same task: models compare theirs by identity."""
        return task_named, (self.name,)


CLASSIFICATION: Final = Task("classification", ("text",), "accuracy", has_classes=True, fewest_texts=1)
PAIR: Final = Task("pair", ("first", "second"), "accuracy", has_classes=True, fewest_texts=2)
REGRESSION: Final = Task("regression", ("source", "target"), "pearson", has_classes=False, fewest_texts=1)
READING: Final = Task("reading", ("question", "passage"), "f1", has_classes=False, fewest_texts=2)
IMAGE: Final = Task("image", (), "accuracy", has_classes=True, fewest_texts=0)

TASKS: Final = {task.name: task for task in (CLASSIFICATION, PAIR, REGRESSION, READING, IMAGE)}

_NOT_YET: Final = {
    "generation": "a generated text has no single output to simulate",
    "token_classification": "it has one label per token, and a student is judged by one answer per row",
    "multi_label": "several labels at once have no single predicted class",
}


def task_named(name: str) -> Task:
    """The task called `name`. The kinds that are not served yet are refused by name, with the reason."""
    if name in TASKS:
        return TASKS[name]
    plain = name.replace("-", "_").replace("multilabel", "multi_label").removesuffix("_classification_multi")
    if plain in _NOT_YET:
        raise UnsupportedError(f"Task {name!r} is not supported: {_NOT_YET[plain]}. Supported: {', '.join(TASKS)}.")
    raise UnknownNameError(unknown("task", name, TASKS))
