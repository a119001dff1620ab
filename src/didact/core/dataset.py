"""Rows in splits. `teach` trains the teacher, `explain` fits explainers, students have `train`, `dev` and `test`."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, overload

from didact.core.row import Row, fingerprint_of
from didact.core.task import Task
from didact.core.teacher import Teacher
from didact.errors import UnknownNameError, UnsupportedError
from didact.registry import unknown

SPLITS: Final = ("teach", "explain", "train", "dev", "test")


class Split(Sequence[Row]):
    """Rows of one split. A slice of a split is a split; an index gives a row."""

    def __init__(self, name: str, rows: Sequence[Row]) -> None:
        self.name = name
        self.rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> "Split": ...
    def __getitem__(self, index: int | slice) -> "Row | Split":
        return Split(self.name, self.rows[index]) if isinstance(index, slice) else self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def select(self, indices: Sequence[int]) -> "Split":
        return Split(self.name, [self.rows[index] for index in indices])

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(row.id for row in self.rows)

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of(self.rows)

    def __repr__(self) -> str:
        return f"Split({self.name!r}, {len(self)} rows)"


@dataclass(frozen=True, eq=False)
class Dataset(Mapping[str, Split]):
    """A task with its splits. `notes` tell what was guessed, cleaned or dropped while loading."""

    name: str
    task: Task
    splits: Mapping[str, Split]
    classes: tuple[str, ...] | None = None
    segments: tuple[str, ...] = ()  # what this data set calls its texts, e.g. premise and hypothesis
    notes: tuple[str, ...] = field(default=())

    def __getitem__(self, name: str) -> Split:
        try:
            return self.splits[name]
        except KeyError:
            raise UnknownNameError(unknown(f"split of {self.name}", name, dict(self.splits))) from None

    def __contains__(self, name: object) -> bool:
        return name in self.splits

    def __iter__(self) -> Iterator[str]:
        return iter(self.splits)

    def __len__(self) -> int:
        return len(self.splits)

    @cached_property
    def has_rationales(self) -> bool:
        return any(row.rationale is not None for split in self.splits.values() for row in split)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the task, the classes and every row of every split."""
        splits = [f"{name}:{split.fingerprint}" for name, split in self.items()]
        parts = [self.task.name, *(self.classes or ()), *splits]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def oracle(self) -> Teacher:
        """The labelling function itself as a teacher. Only planted data knows it."""
        raise UnsupportedError(f"{self.name} is not planted data, so its labelling function is not known.")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(split)}" for name, split in self.items())
        return f"Dataset({self.name!r}, {self.task}, {sizes})"
