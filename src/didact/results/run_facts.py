"""What a comparison says of itself: model, data, students, sizes, and what was left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from didact.results.documents import Fields


@dataclass(frozen=True, eq=False)
class ColumnFacts(Fields):
    """One student and size of the table. `learned` is None where it cannot be judged; `reason` says why it is false."""

    student: str
    size: int
    learned: bool | None = None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class RunFacts(Fields):
    """What decided a comparison, for people who read it. What older runs did not record is empty or None.

    `majority` is what always giving the most frequent answer reaches; `balance` says what was done about unequal
    classes; `starts` tells how each architecture starts and `students` what each student is.
    """

    didact: str = ""
    torch: str = ""
    teacher: str = ""
    teacher_fingerprint: str = ""
    data: str = ""
    data_fingerprint: str = ""
    task: str = ""
    measure: str = ""
    controls: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    tune: Mapping[str, Any] = field(default_factory=dict)
    starts: Mapping[str, str] = field(default_factory=dict)
    students: Mapping[str, str] = field(default_factory=dict)
    cells: int = 0
    file_rows: int | None = None
    train_rows: int | None = None
    dev_rows: int | None = None
    test_rows: int | None = None
    plan: str = ""
    balance: str | None = None
    majority: float | None = None
    columns: tuple[ColumnFacts, ...] = ()
    left_out: tuple[str, ...] = ()

    def to_document(self) -> dict[str, object]:
        """The facts as JSON has them. Only runs on a file know how many rows it had."""
        document = super().to_document()
        if self.file_rows is None:
            del document["file_rows"]
        return document
