"""The training step of a comparison: finds the cells that are not done and trains them as jobs of an executor."""

import traceback
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from didact.comparing.cell import Cell, load_completed, run_cell, save_cell
from didact.comparing.run_inputs import RunInputs
from didact.errors import OptionError, RecordError
from didact.execution.base import Executor, Job, JobResult, JobStatus, Manifest
from didact.execution.run_dir import RunDirectory
from didact.files.store import Store
from didact.models.student_init import StudentInit
from didact.results.training_record import TrainingRecord
from didact.viz.progress import Progress


class TrainRunner:
    """Trains the cells of a manifest, one after another, in the process of a worker, and stores a record of each."""

    def __init__(self, folder: Path, content: Mapping[str, Any]) -> None:
        self.threads: int = content["threads"]
        self.cells = {cell["key"]: Cell(**cell) for cell in content["cells"]}
        self.run_inputs = RunInputs(folder, content["rows"])
        self.store = Store(folder.parent / "cells")

    def run(self, key: str) -> JobResult:
        """Train one cell and store its record. An exception is stored as a failed record."""
        cell = self.cells[key]
        record = load_completed(self.store, key)
        if record is not None:  # another run trained it while this key was queued
            return JobResult(key, JobStatus.DONE, record.value)
        try:
            try:
                trained, outputs = run_cell(cell, self.run_inputs)
            except Exception as error:  # any failure becomes a record
                text = traceback.format_exc()
                if (record := load_completed(self.store, key)) is not None:  # another run succeeded
                    return JobResult(key, JobStatus.DONE, record.value)
                TrainingRecord(cell.plain(), error=str(error), traceback=text, key=key).save(self.store)
                return JobResult(key, JobStatus.FAILED, error=str(error))
            save_cell(self.store, trained, outputs)
        except RecordError as error:
            return JobResult(key, JobStatus.UNWRITABLE, error=str(error))
        return JobResult(key, JobStatus.DONE, trained.value)


class TrainJobs:
    """Makes the jobs for the cells of a manifest. `folder` is the folder of the run."""

    def __init__(self, folder: Path, manifest: Path, rows: str, cells: Mapping[str, Cell]) -> None:
        self.folder, self.cells = folder, cells
        self._common = [f"classroom/{name}" for name in (manifest.name, rows)]
        self._file_lists: dict[str, list[str]] = {}  # by name of initial weights, explanations or component scores

    def job(self, key: str) -> Job:
        """The job that trains a cell, with the files that it reads and writes."""
        cell = self.cells[key]
        names = [f"classroom/starts/{cell.start}"]
        names += [f"explanations/{name}" for name in (cell.explanations_file, cell.parts) if name is not None]
        inputs = self._common + [file for name in names for file in self._files(name)]
        # The record comes last: it has the checksum of the answers.
        return Job(key, tuple(inputs), (f"cells/{key}.parquet", f"cells/{key}.json"))

    def check_bases(self) -> None:
        """Raise OptionError if initial weights refer to a base by a relative path, which other machines cannot find."""
        for name in sorted({cell.start for cell in self.cells.values()}):
            start = StudentInit.load(self.folder / "classroom" / "starts" / name)
            for base in (start.facts.get("base"), start.facts.get("options", {}).get("embeddings")):
                if base is not None and Path(base).is_dir() and not Path(base).is_absolute():
                    raise OptionError(
                        f"Student {start.spec!r} starts from the folder {base!r}, a relative path that the machines of "
                        "a cluster cannot resolve. Use an absolute path that exists on every machine (for the base of "
                        "the teacher or in the student's name), a name on the hub, or engine local."
                    )

    def _files(self, name: str) -> list[str]:
        """The file of this name, the files in the folder, or the two files of component scores."""
        if name not in self._file_lists:
            path = self.folder / name
            pair = [path.with_suffix(ending) for ending in (".parquet", ".safetensors")]
            files = {file for file in (path, *pair, *path.rglob("*")) if file.is_file()}
            self._file_lists[name] = [file.relative_to(self.folder).as_posix() for file in sorted(files)]
        return self._file_lists[name]


@dataclass(eq=False)
class TrainingStage:
    """Trains the cells of a manifest with an executor and stores a record of each. `done` holds the finished keys."""

    executor: Executor
    manifest: Manifest
    rows_file: str
    directory: RunDirectory
    store: Store
    progress: bool = False
    done: set[str] = field(default_factory=set)

    def run(self, cells: Sequence[Cell], description: str, *, failed: Set[str] = frozenset()) -> None:
        """Train the cells that are not done.

        `failed` holds keys of cells that cannot be trained and already have a failed record.

        Raises:
            RecordError: a result could not be written.
        """
        by_key: dict[str, Cell] = {}
        for cell in cells:
            by_key.setdefault(cell.key, cell)  # table rows may share a cell
        self.directory.pull_cells(by_key)
        self.done = {key for key in by_key if key in failed or load_completed(self.store, key) is not None}
        pending = [key for key in by_key if key not in self.done]
        jobs = TrainJobs(self.directory.folder, self.manifest.path, self.rows_file, by_key)
        if self.executor.runs_elsewhere:
            jobs.check_bases()
        with Progress(description, total=len(by_key), shown=self.progress) as bar:
            bar.skip(len(self.done))
            queue = self._queue(pending, jobs, bar)
            try:
                with closing(self.executor.run(self.manifest, queue) if pending else _no_results()) as results:
                    for result in results:
                        if result.status is JobStatus.UNWRITABLE:
                            raise RecordError(f"{result.error} {self._progress_text(by_key)} are done.")
                        self._save_result(result, by_key[result.key])
                        self.directory.push_cells([result.key])
                        bar.advance()
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"Stopped. {self._progress_text(by_key)} are stored in {self.directory.name}. Run the same command "
                    "again to resume."
                ) from None

    def _queue(self, keys: Sequence[str], jobs: TrainJobs, bar: Progress) -> Iterator[Job]:
        """Yield the jobs, without those that another run finished while they were queued."""
        for key in self.directory.job_order(keys):
            self.directory.pull_cells([key])
            if load_completed(self.store, key) is None:
                yield jobs.job(key)
                continue
            self.done.add(key)
            bar.advance()

    def _save_result(self, result: JobResult, cell: Cell) -> None:
        """Store the result of a job. A failure does not replace a result that another run stored meanwhile."""
        key = result.key
        if result.status is not JobStatus.FAILED or load_completed(self.store, key) is None:
            result.write_files(self.directory.folder)
        if result.status is JobStatus.DIED and load_completed(self.store, key) is None:
            record = TrainingRecord(cell.plain(), error=result.error, traceback=result.traceback, key=key)
            record.save(self.store)
        self.done.add(key)

    def _progress_text(self, by_key: Mapping[str, Cell]) -> str:
        return f"{len(self.done):,} of {len(by_key):,} cells"


def _no_results() -> Generator[JobResult, None, None]:
    yield from ()
