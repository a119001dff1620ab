"""Rows in splits: `teach` trains teachers, `explain` fits explainers, students use `train`, `dev` and `test`."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, overload

from didact.core.row import Row, fingerprint_of
from didact.core.task import Task
from didact.core.teacher import Teacher
from didact.errors import UnknownNameError, UnsupportedError
from didact.registry import unknown_name_message

SPLITS: Final = ("teach", "explain", "train", "dev", "test")
ALL: Final = "all"  # name of all rows of a source without splits


class Split(Sequence[Row]):
    """The rows of one split. A slice is a split; an index gives a row."""

    def __init__(self, name: str, rows: Sequence[Row], classes: tuple[str, ...] | None = None) -> None:
        """`classes` are the names that labels index; None if unknown. A data set passes its own to its splits."""
        self.name = name
        self.rows = tuple(rows)
        self.classes = classes

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> "Split": ...
    def __getitem__(self, index: int | slice) -> "Row | Split":
        return Split(self.name, self.rows[index], self.classes) if isinstance(index, slice) else self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def select(self, indices: Sequence[int]) -> "Split":
        return Split(self.name, [self.rows[index] for index in indices], self.classes)

    def with_classes(self, classes: tuple[str, ...] | None) -> "Split":
        """The same rows with other class names; labels do not change."""
        return self if self.classes == classes else Split(self.name, self.rows, classes)

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
    """A task with its splits: a mapping from names to `Split`.

    `notes` describe what loading guessed, cleaned or dropped, and `split_notes` are those of them that concern splits.
    `all_rows` are all rows of a source without splits, in order, also available as `data["all"]`. They do not count as
    a split: iteration, length and fingerprint skip them. `no_splits_reason` explains why a source with too few rows has
    no splits. `is_aligned` is true once labels are matched to the classes of a model (`didact.core.classes`).
    """

    name: str
    task: Task
    splits: Mapping[str, Split]
    classes: tuple[str, ...] | None = None
    segments: tuple[str, ...] = ()  # names of the texts of a row, e.g. premise and hypothesis
    notes: tuple[str, ...] = field(default=())
    all_rows: Split | None = None
    split_notes: tuple[str, ...] = ()
    no_splits_reason: str = ""
    is_aligned: bool = False

    def __post_init__(self) -> None:
        splits = {name: split.with_classes(self.classes) for name, split in self.splits.items()}
        object.__setattr__(self, "splits", splits)
        if self.all_rows is not None:
            object.__setattr__(self, "all_rows", self.all_rows.with_classes(self.classes))

    def __getitem__(self, name: str) -> Split:
        if name == ALL and name not in self.splits and self.all_rows is not None:
            return self.all_rows
        try:
            return self.splits[name]
        except KeyError:
            names = [*self.splits, *([] if self.all_rows is None else [ALL])]
            reason = f" {self.no_splits_reason}" if self.no_splits_reason else ""
            raise UnknownNameError(unknown_name_message(f"split of {self.name}", name, names) + reason) from None

    def get(self, name: str, default: Any = None, /) -> Any:  # Mapping.get expects a KeyError
        if name not in self:
            return default
        return self[name]

    def __contains__(self, name: object) -> bool:
        return name in self.splits or (name == ALL and self.all_rows is not None)

    def iter_rows(self) -> Iterator[Row]:
        """Iterate over the rows of all splits, then over `all_rows`. Rows in both come twice."""
        for split in self.splits.values():
            yield from split
        yield from self.all_rows or ()

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
        lines = [self.task.name, *(self.classes or ()), *splits]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def oracle(self) -> Teacher:
        """The labelling function as a teacher. Raises `UnsupportedError` unless the data are planted."""
        raise UnsupportedError(f"{self.name} is not planted data, so its labelling function is not known.")

    def __repr__(self) -> str:
        splits = dict(self.splits) or ({} if self.all_rows is None else {ALL: self.all_rows})
        sizes = ", ".join(f"{name} {len(split)}" for name, split in splits.items())
        return f"Dataset({self.name!r}, {self.task}, {sizes})"
