"""The sentence about the model that participants read. The default is built from its task and classes."""

from collections.abc import Sequence
from typing import Final

from didact.core.task import CLASSIFICATION, TASKS

TITLE: Final = "A study about explanations of a computer model"
MAX_NAMED_CLASSES: Final = 8  # with more classes than this, only a few are named


def default_about(task: str, classes: Sequence[str] | None) -> str:
    """A neutral sentence: "A computer model reads a text and answers one of: negative, positive."."""
    kind = TASKS.get(task, CLASSIFICATION)
    reads = kind.about
    if not classes or not kind.has_classes:
        return f"A computer model {reads}."
    if len(classes) > MAX_NAMED_CLASSES:
        return f"A computer model {reads} and chooses one of {len(classes)} answers, such as {', '.join(classes[:3])}."
    return f"A computer model {reads} and answers one of: {', '.join(classes)}."
