"""Metadata of a run: its command and times, and what determined its comparison."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from didact.results.documents import Document, MappingDocument, load_document, save_document
from didact.results.target_normalisation import RAW, describe

FILE: Final = "run.json"
VERSION: Final = 1


@dataclass(frozen=True)
class RunRecord(Document):
    """The command of a run and its times in UTC. They have their own file, since results do not depend on them.

    Values that older runs did not record are empty or None.
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
        """Read the record in the folder of a run. Runs of earlier versions have none: the record is empty."""
        advice = "Run the same comparison again, or remove the file."
        try:
            return load_document(folder / FILE, VERSION, cls.from_document, advice=advice)
        except FileNotFoundError:
            return cls()

    def save(self, folder: Path) -> None:
        """Write the record to the folder of a run."""
        save_document(folder / FILE, self.to_document(), VERSION, indent=1)

    @property
    def date(self) -> str:
        """When the run finished (or else started), to the minute; empty if unknown."""
        try:
            moment = datetime.fromisoformat(self.finished or self.started)
        except ValueError:
            return ""
        if moment.tzinfo is None:
            return f"{moment:%Y-%m-%d %H:%M}"
        return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, eq=False)
class ColumnInfo(MappingDocument):
    """A column of the table. `learned` is None if it cannot be judged; `reason` says why it is false."""

    student: str
    size: int
    learned: bool | None = None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class RunInfo(MappingDocument):
    """What determined a comparison, for its readers. Values that older runs did not record are empty or None.

    `target_normalisation` is what was done about the sharpness of explanations; older runs did nothing (raw).
    `majority` is the score of always predicting the most frequent answer. `balance` describes the treatment of unequal
    classes, `starts` the initialisation of each architecture, and `students` each student.
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
    target_normalisation: str = RAW
    target_temperatures: tuple[float, ...] = ()

    @property
    def sent(self) -> str:
        """What students were sent, in a sentence. Empty for `raw`."""
        return describe(self.target_normalisation, self.target_temperatures)

    def to_document(self) -> dict[str, object]:
        """The fields as JSON data. `file_rows` is stored only for runs on a file, target normalisation unless raw."""
        document = super().to_document()
        if self.file_rows is None:
            del document["file_rows"]
        if self.target_normalisation == RAW:
            del document["target_normalisation"], document["target_temperatures"]
        return document
