"""The inputs of workers, as plain files instead of pickles: rows, the teacher's answers, and initial weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.task import Task, task_named
from didact.files.table_io import Table, read_table, write_table
from didact.learning.fit import Examples
from didact.models.student_init import StudentInit
from didact.results.component_scores import ComponentScores
from didact.results.explanations import Explanations

SPLITS: Final = ("train", "dev", "test")
EDITED_SPLIT: Final = "edited"  # only in runs with this test set
_TYPES: Final = {
    "split": "string", "id": "string", "texts": "list string", "image": "binary", "shape": "list int64",
    "values": "list float64", "answers": "list string",
}  # fmt: skip


@dataclass(frozen=True)
class LabelledSplit:
    """Rows of one split with the teacher's answers. The rows of workers have no gold labels and rationales.

    `sources` has, for edited rows only, the id of the row that each was made from.
    """

    rows: tuple[Row, ...]
    outputs: Outputs
    sources: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)


def write_rows(path: Path, splits: Mapping[str, LabelledSplit], *, task: Task, classes: Sequence[str] | None) -> None:
    """Write the rows of all splits with the teacher's answers to a Parquet file."""
    columns: dict[str, list[Any]] = {name: [] for name in _TYPES}
    names = [*SPLITS, *([EDITED_SPLIT] if EDITED_SPLIT in splits else [])]
    for name in names:
        rows, outputs = splits[name].rows, splits[name].outputs
        columns["split"] += [name] * len(rows)
        columns["id"] += [row.id for row in rows]
        columns["texts"] += [list(row.texts) for row in rows]
        columns["image"] += [None if row.image is None else row.image.tobytes() for row in rows]
        columns["shape"] += [None if row.image is None else list(row.image.shape) for row in rows]
        columns["values"] += outputs.values.tolist()
        columns["answers"] += (
            [None] * len(rows) if outputs.answers is None else [list(texts) for texts in outputs.answers]
        )
    types = dict(_TYPES)
    if EDITED_SPLIT in splits:
        types["source"] = "string"
        columns["source"] = [source for name in names for source in splits[name].sources or [None] * len(splits[name])]
    metadata = {"task": task.name, "classes": None if classes is None else list(classes)}
    write_table(path, Table(columns, metadata), types=types)


def read_rows(path: Path) -> dict[str, LabelledSplit]:
    """Read the file of `write_rows`.

    Raises:
        RecordError: the file is missing or damaged.
    """
    table = read_table(path)
    task = task_named(table.about["task"])
    splits = {}
    for name in (*SPLITS, EDITED_SPLIT):
        indices = [index for index, split in enumerate(table.columns["split"]) if split == name]
        if name == EDITED_SPLIT and not indices:
            continue
        rows = tuple(_row({column: table.columns[column][index] for column in _TYPES}) for index in indices)
        answers = tuple(tuple(table.columns["answers"][index] or ()) for index in indices)
        values = np.array([table.columns["values"][index] for index in indices], dtype=np.float64)
        outputs = Outputs(task, tuple(row.id for row in rows), values, answers if task.is_per_token else None)
        sources = tuple(table.columns["source"][index] for index in indices) if name == EDITED_SPLIT else ()
        splits[name] = LabelledSplit(rows, outputs, sources)
    return splits


def _row(stored: Mapping[str, Any]) -> Row:
    image = None
    if stored["image"] is not None:
        image = np.frombuffer(stored["image"], dtype=np.uint8).reshape(stored["shape"]).copy()
    return Row(stored["id"], tuple(stored["texts"]), image)


class RunInputs:
    """Rows, initial weights and explanations of a run. Each is read and encoded once for all cells of a process."""

    def __init__(self, folder: Path, rows: str) -> None:
        self.folder = folder
        self._rows = rows
        # One cache per instance, so that its content is freed with the instance.
        self.student_init = lru_cache(maxsize=8)(self._student_init)
        self.examples = lru_cache(maxsize=4)(self._examples)
        self.explanations = lru_cache(maxsize=16)(self._explanations)
        self.component_scores = lru_cache(maxsize=2)(self._component_scores)

    @cached_property
    def labelled(self) -> dict[str, LabelledSplit]:
        return read_rows(self.folder / self._rows)

    def _student_init(self, name: str) -> StudentInit:
        return StudentInit.load(self.folder / "starts" / name)

    def _examples(self, init_name: str, soft: bool) -> dict[str, Examples]:
        """The encoded splits. Students with the same initial weights share a tokenizer."""
        model = self.student_init(init_name).build(0)
        return {name: Examples.of(model, split.rows, split.outputs, soft=soft) for name, split in self.labelled.items()}

    def _component_scores(self, name: str) -> tuple[ComponentScores, Mapping[str, int]]:
        """The component scores that learned explainers weigh, and the index of each row id."""
        scores = ComponentScores.load(self.folder.parent / "explanations" / name)
        return scores, {row: index for index, row in enumerate(scores.maps.ids)}

    def _explanations(self, name: str) -> tuple[Explanations, Mapping[str, int]]:
        """Stored explanations, and the index of each row id."""
        explanations = Explanations.load(self.folder.parent / "explanations" / name)
        return explanations, {row: index for index, row in enumerate(explanations.ids)}
