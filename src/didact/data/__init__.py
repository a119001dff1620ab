"""Texts, pairs and images with labels and rationales, as rows in splits. No torch in this room.

`DATASETS` lists every name: planted data, made here with the truth known (`planted/`), and real sets, one recipe each
(`recipes/`), read from a folder or the Hugging Face hub. Files of your own need no name: see `files.py`.
To add a set: one module with a recipe, one line here, one row in docs/data.md.
"""

from dataclasses import dataclass

from didact.registry import Entry, Registry


@dataclass(frozen=True)
class DataEntry(Entry):
    """What `didact data list` tells of a name without loading anything."""

    task: str
    sources: tuple[str, ...]
    rationales: bool
    about: str


_EMBEDDED = ("embedded",)

DATASETS: Registry[DataEntry] = Registry(
    "data set",
    {
        "planted/sentiment": DataEntry(
            "didact.data.planted.sentiment:sentiment", "classification", _EMBEDDED, True, "cues, negators, intensifiers"
        ),
        "planted/inference": DataEntry(
            "didact.data.planted.inference:inference", "pair", _EMBEDDED, True, "attributes of two texts agree or clash"
        ),
        "planted/quality": DataEntry(
            "didact.data.planted.quality:quality", "regression", _EMBEDDED, True, "translations with planted errors"
        ),
        "planted/reading": DataEntry(
            "didact.data.planted.reading:reading", "reading", _EMBEDDED, True, "facts, with referential equalities"
        ),
        "planted/shapes": DataEntry(
            "didact.data.planted.shapes:shapes", "image", _EMBEDDED, True, "one shape decides, in a noisy picture"
        ),
    },
    group="didact.data",
)
