"""An executor with worker processes on this machine.

Workers are started with `python -m` and not forked, so they work in notebooks and beside models on a GPU.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from didact.execution.base import Job, JobResult, JobStatus, Manifest

WORKER: Final = "didact.execution.worker"
_ATTEMPTS: Final = 2  # a job fails after this many processes died on it
_AHEAD: Final = 2  # queued jobs per process; more would only fill the disk of a stream


@dataclass(frozen=True)
class ProcessPool:
    """`workers` processes of `threads` threads each. They run `module`, by default `didact.execution.worker`."""

    workers: int
    threads: int
    module: str = WORKER
    runs_elsewhere: bool = False
    shares_explaining: bool = False

    def max_concurrency(self) -> int:
        return self.workers

    def run(self, manifest: Manifest, jobs: Iterable[Job]) -> Generator[JobResult, None, None]:
        workers = [WorkerProcess(self.module, manifest.path, self.threads) for _ in range(self.workers)]
        idle: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        for worker in workers:
            idle.put(worker)

        def run_job(key: str) -> JobResult:
            worker = idle.get()
            try:
                return worker.run(key)
            finally:
                idle.put(worker)

        threads = ThreadPoolExecutor(self.workers)
        running: set[Future[JobResult]] = set()
        try:
            for job in jobs:
                while len(running) >= _AHEAD * self.workers:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
                running.add(threads.submit(run_job, job.key))
            yield from (future.result() for future in as_completed(running))
        finally:
            for worker in workers:  # immediately, even during a job
                worker.stop()
            threads.shutdown(cancel_futures=True)


class WorkerProcess:
    """One worker process. It is started on first use and restarted if it dies.

    It exits when this process ends for any reason, since its stdin closes.
    """

    def __init__(self, module: str, manifest: Path, threads: int) -> None:
        self.module, self.manifest, self.threads = module, manifest, threads
        self.is_stopped = False
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None
        self._lock = threading.Lock()
        self._exit_code = 0

    def run(self, key: str) -> JobResult:
        for _ in range(_ATTEMPTS):
            result = self._request(key)
            if result is not None:
                return result
            if self.is_stopped:
                break
        return JobResult(key, JobStatus.DIED, error=self._describe_exit())

    def stop(self) -> None:
        with self._lock:
            self.is_stopped = True
            process, self._process = self._process, None
            log, self._log = self._log, None  # two threads may call this; one of them closes the log
        if process is not None:
            process.kill()
            process.wait()
            _close_pipes(process)
        if log is not None:
            log.close()

    def _request(self, key: str) -> JobResult | None:
        """Send the job and wait for its result; None if the process died."""
        process = self._ensure_started()
        if process is None:
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(key + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except (OSError, ValueError):
            line = ""
        if line:
            return JobResult.parse(json.loads(line))
        self._exit_code = process.wait()
        with self._lock:
            self._process = None
        _close_pipes(process)
        return None

    def _describe_exit(self) -> str:
        """How the process exited, and the last lines of its log."""
        exit_status = (
            f"signal {-self._exit_code} ({signal.Signals(-self._exit_code).name})"
            if self._exit_code < 0
            else f"code {self._exit_code}"
        )
        text, log = "", self._log
        if log is not None:
            with contextlib.suppress(OSError, ValueError):
                log.seek(0)
                text = log.read()[-2000:]
        return f"The worker process ended with {exit_status}. {text}".strip()

    def _ensure_started(self) -> "subprocess.Popen[str] | None":
        with self._lock:
            if self._process is None and not self.is_stopped:
                names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
                limits = {**dict.fromkeys(names, str(self.threads)), "TOKENIZERS_PARALLELISM": "false"}
                if self._log is not None:
                    self._log.close()
                self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
                self._process = subprocess.Popen(
                    [sys.executable, "-m", self.module, str(self.manifest)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    text=True,
                    env=os.environ | limits,
                    start_new_session=True,  # Ctrl-C is for the parent to handle
                )
            return self._process


def _close_pipes(process: "subprocess.Popen[str]") -> None:
    """Close the pipes of a process that has ended."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError, ValueError):
                pipe.close()
