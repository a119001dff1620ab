"""The folder of a run on this machine, and its copy in a store elsewhere that other runs may use at the same time.

A run pulls what the store has before it would make it, and pushes what it has finished, file by file: the answers of a
cell first, then the record that vouches for them, so that a cell is there whole or not at all. Nobody locks anything.
Two runs on one store do their cells in different orders, and each looks for a cell there before it does it.
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

_BATCH: Final = 200  # cells that are fetched at a time
_RETRY_SECONDS: Final = 30.0  # seconds before a store that failed is tried again

log = logging.getLogger(__name__)


class RunDirectory:
    """A folder of this machine. Its copy in a store, which a subclass keeps, is asked and told nothing here."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.folder = folder
        self.name = str(folder) if name is None else name  # for people

    def check(self) -> None:
        """An error if nothing can be written there: asked before hours of work, not after."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise RecordError(
                f"Could not write into {self.folder}: {error.strerror or error}. Choose another place."
            ) from error

    def pull(self, *patterns: str) -> None:
        """Fetch what the store has of files of these names."""

    def push(self, *patterns: str) -> None:
        """Bring finished files of these names to the store."""

    def pull_cells(self, keys: Iterable[str]) -> None:
        """Fetch the finished cells among these."""

    def push_cells(self, keys: Iterable[str]) -> None:
        """Bring these cells to the store."""

    def job_order(self, keys: Sequence[str]) -> Sequence[str]:
        """The order in which cells are best done."""
        return keys

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The run has ended, well or not."""


class SyncedRunDirectory(RunDirectory):
    """A store by its URL, and the folder in which its run works (`cache`, else one in the user's cache).

    A store that fails later than `check` stops nothing: the work goes on in the folder, and the end of the run tries
    again.
    """

    def __init__(self, url: str, cache: Path | None = None) -> None:
        self.remote = RemoteFolder(url)
        super().__init__(local_cache_dir(self.remote.url) if cache is None else cache, self.remote.url)
        self.pulled: set[str] = set()  # cells that were fetched
        self._patterns: dict[str, None] = {}
        self._cells: set[str] = set()
        self._stored_cells: set[str] = set()  # cells that the store has
        self._damaged_cells: set[str] = set()  # cells that the store has not whole
        self._synced: dict[str, int] = {}  # by name the time of a file that is the same on both sides
        self._retry_at = 0.0  # when a store that failed is tried again
        # What grows here is a file of its own there, or two machines would overwrite each other's lines.
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
        """Another order in every run: two of them meet in the same cell by chance alone."""
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
                log.warning("%s It is kept in %s.", sync_error, self.folder)
                return
            raise RecordError(
                f"{sync_error} The run is complete and kept in {self.folder}: mend this, and give the same command again "
                "to bring it to the store."
            ) from None
        log.info("%d of %d cells were taken over from %s", len(self.pulled), len(self._cells), self.name)

    # -- files --------------------------------------------------------------------------------------------------------

    def _pull(self, patterns: Sequence[str]) -> None:
        for name in (pattern for pattern in patterns if "/" not in pattern):  # beside folders that may be large
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
        """Fetch the cells that are whole there and not done here."""
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            sealed = self.remote.read_all(f"cells/{key}.json" for key in batch)
            records = {key: _parse_record(sealed.get(f"cells/{key}.json"), key) for key in batch}
            done = {key: record for key, record in records.items() if record is not None and record.status == "done"}
            answers = self.remote.read_all(f"cells/{key}.parquet" for key in done)
            for key in batch:
                content = answers.get(f"cells/{key}.parquet")
                if key not in done or not _checksum_matches(done[key], content):
                    if f"cells/{key}.json" in sealed:
                        self._damaged_cells.add(key)
                    continue
                self._damaged_cells.discard(key)
                self._stored_cells.add(key)
                if not self._is_done_locally(key):
                    assert content is not None
                    path = ensure_parent(self.folder / "cells" / f"{key}.json")
                    write_bytes(path.with_suffix(".parquet"), content)
                    write_bytes(path, sealed[f"cells/{key}.json"])
                    self.pulled.add(key)

    def _push_cells(self, keys: Iterable[str]) -> None:
        """Write cells that are whole here. A failure never replaces what is done there."""
        for key in keys:
            path = self.folder / "cells" / f"{key}.json"
            sealed, answers = _read_or_none(path), _read_or_none(path.with_suffix(".parquet"))
            record = _parse_record(sealed, key)
            if sealed is None or record is None or (record.status == "done" and not _checksum_matches(record, answers)):
                continue  # damaged here; the run does it again
            replaces_damaged = key in self._damaged_cells and record.status == "done"
            remote_record = None if replaces_damaged else _parse_record(self.remote.read(f"cells/{key}.json"), key)
            if remote_record is None or remote_record.status != "done":
                if answers is not None and record.status == "done":
                    self.remote.write(f"cells/{key}.parquet", answers)
                self.remote.write(f"cells/{key}.json", sealed)
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
        """Ask the store, unless it failed a moment ago. A warning says so once."""
        if time.monotonic() < self._retry_at:
            return
        try:
            call()
        except RecordError as error:
            if not self._retry_at:
                log.warning("%s Work goes on in %s, and the store is tried again.", error, self.folder)
            self._retry_at = time.monotonic() + _RETRY_SECONDS


def open_run_dir(out: str | Path, cache: str | Path | None = None) -> RunDirectory:
    """The folder that was asked for: a path, or a URL with a folder on this machine to work in."""
    if is_url(out):
        return SyncedRunDirectory(str(out), None if cache is None else Path(cache))
    if cache is not None:
        raise OptionError(f"{out} is a folder of this machine and needs no cache. Leave it out, or give a URL as out.")
    return RunDirectory(Path(out))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a finished file has such a name. Patterns do not reach into folders."""
    return (
        any(fnmatch(name, pattern) and name.count("/") == pattern.count("/") for pattern in patterns)
        and name[-4:] != ".tmp"
    )


def _tensors_first(name: str) -> tuple[bool, str]:
    return not name.endswith(".safetensors"), name


def _read_or_none(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _parse_record(content: bytes | None, key: str) -> StoredRecord | None:
    """The record that was sealed so; None if it is missing or damaged."""
    try:
        return None if content is None else parse_record(content, key, f"{key}.json")
    except RecordError:
        return None


def _checksum_matches(record: StoredRecord, answers: bytes | None) -> bool:
    """Whether these are the answers that the record was sealed with."""
    return answers is not None and hashlib.sha256(answers).hexdigest() == record.payload.get("outputs")
