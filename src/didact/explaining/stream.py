"""`didact.explain_stream`: explains data larger than memory, shard by shard into one file, and resumes stopped runs."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from didact.core.adapt import as_teacher
from didact.core.explainer import Explainer
from didact.core.fingerprint import invalidate_fingerprint
from didact.core.row import Fingerprint, Row
from didact.core.teacher import Predictor, Teacher
from didact.core.threads import torch_threads
from didact.data.stream import check_streamable, stream_rows
from didact.errors import DataError, OptionError
from didact.execution.process_pool import WORKER, ProcessPool
from didact.explainers.default import default_method
from didact.explaining.input_rows import rows_for
from didact.explaining.job import ExplainJob
from didact.explaining.saved_teacher import TeacherSource
from didact.explaining.score_checks import warn_about_scores
from didact.explaining.shard_jobs import ShardQueue
from didact.explaining.shard_store import Shard, ShardStore
from didact.files.atomic import atomic_file, check_new_file
from didact.limits import max_threads, shown
from didact.models.load import load_teacher
from didact.results.explanations_parquet import is_explanations, merge_shards, read_cautions, read_residuals
from didact.viz.progress import Progress

_MODULE: Final = WORKER


@dataclass(frozen=True)
class StreamOptions:
    """The options that only `explain_stream` has: how the data are read, split into shards and shared among workers."""

    overwrite: bool = False
    split: str = "train"
    columns: Mapping[str, str | None] | None = None
    classes: Sequence[str] | None = None
    data_dir: str | Path | None = None
    shard: int = 256
    rows: int | None = None
    workers: int = 0
    threads: int = 1
    total: int | None = None
    loading: Mapping[str, Any] | None = None
    notes: Callable[[str], None] | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        if self.workers < 0 or self.threads < 1 or self.shard < 1 or (self.rows is not None and self.rows < 1):
            raise OptionError(
                "workers must be >= 0, and threads, shard and rows >= 1, got "
                f"{self.workers}, {self.threads}, {self.shard} and {self.rows}."
            )
        if max(self.workers, self.threads) > max_threads():
            raise OptionError(
                f"workers and threads must be <= {max_threads()}, got {shown(self.workers)} and {shown(self.threads)}."
            )

    def expected_rows(self, known_total: int | None) -> int | None:
        """The number of rows to explain, if the data have that many; None if unknown."""
        known_total = self.total or known_total
        return self.rows if known_total is None else min(known_total, self.rows or known_total)


@dataclass(frozen=True)
class StreamResult:
    """What `explain_stream` wrote: rows and shards, and the number of shards reused from an earlier run."""

    path: Path
    rows: int
    shards: int
    reused: int


def explain_stream(
    teacher: Predictor | str | Path,
    data: Any,
    method: Any = None,
    *,
    out: str | Path,
    background_rows: Any = None,
    preset: str | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
    **options: Any,
) -> StreamResult:
    """Explain rows while they are read, and write one Parquet file in their order. Memory does not grow with the rows.

    Args:
        teacher: As for `explain`; with `workers` a folder or a hub name.
        data: A Parquet or JSON Lines file, a data set that didact or the hub has (with its `split`), or an iterable of
            rows.
        method: As for `explain`; with `workers` a name or a folder.
        out: The Parquet file to write. `Explanations.load` reads it whole, `Explanations.shards` shard by shard.
        background_rows: As for `explain`.
        preset: As for `explain`.
        batch_size: As for `explain`.
        seed: As for `explain`.
        **options: `split`, `columns`, `data_dir` and `notes` say how to read the data
            (`didact.data.stream.stream_rows`); `notes` is called with what was inferred. `rows` is the number of rows
            to explain (default: all), `shard` the number of rows stored together (256), `total` the number of rows in
            the data, for the progress bar. `workers` processes explain (0: this one), each with `threads` threads (1),
            so the bytes do not depend on the number of processes; `loading` holds keyword arguments of `load_teacher`
            for them. `classes` and `overwrite` are as for `explain`. All others are options of `explain`.

    Returns:
        A `StreamResult`: the path, the number of rows and shards, and how many shards an earlier run had finished. A
        stopped run resumes after its last shard and writes the same bytes.

    Examples:
        ```python
        teacher = didact.load_teacher("runs/demo/teacher")
        written = didact.explain_stream(teacher, "reviews.jsonl", "gradient_norm", out="scores.parquet")
        print(written.rows, didact.Explanations.load(written.path).top(1)[0])
        ```
    """
    names = [field.name for field in fields(StreamOptions) if field.name in options]
    stream = StreamOptions(**{name: options.pop(name) for name in names})
    method = str(method) if isinstance(method, Path) else method
    if stream.workers:
        _check_named(teacher, method)
    check_streamable(data)
    path = check_new_file(Path(out), reads=data, overwrite=stream.overwrite, replaces=is_explanations)
    with torch_threads(stream.threads):
        loaded_teacher = (
            load_teacher(str(teacher), **(stream.loading or {}))
            if isinstance(teacher, str | Path)
            else as_teacher(teacher)
        )
        invalidate_fingerprint(loaded_teacher)
        job = _prepare_job(
            loaded_teacher, method, options, background_rows, preset=preset, batch_size=batch_size, seed=seed
        )
        if stream.workers and not job.method.is_reproducible:
            raise OptionError(
                f"Workers do not know {job.method.name!r}, which is registered in this process only. Explain with "
                "workers=0, or register it as an entry point of a package (docs/extending.md)."
            )
        shards = _ShardStream(ShardStore(path, job, shard=stream.shard, teacher=job.fingerprint), stream)
        if not stream.overwrite:
            job.check_origin(path, job.fingerprints)
        streamed = shards.explain(data, str(teacher) if stream.workers else "", seed or 0)
    warn_about_scores(job.method, read_residuals(path), read_cautions(path), stacklevel=2)
    return streamed


def _check_named(teacher: Any, method: Any) -> None:
    """Raise an error for a teacher or a method that workers cannot build themselves."""
    if not isinstance(teacher, str | Path):
        raise OptionError("Workers load the teacher themselves: give its folder or its name on the hub, or workers=0.")
    if method is not None and not isinstance(method, str):
        raise OptionError(
            "Workers build the explainer themselves: give its name with its options, the folder of a learned one, or "
            "workers=0."
        )


def _prepare_job(
    teacher: Teacher, method: Any, options: Mapping[str, Any], background_rows: Any, **resolve_options: Any
) -> ExplainJob:
    """Make the job that explains every shard."""
    background = None if background_rows is None else rows_for(teacher, background_rows)
    method = default_method(teacher) if method is None else method
    job = ExplainJob.of(teacher, method, options, background=background, **resolve_options)
    if background is None and isinstance(job.method.explainer, Explainer) and job.method.explainer.needs_background:
        raise OptionError(
            f"{job.method.name!r} compares with background rows, which a stream cannot supply in advance. Give some "
            "(background_rows=…, --background)."
        )
    job.check_learned()
    return job


class _ShardStream:
    """The shards of a stream, in the order in which they are read."""

    def __init__(self, store: ShardStore, options: StreamOptions) -> None:
        self.job, self.store, self.options = store.job, store, options
        self.rows = 0
        self._files: list[Path] = []
        self._data = Fingerprint()

    def explain(self, data: Any, teacher: str, seed: int) -> StreamResult:
        """Explain unfinished shards, in this process or in workers that load `teacher`, and write the file."""
        options, job = self.options, self.job
        source = stream_rows(
            data,
            size=options.shard,
            task=job.teacher.task,
            columns=options.columns,
            classes=job.teacher.classes,
            data_classes=options.classes,
            split=options.split,
            labels=job.common.target == "gold",
            data_dir=options.data_dir,
            seed=seed,
            notes=options.notes,
        )
        total = options.expected_rows(source.total)
        with self.store.locked(), Progress(job.title, total=total, shown=options.progress) as bar:
            shards = self._read(_take_rows(source, options.rows))
            try:
                if options.workers:
                    self._explain_by_workers(teacher, self.store.missing(shards, bar), bar)
                else:
                    for shard in shards:
                        self.store.explain(shard, bar)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"Stopped. {self.store.progress()}") from None
            return self.join_shards()

    def _explain_by_workers(self, teacher: str, missing: Iterator[Shard], bar: Progress) -> None:
        source = TeacherSource.of(teacher, self.options.loading or {})
        pool = ProcessPool(self.options.workers, self.options.threads, module=_MODULE)
        with self.store.job_folder() as folder:
            ShardQueue(source, self.store, folder, self.store.folder).run(pool, missing, bar)

    def _read(self, source: Iterator[list[Row]]) -> Iterator[Shard]:
        """Read the shards. The name of a shard includes a hash of a function's answers to its rows."""
        teacher = self.job.teacher
        for number, rows in enumerate(source):
            function = teacher.fingerprint(rows) if teacher.is_identified_by_answers else None
            shard = Shard(number, rows, function=function)
            self.rows += len(rows)
            self._data.update(rows)
            if function is not None:
                self._data.add(function)
            self._files.append(self.store.file(shard))
            yield shard

    def join_shards(self) -> StreamResult:
        """Join all shards to one file, then remove them.

        Raises an error and keeps the shards if the file holds other data, which is known only now.
        """
        if not self._files:
            raise DataError("There is nothing to explain: the data contain no rows.")
        path = self.store.path
        if not self.options.overwrite:
            fingerprints = self.job.fingerprints | {"data": str(self._data)}
            self.job.check_origin(path, fingerprints, advice=f" {self.store.progress()}")
        with atomic_file(path) as draft:
            merge_shards(self._files, draft, data=str(self._data))
        self.store.clear_all()
        return StreamResult(path, self.rows, len(self._files), self.store.reused)


def _take_rows(source: Iterator[list[Row]], limit: int | None) -> Iterator[list[Row]]:
    """Yield at most `limit` rows of the source."""
    remaining = sys.maxsize if limit is None else limit
    for rows in source:
        yield rows[:remaining]
        remaining -= len(rows)
        if remaining <= 0:
            return
