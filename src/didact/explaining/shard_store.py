"""Stores finished shards of explanations next to the file that they become, so that stopped runs can resume.

Data sets, streams and comparisons use this store. A shard is `OUT.shards/NUMBER-SETTINGS-ROWS.parquet`: its name
contains a hash of everything that decides its scores, so no index can disagree with the files.
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from filelock import FileLock, Timeout

from didact.core.outputs import Outputs
from didact.core.row import Row, fingerprint_of
from didact.errors import OptionError, RecordError
from didact.explaining.job import ExplainJob
from didact.files.atomic import ensure_parent
from didact.files.store import key_of
from didact.results.explanations import Explanations
from didact.viz.progress import Progress


@dataclass(frozen=True, eq=False)
class Shard:
    """Rows that are explained together, and the teacher's answers to them, if known.

    `function` is the hash of a function's answers to these rows. Streams need it: the store does not know all rows.
    """

    number: int
    rows: Sequence[Row]
    outputs: Outputs | None = None
    function: str | None = None

    @cached_property
    def key(self) -> str:
        answers = {} if self.function is None else {"function": self.function}
        return key_of({**answers, "rows": fingerprint_of(self.rows)})


class ShardStore:
    """The finished shards of one file of explanations: `shard` rows each, all explained by one job.

    `teacher` is its fingerprint; for a function, the hash of its answers to all rows. If the method is an object with
    unknown settings, `is_resumable` is False: shards are stored but never loaded. Several runs may share a store; the
    first to finish removes the shards, and the others recompute those they still need. `locked` excludes other runs.
    """

    def __init__(self, path: Path, job: ExplainJob, *, shard: int, teacher: str | None) -> None:
        self.path, self.job, self.is_resumable = path, job, job.method.is_reproducible
        self.folder = path.with_name(f"{path.name}.shards")
        self.reused = 0  # number of shards loaded from an earlier run
        self._settings = key_of({**job.settings, "teacher": teacher, "shard": shard})
        self._lock = self.folder / "lock"

    def file(self, shard: Shard) -> Path:
        """The path of the shard."""
        return self.folder / f"{shard.number:09d}-{self._settings}-{shard.key}.parquet"

    def explain(self, shard: Shard, bar: Progress) -> Explanations:
        """Load the shard if an earlier run finished it; otherwise explain and save it."""
        explanations = self._load_finished(shard, bar)
        if explanations is None:
            explanations = self.job.explain(shard.rows, shard.outputs, bar)
            self.save(self.file(shard), explanations)
        return explanations

    def missing(self, shards: Iterable[Shard], bar: Progress) -> Iterator[Shard]:
        """The shards that no earlier run has finished."""
        return (shard for shard in shards if self._load_finished(shard, bar) is None)

    def _load_finished(self, shard: Shard, bar: Progress) -> Explanations | None:
        explanations = self.load(self.file(shard))
        if explanations is not None:
            self.reused += 1
            bar.skip(len(shard.rows))
        return explanations

    def load(self, file: Path) -> Explanations | None:
        """Load a finished shard. None if it is missing or damaged, or if another run has just removed it."""
        if not self.is_resumable or not file.is_file():
            return None
        try:
            shard = Explanations.load(file)
        except (RecordError, OptionError):
            return None
        # All shards of a file must name the teacher alike. It may have moved; older versions saved no fingerprint.
        teacher, fingerprints = self.job.teacher.name, self.job.fingerprints
        if (shard.teacher, shard.fingerprints) != (teacher, fingerprints):
            shard = replace(shard, teacher=teacher, fingerprints=fingerprints)
            self.save(file, shard)
        return shard

    def save(self, file: Path, shard: Explanations) -> None:
        try:
            shard.save(ensure_parent(file))
        except RecordError:  # another run may have finished and removed the folder: try once more
            shard.save(ensure_parent(file))

    def progress(self) -> str:
        """What the same command would resume from. Counts files, since a worker may finish without reporting it."""
        if not self.is_resumable:
            return f"{self.job.method.name!r} is an object and not a name, so a new run starts from the beginning."
        count = sum(1 for _ in self.folder.glob(f"*-{self._settings}-*.parquet"))
        shards = "1 shard is saved" if count == 1 else f"{count:,} shards are saved"
        location = f"{shards} in {self.folder}" if count else "No shard is finished yet"
        return f"{location}; run the same again to resume."

    def clear(self) -> None:
        """Remove the shards with these settings. Others may belong to a stopped run."""
        for file in self.folder.glob(f"*-{self._settings}-*.parquet"):
            file.unlink(missing_ok=True)
        self._remove_if_empty()

    def clear_all(self) -> None:
        """Remove all shards and the files of killed runs. Only for a run that has `locked` the store."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path != self._lock:
                path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude other runs. The system releases the lock if the process dies."""
        lock = FileLock(ensure_parent(self._lock), timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise RecordError(
                f"Another run is writing {self.path}. Wait until it has finished, or choose another file."
            ) from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # some systems cannot remove an open file
                self._lock.unlink()  # before the release, after which another run may lock it
            lock.release()
            self._remove_if_empty()

    @contextlib.contextmanager
    def job_folder(self) -> Iterator[Path]:
        """A temporary folder in the store for the inputs of workers."""
        folder = self.folder / f"jobs-{os.getpid()}-{secrets.token_hex(4)}"
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _remove_if_empty(self) -> None:
        with contextlib.suppress(OSError):  # not empty, or never created
            self.folder.rmdir()
