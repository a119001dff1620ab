"""Explanations of data that do not fit in memory: shard by shard into one file, going on where it was stopped."""

import hashlib
import os
import shutil
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from didact.core.explainer import Explainer
from didact.core.function import FunctionTeacher
from didact.core.model import Model
from didact.core.row import Row, fingerprint_of
from didact.core.teacher import Teacher
from didact.data.stream import stream_rows
from didact.errors import DataError, OptionError, RecordError
from didact.experiment.explain import Work, model_fingerprint, resolve
from didact.experiment.rows import rows_of
from didact.explainers.build import knows_option
from didact.models.load import load_teacher
from didact.records.atomic import check_new_file, with_folder, write_through
from didact.records.explanations import Explanations
from didact.records.parquet import join_files
from didact.records.store import key_of
from didact.render.progress import Progress

_WAITING: Final = 2  # shards in hand for each worker: more would only fill memory


@dataclass(frozen=True)
class Streamed:
    """What was written: how many rows and shards, and how many shards had been kept by a run before."""

    path: Path
    rows: int
    shards: int
    kept: int


@dataclass(frozen=True)
class _Order:
    """What every worker does to every shard. Plain values alone: it crosses to other processes."""

    method: Any
    options: Mapping[str, Any]
    preset: str | None
    batch_size: int | None
    seed: int | None


def explain_stream(
    teacher: Teacher | str | Path,
    data: Any,
    method: Any = "integrated_gradients",
    *,
    out: str | Path,
    split: str = "train",
    columns: Mapping[str, str | None] | None = None,
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
    **options: Any,
) -> Streamed:
    """Explain rows as they are read, and write them to one Parquet file in their order. Memory does not grow with rows.

    `data` is a Parquet or JSON-lines file, a name on the hub, or anything to iterate over; see
    `didact.data.stream.stream_rows`. `shard` rows are explained and kept together; a run that was stopped goes on after
    the last of them, to the same file. With `workers` so many processes explain, each with a teacher of its own: it is
    then given by its folder or name (with `loading`, what `load_teacher` takes). `total` is the number of rows for the
    time left, where it is known. Other options are those of `didact.explain`. The file is read as others
    (`Explanations.load`), or shard by shard (`Explanations.shards`).
    """
    if workers < 0 or shard < 1 or (rows is not None and rows < 1):
        raise OptionError(f"workers is at least 0, shard and rows at least 1, not {workers}, {shard} and {rows}.")
    if workers and not isinstance(teacher, str | Path):
        raise OptionError("Workers load the teacher themselves: give its folder or its name on the hub, or workers=0.")
    path = check_new_file(Path(out))
    opened = load_teacher(str(teacher), **(loading or {})) if isinstance(teacher, str | Path) else teacher
    order = _Order(method, options, preset, batch_size, seed)
    background = None if background_rows is None else rows_of(opened, background_rows)
    desk = _Desk(opened, order, background)
    source = stream_rows(
        data, size=shard, task=opened.task, columns=columns, classes=opened.classes, split=split,
        labels=desk.work.asked.target == "gold",
    )  # fmt: skip
    parts = _Parts(path, desk, shard)
    with Progress(f"explaining with {desk.name}", total=total or rows or 1, shown=progress) as bar:
        crew = _crew(workers, threads, str(teacher), loading or {}, order, background, desk)
        try:
            for number, found in enumerate(_first(source, rows)):
                parts.expect(found)
                crew.give(number, found, parts.place(number, found))
                bar.advance(len(found), note=f"{parts.rows:,} rows")
        finally:
            crew.close()
    parts.kept = crew.kept
    return parts.finish()


class _Desk:
    """A teacher, a method, and one shard after another."""

    def __init__(self, teacher: Teacher, order: _Order, background: Sequence[Row] | None) -> None:
        asked, built = resolve(
            teacher, order.method, order.options, preset=order.preset, batch_size=order.batch_size, seed=order.seed
        )
        if background is None and isinstance(order.method, str) and knows_option(built.name, "background"):
            raise OptionError(
                f"{built.name!r} compares with other rows, and a stream has none to choose from beforehand. Give some "
                "(background_rows=…, --background)."
            )
        self.work = Work(teacher, (), asked, built, order.batch_size or 64)
        self.name, self.is_known = built.name, built.is_known
        with torch.inference_mode(False), self.work.in_precision():
            if isinstance(built.explainer, Explainer):
                built.explainer.prepare(teacher, background or [])
        self.facts = self.work.facts(background or [])

    @property
    def teacher(self) -> str | None:
        """The teacher's fingerprint; a function has one of its answers, shard by shard."""
        teacher = self.work.teacher
        if isinstance(teacher, FunctionTeacher):
            return None
        return model_fingerprint(teacher) if isinstance(teacher, Model) else teacher.name

    def done(self, rows: Sequence[Row], place: Path) -> bool:
        """Explain a shard into its file, unless it is there. Tells whether it was."""
        if self.is_known and _is_whole(place):
            return True
        work = replace(self.work, rows=rows_of(self.work.teacher, rows))
        work.check()
        with torch.inference_mode(False), Progress("", total=len(rows), shown=False) as bar:
            maps = work.explained(rows, bar)
        replace(maps, fingerprints={"teacher": self.teacher or "function"}).save(place)
        return False


class _Parts:
    """The shards beside the file that they will become."""

    def __init__(self, path: Path, desk: _Desk, shard: int) -> None:
        self.path, self.desk = path, desk
        self.folder = path.with_name(f"{path.name}.parts")
        self.rows = self.kept = 0
        self._common = {"teacher": desk.teacher, "shard": shard, **desk.facts}
        self._places: list[Path] = []
        self._digest = hashlib.sha256()
        self._ids = array("Q")  # 64 bits of each id: all that is kept of a row
        with_folder(self.folder / "x")

    def expect(self, rows: Sequence[Row]) -> None:
        self.rows += len(rows)
        for row in rows:
            self._ids.append(int.from_bytes(hashlib.blake2b(row.id.encode(), digest_size=8).digest(), "big"))

    def place(self, number: int, rows: Sequence[Row]) -> Path:
        print_ = fingerprint_of(rows)
        self._digest.update(print_.encode())
        teacher = self.desk.work.teacher
        own = {"function": teacher.fingerprint(rows)} if isinstance(teacher, FunctionTeacher) else {}
        key = key_of({**self._common, **own, "rows": print_})
        self._places.append(self.folder / f"{number:09d}-{key}.parquet")
        return self._places[-1]

    def finish(self) -> Streamed:
        """All shards become one file, at once; then they are not needed any more."""
        if not self._places:
            raise DataError("There is nothing to explain: no rows were given.")
        if len(np.unique(np.frombuffer(self._ids, dtype=np.uint64))) < len(self._ids):
            raise DataError("Two rows share an id; ids must differ, because random draws depend on them.")
        with write_through(self.path) as draft:
            join_files(self._places, draft, data=self._digest.hexdigest()[:16])
        shutil.rmtree(self.folder, ignore_errors=True)
        return Streamed(self.path, self.rows, len(self._places), self.kept)


class _Alone:
    """This process explains."""

    def __init__(self, desk: _Desk) -> None:
        self.desk, self.kept = desk, 0

    def give(self, number: int, rows: Sequence[Row], place: Path) -> None:  # noqa: ARG002 - others need the number
        self.kept += self.desk.done(rows, place)

    def close(self) -> None:
        """Nothing is open."""


class _Crew:
    """Processes explain, at most two shards in hand for each. A shard that fails stops the run; others are kept."""

    def __init__(self, workers: int, start: Callable[..., None], given: tuple[Any, ...]) -> None:
        self.most, self.kept = _WAITING * workers, 0
        self._pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=start, initargs=given)
        self._waiting: deque[Future[bool]] = deque()

    def give(self, number: int, rows: Sequence[Row], place: Path) -> None:  # noqa: ARG002
        while len(self._waiting) >= self.most:
            self.kept += self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(_work_on, rows, place))

    def close(self) -> None:
        try:
            while self._waiting:
                self.kept += self._waiting.popleft().result()
        finally:
            self._pool.shutdown(cancel_futures=True)


_DESKS: list[_Desk] = []  # of a worker process: the one desk it has


def _start(
    threads: int, teacher: str, loading: Mapping[str, Any], order: _Order, background: Sequence[Row] | None
) -> None:
    torch.set_num_threads(threads)
    _DESKS.append(_Desk(load_teacher(teacher, **loading), order, background))


def _work_on(rows: Sequence[Row], place: Path) -> bool:
    return _DESKS[0].done(rows, place)


def _crew(
    workers: int,
    threads: int,
    teacher: str,
    loading: Mapping[str, Any],
    order: _Order,
    background: Sequence[Row] | None,
    desk: _Desk,
) -> _Alone | _Crew:
    if not workers:
        return _Alone(desk)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))
    return _Crew(workers, _start, (threads, teacher, loading, order, background))


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


def _is_whole(place: Path) -> bool:
    if not place.is_file():
        return False
    try:
        Explanations.load(place)
    except (RecordError, OptionError):
        return False
    return True
