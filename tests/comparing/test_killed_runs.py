"""The command in processes of its own, killed, interrupted and doubled: it always ends in the same bytes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from processes import waited

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DATA = "planted/sentiment(teach=40, explain=10, train=30, dev=8, test=16)"


def command(folder: Path, out: Path, **more: object) -> list[str]:
    options = {
        "model": folder, "data": DATA, "explainers": "gradient_norm,lime(samples=30)", "train-sizes": "12,20",
        "seeds": 3,
        "epochs": 12, "workers": 2, "out": out,
    } | more  # fmt: skip
    flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return [sys.executable, "-m", "didact.cli.main", "compare", *flags]


def started(folder: Path, out: Path, **more: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(command(folder, out, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results(out: Path) -> tuple[bytes, bytes]:
    return (out / "results.parquet").read_bytes(), (out / "comparison.json").read_bytes()


def done(out: Path) -> int:
    return len(list((out / "cells").glob("*.json"))) if out.exists() else 0


def workers(out: Path) -> list[int]:
    """The worker processes of a run, whoever is their parent now."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit() and f"didact.execution.worker\0{out}/" in (place / "cmdline").read_text():
                found.append(int(place.name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory):
    """A run that nobody disturbed, in one process: engines and numbers of workers change nothing."""
    out = tmp_path_factory.mktemp("whole") / "run"
    subprocess.run(command(folder, out, workers=0), check=True, capture_output=True)
    return results(out)


def test_killed_three_times(folder, whole, tmp_path):
    out = tmp_path / "run"
    for cells in (1, 11, 24):
        run = started(folder, out)
        reached = waited(lambda: done(out) >= cells or run.poll() is not None, 240)  # noqa: B023
        orphans = workers(out)
        run.kill()
        run.communicate()
        assert reached
        assert run.returncode == -signal.SIGKILL, "it was to be killed before its end"
        assert not (out / "results.parquet").exists()
        assert waited(lambda: not workers(out), 60), f"workers {orphans} outlived their parent"
    last = subprocess.run(command(folder, out), check=True, capture_output=True, text=True)
    assert last.stderr.splitlines()[-1] == f"Report: {out / 'report.html'}"
    assert results(out) == whole


def test_a_worker_killed(folder, whole, tmp_path):
    out = tmp_path / "run"
    run = started(folder, out)
    assert waited(lambda: done(out) >= 3 and workers(out), 240)
    os.kill(workers(out)[0], signal.SIGKILL)
    _, said = run.communicate()
    assert run.returncode == 0, said
    assert results(out) == whole


def test_interrupted(folder, whole, tmp_path):
    out = tmp_path / "run"
    run = started(folder, out)
    assert waited(lambda: done(out) >= 4, 240)
    assert workers(out)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert f"cells are stored in {out}. Run the same command again to resume." in said
    assert "Traceback" not in said
    assert workers(out) == []
    subprocess.run(command(folder, out), check=True, capture_output=True)
    assert results(out) == whole


def test_two_at_once_in_one_folder(folder, whole, tmp_path):
    out = tmp_path / "run"
    both = [started(folder, out, workers=1) for _ in range(2)]
    said = [run.communicate()[1] for run in both]
    assert [run.returncode for run in both] == [0, 0], said
    assert results(out) == whole
