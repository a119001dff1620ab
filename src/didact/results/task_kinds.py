"""What is known of a task by its name, which is all that stored explanations hold of it. No torch.

The tasks themselves are in `core.tasks`; each enters its name here when it is made, unless it is in the table.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class TaskKind:
    """`segments` names the texts of a row (none: a row is an image)."""

    segments: tuple[str, ...]
    has_alignments: bool = False  # rows may tell which phrases of their two texts belong together

    @property
    def is_image(self) -> bool:
        return not self.segments


TASK_KINDS: Final[dict[str, TaskKind]] = {
    "classification": TaskKind(("text",)),
    "pair": TaskKind(("first", "second")),
    "regression": TaskKind(("source", "target")),
    "reading": TaskKind(("question", "passage"), has_alignments=True),
    "image": TaskKind(()),
}


def task_kind(task: str) -> TaskKind:
    """What is known of the task; of an unknown one, that it is about a text."""
    return TASK_KINDS.get(task, TASK_KINDS["classification"])
