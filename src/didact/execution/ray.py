"""An executor on a Ray cluster: an existing one, or one started for the run.

A task unpacks the files of its job on its node, runs it in a worker process there, and returns the written files, so no
shared folder is needed. Ray schedules the tasks and repeats a task whose node is lost.
"""

import contextlib
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from didact import __version__
from didact.errors import MissingExtraError, OptionError, RecordError, UnsupportedError
from didact.execution.base import Job, JobResult, JobStatus, Manifest
from didact.execution.process_pool import WORKER, WorkerProcess
from didact.files.atomic import ensure_parent, write_bytes

_RETRIES: Final = 5  # how often Ray repeats a task whose node or process is lost
_AHEAD: Final = 2  # tasks in flight per slot: the next one is already on its node
_POLL: Final = 1.0  # seconds between two checks of the cluster
_TIMEOUT: Final = 5.0  # seconds to wait for an address, or for nodes that clean up
_NODE_TIMEOUT: Final = 60.0  # seconds to wait while no node of the cluster can run a task


class RayExecutor:
    """Runs jobs on the cluster at `address` (`auto` or HOST:PORT), or on a new local cluster if there is no address.

    A student takes `threads` CPUs and `gpus` GPUs. `workers` limits the jobs in flight. As a context manager, it stays
    connected over several calls of `run` and checks the address on entry.

    Raises:
        MissingExtraError: ray is not installed.
        UnsupportedError: the cluster cannot be reached, or no node has the resources of a job.
    """

    shares_explaining = True

    def __init__(
        self,
        workers: int | None = None,
        threads: int = 1,
        *,
        address: str | None = None,
        gpus: float = 0.0,
        module: str = WORKER,
        node_timeout: float = _NODE_TIMEOUT,
    ) -> None:
        if workers == 0:
            raise OptionError(
                "workers=0 trains students in this process, but Ray uses other processes. Leave it out, give the "
                "number of students to train at a time, or choose engine local."
            )
        self.ray = _import_ray()
        self.workers, self.threads, self.address, self.gpus = workers, threads, address, gpus
        self.module, self.node_timeout = module, node_timeout
        self.run_name = ""
        self._stack: contextlib.ExitStack | None = None
        self._references: dict[Path, Any] = {}  # file -> reference to its content in the object store

    @property
    def runs_elsewhere(self) -> bool:
        return self.address is not None

    def __enter__(self) -> "RayExecutor":
        self._stack = contextlib.ExitStack()
        try:
            if self.address is not None:
                self._connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._references.clear()
        stack, self._stack, self.run_name = self._stack, None, ""
        if stack is not None:
            stack.close()

    def max_concurrency(self) -> int:
        self._connect()
        slots = self._slots(self.threads, self.gpus)
        return slots if self.workers is None else min(self.workers, slots)

    def run(self, manifest: Manifest, jobs: Iterable[Job]) -> Generator[JobResult, None, None]:
        with self if self._stack is None else contextlib.nullcontext():
            self._connect()
            yield from self._run(manifest, jobs)

    # -- the cluster --------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self.run_name:
            return
        assert self._stack is not None
        if self.ray.is_initialized():  # by the caller: keep that connection
            connected_to = self.ray.get_runtime_context().gcs_address
            if self.address not in (None, "auto", connected_to):
                raise OptionError(
                    f"This process is connected to Ray at {connected_to}, not at {self.address}. Call ray.shutdown "
                    "first."
                )
        else:
            self._stack.enter_context(contextlib.redirect_stdout(sys.stderr))  # Ray prints node events to stdout
            self._stack.callback(self.ray.shutdown)
            self._init()
        self.run_name = secrets.token_hex(8)
        self._stack.callback(self._remove_run_folders, self.run_name)
        if not self._slots(self.threads, self.gpus):
            cpus = f"{self.threads} CPUs" if self.threads > 1 else "1 CPU"
            raise UnsupportedError(
                f"A student needs {cpus}{f' and {self.gpus:g} GPU' if self.gpus else ''}, and no node of the Ray "
                f"cluster has that much; it has {self._resources()}. Reduce threads or gpus, change device, or add a "
                "node."
            )

    def _init(self) -> None:
        options: dict[str, object] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self.address is None:
            cpus = self.threads * (self.workers or max(1, (os.cpu_count() or 1) // self.threads))
            options |= {"address": "local", "num_cpus": cpus, "include_dashboard": False}
        else:
            _check_address(self.address)
            options |= {"address": self.address}
        try:
            self.ray.init(**options)
        except (OSError, RuntimeError, ValueError) as error:
            if self.address is None:
                raise UnsupportedError(f"Ray could not start a cluster on this machine: {error}") from error
            raise _unreachable(self.address, error) from error

    def _nodes(self) -> list[dict[str, Any]]:
        """The nodes that are alive, with their resources."""
        return [node for node in self.ray.nodes() if node["Alive"]]

    def _slots(self, cpus: int, gpus: float) -> int:
        """The number of tasks with these resources that can run at a time."""
        slots = 0
        for node in self._nodes():
            fits = node["Resources"].get("CPU", 0) // cpus
            slots += int(min(fits, node["Resources"].get("GPU", 0) // gpus) if gpus else fits)
        return slots

    def _resources(self) -> str:
        sizes = [(node["Resources"].get("CPU", 0), node["Resources"].get("GPU", 0)) for node in self._nodes()]
        counts = Counter(f"{cpus:g} CPU, {gpus:g} GPU" for cpus, gpus in sizes)
        return "; ".join(f"{count} × ({size})" for size, count in sorted(counts.items())) or "no node"

    def _remove_run_folders(self, run: str) -> None:
        """Remove the files that the run unpacked on the nodes."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        task = self.ray.remote(num_cpus=0, max_retries=0)(_remove_folder)
        with contextlib.suppress(self.ray.exceptions.RayError):  # a lost node keeps its temporary folder
            nodes = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in self._nodes()]
            removed = [task.options(scheduling_strategy=node).remote(run) for node in nodes]
            self.ray.wait(removed, num_returns=len(removed), timeout=_TIMEOUT)
        _remove_folder(run)

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _run(self, manifest: Manifest, jobs: Iterable[Job]) -> Generator[JobResult, None, None]:
        """Submit jobs as slots become free, and yield their results."""
        largest = max((int(node["Resources"].get("CPU", 0)) for node in self._nodes()), default=1)
        cpus = max(1, min(manifest.threads, largest))  # more threads than CPUs are slower, with the same result
        gpus = (self.gpus or 1.0) if manifest.on_gpu else 0.0
        task = self.ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=_RETRIES)(_run_job)
        task_info = _TaskInfo(
            self.run_name, manifest.path.relative_to(manifest.root).as_posix(), manifest.threads, self.module
        )
        pending = iter(jobs)
        running: dict[Any, Job] = {}
        last_slot = time.monotonic()
        try:
            while True:
                slots = self._slots(cpus, gpus)
                last_slot = time.monotonic() if slots else last_slot
                if time.monotonic() - last_slot > self.node_timeout:
                    raise UnsupportedError(
                        f"No node of the Ray cluster can train a student any more; it has {self._resources()}. "
                        "Finished work is stored. Fix the cluster and run the same command again to resume."
                    )
                limit = max(1, min(self.workers or _AHEAD * slots, _AHEAD * slots))
                while len(running) < limit and (job := next(pending, None)) is not None:
                    running[task.remote(task_info, job, self._file_references(manifest.root, job))] = job
                if not running:
                    return
                for reference in self.ray.wait(list(running), num_returns=1, timeout=_POLL)[0]:
                    yield self._result(reference, running.pop(reference))
        finally:
            for reference in running:
                self.ray.cancel(reference, force=True)

    def _file_references(self, root: Path, job: Job) -> dict[str, object]:
        """References to the input files, by name. Inside a dict, Ray does not fetch them before the task needs them."""
        for name in job.inputs:
            if root / name not in self._references:
                self._references[root / name] = self.ray.put((root / name).read_bytes())
        return {name: self._references[root / name] for name in job.inputs}

    def _result(self, reference: Any, job: Job) -> JobResult:
        errors = self.ray.exceptions
        try:
            result: JobResult = self.ray.get(reference)
        except errors.RayTaskError as error:  # jobs return their errors, so the node itself is at fault
            cause = error.cause
            if isinstance(cause, UnsupportedError | RecordError):
                raise type(cause)(str(cause)) from None
            raise UnsupportedError(
                f"A node of the Ray cluster cannot run jobs: {type(cause).__name__}: {cause}. Install the same "
                "versions of Python, didact and its dependencies there as here."
            ) from None
        except errors.RayError as error:
            message = f"Ray lost the process or the node of this job {_RETRIES + 1} times."
            return JobResult(job.key, JobStatus.DIED, error=message, traceback=str(error))
        return result


# -- on a node --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TaskInfo:
    """What the tasks of a manifest have in common."""

    run: str
    manifest: str
    threads: int
    module: str
    version: str = __version__


_worker: tuple[_TaskInfo, WorkerProcess] | None = None  # the latest worker of this Ray process


def _run_job(task: _TaskInfo, job: Job, files: Mapping[str, object]) -> JobResult:
    """Unpack the files of a job and run it in a worker process of this node."""
    import ray

    global _worker
    if task.version != __version__:
        raise UnsupportedError(
            f"This run uses didact {task.version}, but a node of the cluster has didact {__version__}. Install the "
            "same version on all nodes."
        )
    root = node_folder(task.run)
    root.mkdir(mode=0o700, exist_ok=True)
    for name, reference in files.items():
        if not (root / name).is_file():
            write_bytes(ensure_parent(root / name), ray.get(reference))
    if _worker is None or _worker[0] != task:
        if _worker is not None:
            _worker[1].stop()
        _worker = task, WorkerProcess(task.module, root / task.manifest, task.threads)
    result = _worker[1].run(job.key)
    if result.status not in (JobStatus.DONE, JobStatus.FAILED):
        return result
    written = {name: root / name for name in job.outputs}
    return replace(result, files={name: path.read_bytes() for name, path in written.items() if path.is_file()})


def node_folder(run: str) -> Path:
    """The folder of a node for the files of a run."""
    return Path(tempfile.gettempdir()) / f"didact-run-{run}"


def _remove_folder(run: str) -> None:
    shutil.rmtree(node_folder(run), ignore_errors=True)


# -- connecting -------------------------------------------------------------------------------------------------------


def _import_ray() -> Any:
    """Import ray. Raises MissingExtraError with the command that installs it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # raise the first error, ignore those of other tasks
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silence a deprecation warning
    os.environ.setdefault("RAY_gcs_server_request_timeout_seconds", "10")  # default: minutes
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise MissingExtraError('The engine ray needs its package: pip install "didact[ray]"') from None
    return ray


def _check_address(address: str) -> None:
    """Raise OptionError for a malformed address, UnsupportedError if nothing answers there."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not host or "/" in host or not port.isdigit() or int(port) > 65535:
        raise OptionError(f"The address of a Ray cluster must be auto or HOST:PORT, got {address!r}.")
    try:
        socket.create_connection((host, int(port)), timeout=_TIMEOUT).close()
    except OSError as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str, reason: object) -> UnsupportedError:
    return UnsupportedError(
        f"No Ray cluster could be reached at {address!r}: {str(reason).rstrip('.')}. Start one with `ray start "
        "--head`, run this command on one of its machines, and give --address auto or the address that `ray start` "
        "printed. Without an address, a local cluster is started."
    )
