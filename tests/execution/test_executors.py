"""Processes that do cells: a death is noticed, tried again and told; none outlives its parent."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from didact.execution.base import Executor, Job, JobResult, JobStatus, Manifest
from didact.execution.in_process import InProcess
from didact.execution.process_pool import ProcessPool
from processes import is_alive, waited

# Speaks as didact.execution.worker does, and starts in no time. What it does is said by the key.
WORKER = """
import json, os, pathlib, sys, time
seen = pathlib.Path(sys.argv[1])
print("warming up", file=sys.stderr)
for line in sys.stdin:
    key = line.strip()
    (seen / f"{key}-{os.getpid()}").write_text("")
    times = len(list(seen.glob(f"{key}-*")))
    if key.startswith("dies") or (key.startswith("once") and times == 1):
        print("out of memory", file=sys.stderr, flush=True)
        os.kill(os.getpid(), 9)
    if key.startswith("exits"):
        os._exit(7)
    if key.startswith("sleeps"):
        time.sleep(600)
    status = "failed" if key.startswith("fails") else "done"
    print(json.dumps({"key": key, "status": status, "value": 0.5, "error": "e" * (status == "failed")}), flush=True)
"""


@pytest.fixture
def local(tmp_path, monkeypatch):
    (tmp_path / "quick_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return lambda workers=2: ProcessPool(workers, 1, module="quick_worker")


@pytest.fixture
def seen(tmp_path) -> Path:
    (tmp_path / "seen").mkdir()
    return tmp_path / "seen"


def pids(seen: Path) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in seen.iterdir()}


def jobs(*keys: str) -> tuple[Job, ...]:
    return tuple(map(Job, keys))


def manifest(seen: Path) -> Manifest:
    return Manifest(seen, seen.parent)


class TestProcessPool:
    def test_every_cell_is_told_once(self, local, seen):
        keys = [f"k{number}" for number in range(9)] + ["fails"]
        told = list(local(3).run(manifest(seen), jobs(*keys)))
        assert sorted(one.key for one in told) == sorted(keys)
        assert {one.status for one in told if one.key != "fails"} == {JobStatus.DONE}
        assert [one.error for one in told if one.key == "fails"] == ["e"]
        assert len(pids(seen)) <= 3
        assert waited(lambda: not any(map(is_alive, pids(seen))))

    def test_no_more_processes_than_cells(self, local, seen):
        list(local(8).run(manifest(seen), jobs("a", "b")))
        assert len(pids(seen)) <= 2

    def test_a_cell_whose_process_dies_is_tried_again(self, local, seen):
        told = {one.key: one for one in local(1).run(manifest(seen), jobs("once", "then"))}
        assert (told["once"].status, told["then"].status) == ("done", "done")
        assert len(pids(seen)) == 2

    def test_one_that_always_dies_is_told_with_its_last_words(self, local, seen):
        told = {one.key: one for one in local(2).run(manifest(seen), jobs("dies", "exits", "a", "b", "c"))}
        assert told["dies"].status == told["exits"].status == "died"
        assert "signal 9 (SIGKILL)" in told["dies"].error
        assert "out of memory" in told["dies"].error
        assert "code 7" in told["exits"].error
        assert {told[key].status for key in "abc"} == {"done"}, "the others go on"
        assert len(list(seen.glob("dies-*"))) == 2

    def test_a_worker_killed_from_outside(self, local, seen):
        engine = local(1).run(manifest(seen), jobs("a", "sleeps"))
        assert next(engine).key == "a"
        assert waited(lambda: len(list(seen.glob("sleeps-*"))) == 1)
        first = pids(seen)
        os.kill(next(iter(first)), signal.SIGKILL)
        assert waited(lambda: len(list(seen.glob("sleeps-*"))) == 2), "another process takes the cell"
        engine.close()
        assert not any(map(is_alive, pids(seen)))

    def test_closing_stops_everybody(self, local, seen):
        engine = local(3).run(manifest(seen), jobs("sleeps1", "sleeps2", "a", "sleeps3"))
        assert next(engine).key == "a"
        assert waited(lambda: len(list(seen.glob("sleeps*"))) == 3)
        engine.close()
        assert not any(map(is_alive, pids(seen)))

    def test_a_module_that_does_not_start(self, seen):
        (told,) = ProcessPool(1, 1, module="no_such_module").run(manifest(seen), jobs("a"))
        assert told.status == "died"
        assert "No module named no_such_module" in told.error

    @pytest.mark.usefixtures("local")
    def test_workers_end_when_their_parent_is_killed(self, seen, tmp_path):
        """Those of the real kind too: the end of their input is their end, whatever they are doing."""
        code = f"""
import threading
from pathlib import Path
from didact.execution.base import Job, Manifest
from didact.execution.process_pool import ProcessPool
place = Path({str(seen)!r})
list(ProcessPool(2, 1, module="quick_worker").run(Manifest(place, place), [Job("sleeps1"), Job("sleeps2")]))
"""
        (tmp_path / "quick_worker.py").write_text(_ENDING)
        parent = subprocess.Popen([sys.executable, "-c", code])
        try:
            assert waited(lambda: len(list(seen.iterdir())) == 2)
            assert all(map(is_alive, pids(seen)))
        finally:
            parent.kill()
            parent.wait()
        assert waited(lambda: not any(map(is_alive, pids(seen))))

    def test_jobs_are_taken_as_there_is_room_for_them(self, local, seen):
        """However many there are: no more than two for each process are in hand."""
        taken = []

        def many():
            for number in range(20):
                taken.append(number)
                yield Job(f"k{number}")

        results = local(2).run(manifest(seen), many())
        for count, _ in enumerate(results, start=1):
            assert len(taken) <= count + 4
        assert len(taken) == 20

    def test_are_executors(self, local):
        assert isinstance(local(), Executor)
        assert isinstance(InProcess(), Executor)


def test_results_cross_as_json():
    result = JobResult("a", JobStatus.REFUSED, 0.5, "no", "OptionError", "trace", {"a.json": b"x"})
    found = JobResult.parse(json.loads(json.dumps(result.document())))
    assert found == replace(result, files={})
    assert found.status is JobStatus.REFUSED


def test_files_of_another_machine_are_written_in_their_order(tmp_path):
    JobResult("a", JobStatus.DONE, files={"cells/a.parquet": b"x", "cells/a.json": b"y"}).write_files(tmp_path)
    assert (tmp_path / "cells" / "a.json").read_bytes() == b"y"


# The real worker's way of listening, without its imports.
_ENDING = """
import os, pathlib, sys, threading, time
from didact.execution.worker import _read_keys
import queue
asked = queue.Queue()
threading.Thread(target=_read_keys, args=(asked,), daemon=True).start()
key = asked.get()
(pathlib.Path(sys.argv[1]) / f"{key}-{os.getpid()}").write_text("")
time.sleep(600)
"""


class TestInARun:
    @pytest.mark.parametrize(("body", "how"), [("os._exit(9)", "code 9"), ("os.kill(os.getpid(), 11)", "signal 11")])
    def test_cells_that_kill_their_process_are_failed_records(self, compare, tmp_path, monkeypatch, body, how):
        from didact.comparing import compare as module

        (tmp_path / "dying_worker.py").write_text(f"import os, sys\nsys.stdin.readline()\n{body}\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
        monkeypatch.setattr(module, "_executor", lambda *_: ProcessPool(2, 1, module="dying_worker"))
        result = compare(seeds=1)
        assert len(result.failed) == 5
        assert all(how in one["error"] for one in result.failed)
        monkeypatch.undo()
        assert not compare(seeds=1).failed, "the next run tries them again"

    def test_threads_are_given_back(self, compare):
        import torch

        before = torch.get_num_threads()
        compare(seeds=1, threads=before + 1)
        assert torch.get_num_threads() == before
