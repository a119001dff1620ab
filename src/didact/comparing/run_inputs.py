"""What workers need and nobody may pickle: rows, the teacher's answers, and where students start. In plain files."""

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
_TYPES: Final = {
    "split": "string", "id": "string", "texts": "list string", "image": "binary", "shape": "list int64",
    "values": "list float64", "answers": "list string",
}  # fmt: skip


@dataclass(frozen=True)
class LabelledSplit:
    """Rows of one split with the teacher's answers. Gold labels and rationales stay behind."""

    rows: tuple[Row, ...]
    outputs: Outputs


def write_rows(path: Path, splits: Mapping[str, LabelledSplit], *, task: Task, classes: Sequence[str] | None) -> None:
    """Keep the rows of all splits with the teacher's answers."""
    columns: dict[str, list[Any]] = {name: [] for name in _TYPES}
    for name in SPLITS:
        rows, outputs = splits[name].rows, splits[name].outputs
        columns["split"] += [name] * len(rows)
        columns["id"] += [row.id for row in rows]
        columns["texts"] += [list(row.texts) for row in rows]
        columns["image"] += [None if row.image is None else row.image.tobytes() for row in rows]
        columns["shape"] += [None if row.image is None else list(row.image.shape) for row in rows]
        columns["values"] += outputs.values.tolist()
        columns["answers"] += [None] * len(rows) if outputs.answers is None else [list(one) for one in outputs.answers]
    about = {"task": task.name, "classes": None if classes is None else list(classes)}
    write_table(path, Table(columns, about), types=_TYPES)


def read_rows(path: Path) -> dict[str, LabelledSplit]:
    """What `write_rows` kept."""
    table = read_table(path)
    task = task_named(table.about["task"])
    found = {}
    for name in SPLITS:
        here = [number for number, split in enumerate(table.columns["split"]) if split == name]
        rows = tuple(_row({column: table.columns[column][number] for column in _TYPES}) for number in here)
        answers = tuple(tuple(table.columns["answers"][number] or ()) for number in here)
        values = np.array([table.columns["values"][number] for number in here], dtype=np.float64)
        outputs = Outputs(task, tuple(row.id for row in rows), values, answers if task.is_per_token else None)
        found[name] = LabelledSplit(rows, outputs)
    return found


def _row(kept: Mapping[str, Any]) -> Row:
    image = None
    if kept["image"] is not None:
        image = np.frombuffer(kept["image"], dtype=np.uint8).reshape(kept["shape"]).copy()
    return Row(kept["id"], tuple(kept["texts"]), image)


class RunInputs:
    """Rows, starts and explanations of a run, each read and encoded once for all cells of a process."""

    def __init__(self, folder: Path, rows: str) -> None:
        self.folder = folder
        self._rows = rows
        # Methods wrapped for each classroom, so that what it holds goes when it goes.
        self.start = lru_cache(maxsize=8)(self._start)
        self.examples = lru_cache(maxsize=4)(self._examples)
        self.maps = lru_cache(maxsize=16)(self._maps)
        self.parts = lru_cache(maxsize=2)(self._parts)

    @cached_property
    def labelled(self) -> dict[str, LabelledSplit]:
        return read_rows(self.folder / self._rows)

    def _start(self, name: str) -> StudentInit:
        return StudentInit.load(self.folder / "starts" / name)

    def _examples(self, start: str, soft: bool) -> dict[str, Examples]:
        """The splits as students of this start read them: all of them share one tokenizer."""
        model = self.start(start).build(0)
        return {name: Examples.of(model, split.rows, split.outputs, soft=soft) for name, split in self.labelled.items()}

    def _parts(self, name: str) -> tuple[ComponentScores, Mapping[str, int]]:
        """What learned explainers weigh, and where each row is."""
        found = ComponentScores.load(self.folder.parent / "explanations" / name)
        return found, {row: place for place, row in enumerate(found.maps.ids)}

    def _maps(self, name: str) -> tuple[Explanations, Mapping[str, int]]:
        """Kept explanations, and where each row is."""
        found = Explanations.load(self.folder.parent / "explanations" / name)
        return found, {row: place for place, row in enumerate(found.ids)}
