"""The folder of a run, optionally synchronised with a remote store that other runs may use at the same time.

A run pulls existing files before it would compute them, and pushes finished files one by one: first the answers of a
cell, then its record with their checksum, so a cell is either complete in the store or absent. There are no locks. Two
runs on one store process their cells in different random orders, and each checks the store before it trains a cell.
"""

import hashlib
import logging
import platform
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from types import TracebackType
from typing import Final

from didact.errors import OptionError, RecordError
from didact.files.atomic import ensure_parent, write_bytes
from didact.files.remote import RUN_FILES, RemoteFolder, is_url, local_cache_dir
from didact.files.store import StoredRecord, key_of, parse_record

_BATCH: Final = 200  # cells fetched per request
_RETRY_SECONDS: Final = 30.0  # seconds before a store that failed is used again

log = logging.getLogger(__name__)


class RunDirectory:
    """A local run directory. The methods that synchronise it with a store do nothing."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.folder = folder
        self.name = str(folder) if name is None else name  # for people

    def check(self) -> None:
        """Raise RecordError if the directory is not writable, before hours of work."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise RecordError(
                f"Could not write into {self.folder}: {error.strerror or error}. Choose another place."
            ) from error

    def pull(self, *patterns: str) -> None:
        """Download the files that match these patterns and are missing here."""

    def push(self, *patterns: str) -> None:
        """Upload the files that match these patterns."""

    def pull_cells(self, keys: Iterable[str]) -> None:
        """Download those of these cells that are finished."""

    def push_cells(self, keys: Iterable[str]) -> None:
        """Upload these cells."""

    def job_order(self, keys: Sequence[str]) -> Sequence[str]:
        """The order in which to process cells."""
        return keys

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the run, after success or failure."""


class SyncedRunDirectory(RunDirectory):
    """A run directory at a URL. The run works in the local folder `cache` (default: one in the user's cache folder).

    If the store fails after `check`, the run continues locally and uploads again later, at the latest when it ends.
    """

    def __init__(self, url: str, cache: Path | None = None) -> None:
        self.remote = RemoteFolder(url)
        super().__init__(local_cache_dir(self.remote.url) if cache is None else cache, self.remote.url)
        self.pulled: set[str] = set()  # cells downloaded from the store
        self._patterns: dict[str, None] = {}
        self._cells: set[str] = set()
        self._stored_cells: set[str] = set()  # cells that the store has
        self._damaged_cells: set[str] = set()  # cells that are damaged in the store
        self._synced: dict[str, int] = {}  # name -> mtime of files that are equal on both sides
        self._retry_at = 0.0  # when to use a failed store again
        # Files that grow get the writer's name in the store, so that two machines do not overwrite each other's lines.
        self._writer = key_of({"host": platform.node(), "folder": str(self.folder.absolute())})[:8]

    def check(self) -> None:
        super().check()
        self.remote.check()

    def pull(self, *patterns: str) -> None:
        self._patterns |= dict.fromkeys(patterns)
        self._attempt(lambda: self._pull(patterns))

    def push(self, *patterns: str) -> None:
        self._patterns |= dict.fromkeys(patterns)
        self._attempt(lambda: self._push(patterns))

    def pull_cells(self, keys: Iterable[str]) -> None:
        missing = [key for key in keys if key not in self._stored_cells]
        self._cells |= set(missing)
        self._attempt(lambda: self._pull_cells(missing))

    def push_cells(self, keys: Iterable[str]) -> None:
        self._attempt(lambda: self._push_cells(keys))

    def job_order(self, keys: Sequence[str]) -> Sequence[str]:
        """A random order, so that two runs rarely train the same cell at the same time."""
        return random.Random().sample(keys, len(keys))

    def __enter__(self) -> "SyncedRunDirectory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._push(self._patterns)
            self._push_cells(sorted(self._cells - self._stored_cells))
            if error is None:
                for name in RUN_FILES:
                    if (self.folder / name).is_file():
                        self.remote.upload(self.folder / name, name)
        except RecordError as sync_error:
            if error is not None:
                log.warning("%s The run is stored in %s.", sync_error, self.folder)
                return
            raise RecordError(
                f"{sync_error} The run is complete in {self.folder}. Fix this and run the same command again to upload "
                "it."
            ) from None
        log.info("%d of %d cells were downloaded from %s", len(self.pulled), len(self._cells), self.name)

    # -- files --------------------------------------------------------------------------------------------------------

    def _pull(self, patterns: Sequence[str]) -> None:
        # Single files first, without listing folders, which may be large.
        for name in (pattern for pattern in patterns if "/" not in pattern):
            if not (self.folder / name).is_file():
                self.remote.download(name, self.folder / name)
        folders = dict.fromkeys(pattern.rpartition("/")[0] for pattern in patterns if "/" in pattern)
        sizes = {name: size for folder in folders for name, size in self.remote.list(folder).items()}
        for name in sorted((name for name in sizes if _matches(name, patterns)), key=_tensors_first):
            path = self.folder / name
            if not path.is_file():
                self.remote.download(name, path)
            if path.is_file() and path.stat().st_size == sizes[name]:
                self._synced[name] = path.stat().st_mtime_ns

    def _push(self, patterns: Iterable[str]) -> None:
        patterns = list(patterns)
        folders = dict.fromkeys(pattern.rpartition("/")[0] for pattern in patterns if "/" in pattern)
        files = [path for folder in folders for path in (self.folder / folder).glob("*") if path.is_file()]
        names = [path.relative_to(self.folder).as_posix() for path in files]
        for name in sorted((name for name in names if _matches(name, patterns)), key=_tensors_first):
            modified = (self.folder / name).stat().st_mtime_ns
            if self._synced.get(name) != modified:
                remote_name = name.replace(".jsonl", f".{self._writer}.jsonl") if name.count(".") == 1 else name
                self.remote.upload(self.folder / name, remote_name)
                self._synced[name] = modified

    # -- cells --------------------------------------------------------------------------------------------------------

    def _pull_cells(self, keys: Sequence[str]) -> None:
        """Download the cells that are complete in the store and not done here."""
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            record_bytes = self.remote.read_all(f"cells/{key}.json" for key in batch)
            records = {key: _parse_record(record_bytes.get(f"cells/{key}.json"), key) for key in batch}
            done = {key: record for key, record in records.items() if record is not None and record.status == "done"}
            answers = self.remote.read_all(f"cells/{key}.parquet" for key in done)
            for key in batch:
                content = answers.get(f"cells/{key}.parquet")
                if key not in done or not _checksum_matches(done[key], content):
                    if f"cells/{key}.json" in record_bytes:
                        self._damaged_cells.add(key)
                    continue
                self._damaged_cells.discard(key)
                self._stored_cells.add(key)
                if not self._is_done_locally(key):
                    assert content is not None
                    path = ensure_parent(self.folder / "cells" / f"{key}.json")
                    write_bytes(path.with_suffix(".parquet"), content)
                    write_bytes(path, record_bytes[f"cells/{key}.json"])
                    self.pulled.add(key)

    def _push_cells(self, keys: Iterable[str]) -> None:
        """Upload cells that are undamaged here. A failed cell never replaces a finished one in the store."""
        for key in keys:
            path = self.folder / "cells" / f"{key}.json"
            record_bytes, answers = _read_or_none(path), _read_or_none(path.with_suffix(".parquet"))
            record = _parse_record(record_bytes, key)
            if (
                record_bytes is None
                or record is None
                or (record.status == "done" and not _checksum_matches(record, answers))
            ):
                continue  # damaged here; the run repeats it
            replaces_damaged = key in self._damaged_cells and record.status == "done"
            remote_record = None if replaces_damaged else _parse_record(self.remote.read(f"cells/{key}.json"), key)
            if remote_record is None or remote_record.status != "done":
                if answers is not None and record.status == "done":
                    self.remote.write(f"cells/{key}.parquet", answers)
                self.remote.write(f"cells/{key}.json", record_bytes)
            self._damaged_cells.discard(key)
            if record.status == "done":
                self._stored_cells.add(key)

    def _is_done_locally(self, key: str) -> bool:
        path = self.folder / "cells" / f"{key}.json"
        record = _parse_record(_read_or_none(path), key)
        return (
            record is not None
            and record.status == "done"
            and _checksum_matches(record, _read_or_none(path.with_suffix(".parquet")))
        )

    def _attempt(self, call: Callable[[], None]) -> None:
        """Call the store, unless it failed recently. The first failure logs a warning."""
        if time.monotonic() < self._retry_at:
            return
        try:
            call()
        except RecordError as error:
            if not self._retry_at:
                log.warning("%s The run continues in %s and retries the store later.", error, self.folder)
            self._retry_at = time.monotonic() + _RETRY_SECONDS


def open_run_dir(out: str | Path, cache: str | Path | None = None) -> RunDirectory:
    """Open the directory of a run: a path, or a URL with a local working folder `cache`.

    Raises:
        OptionError: a cache is given for a local path.
    """
    if is_url(out):
        return SyncedRunDirectory(str(out), None if cache is None else Path(cache))
    if cache is not None:
        raise OptionError(
            f"cache is for runs at a URL, and {out} is a local folder. Leave cache out, or give a URL as out."
        )
    return RunDirectory(Path(out))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether the name matches a pattern and is no draft. `*` does not match a slash."""
    return (
        any(fnmatch(name, pattern) and name.count("/") == pattern.count("/") for pattern in patterns)
        and name[-4:] != ".tmp"
    )


def _tensors_first(name: str) -> tuple[bool, str]:
    """Sort key: .safetensors files before the .parquet files that are loaded with them."""
    return not name.endswith(".safetensors"), name


def _read_or_none(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _parse_record(content: bytes | None, key: str) -> StoredRecord | None:
    """Parse a record with its checksum; None if it is missing or damaged."""
    try:
        return None if content is None else parse_record(content, key, f"{key}.json")
    except RecordError:
        return None


def _checksum_matches(record: StoredRecord, answers: bytes | None) -> bool:
    """Whether the answers have the checksum in the record."""
    return answers is not None and hashlib.sha256(answers).hexdigest() == record.payload.get("outputs")
