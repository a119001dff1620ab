"""Evidence: the results of one part of a trial in one small JSON file, so that documents can be made from files."""

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from didact.errors import OptionError, RecordError
from didact.files.checksummed import read_json
from didact.files.store import canonical_json
from didact.results.documents import Document, MappingDocument, load_document, plain, require_list, save_document

VERSION: Final = 1
MAX_BYTES: Final = 1_000_000
_PACKAGES: Final = ("didact", "torch", "transformers", "numpy", "scipy", "scikit-learn")
_DIGITS: Final = 6  # significant digits of stored numbers
# What may differ between two runs of the same part.
_CIRCUMSTANCES: Final = ("command", "date", "hours", "versions")
SECONDS: Final = "seconds"  # the name of columns with times


@dataclass(frozen=True, eq=False)
class EvidenceTeacher(MappingDocument):
    """A teacher of a part: its accuracy on gold labels, and whether planted truth is verified as its own truth.

    `unchanged` and `followed` are those of `data.planted.verify`; None, and `verified` too, where the data are not
    planted. `is_exact` means that its contributions are known exactly.
    """

    name: str
    fingerprint: str
    data: str
    accuracy: float | None = None
    unchanged: float | None = None
    followed: float | None = None
    verified: bool | None = None
    is_exact: bool = False


@dataclass(frozen=True, eq=False)
class EvidenceTable(Document):
    """A table by columns: `values[i]` are the cells of the column `names[i]`."""

    names: tuple[str, ...]
    values: tuple[Sequence[Any], ...]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> "EvidenceTable":
        """A table of rows that all have the same entries. Numbers are rounded to six significant digits."""
        names = tuple(rows[0]) if rows else ()
        return cls(names, tuple([_rounded(plain(row[name])) for row in rows] for name in names))

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> "EvidenceTable":
        names, values = document["names"], document["values"]
        if not isinstance(names, list) or not isinstance(values, list) or len(names) != len(values):
            raise ValueError("a table needs one list of values per name")
        columns = tuple(map(_unpacked, values))
        if len({len(column) for column in columns}) > 1:
            raise ValueError("the columns of a table have different lengths")
        return cls(tuple(map(str, names)), columns)

    def to_document(self) -> dict[str, object]:
        """The table as JSON data. A column that repeats few texts stores each once, with their indices."""
        return {"names": list(self.names), "values": [_packed(plain(column)) for column in self.values]}

    def __len__(self) -> int:
        return len(self.values[0]) if self.values else 0

    def rows(self) -> Iterator[dict[str, Any]]:
        for cells in zip(*self.values, strict=True):
            yield dict(zip(self.names, cells, strict=True))


@dataclass(frozen=True, eq=False)
class Evidence(Document):
    """One part of a trial: what was run, with which teachers and seeds, and its tables.

    `kind` says how to read the tables (`audit`), `name` is that of the part (`screening/sentiment-0`), and `protocol`
    the commit of the protocol that was written before. `seeds` are those of students, `hours` what the part took.
    """

    kind: str
    name: str
    tables: Mapping[str, EvidenceTable]
    seeds: tuple[int, ...] = ()
    teachers: tuple[EvidenceTeacher, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    protocol: str = ""
    command: str = ""
    date: str = ""
    hours: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> "Evidence":
        tables = document["tables"]
        if not isinstance(tables, Mapping):
            raise TypeError("tables is not a mapping")
        read = {str(name): EvidenceTable.from_document(table) for name, table in tables.items()}
        return replace(super().from_document({**document, "tables": {}}), tables=read)

    @property
    def fingerprint(self) -> str:
        """A hash of everything but the command, date, versions and times: equal results have equal fingerprints."""
        content = {name: entry for name, entry in self.to_document().items() if name not in _CIRCUMSTANCES}
        content["tables"] = {
            name: [column for column in zip(table.names, plain(table.values), strict=True) if column[0] != SECONDS]
            for name, table in self.tables.items()
        }
        return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:16]

    def dated(self, command: str, started: datetime) -> "Evidence":
        """This part with the command that made it, the date, the hours since `started`, and versions of packages."""
        now = datetime.now(UTC)
        hours = round((now - started).total_seconds() / 3600, 3)
        return replace(self, command=command, date=now.date().isoformat(), hours=hours, versions=_versions())

    def save(self, path: Path | str) -> None:
        """Write the part as JSON.

        Raises:
            OptionError: it would be larger than 1 MB, the limit for files that are committed.
        """
        document = {**self.to_document(), "fingerprint": self.fingerprint}
        size = len(canonical_json(plain(document)).encode())
        if size > MAX_BYTES:
            raise OptionError(
                f"Part {self.name!r} takes {size / 1e6:.1f} MB, and a part may have {MAX_BYTES / 1e6:.0f} MB. Divide "
                "it: fewer students, methods or metrics in one part."
            )
        save_document(Path(path), document, VERSION)

    @classmethod
    def load(cls, path: Path | str) -> "Evidence":
        """Read a part. Raises RecordError if the file is damaged or was changed."""
        missing = f"There is no evidence in {path}."
        return load_document(Path(path), VERSION, cls._from_file, advice="Run the part again.", missing=missing)

    @classmethod
    def _from_file(cls, document: Mapping[str, object]) -> "Evidence":
        evidence = cls.from_document(document)
        if document.get("fingerprint") not in (None, evidence.fingerprint):
            raise ValueError("its fingerprint does not belong to its content")
        return evidence


def load_evidence(folder: Path | str, *, kind: str | None = None) -> list[Evidence]:
    """All parts in a folder and its subfolders, by name of the part. `kind` selects parts of one kind.

    Raises:
        OptionError: the folder does not exist.
        RecordError: a file is damaged, or two files hold the same part.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise OptionError(f"There is no folder {folder} with evidence.")
    parts: dict[str, Evidence] = {}
    for path in sorted(folder.rglob("*.json")):
        evidence = Evidence.load(path)
        if evidence.name in parts:
            raise RecordError(f"{path} holds part {evidence.name!r}, which another file in {folder} holds, too.")
        parts[evidence.name] = evidence
    return [parts[name] for name in sorted(parts) if kind in (None, parts[name].kind)]


def kind_of(path: Path | str) -> str | None:
    """The kind of the evidence in a JSON file; None for JSON of other things. Raises RecordError if it is damaged."""
    document = read_json(Path(path), advice="Run the part again.")
    return str(document["kind"]) if "tables" in document and "kind" in document else None


def _packed(column: list[Any]) -> Any:
    texts = list(dict.fromkeys(cell for cell in column if isinstance(cell, str)))
    if not column or 2 * len(texts) > len(column) or not all(isinstance(cell, str) for cell in column):
        return column
    index = {text: number for number, text in enumerate(texts)}
    return {"texts": texts, "index": [index[cell] for cell in column]}


def _unpacked(column: Any) -> list[Any]:
    if not isinstance(column, Mapping):
        return require_list(column)
    texts = dict(enumerate(require_list(column["texts"])))
    return [texts[number] for number in require_list(column["index"])]


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    return [_rounded(entry) for entry in value] if isinstance(value, list) else value
