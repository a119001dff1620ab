"""Processes that are asked for one thing after another: started by module and not forked, and again when they die."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

_ATTEMPTS: Final = 2  # what a process dies over this often is given up


@dataclass(frozen=True)
class Said:
    """What was answered about a key; if every process died over it, how the last of them ended."""

    key: str
    answer: dict[str, Any] | None
    ending: str = ""


class Crew:
    """`workers` processes of `threads` threads each, of a module that speaks as `didact.experiment.worker` does.

    None is started before it is needed. Keys are answered in any order. They end when this process does, however that
    ends: their input does, too.
    """

    def __init__(self, module: str, manifest: Path, *, workers: int, threads: int) -> None:
        self._asked: queue.Queue[str | None] = queue.Queue()
        self._said: queue.Queue[Said | BaseException] = queue.Queue()
        self._workers = [_Worker(module, manifest, threads) for _ in range(workers)]
        self._threads = [threading.Thread(target=self._serve, args=(one,), daemon=True) for one in self._workers]
        for thread in self._threads:
            thread.start()

    def ask(self, key: str) -> None:
        self._asked.put(key)

    def finish(self) -> None:
        """Nothing more will be asked: a process that has nothing left to do ends."""
        for _ in self._workers:
            self._asked.put(None)

    def next(self) -> Said:
        """Wait for the next answer."""
        said = self._said.get()
        if isinstance(said, BaseException):
            raise said
        return said

    def close(self) -> None:
        """End all processes at once, whatever they are doing."""
        for one in self._workers:
            one.stop()
        self.finish()
        for thread in self._threads:
            thread.join()

    def _serve(self, worker: "_Worker") -> None:
        """Keep one worker busy until nothing is left to do."""
        try:
            while (key := self._asked.get()) is not None and not worker.is_stopped:
                self._said.put(worker.answer(key))
        except BaseException as error:  # told to the caller, who must not wait for ever
            self._said.put(error)
        finally:
            worker.stop()


class _Worker:
    """One process. It is started when first needed, and again if it dies."""

    def __init__(self, module: str, manifest: Path, threads: int) -> None:
        self.module, self.manifest, self.threads = module, manifest, threads
        self.is_stopped = False
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None
        self._lock = threading.Lock()
        self._code = 0

    def answer(self, key: str) -> Said:
        for _ in range(_ATTEMPTS):
            said = self._ask(key)
            if said is not None or self.is_stopped:
                break
        return Said(key, said, "" if said is not None else self._last_words())

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

    def _ask(self, key: str) -> dict[str, Any] | None:
        """What the process says about the key; None if it died over it."""
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

    def _last_words(self) -> str:
        """How the process ended, and the end of what it said."""
        how = f"signal {-self._code} ({signal.Signals(-self._code).name})" if self._code < 0 else f"code {self._code}"
        said, log = "", self._log
        if log is not None:
            with contextlib.suppress(OSError, ValueError):
                log.seek(0)
                said = log.read()[-2000:]
        return f"The worker process ended with {how}. {said}".strip()

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
