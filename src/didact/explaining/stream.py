"""Explanations of data that do not fit in memory: shard by shard into one file, going on where it was stopped."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from didact.core.explainer import Explainer
from didact.core.function import FunctionTeacher
from didact.core.row import Fingerprint, Row
from didact.core.teacher import Teacher
from didact.data.stream import check_source, stream_rows
from didact.errors import DataError, OptionError
from didact.execution.base import Executor
from didact.execution.process_pool import WORKER, ProcessPool
from didact.explainers.default import default_method
from didact.explaining.explain import Work, check_learned, look_again, resolve
from didact.explaining.input_rows import rows_of
from didact.explaining.saved_teacher import TeacherSource
from didact.explaining.score_checks import warn_of_scores
from didact.explaining.shard_jobs import ShardExplainer, ShardQueue
from didact.explaining.shard_store import ShardStore
from didact.limits import most_threads, shown
from didact.models.load import load_teacher
from didact.records.atomic import check_new_file, write_through
from didact.records.parquet import cautions_in, is_explanations, join_files, residuals_in
from didact.render.progress import Progress

_MODULE: Final = WORKER

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Streamed:
    """What was written: how many rows and shards, and how many shards had been kept by a run before."""

    path: Path
    rows: int
    shards: int
    kept: int


def explain_stream(
    teacher: Teacher | str | Path,
    data: Any,
    method: Any = None,
    *,
    out: str | Path,
    overwrite: bool = False,
    split: str = "train",
    columns: Mapping[str, str | None] | None = None,
    classes: Sequence[str] | None = None,
    data_dir: str | Path | None = None,
    background_rows: Any = None,
    preset: str | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
    shard: int = 256,
    rows: int | None = None,
    workers: int = 0,
    threads: int = 1,
    total: int | None = None,
    progress: bool = False,
    loading: Mapping[str, Any] | None = None,
    notes: Callable[[str], None] | None = None,
    **options: Any,
) -> Streamed:
    """Explain rows as they are read, and write them to one Parquet file in their order. Memory does not grow with rows.

    `data` is a Parquet or JSON-lines file, a `split` of a data set that didact knows or the hub has, or anything to
    iterate over; see `didact.data.stream.stream_rows`. `shard` rows are explained and kept together; a run that was
    stopped goes on after the last of them, to the same file. With `workers` so many processes explain, each with a
    teacher and a method of its own: both are then given by name or folder (with `loading`, what `load_teacher` takes).
    This process and each of the others compute with `threads` threads, so that the bytes do not depend on how many
    processes there are. `total` is the number of rows, for the time left, where the data do not tell it. `classes`
    names the data's classes in the teacher's order, where names differ and gold labels are explained. `notes` is
    called with what was guessed about the data. A file at `out` that holds no explanations, or those of another model,
    method, options or data, is replaced only with `overwrite`; the data are compared when all are read, and the shards
    stay. Other options are those of `didact.explain`. The file is read as others (`Explanations.load`), or shard by
    shard (`Explanations.shards`). Without a `method` it is chosen as `didact.explain` does. Warns as `didact.explain`
    does where scores do not add up.
    """
    if workers < 0 or threads < 1 or shard < 1 or (rows is not None and rows < 1):
        raise OptionError(
            f"workers is at least 0, threads, shard and rows at least 1, not {workers}, {threads}, {shard} and {rows}."
        )
    if max(workers, threads) > most_threads():
        raise OptionError(
            f"workers and threads are at most {most_threads()}, got {shown(workers)} and {shown(threads)}."
        )
    if workers and not isinstance(teacher, str | Path):
        raise OptionError("Workers load the teacher themselves: give its folder or its name on the hub, or workers=0.")
    method = str(method) if isinstance(method, Path) else method
    if workers and method is not None and not isinstance(method, str):
        raise OptionError(
            "Workers make the explainer themselves: give its name with its options, the folder of one that was "
            "learned, or workers=0."
        )
    check_source(data)
    path = check_new_file(Path(out), reads=data, overwrite=overwrite, replaces=is_explanations)
    with _threads(threads):
        opened = load_teacher(str(teacher), **(loading or {})) if isinstance(teacher, str | Path) else teacher
        look_again(opened)
        method = default_method(opened) if method is None else method
        background = None if background_rows is None else rows_of(opened, background_rows)
        explainer = ShardExplainer(_work(opened, method, options, preset, batch_size, seed, background), background)
        work = explainer.work
        if not overwrite:
            work.check_origin(path, explainer.fingerprints)
        check_learned(opened, work.built.explainer)
        source = stream_rows(
            data, size=shard, task=opened.task, columns=columns, classes=opened.classes, called=classes, split=split,
            labels=work.asked.target == "gold", data_dir=data_dir, seed=seed or 0, notes=notes,
        )  # fmt: skip
        known = total or source.total
        expected = rows if known is None else min(known, rows or known)
        store = ShardStore(
            path, {"shard": shard, **explainer.settings}, teacher=opened.name, resumable=work.built.is_known
        )
        shards = _Shards(store, explainer, overwrite=overwrite)
        with store.locked(), Progress(f"explaining with {work.built.name}", total=expected, shown=progress) as bar:
            missing = shards.missing(_first(source, rows), bar)
            try:
                if workers:
                    pool = ProcessPool(workers, threads, module=_MODULE)
                    shards.explain_by(pool, TeacherSource.of(str(teacher), loading or {}), missing, bar)
                else:
                    shards.explain_here(missing, bar)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"Stopped. {shards.so_far()}") from None
            streamed = shards.joined()
    warn_of_scores(work.built.name, work.built.explainer, residuals_in(path), cautions_in(path), stacklevel=2)
    return streamed


def _work(
    teacher: Teacher, method: Any, options: Mapping[str, Any], preset: str | None, batch_size: int | None,
    seed: int | None, background: Sequence[Row] | None,
) -> Work:  # fmt: skip
    """What is done to every shard."""
    asked, built = resolve(teacher, method, options, preset=preset, batch_size=batch_size, seed=seed)
    if background is None and isinstance(built.explainer, Explainer) and built.explainer.compares:
        raise OptionError(
            f"{built.name!r} compares with other rows, and a stream has none to choose from beforehand. Give some "
            "(background_rows=…, --background)."
        )
    return Work(teacher, (), asked, built, batch_size or 64)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """While this lasts torch computes with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Shards:
    """The shards of a stream, in the order in which they are read."""

    def __init__(self, store: ShardStore, explainer: ShardExplainer, *, overwrite: bool) -> None:
        self.store, self.explainer, self.overwrite = store, explainer, overwrite
        self.rows = self.kept = 0
        self._files: list[Path] = []
        self._data = Fingerprint()

    def missing(self, source: Iterator[list[Row]], bar: Progress) -> Iterator[tuple[Path, list[Row]]]:
        """The shards that no earlier run finished, as they are read."""
        for rows in source:
            file = self._add(rows)
            if self.store.load(file) is None:
                yield file, rows
            else:
                self.kept += 1
                bar.skip(len(rows))

    def explain_here(self, missing: Iterator[tuple[Path, list[Row]]], bar: Progress) -> None:
        for file, rows in missing:
            self.store.save(file, self.explainer.explain(rows))
            bar.advance(len(rows))

    def explain_by(
        self, executor: Executor, teacher: TeacherSource, missing: Iterator[tuple[Path, list[Row]]], bar: Progress
    ) -> None:
        """Let workers explain. A shard that fails stops the run; others are kept."""
        with self.store.job_folder() as folder:
            queue = ShardQueue(self.explainer, teacher, self.store, folder, self.store.folder)
            manifest = queue.write_manifest()
            results = executor.run(manifest, (queue.job(file, rows) for file, rows in missing))
            with closing(results):  # what is said to be kept must not grow afterwards
                for result in results:
                    if result.traceback:
                        log.info("%s", result.traceback)
                    bar.advance(queue.finish(result, self.so_far))

    def so_far(self) -> str:
        """What the same command would resume from."""
        if not self.store.resumable:
            return f"{self.explainer.work.built.name!r} is an object and not a name, so the same again begins anew."
        return self.store.progress()

    def joined(self) -> Streamed:
        """All shards become one file; then they are removed.

        Only now all data are known. If a file of other data is there, the shards stay.
        """
        if not self._files:
            raise DataError("There is nothing to explain: no rows were given.")
        path = self.store.path
        if not self.overwrite:
            fingerprints = self.explainer.fingerprints | {"data": str(self._data)}
            self.explainer.work.check_origin(path, fingerprints, advice=f" {self.so_far()}")
        with write_through(path) as draft:
            join_files(self._files, draft, data=str(self._data))
        self.store.clear_all()
        return Streamed(path, self.rows, len(self._files), self.kept)

    def _add(self, rows: Sequence[Row]) -> Path:
        """Where the next shard belongs. What a function answers to its rows is part of its name."""
        self.rows += len(rows)
        self._data.update(rows)
        teacher = self.explainer.work.teacher
        answers = {"function": teacher.fingerprint(rows)} if isinstance(teacher, FunctionTeacher) else {}
        if answers:
            self._data.add(answers["function"])
        self._files.append(self.store.file(len(self._files), rows, **answers))
        return self._files[-1]


def _first(source: Iterator[list[Row]], most: int | None) -> Iterator[list[Row]]:
    left = most
    for rows in source:
        if left is None:
            yield rows
            continue
        yield rows[:left]
        left -= len(rows)
        if left <= 0:
            return
