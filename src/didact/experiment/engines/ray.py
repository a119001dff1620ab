"""Cells and explanations on a Ray cluster: one started here for the run, or one that is there already.

All that cells and shards of explanations read travels through Ray's object store, file by file and once per machine,
and this process writes what comes back: no folder has to be shared. Ray places the tasks and starts processes; a task
whose process or machine dies is done again.
"""

import contextlib
import logging
import os
import secrets
import signal
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from didact.errors import DidactError, MissingExtraError, OptionError, RecordError, UnsupportedError
from didact.experiment.engines import Told
from didact.experiment.engines.far import Errand, do_cell, do_shard, forget
from didact.models.student_init import StudentInit
from didact.records.atomic import with_folder, write_bytes
from didact.records.sealed import read_json
from didact.records.store import Store

if TYPE_CHECKING:
    from didact.core.row import Row
    from didact.experiment.explain import Work
    from didact.experiment.parcel import Packer, Parcel
    from didact.records.explanations import Explanations

_ATTEMPTS: Final = 3  # a task whose process dies this often is given up
_LOSSES: Final = 6  # a task whose machine dies this often is given up, too
_AHEAD: Final = 2  # tasks in flight per task that the cluster can do at once: the next one waits where it will be done
_FEWEST: Final = 2  # shards, and places for them, that are worth a journey: fewer are explained here as fast
_LOOK: Final = 2.0  # seconds between two looks at the size of the cluster
_SLICE: Final = 0.5  # seconds that Ctrl-C may have to wait for a task to come back
_PATIENCE: Final = 60.0  # seconds that a cluster without a machine for a task may take to find one
_REACH: Final = 5.0  # seconds that an address may take to answer
_SETTINGS: Final = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # the first thing that both sides of HTTP/2, and so gRPC, say
_BENCH: Final = "didact.experiment.parcel"

J = TypeVar("J", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True)
class _Need:
    """What a task takes. One that has more threads than CPUs takes longer, and gives the same."""

    what: str
    threads: int
    cpus: int
    gpus: float


class _DiedError(Exception):
    """A task whose process or machine died too often: in our words, and in Ray's, with hosts and numbers."""

    def __str__(self) -> str:
        return str(self.args[0])


class Ray:
    """Does cells, and explains, on the cluster at `address` (`auto`, HOST:PORT); without one, on one of its own.

    A cell takes `threads` CPUs and `gpus` GPUs. `workers` limits the tasks in flight. As a context it stays connected
    over several calls of `run` and `shards`, and finds out at once whether the address answers.
    """

    def __init__(
        self,
        workers: int | None = None,
        threads: int = 1,
        *,
        address: str | None = None,
        gpus: float = 0.0,
        module: str = "didact.experiment.worker",
        patience: float = _PATIENCE,
    ) -> None:
        if workers == 0:
            raise OptionError(
                "workers=0 does the cells in this process, and Ray does them in others. Leave it out, give the number "
                "of cells in flight, or use the engine local."
            )
        self.ray = _imported()
        self.workers, self.threads, self.address, self.gpus = workers, threads, address, gpus
        self.module, self.patience = module, patience
        self._cell = _Need("cell", threads, threads, gpus)
        self._packer: Packer | None = None
        self._open: contextlib.ExitStack | None = None
        self._is_connected = False
        self._name = ""
        self._objects: dict[Path, Any] = {}  # by file what holds its content in the object store

    def __enter__(self) -> "Ray":
        self._open = contextlib.ExitStack()
        try:
            if self.address is not None:
                self._connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.close()
        self._open, self._is_connected, self._packer = None, False, None
        self._objects.clear()

    def at_once(self) -> int:
        self._connect()
        slots = self._slots()
        return slots if self.workers is None else min(self.workers, slots)

    def run(self, manifest: Path, keys: Sequence[str]) -> Iterator[Told]:
        with self if self._open is None else contextlib.nullcontext():
            self._connect()
            yield from self._told(manifest, keys)

    def shards(
        self, work: "Work", background: "Sequence[Row]", starts: Sequence[int]
    ) -> "Generator[tuple[int, Explanations], None, None] | None":
        """Shards of explanations, in any order; None where this process is as fast, or they cannot travel."""
        found = self._packed(work, background) if len(starts) >= _FEWEST else None
        return None if found is None else self._explained(work, *found, starts)

    def shards_at_once(self, work: "Work", background: "Sequence[Row]") -> int:
        """How many shards the cluster would explain at a time; 1 where this process would."""
        found = self._packed(work, background)
        if found is None:
            return 1
        slots = self._slots(found[1])
        return slots if self.workers is None else min(self.workers, slots)

    def _packed(self, work: "Work", background: "Sequence[Row]") -> "tuple[Parcel, _Need] | None":
        """What travels, and what a shard of it takes; None where this process explains."""
        from didact.experiment.parcel import Packer, is_heavy

        if self._open is None or not is_heavy(work.built):
            return None
        need = self._shard(work)
        if need is None:
            return None
        if self._packer is None:
            self._packer = Packer()
            self._open.callback(self._packer.close)
        parcel = self._packer.packed(work, background)
        return None if parcel is None else (parcel, need)

    # -- the cluster --------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._is_connected:
            return
        assert self._open is not None
        is_own = self._is_own()
        self._name = secrets.token_hex(8)
        self._open.callback(forget, self._name)
        self._open.enter_context(_connected(self.ray, self.address, self._own_cpus()))
        self._is_connected = True
        if not self._slots():
            wanted = f"{self.threads} CPUs" if self.threads > 1 else "1 CPU"
            wanted += f" and {self.gpus:g} GPU" if self.gpus else ""
            raise UnsupportedError(
                f"A cell takes {wanted}, and no node of the Ray cluster has as much; it has {self._has()}. Ask for "
                "less (threads, gpus, device), or add a node."
            )
        if not is_own:
            self._open.callback(self._tidy, self._name)

    def _is_own(self) -> bool:
        """Whether the cluster, which is not there yet, will be started for this run."""
        return self.address is None and not self.ray.is_initialized()

    def _own_cpus(self) -> int:
        return self.threads * (self.workers or max(1, (os.cpu_count() or 1) // self.threads))

    def _slots(self, need: _Need | None = None) -> int:
        """How many such tasks the cluster can do at once; cells, unless others are meant."""
        need, found = need or self._cell, 0
        for node in self._nodes():
            fit = node["Resources"].get("CPU", 0) // need.cpus
            found += int(min(fit, node["Resources"].get("GPU", 0) // need.gpus) if need.gpus else fit)
        return found

    def _nodes(self) -> list[dict[str, Any]]:
        with _undisturbed():
            return [node for node in self.ray.nodes() if node["Alive"]]

    def _has(self) -> str:
        def said(node: Mapping[str, Any]) -> str:
            have = node["Resources"]
            return f"{have.get('CPU', 0):g} CPU, {have.get('GPU', 0):g} GPU"

        counts = Counter(said(node) for node in self._nodes())
        return "; ".join(f"{count} × ({what})" for what, count in sorted(counts.items())) or "no node"

    def _tidy(self, name: str) -> None:
        """Remove what the run left on the machines. What cannot be reached now is removed by a later run there."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        away = self.ray.remote(num_cpus=0, max_retries=0)(forget)
        with _undisturbed(), contextlib.suppress(Exception):
            places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in self._nodes()]
            asked = [away.options(scheduling_strategy=place).remote(name) for place in places]
            self.ray.wait(asked, num_returns=len(asked), timeout=_REACH)

    # -- tasks --------------------------------------------------------------------------------------------------------

    def _flown(
        self,
        jobs: Sequence[J],
        need: _Need,
        fly: Callable[[J], Any],
        land: Callable[[Any, J, Counter[Any], Counter[Any]], T | None],
        known: Callable[[J], T | None] = lambda _: None,
    ) -> Generator[T, None, None]:
        """Each job sent out once there is room for it, and again if nothing lands; what `known` tells is not sent."""
        waiting, flying = deque(jobs), dict[Any, J]()
        died, lost = Counter[Any](), Counter[Any]()
        crowd = _Crowd(self, need)
        try:
            while waiting or flying:
                limit = crowd.limit()
                while waiting and len(flying) < limit:
                    job = waiting.popleft()
                    found = known(job)
                    if found is None:
                        with _undisturbed():
                            flying[fly(job)] = job
                    else:
                        yield found
                if not flying:
                    time.sleep(_SLICE)
                    continue
                found = None
                with _undisturbed():
                    landed, _ = self.ray.wait(list(flying), num_returns=1, timeout=_SLICE)
                    for one in landed:  # one at most
                        job = flying.pop(one)
                        found = land(one, job, died, lost)
                        del one
                        if found is None:
                            waiting.appendleft(job)
                if found is not None:
                    yield found
        finally:
            with _undisturbed():
                for one in flying:
                    with contextlib.suppress(Exception):
                        self.ray.cancel(one, force=True)

    def _task(self, work: Callable[..., Any], need: _Need) -> Any:
        """A function as Ray knows it. Torch reads its number of threads when it is first imported."""
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        limits = {**dict.fromkeys(names, str(need.threads)), "TOKENIZERS_PARALLELISM": "false"}
        # Whether a task is tried again is decided here: Ray does not tell a bad cell from a bad machine.
        options = {"num_cpus": need.cpus, "max_retries": 0, "runtime_env": {"env_vars": limits}}
        return self.ray.remote(**options, **({"num_gpus": need.gpus} if need.gpus else {}))(work)

    def _sent(self, folder: Path, names: Sequence[str]) -> dict[str, Any]:
        """By name where the content of the files is. In a dictionary, so that Ray leaves it there until it is asked."""
        for name in names:
            if folder / name not in self._objects:
                self._objects[folder / name] = self.ray.put((folder / name).read_bytes())
        return {name: self._objects[folder / name] for name in names}

    def _fetched(
        self, one: Any, job: Hashable, died: Counter[Any], lost: Counter[Any], what: str
    ) -> dict[str, Any] | None:
        """What a task gave; None if it is to be done again."""
        errors = self.ray.exceptions
        try:
            said: dict[str, Any] = self.ray.get(one)
        except errors.RuntimeEnvSetupError as error:
            raise UnsupportedError(f"A node of the Ray cluster could not start a worker: {error}") from None
        except errors.RayError as error:
            # A task that could not fetch its files raised what Ray said of that.
            cause = error.cause if isinstance(error, errors.RayTaskError) else error
            if not isinstance(cause, errors.RayError):
                raise
            counts, most = (lost, _LOSSES) if _is_loss(errors, cause) else (died, _ATTEMPTS)
            counts[job] += 1
            if counts[job] < most:
                return None
            raise _DiedError(f"The worker process ended {most} times while it did {what}.", str(cause)) from None
        return said

    # -- cells --------------------------------------------------------------------------------------------------------

    def _told(self, manifest: Path, keys: Sequence[str]) -> Generator[Told, None, None]:
        from didact.experiment.cell import finished

        files, store = _Files(manifest), Store(manifest.parent.parent / "cells")
        if self.address is not None:
            files.check_bases()
        task = self._task(_work, self._cell)
        errand = Errand(self._name, manifest.name, self.module)

        def fly(key: str) -> Any:
            return task.remote(errand, key, self._sent(files.folder, files.of(key)))

        def land(one: Any, key: str, died: Counter[Any], lost: Counter[Any]) -> Told | None:
            return self._landed(one, key, manifest, died, lost, known)

        def known(key: str) -> Told | None:
            """What another run did while this key waited."""
            record = finished(store, key)
            return None if record is None else Told(key, "done", value=record.payload["value"])

        yield from self._flown(keys, self._cell, fly, land, known)

    def _landed(
        self, one: Any, key: str, manifest: Path, died: Counter[Any], lost: Counter[Any],
        known: Callable[[str], Told | None],
    ) -> Told | None:  # fmt: skip
        """What to tell of a cell that is back, its record written; None if it is to be done again."""
        try:
            said = self._fetched(one, key, died, lost, "this cell")
        except self.ray.exceptions.RayTaskError as error:
            raise _asked_wrongly(error) from None
        except _DiedError as error:
            return Told(key, "died", str(error), trace=error.args[1])
        if said is None:
            return None
        if said["status"] == "failed" and (found := known(key)) is not None:
            return found
        try:
            for name in sorted(said["kept"], key=lambda name: name.endswith(".json")):  # answers, then their record
                write_bytes(with_folder(manifest.parent.parent / "cells" / name), said["kept"][name])
        except RecordError as error:
            return Told(key, "unwritable", str(error))
        return Told(key, said["status"], said.get("error", ""), said.get("value"))

    # -- explanations -------------------------------------------------------------------------------------------------

    def _shard(self, work: "Work") -> _Need | None:
        """What a shard takes: the threads that this process has, since others give other digits.

        None where the cluster cannot explain two at once: this process is as fast.
        """
        import torch

        from didact.core.encode import device_of

        threads = torch.get_num_threads()
        if not self._is_connected and self._is_own() and self._own_cpus() < _FEWEST * threads:
            return None  # and no cluster is started to find that out
        self._connect()
        largest = max(int(node["Resources"].get("CPU", 0)) for node in self._nodes())
        gpus = (self.gpus or 1.0) if device_of(work.teacher).type == "cuda" else 0.0
        need = _Need("shard of explanations", threads, max(1, min(threads, largest)), gpus)
        return need if min(self._slots(need), self.workers or _FEWEST) >= _FEWEST else None

    def _explained(
        self, work: "Work", parcel: "Parcel", need: _Need, starts: Sequence[int]
    ) -> "Generator[tuple[int, Explanations], None, None]":
        from didact.experiment.parcel import unpacked

        assert self._packer is not None
        task, folder = self._task(_explain, need), self._packer.folder
        errand = Errand(self._name, parcel.order, _BENCH)

        def fly(start: int) -> Any:
            stop = min(start + work.shard, len(work.rows))
            return task.remote(errand, start, stop, self._sent(folder, parcel.files))

        def land(one: Any, start: int, died: Counter[Any], lost: Counter[Any]) -> "tuple[int, Explanations] | None":
            try:
                said = self._fetched(one, start, died, lost, "that")
            except self.ray.exceptions.RayTaskError as error:
                if _is_methods(error.cause):
                    raise error.cause from error
                raise _asked_wrongly(error) from None
            except _DiedError as error:
                raise DidactError(
                    f"{work.built.name!r} could not explain the rows from {work.rows[start].id!r} on. {error} Ray "
                    f"says: {error.args[1]} What was finished is kept: mend this, or leave the method out, and give "
                    "the same command again."
                ) from None
            return None if said is None else (start, unpacked(work, said))

        yield from self._flown(starts, need, fly, land)


class _Crowd:
    """How many tasks may be in flight, as machines come and go."""

    def __init__(self, engine: Ray, need: _Need) -> None:
        self.engine, self.need = engine, need
        self._slots = 0
        self._looked = -_LOOK
        self._had = time.monotonic()

    def limit(self) -> int:
        now = time.monotonic()
        if now - self._looked > _LOOK:
            self._slots, self._looked = self.engine._slots(self.need), now
            self._had = now if self._slots else self._had
        if now - self._had > self.engine.patience:
            raise UnsupportedError(
                f"No node of the Ray cluster can do a {self.need.what} any more; it has {self.engine._has()}. What was "
                "finished is kept: mend the cluster, and give the same command again to go on."
            )
        useful = _AHEAD * self._slots
        return useful if self.engine.workers is None else min(self.engine.workers, useful)


def _work(errand: Errand, key: str, files: Mapping[str, Any]) -> dict[str, Any]:
    import ray

    return do_cell(errand, key, files, ray.get)


def _explain(errand: Errand, start: int, stop: int, files: Mapping[str, Any]) -> dict[str, Any]:
    import ray

    return do_shard(errand, start, stop, files, ray.get)


class _Files:
    """Which files of the run's folder each cell reads."""

    def __init__(self, manifest: Path) -> None:
        self.folder = manifest.parent.parent
        content = read_json(manifest, advice="Run the same command again.")
        self._common = [f"classroom/{name}" for name in (manifest.name, content.get("rows")) if name]
        self._cells = {cell["key"]: cell for cell in content["cells"]}
        self._found: dict[str, list[str]] = {}  # by name of a start, of explanations or of parts

    def check_bases(self) -> None:
        """An error if a student starts from weights in a folder that other machines cannot find by its name."""
        for start in sorted({cell["start"] for cell in self._cells.values() if cell.get("start")}):
            kept = StudentInit.load(self.folder / "classroom" / "starts" / start)
            facts = kept.facts
            for base in (facts.get("base"), facts.get("options", {}).get("embeddings")):
                if base is not None and Path(base).is_dir() and not Path(base).is_absolute():
                    raise OptionError(
                        f"Student {kept.spec!r} starts from the folder {base!r}, which the machines of a cluster "
                        "look for by its name. Train the teacher from, or name the student with, its full path, at "
                        "which every machine has it; or take a base by its name on the hub, or the engine local."
                    )

    def of(self, key: str) -> list[str]:
        cell = self._cells[key]
        names = [f"classroom/starts/{cell['start']}"] if cell.get("start") else []
        names += [f"explanations/{cell[name]}" for name in ("maps", "parts") if cell.get(name)]
        return self._common + [file for name in names for file in self._below(name)]

    def _below(self, name: str) -> list[str]:
        """The file of this name, or the files in the folder, or those of parts, which are two beside each other."""
        if name not in self._found:
            path = self.folder / name
            beside = [path.with_suffix(ending) for ending in (".parquet", ".safetensors")]
            files = {file for file in (path, *beside, *path.rglob("*")) if file.is_file()}
            self._found[name] = [str(file.relative_to(self.folder).as_posix()) for file in sorted(files)]
        return self._found[name]


def _is_loss(errors: Any, error: Exception) -> bool:
    """Whether the machine died and not the process alone."""
    return isinstance(error, errors.NodeDiedError | errors.ObjectLostError | errors.LocalRayletDiedError)


def _is_methods(cause: Exception) -> bool:
    """Whether it is a method that raised this: what didact or a missing package raises there is the machine's fault."""
    return not isinstance(cause, DidactError | ImportError) and "failed to import on the worker" not in str(cause)


def _asked_wrongly(error: Any) -> Exception:
    """A cell that raises is a record; what gets here is that no cell can be done there."""
    cause = error.cause
    if isinstance(cause, UnsupportedError | RecordError):
        return type(cause)(str(cause))
    return UnsupportedError(
        f"A node of the Ray cluster cannot do its work: {type(cause).__name__}: {cause}. Python, didact and its "
        "packages must be installed there as they are here."
    )


def _imported() -> Any:
    """The package, or an error that says how to get it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # the first error is raised; others in flight say no more
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of what it will do one day
    try:
        with _undisturbed():
            import ray
            import ray.exceptions
    except ImportError:
        raise MissingExtraError('The engine ray needs its package: pip install "didact[ray]"') from None
    return ray


@contextlib.contextmanager
def _connected(ray: Any, address: str | None, cpus: int) -> Iterator[None]:
    """A connection that is closed at the end. One that this process has already is used, and left."""
    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", here):
            raise OptionError(f"This process is connected to Ray at {here}, not at {address}. Call ray.shutdown first.")
        yield
        return
    if address is not None:
        _reach(address)
    with _as_it_was(ray):
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            try:
                with _undisturbed():
                    if address is None:
                        plain = {"worker_niceness": 0}  # as processes of `local`; Ray's own are polite to all others
                        ray.init(address="local", num_cpus=cpus, include_dashboard=False, _system_config=plain, **quiet)
                    else:
                        ray.init(address=address, **quiet)
            except (OSError, RuntimeError, ValueError) as error:
                if address is None:
                    raise UnsupportedError(f"Ray could not start a cluster on this machine: {error}") from error
                raise _unreached(address, error) from error
            yield
        finally:
            with _undisturbed():
                ray.shutdown()


def _reach(address: str) -> None:
    """An error if no server of Ray's kind answers at HOST:PORT; Ray itself waits for minutes."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not host or "/" in host or not port.isdigit() or int(port) > 65535:
        raise OptionError(f"The address of a Ray cluster is auto or HOST:PORT, not {address!r}.")
    try:
        with socket.create_connection((host, int(port)), timeout=_REACH) as line:
            if os.environ.get("RAY_USE_TLS") == "1":
                return
            line.settimeout(_REACH)
            line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS)
            answer = line.recv(9)
    except OSError as error:
        raise _unreached(address, error) from error
    if len(answer) < 4 or answer[3] != _SETTINGS[3]:
        raise _unreached(address, "what answers there is no Ray head")


def _unreached(address: str, why: object) -> UnsupportedError:
    return UnsupportedError(
        f"No Ray cluster could be reached at {address!r}: {str(why).rstrip('.')}. Start one with `ray start --head`, "
        "run this on a machine of it, and give --address auto or what `ray start` said; without an address a cluster "
        "is started here."
    )


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C is kept until a call into Ray is over; a second one acts at once.

    Ray is not made to be interrupted anywhere: what is raised there may be lost in a destructor, or leave it half-way.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT)
    if not is_main or not callable(handler):  # other threads are not interrupted; who ignores Ctrl-C goes on to
        yield
        return
    came: list[tuple[int, Any]] = []

    def keep(number: int, frame: Any) -> None:
        came.append((number, frame))
        if len(came) > 1:
            handler(number, frame)

    signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])


@contextlib.contextmanager
def _as_it_was(ray: Any) -> Iterator[None]:
    """Undo what Ray changes in this process: how SIGTERM is handled. Keep it from printing to standard output."""
    worker: Any = getattr(ray._private, "worker", None)
    printed = getattr(worker, "print_to_stdstream", None)  # Ray has no switch for news about nodes and workers
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    if printed is not None:
        worker.print_to_stdstream = _logged
    try:
        yield
    finally:
        if printed is not None:
            worker.print_to_stdstream = printed
        if is_main and handler is not None:
            signal.signal(signal.SIGTERM, handler)


def _logged(data: Mapping[str, Any], **_: object) -> None:
    logging.getLogger("didact").debug("ray: %s", " ".join(map(str, data.get("lines", ()))))
