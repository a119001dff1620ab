"""The edited test set: rows that are one edit away from the training rows of a student.

Every student sees other training rows, so each has its own edited rows. The teacher labels all of them once.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
from jaxtyping import Bool, Int

from didact.comparing.config_values import EDITED
from didact.comparing.run_inputs import LabelledSplit
from didact.core.row import Row
from didact.data.edits import EditKind, editor_of
from didact.errors import UnsupportedError

if TYPE_CHECKING:
    from didact.comparing.config import CompareConfig
    from didact.comparing.setup import Setup

EDITED_ROWS: Final = 250  # default limit of training rows per student whose edits it is tested on


def sources_per_student(config: "CompareConfig") -> int:
    """The number of training rows per student whose edits it is tested on; 0 without the test set `edited`."""
    return (config.edited_rows or EDITED_ROWS) if EDITED in config.test_sets else 0


def sources_among(ids: Iterable[str], edited: Container[str], limit: int) -> list[str]:
    """The first `limit` of a student's training rows that have edits. A hash of id and seed decides their order."""
    return list(islice((row_id for row_id in ids if row_id in edited), limit))


@dataclass(frozen=True, eq=False)
class EditedRows:
    """The edits of training rows, by id of the row they were made from. `kind` says how they were made."""

    kind: EditKind
    by_source: Mapping[str, Sequence[Row]]

    @classmethod
    def of(cls, setup: "Setup", limit: int) -> "EditedRows":
        """The edits that the teacher can answer, of the first `limit` training rows of every student.

        Raises:
            UnsupportedError: the data cannot be edited.
        """
        editor = editor_of(setup.data, setup.pool.rows)
        edits = {row.id: list(filter(setup.teacher.knows, editor.edits(row))) for row in setup.used_rows}
        edits = {row_id: rows for row_id, rows in edits.items() if rows}
        chosen = {
            row_id
            for seed in setup.config.seeds
            for size in setup.config.train_sizes
            for row_id in sources_among((row.id for row in setup.seed_rows(seed, size)), edits, limit)
        }
        return cls(editor.kind, {row_id: rows for row_id, rows in edits.items() if row_id in chosen})

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for rows in self.by_source.values() for row in rows)

    @property
    def sources(self) -> tuple[str, ...]:
        """The id of the row that each edited row was made from."""
        return tuple(row_id for row_id, rows in self.by_source.items() for _ in rows)

    def of_student(self, rows: Sequence[Row], limit: int) -> list[Row]:
        """The edited rows of a student with these training rows, in the order in which they are drawn."""
        return [
            row
            for row_id in sources_among((row.id for row in rows), self.by_source, limit)
            for row in self.by_source[row_id]
        ]


def edited_indices(split: LabelledSplit, ids: Iterable[str], limit: int) -> Int[np.ndarray, " chosen"]:
    """Indices of a student's edited rows in the split of all; `ids` are its training rows in the order of the draw."""
    chosen = set(sources_among(ids, set(split.sources), limit))
    return np.array([index for index, source in enumerate(split.sources) if source in chosen], dtype=np.int64)


def is_flip(edited: LabelledSplit, train: LabelledSplit) -> Bool[np.ndarray, " row"]:
    """Whether the teacher's answer to each edited row differs from its answer to the row it was made from."""
    answers = dict(zip(train.outputs.ids, train.outputs.labels.tolist(), strict=True))
    return np.array([answers[source] for source in edited.sources]) != edited.outputs.labels


def edited_faults(setup: "Setup") -> list[str]:
    """What stands in the way of the edited test set, if the plan asks for it."""
    config = setup.config
    if EDITED not in config.test_sets:
        return (
            []
            if config.edited_rows is None
            else ["edited_rows: applies to the test set 'edited' only. Add test_sets new,edited, or leave it out."]
        )
    try:
        edited = setup.edited
    except UnsupportedError as error:
        return [f"test_sets: {error}"]
    if edited is None or edited.by_source:
        return []
    reason = (
        "the teacher 'human' answers with labels, and edited rows have none. Use planted data, or a column "
        "revised_label"
        if setup.teacher.reads_labels
        else "no training row could be edited: no word has another of like frequency and class"
    )
    return [f"test_sets: {reason}. Otherwise leave out the test set 'edited'."]
