"""Edited rows: rows that are one edit away from rows of a data set, the test set `edited` of a comparison.

Where edits come from, the first that applies: planted data redraw the rationale and the rest of a row; data with
counterfactual pairs bring a revision; in all other texts one word is swapped (`word_swap`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from didact.core.dataset import Dataset
from didact.core.row import Row
from didact.data.planted.dataset import PlantedDataset
from didact.data.planted.rules import Region
from didact.data.word_swap import WordSwap
from didact.errors import UnsupportedError

_REGIONS: Final[tuple[Region, ...]] = ("rationale", "rest")
_SEED: Final = 0


class EditKind(StrEnum):
    """What was done to a row."""

    REDRAWN = "redrawn"
    REVISED = "revised"
    SWAPPED = "swapped"


@dataclass(frozen=True, eq=False)
class Editor:
    """Makes the edits of a row. `kind` says how."""

    kind: EditKind
    edit: Callable[[Row], Sequence[Row]]

    def edits(self, row: Row) -> tuple[Row, ...]:
        """The different edits of a row, without those that changed nothing."""
        edits = {edited.content: edited for edited in self.edit(row) if edited.content != row.content}
        return tuple(edits.values())


def editor_of(data: Dataset, rows: Sequence[Row]) -> Editor:
    """The editor for `rows` of a data set. Word swaps take the frequencies of words from these rows.

    Raises:
        UnsupportedError: a changed answer is not defined for the task, or nothing can edit its images.
    """
    if not data.task.has_classes:
        raise UnsupportedError(
            f"An edit flips the class that the model answers, and {data.name!r} is {data.task}, which has no classes. "
            "Leave out the test set 'edited'."
        )
    if isinstance(data, PlantedDataset):
        return Editor(EditKind.REDRAWN, lambda row: _redrawn(data, row))
    if any(row.revision is not None for row in rows):
        return Editor(EditKind.REVISED, _revised)
    if not data.task.is_text:
        raise UnsupportedError(
            f"{data.name!r} has images, and only planted images (planted/shapes) can be edited. Leave out the test set "
            "'edited'."
        )
    swap = WordSwap(rows)
    return Editor(EditKind.SWAPPED, lambda row: _swapped(swap, row))


def _redrawn(data: PlantedDataset, row: Row) -> list[Row]:
    return [replace(data.redraw(row, region, _SEED), id=f"{row.id}/{region}") for region in _REGIONS]


def _revised(row: Row) -> list[Row]:
    if row.revision is None:
        return []
    return [Row(f"{row.id}/{EditKind.REVISED}", row.revision.texts, label=row.revision.label)]


def _swapped(swap: WordSwap, row: Row) -> list[Row]:
    edited = swap.edit(row, seed=_SEED)
    return [] if edited is None else [replace(edited, id=f"{row.id}/{EditKind.SWAPPED}")]
