"""Records with checksums in a folder, one JSON file per key."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from didact.errors import RecordError
from didact.files.atomic import ensure_parent, write_text


def key_of(spec: Mapping[str, object]) -> str:
    """A key that hashes everything a result depends on. The order of the entries does not matter."""
    return hashlib.sha256(canonical_json(spec).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class StoredRecord:
    """The outcome of one job. Failures are recorded, too."""

    key: str
    status: Literal["done", "failed"]
    payload: Mapping[str, Any]


class UnreadableError(RecordError):
    """An existing file cannot be read. It does not count as missing, because its content may be intact."""


def unreadable_error(path: Path, error: OSError) -> UnreadableError:
    """The error for a file that cannot be read, with the reason."""
    return UnreadableError(
        f"Could not read {path}: {error.strerror or error}. Make it readable, or remove it to compute it again."
    )


class Store:
    """Records by key. For `is_done` a damaged record counts as missing; `load` raises `RecordError`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, record: StoredRecord) -> None:
        """Write a record atomically. Replaces an earlier record with the same key."""
        body = {"key": record.key, "status": record.status, "payload": dict(record.payload)}
        write_text(
            ensure_parent(self._path(record.key)), canonical_json({"body": body, "checksum": _checksum(body)}) + "\n"
        )

    def load(self, key: str) -> StoredRecord:
        """Read a record. Raises `RecordError` if it is missing or damaged, `UnreadableError` without permission."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise RecordError(f"There is no record {key} in {self.folder}.") from None
        except OSError as error:
            raise unreadable_error(path, error) from error
        return parse_record(content, key, path)

    def is_done(self, key: str) -> bool:
        """Whether there is an intact record with the status "done"."""
        try:
            return self.load(key).status == "done"
        except UnreadableError:
            raise
        except RecordError:
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(path.stem for path in self.folder.glob("*.json")))

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def parse_record(content: bytes, key: str, path: Path | str) -> StoredRecord:
    """The record in the content of a file. Raises `RecordError`, which names `path`, if it is damaged."""
    try:
        document = json.loads(content)
        body = document["body"]
        is_intact = document["checksum"] == _checksum(body) and body["key"] == key
        record = StoredRecord(key, body["status"], body["payload"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(f"Record {path} is damaged ({error}). It will be computed again.") from error
    if not is_intact:
        raise RecordError(f"Record {path} is damaged (its checksum does not match). It will be computed again.")
    return record


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no white space: equal content gives equal text. Raises `ValueError` for NaN."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _checksum(body: Mapping[str, object]) -> str:
    return hashlib.sha256(canonical_json(body).encode()).hexdigest()
