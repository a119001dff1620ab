"""How and when a run was started: a file of its own, since results do not depend on it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from didact.results.documents import Document, load_document, save_document

FILE: Final = "run.json"
VERSION: Final = 1


@dataclass(frozen=True)
class RunRecord(Document):
    """The command of a run and its times in UTC. What older runs did not record is empty or None."""

    command: str = ""
    started: str = ""
    finished: str = ""
    seconds: float | None = None

    @classmethod
    def now(cls, command: str, started: datetime) -> "RunRecord":
        """The record of a run that ends now."""
        ended = datetime.now(UTC)
        begin, end = (moment.isoformat(timespec="seconds") for moment in (started, ended))
        return cls(command, begin, end, round((ended - started).total_seconds(), 1))

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
