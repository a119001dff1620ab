"""What participants are told about the model: one sentence, by default built from its task and classes."""

from collections.abc import Sequence
from typing import Final

TITLE: Final = "A study about explanations of a computer model"
LISTED: Final = 8  # with more classes than this, only a few are named
_READS: Final = {
    "classification": "reads a text",
    "pair": "reads two texts",
    "regression": "reads a text and gives it a score",
    "reading": "reads a question and a passage, and copies its answer from the passage",
    "image": "looks at a picture",
}


def default_about(task: str, classes: Sequence[str] | None) -> str:
    """A neutral sentence: "A computer model reads a text and answers one of: negative, positive."."""
    reads = _READS.get(task, "reads a text")
    if not classes or task in ("regression", "reading"):
        return f"A computer model {reads}."
    if len(classes) > LISTED:
        return f"A computer model {reads} and chooses one of {len(classes)} answers, such as {', '.join(classes[:3])}."
    return f"A computer model {reads} and answers one of: {', '.join(classes)}."
