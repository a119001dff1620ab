"""Properties of a task by its name, for stored explanations, which have only the name. Needs no torch.

The tasks themselves are in `core.tasks`. A new task is added to the table when it is created.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class TaskKind:
    """Properties of a task. `segments` names the texts of a row; it is empty if rows are images."""

    segments: tuple[str, ...]
    has_alignments: bool = False  # rows may have aligned spans of their two texts

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
    """The properties of a task. An unknown task is treated as classification of one text."""
    return TASK_KINDS.get(task, TASK_KINDS["classification"])
