"""The training step of a comparison: which runs are done, which are left, and who leads so far."""

from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from didact.comparing.train_jobs import TrainJobs
from didact.comparing.training_run import Cell, finished
from didact.errors import RecordError
from didact.execution.base import Executor, Job, JobResult, JobStatus, Manifest
from didact.execution.run_dir import RunDirectory
from didact.files.store import Store
from didact.results.training_record import TrainingRecord
from didact.viz.progress import Progress


@dataclass(frozen=True, eq=False)
class TrainingStage:
    """Trains the students of a manifest with an executor, and keeps a record of each."""

    executor: Executor
    manifest: Manifest
    rows_file: str
    directory: RunDirectory
    store: Store
    progress: bool = False

    def run(self, runs: Sequence[Cell], description: str, *, failed: Set[str] = frozenset()) -> None:
        """Train the students that are not done. Those in `failed` have a record that says why they cannot be."""
        work = _Training(runs, self.store)
        self.directory.pull_cells(work.by_key)
        work.look()
        waiting = [key for key in work.by_key if key not in work.done and key not in failed]
        work.done |= failed
        jobs = TrainJobs(self.directory.folder, self.manifest.path, self.rows_file, {run.key: run for run in runs})
        if self.executor.runs_elsewhere:
            jobs.check_bases()
        with Progress(description, total=len(work.by_key), shown=self.progress) as bar:
            bar.skip(len(work.done))
            queue = work.queue(self.directory, waiting, jobs, bar)
            try:
                with closing(self.executor.run(self.manifest, queue) if waiting else _nothing()) as results:
                    for result in results:
                        if result.status is JobStatus.UNWRITABLE:
                            raise RecordError(f"{result.error} {work.so_far()} are done.")
                        work.keep(result, self.directory.folder)
                        self.directory.push_cells([result.key])
                        bar.advance(note=work.board.best())
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"Stopped. {work.so_far()} are kept in {self.directory.name}; give the same command again to go on."
                ) from None


def _nothing() -> Generator[JobResult, None, None]:
    yield from ()


class _Training:
    """The students of one stage: which are done, and who leads."""

    def __init__(self, cells: Sequence[Cell], store: Store) -> None:
        self.store = store
        self.by_key: dict[str, list[Cell]] = {}
        for cell in cells:
            self.by_key.setdefault(cell.key, []).append(cell)
        self.done: set[str] = set()
        self.board = _Board(self.by_key)

    def look(self) -> None:
        """Find what was done before."""
        for key in self.by_key:
            record = finished(self.store, key)
            if record is not None:
                self.done.add(key)
                self.board.add(key, record.value)

    def queue(self, place: RunDirectory, keys: Sequence[str], jobs: TrainJobs, bar: Progress) -> Iterator[Job]:
        """The jobs to do; not those that another run finished while they waited."""
        for key in place.ordered(keys):
            place.pull_cells([key])
            if finished(self.store, key) is None:
                yield jobs.job(key)
                continue
            self._count(key)
            bar.advance(note=self.board.best())

    def keep(self, result: JobResult, folder: Path) -> None:
        """Keep the record of a job. A failure does not replace what another run has done meanwhile."""
        key = result.key
        if result.status is not JobStatus.FAILED or finished(self.store, key) is None:
            result.write_files(folder)
        if result.status is JobStatus.DIED and finished(self.store, key) is None:
            cell = self.by_key[key][0].plain()
            TrainingRecord(cell, error=result.error or "", traceback=result.traceback or "", key=key).save(self.store)
        self._count(key)

    def so_far(self) -> str:
        return f"{len(self.done):,} of {len(self.by_key):,} cells"

    def _count(self, key: str) -> None:
        self.done.add(key)
        self.board.add(key, TrainingRecord.load(self.store, key).value)


class _Board:
    """Who leads so far: the mean gain over `none` of the seeds that are done."""

    def __init__(self, cells: Mapping[str, Sequence[Cell]]) -> None:
        self.cells = cells
        self.values: dict[tuple[str, str, int, int], float] = {}

    def add(self, key: str, value: float | None) -> None:
        for cell in self.cells[key]:
            if value is not None:
                self.values[cell.explainer, cell.student, cell.size, cell.seed] = value

    def best(self) -> str:
        gains: dict[tuple[str, str, int], list[float]] = {}
        for (explainer, student, size, seed), value in self.values.items():
            plain = self.values.get(("none", student, size, seed))
            if explainer != "none" and plain is not None:
                gains.setdefault((explainer, student, size), []).append(value - plain)
        if not gains:
            return ""
        name, found = max(gains.items(), key=lambda item: float(np.mean(item[1])))
        return f"best so far: {name[0]} {np.mean(found):+.3f}"
