"""A run in a folder of this machine, in step with a store elsewhere that others may use at the same time.

What the store has is fetched before it would be made; what is made is put there at once: the answers of a cell first,
then the record that vouches for them, so that a cell is there whole or not at all. Nobody locks anything. Two runs on
one store do their cells in different orders, each takes over what the other has finished, and where both do the same
cell, both write the same.
"""

import hashlib
import logging
import random
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from types import TracebackType
from typing import Final

from didact.errors import RecordError
from didact.experiment.place import Place
from didact.records.atomic import with_folder, write_bytes
from didact.records.remote import RUN, Remote, cache_of
from didact.records.store import Record, opened
from didact.render.progress import Progress

PUT_EVERY: Final = 0.5  # seconds between two looks at what is new here
TAKE_EVERY: Final = 2.0  # and there
_CALM: Final = 10  # a store that takes long to list is asked less often, so that listing takes a tenth of the time
_AT_ONCE: Final = 8  # cells that are put at a time
_LATER: Final = 10.0  # seconds before a store that failed is tried again
_SPEAK: Final = 600.0  # seconds before that is told again
_MANY: Final = 200  # cells that are fetched before the next are looked at

log = logging.getLogger(__name__)
Stamp = tuple[int, str]


class Mirror(Place):
    """A store by its URL, and the folder in which its run works (`cache`, else one in the user's cache)."""

    def __init__(self, url: str, cache: Path | None = None, *, progress: bool = False) -> None:
        self.remote = Remote(url)
        super().__init__(cache_of(self.remote.url) if cache is None else cache, self.remote.url)
        self.progress = progress
        self.taken: set[str] = set()  # cells that were fetched
        self._patterns: list[str] = []
        self._keys: set[str] = set()
        self._whole: set[str] = set()  # cells that the store has
        self._damaged: dict[str, tuple[Stamp | None, ...]] = {}  # cells that it has not, as what was seen of them
        self._stamps: dict[str, tuple[int, int]] = {}  # files that are the same on both sides, as they are here
        self._spoke: float | None = None  # when it was last told that the store is away
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_step, name="didact-store", daemon=True)

    # -- what a run says ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        super().check()
        self.remote.check()

    def use(self, *patterns: str) -> None:
        with self._lock:
            self._patterns += [one for one in patterns if one not in self._patterns]
            try:
                self._fetch(patterns)
            except RecordError as error:
                self._tell(error)

    def share(self, keys: Iterable[str]) -> None:
        with self._lock:
            self._keys |= set(keys)
            try:
                self._take(shown=self.progress)
            except RecordError as error:
                self._tell(error)

    def ordered(self, keys: Sequence[str]) -> Sequence[str]:
        """Another order in every run: two of them meet in the same cell by chance alone."""
        return random.Random().sample(keys, len(keys))

    def __enter__(self) -> "Mirror":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._ended.set()
        if error is not None:
            try:
                with self._lock:
                    self._put()
            except RecordError as failed:
                log.warning("%s It is kept in %s.", failed, self.folder)
            return
        self._thread.join()
        try:
            self._put()
            for name in RUN:
                if (self.folder / name).is_file():
                    self.remote.upload(self.folder / name, name)
        except RecordError as failed:
            raise RecordError(
                f"{failed} The run is complete and kept in {self.folder}: mend this, and give the same command again "
                "to bring it to the store."
            ) from None
        log.info("%d of %d cells were taken over from %s", len(self.taken), len(self._keys), self.name)

    # -- keeping step -------------------------------------------------------------------------------------------------

    def _keep_step(self) -> None:
        """Until the run ends: put what is new here, take what is new there. Work goes on where the store does not."""
        next_put = next_take = 0.0
        while not self._ended.wait(max(0.0, min(next_put, next_take) - time.monotonic())):
            try:
                with self._lock:
                    self._put()
                next_put = time.monotonic() + PUT_EVERY
                if time.monotonic() >= next_take:
                    began = time.monotonic()
                    with self._lock:
                        self._take()
                    next_take = time.monotonic() + max(TAKE_EVERY, _CALM * (time.monotonic() - began))
            except RecordError as error:
                self._tell(error)
                next_put = next_take = time.monotonic() + _LATER

    def _tell(self, error: RecordError) -> None:
        """A store that is away is told from time to time, and stops nothing."""
        if self._spoke is None or time.monotonic() - self._spoke > _SPEAK:
            log.warning("%s Work goes on in %s, and the store is tried again.", error, self.folder)
            self._spoke = time.monotonic()

    def _fetch(self, patterns: Sequence[str]) -> None:
        """Bring what the store has of such files and this folder has not."""
        for folder in dict.fromkeys(one.rpartition("/")[0] for one in patterns):
            there = self._listed(folder, patterns)
            for name in sorted(there, key=_order):
                path = self.folder / name
                if not path.is_file() and not self.remote.download(name, path):
                    continue
                stamp = _stamp(path)
                if stamp is not None and stamp[1] == there[name][0]:
                    self._stamps[name] = stamp

    def _put(self) -> None:
        """Write to the store what is here and not there."""
        for name in sorted(self._own_files(), key=_order):
            stamp = _stamp(self.folder / name)
            if stamp is not None and self._stamps.get(name) != stamp:
                self.remote.upload(self.folder / name, name)
                self._stamps[name] = stamp
        here = {path.stem for path in (self.folder / "cells").glob("*.json")}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._put_cell, sorted((self._keys - self._whole) & here)))

    def _put_cell(self, key: str) -> None:
        path = self.folder / "cells" / f"{key}.json"
        stamp = _stamp(path)
        if stamp is None or self._stamps.get(path.name) == stamp:
            return
        sealed, answers = _read(path), _read(path.with_suffix(".parquet"))
        record = _record(sealed, key)
        if record is None or (record.status == "done" and not _vouches(record, answers)):
            return  # damaged here; the run does it again
        is_known = record.status == "done" and key in self._damaged
        theirs = None if is_known else _record(self.remote.read(f"cells/{key}.json"), key)
        if theirs is None or theirs.status != "done":  # what is done there is never written over
            if record.status == "done":
                assert answers is not None
                self.remote.write(f"cells/{key}.parquet", answers)
            assert sealed is not None
            self.remote.write(f"cells/{key}.json", sealed)
        self._stamps[path.name] = stamp
        self._damaged.pop(key, None)
        if record.status == "done":
            self._whole.add(key)

    def _take(self, *, shown: bool = False) -> None:
        """Fetch the cells that are whole there and not done here."""
        waiting = self._keys - self._whole
        if not waiting:
            return
        there = self.remote.list("cells")
        new = []
        for key in sorted(waiting):
            seen = (there.get(f"cells/{key}.json"), there.get(f"cells/{key}.parquet"))
            if seen[0] is None or self._damaged.get(key) == seen:
                continue
            if self._is_same(key, seen):
                self._whole.add(key)
            else:
                new.append((key, seen))
        with Progress("fetching cells", total=len(new), shown=shown and bool(new)) as bar:
            for start in range(0, len(new), _MANY):
                part = new[start : start + _MANY]
                self._take_cells(dict(part))
                bar.advance(len(part))

    def _take_cells(self, seen: dict[str, tuple[Stamp | None, ...]]) -> None:
        sealed = self.remote.read_all(f"cells/{key}.json" for key in seen)
        records = {key: _record(sealed.get(f"cells/{key}.json"), key) for key in seen}
        done = {key: record for key, record in records.items() if record is not None and record.status == "done"}
        answers = self.remote.read_all(f"cells/{key}.parquet" for key in done)
        for key in seen:
            found = answers.get(f"cells/{key}.parquet")
            if key not in done or not _vouches(done[key], found):
                self._damaged[key] = seen[key]  # or failed: not to be read again before it changes
                continue
            self._damaged.pop(key, None)
            self._whole.add(key)
            path = self.folder / "cells" / f"{key}.json"
            if not self._is_done_here(key):
                assert found is not None
                write_bytes(with_folder(path.with_suffix(".parquet")), found)
                write_bytes(path, sealed[f"cells/{key}.json"])
                self.taken.add(key)

    def _is_same(self, key: str, there: tuple[Stamp | None, ...]) -> bool:
        """Whether both sides have the cell, as far as sizes tell."""
        paths = (self.folder / "cells" / f"{key}.json", self.folder / "cells" / f"{key}.parquet")
        here = [_stamp(path) for path in paths]
        sizes = [None if one is None else one[1] for one in here]
        return sizes == [None if one is None else one[0] for one in there] and self._is_done_here(key)

    def _is_done_here(self, key: str) -> bool:
        path = self.folder / "cells" / f"{key}.json"
        record = _record(_read(path), key)
        return record is not None and record.status == "done" and _vouches(record, _read(path.with_suffix(".parquet")))

    def _listed(self, folder: str, patterns: Sequence[str]) -> dict[str, Stamp]:
        if folder:
            return {name: one for name, one in self.remote.list(folder).items() if _matches(name, patterns)}
        found = {}
        for name in patterns:  # beside folders that may be large
            if "/" not in name and (content := self.remote.read(name)) is not None:
                found[name] = (len(content), "")
        return found

    def _own_files(self) -> list[str]:
        folders = dict.fromkeys(one.partition("/")[0] for one in self._patterns if "/" in one)
        files = [path for folder in folders for path in (self.folder / folder).rglob("*") if path.is_file()]
        names = [path.relative_to(self.folder).as_posix() for path in files]
        return [name for name in names if _matches(name, self._patterns)]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, one) for one in patterns) and not name.endswith(".tmp") and ".missing" not in name


def _order(name: str) -> tuple[bool, str]:
    """What others vouch for comes first."""
    return not name.endswith(".safetensors"), name


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _record(content: bytes | None, key: str) -> Record | None:
    """The record that was sealed so; None if it is missing or damaged."""
    try:
        return None if content is None else opened(content, key, f"{key}.json")
    except RecordError:
        return None


def _vouches(record: Record, answers: bytes | None) -> bool:
    """Whether these are the answers that the record was sealed with."""
    return answers is not None and hashlib.sha256(answers).hexdigest() == record.payload.get("outputs")
