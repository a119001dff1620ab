"""Processes of this machine, started by module and not forked, so that notebooks and live models are left alone."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from didact.experiment.engines import Told

_ATTEMPTS = 2  # a cell whose process dies this often is given up
_END = object()


@dataclass(frozen=True)
class Local:
    """`workers` processes of `threads` threads each, started from a module that speaks as `worker` does."""

    workers: int
    threads: int
    module: str = "didact.experiment.worker"

    def at_once(self) -> int:
        return self.workers

    def run(self, manifest: Path, keys: Sequence[str]) -> Iterator[Told]:
        asked: queue.Queue[str] = queue.Queue()
        for key in keys:
            asked.put(key)
        told: queue.Queue[Any] = queue.Queue()
        crew = [_Worker(self.module, manifest, self.threads) for _ in range(min(self.workers, len(keys)))]
        threads = [threading.Thread(target=_serve, args=(one, asked, told), daemon=True) for one in crew]
        for thread in threads:
            thread.start()
        try:
            ended = 0
            while ended < len(threads):
                said = told.get()
                if said is _END:
                    ended += 1
                elif isinstance(said, BaseException):
                    raise said
                else:
                    yield said
        finally:
            for one in crew:
                one.stop()
            for thread in threads:
                thread.join()


def _serve(worker: "_Worker", asked: "queue.Queue[str]", told: "queue.Queue[Any]") -> None:
    """Keep one worker busy until nothing is left to do."""
    try:
        while not worker.is_stopped:
            try:
                key = asked.get_nowait()
            except queue.Empty:
                break
            told.put(_done(worker, key))
    except BaseException as error:  # told to the caller, who must not wait for ever
        told.put(error)
    finally:
        worker.stop()
        told.put(_END)


def _done(worker: "_Worker", key: str) -> Told:
    for _ in range(_ATTEMPTS):
        said = worker.ask(key)
        if said is not None or worker.is_stopped:
            break
    if said is None:
        return Told(key, "died", worker.last_words())
    return Told(key, said["status"], said.get("error", ""), said.get("value"))


class _Worker:
    """One process. It is started when first needed, and again if it dies."""

    def __init__(self, module: str, manifest: Path, threads: int) -> None:
        self.module, self.manifest, self.threads = module, manifest, threads
        self.is_stopped = False
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None
        self._lock = threading.Lock()
        self._code = 0

    def ask(self, key: str) -> dict[str, Any] | None:
        """Have one cell done; None if the process died over it."""
        process = self._running()
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
        if not line:
            self._code = process.wait()
            with self._lock:
                self._process = None
            _close(process)
            return None
        said: dict[str, Any] = json.loads(line)
        return said

    def last_words(self) -> str:
        """How the process ended, and the end of what it said."""
        how = f"signal {-self._code} ({signal.Signals(-self._code).name})" if self._code < 0 else f"code {self._code}"
        said, log = "", self._log
        if log is not None:
            with contextlib.suppress(OSError, ValueError):
                log.seek(0)
                said = log.read()[-2000:]
        return f"The worker process ended with {how} while it did this cell. {said}".strip()

    def stop(self) -> None:
        with self._lock:
            self.is_stopped = True
            process, self._process = self._process, None
            log, self._log = self._log, None  # two threads may stop it; one closes
        if process is not None:
            process.kill()
            process.wait()
            _close(process)
        if log is not None:
            log.close()

    def _running(self) -> "subprocess.Popen[str] | None":
        with self._lock:
            if self._process is None and not self.is_stopped:
                count = str(self.threads)
                names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TOKENIZERS_PARALLELISM")
                limits = {**dict.fromkeys(names, count), "TOKENIZERS_PARALLELISM": "false"}
                if self._log is not None:
                    self._log.close()
                self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
                self._process = subprocess.Popen(
                    [sys.executable, "-m", self.module, str(self.manifest)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
                    env=os.environ | limits,
                    start_new_session=True,  # Ctrl-C is the parent's to handle
                )  # fmt: skip
            return self._process


def _close(process: "subprocess.Popen[str]") -> None:
    """Close the pipes of a process that has ended."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError, ValueError):
                pipe.close()
