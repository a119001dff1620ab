"""Many people at once, and a server that is killed in the middle: the benchmark in small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "benchmarks" / "bench_study.py"


@pytest.mark.slow
def test_every_acknowledged_answer_is_stored_once_though_the_server_is_killed():
    command = [
        sys.executable,
        str(BENCH),
        "--people",
        "12",
        "--seconds",
        "8",
        "--kills",
        "1",
        "--items",
        "400",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["lost"] == found["changed"] == found["twice"] == 0
    assert found["errors"] == []
    assert found["acknowledged"] > 50
    assert found["broken"] > 0  # the kill was felt
    assert found["stored"] >= found["acknowledged"]
