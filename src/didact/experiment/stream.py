"""Explanations of data that do not fit in memory: shard by shard into one file, going on where it was stopped."""

import contextlib
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from filelock import FileLock, Timeout

from didact.core.function import FunctionTeacher
from didact.core.row import Fingerprint, Row, fingerprint_of
from didact.core.teacher import Teacher
from didact.data.stream import check_source, stream_rows
from didact.errors import DataError, DidactError, OptionError, RecordError, error_of
from didact.experiment.engines.crew import Crew, Said
from didact.experiment.explain import check_learned, look_again
from didact.experiment.judge import warn_of_scores
from didact.experiment.rows import rows_of
from didact.experiment.shards import Bench, Order, write_manifest
from didact.experiment.whole_rows import write_whole_rows
from didact.explainers.default import default_method
from didact.limits import most_threads, shown
from didact.models.load import load_teacher
from didact.records.atomic import check_new_file, with_folder, write_through
from didact.records.explanations import Explanations
from didact.records.parquet import cautions_in, is_explanations, join_files, residuals_in
from didact.records.store import key_of
from didact.render.progress import Progress

_WAITING: Final = 2  # shards in hand for each worker: more would only fill the disk
_MODULE: Final = "didact.experiment.shards"

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
        order = Order(method, options, preset, batch_size, seed)
        background = None if background_rows is None else rows_of(opened, background_rows)
        bench = Bench(opened, order, background)
        if not overwrite:
            bench.work.check_origin(path, bench.fingerprints)
        check_learned(opened, bench.work.built.explainer)
        source = stream_rows(
            data, size=shard, task=opened.task, columns=columns, classes=opened.classes, called=classes, split=split,
            labels=bench.work.asked.target == "gold", data_dir=data_dir, seed=seed or 0, notes=notes,
        )  # fmt: skip
        known = total or source.total
        expected = rows if known is None else min(known, rows or known)
        shards = _Shards(path, bench, shard, overwrite=overwrite)
        with shards, Progress(f"explaining with {bench.name}", total=expected, shown=progress) as bar:
            if workers:
                manifest = write_manifest(
                    shards.desk, bench, order, teacher=str(teacher), loading=loading or {}, background=background,
                    kept=shards.folder.absolute(),
                )  # fmt: skip
                crew: _Alone | _Crew = _Crew(workers, threads, manifest, shards, bar)
            else:
                crew = _Alone(shards, bar)
            try:
                for number, found in enumerate(_first(source, rows)):
                    crew.give(found, shards.place(number, found))
                crew.finish()
            except KeyboardInterrupt:
                crew.close()  # first: what is told to be kept must not grow afterwards
                raise KeyboardInterrupt(f"Stopped. {shards.so_far()}") from None
            finally:
                crew.close()
            streamed = shards.joined()
    warn_of_scores(bench.name, bench.work.built.explainer, residuals_in(path), cautions_in(path), stacklevel=2)
    return streamed


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
    """The shards beside the file that they will become, for one run at a time. No empty folder is left behind."""

    def __init__(self, path: Path, bench: Bench, shard: int, *, overwrite: bool) -> None:
        self.path, self.bench, self.overwrite = path, bench, overwrite
        self.folder = path.with_name(f"{path.name}.shards")
        self.desk = self.folder / f"desk-{os.getpid()}-{secrets.token_hex(4)}"  # what workers are told
        self.rows = self.kept = 0
        self._lock = FileLock(self.folder / "lock", timeout=0)  # the system lets go of it when its process dies
        self._common = key_of({"shard": shard, **bench.facts})
        self._places: list[str] = []
        self._data = Fingerprint()

    def __enter__(self) -> "_Shards":
        with_folder(Path(self._lock.lock_file))
        try:
            self._lock.acquire()
        except Timeout:
            raise RecordError(
                f"Another run is explaining into {self.path} at this moment. Wait until it has ended, or name another "
                "file."
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.desk, ignore_errors=True)
        with contextlib.suppress(OSError):  # some systems remove no file that is open
            Path(self._lock.lock_file).unlink()  # while it is still ours
        self._lock.release()
        with contextlib.suppress(OSError):  # not empty, or never made
            self.folder.rmdir()

    def place(self, number: int, rows: Sequence[Row]) -> Path:
        """Where the shard of these rows belongs: its name tells all that decides it."""
        self.rows += len(rows)
        self._data.update(rows)
        teacher = self.bench.work.teacher
        own = {"function": teacher.fingerprint(rows)} if isinstance(teacher, FunctionTeacher) else {}
        if own:  # its answers are all that identifies a function
            self._data.add(own["function"])
        self._places.append(f"{number:09d}-{self._common}-{key_of({**own, 'rows': fingerprint_of(rows)})}.parquet")
        return self.folder / self._places[-1]

    def has(self, place: Path) -> bool:
        """Whether a run before has kept this shard."""
        maps = _kept(place) if self.bench.is_known else None
        if maps is None:
            return False
        name = self.bench.work.teacher.name
        if maps.teacher != name:  # the same one by another path: shards of one file are all told alike
            replace(maps, teacher=name).save(place)
        self.kept += 1
        return True

    def so_far(self) -> str:
        """What the same command would take over: looked up, since a worker may have finished before it could tell."""
        if not self.bench.is_known:
            return f"{self.bench.name!r} is an object and not a name, so the same again begins anew."
        count = sum(1 for _ in self.folder.glob(f"*-{self._common}-*.parquet"))
        kept = "1 shard is kept" if count == 1 else f"{count:,} shards are kept"
        found = f"{kept} in {self.folder}" if count else "Nothing was finished yet"
        return f"{found}; do the same again to go on."

    def joined(self) -> Streamed:
        """All shards become one file, at once; then they are not needed any more.

        Only now all data are known. If a file of other data is there, the shards stay.
        """
        if not self._places:
            raise DataError("There is nothing to explain: no rows were given.")
        if not self.overwrite:
            data = {"data": str(self._data)}
            self.bench.work.check_origin(self.path, self.bench.fingerprints | data, advice=f" {self.so_far()}")
        with write_through(self.path) as draft:
            join_files([self.folder / name for name in self._places], draft, data=str(self._data))
        for one in self.folder.iterdir():  # shards of other options, too, and what killed runs left
            if one.is_dir():
                shutil.rmtree(one, ignore_errors=True)
            elif one != Path(self._lock.lock_file):  # that is let go of last
                one.unlink(missing_ok=True)
        return Streamed(self.path, self.rows, len(self._places), self.kept)


class _Alone:
    """This process explains."""

    def __init__(self, shards: _Shards, bar: Progress) -> None:
        self.shards, self.bar = shards, bar

    def give(self, rows: Sequence[Row], place: Path) -> None:
        if self.shards.has(place):
            self.bar.skip(len(rows))
            return
        self.shards.bench.explain(rows, place)
        self.bar.advance(len(rows))

    def finish(self) -> None:
        """Nothing is in hand."""

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class _Shard:
    """Rows that a worker has in hand, by what is told of them."""

    first: str
    last: str
    count: int


class _Crew:
    """Processes explain, at most two shards in hand for each. A shard that fails stops the run; others are kept."""

    def __init__(self, workers: int, threads: int, manifest: Path, shards: _Shards, bar: Progress) -> None:
        self.shards, self.bar, self.folder = shards, bar, manifest.parent
        self._most = _WAITING * workers
        self._crew = Crew(_MODULE, manifest, workers=workers, threads=threads)
        self._waiting: dict[str, _Shard] = {}

    def give(self, rows: Sequence[Row], place: Path) -> None:
        if self.shards.has(place):
            self.bar.skip(len(rows))
            return
        while len(self._waiting) >= self._most:
            self._take()
        write_whole_rows(self.folder / place.name, rows)
        self._waiting[place.name] = _Shard(rows[0].id, rows[-1].id, len(rows))
        self._crew.ask(place.name)

    def finish(self) -> None:
        self._crew.finish()
        while self._waiting:
            self._take()

    def close(self) -> None:
        self._crew.close()

    def _take(self) -> None:
        said = self._crew.next()
        shard = self._waiting.pop(said.key)
        (self.folder / said.key).unlink(missing_ok=True)
        if said.answer is None or said.answer["status"] != "done":
            raise self._error(said, shard)
        self.bar.advance(shard.count)

    def _error(self, said: Said, shard: _Shard) -> DidactError:
        """What a shard failed of, as one process would tell it; else with the rows it failed at."""
        if said.answer is not None and said.answer["status"] == "refused":
            return error_of(said.answer["kind"], said.answer["error"])
        if said.answer is not None:
            log.info("%s", said.answer["trace"])
        why = said.ending if said.answer is None else said.answer["error"]
        hint = "Memory may have run out: fewer workers, a smaller shard or batch_size need less. "
        hint = hint if said.answer is None and "SIGKILL" in said.ending else ""
        return DidactError(
            f"{self.shards.bench.name!r} could not explain the {shard.count:,} rows from {shard.first!r} to "
            f"{shard.last!r}. {why}\n{hint}{self.shards.so_far()}"
        )


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


def _kept(place: Path) -> Explanations | None:
    """What is kept there, if it is whole."""
    if not place.is_file():
        return None
    try:
        return Explanations.load(place)
    except (RecordError, OptionError):
        return None
