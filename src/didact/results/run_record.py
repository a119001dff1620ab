"""What a run says of itself: how and when it was started, and what decided its comparison."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from didact.results.documents import Document, MappingDocument, load_document, save_document

FILE: Final = "run.json"
VERSION: Final = 1


@dataclass(frozen=True)
class RunRecord(Document):
    """The command of a run and its times in UTC, in a file of its own, since results do not depend on them.

    What older runs did not record is empty or None.
    """

    command: str = ""
    started: str = ""
    finished: str = ""
    seconds: float | None = None

    @classmethod
    def now(cls, command: str, started: datetime) -> "RunRecord":
        """The record of a run that ends now."""
        ended = datetime.now(UTC)
        start_text, end_text = (moment.isoformat(timespec="seconds") for moment in (started, ended))
        return cls(command, start_text, end_text, round((ended - started).total_seconds(), 1))

    @classmethod
    def load(cls, folder: Path) -> "RunRecord":
        """The record in a run's folder; an empty one for runs of earlier versions, which have no such file."""
        advice = "Run the same comparison again, or remove the file."
        try:
            return load_document(folder / FILE, VERSION, cls.from_document, advice=advice)
        except FileNotFoundError:
            return cls()

    def save(self, folder: Path) -> None:
        save_document(folder / FILE, self.to_document(), VERSION, indent=1)

    @property
    def date(self) -> str:
        """When the run finished, to the minute; else when it started."""
        try:
            moment = datetime.fromisoformat(self.finished or self.started)
        except ValueError:
            return ""
        if moment.tzinfo is None:
            return f"{moment:%Y-%m-%d %H:%M}"
        return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, eq=False)
class ColumnInfo(MappingDocument):
    """One student and size of the table. `learned` is None where it cannot be judged; `reason` says why it is false."""

    student: str
    size: int
    learned: bool | None = None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class RunInfo(MappingDocument):
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
    columns: tuple[ColumnInfo, ...] = ()
    left_out: tuple[str, ...] = ()

    def to_document(self) -> dict[str, object]:
        """The facts as JSON has them. Only runs on a file know how many rows it had."""
        document = super().to_document()
        if self.file_rows is None:
            del document["file_rows"]
        return document
