"""The recipe about coverage runs, and every line of its tables is there. The numbers of `--quick` mean nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = Path(__file__).parents[2] / "recipes" / "study_coverage.py"


@pytest.mark.slow
def test_tables():
    done = subprocess.run(
        [sys.executable, str(RECIPE), "--quick"], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = done.stdout
    assert said.count("| 3 × 60 ") == 3
    assert said.count("| 10 × 20 ") == 3 + 2
    assert said.count("| 16 × 20 ") == 3
    for title in ("Rankings: 95 %", "Rankings: order", "Simulations: 95 %", "Ratings: 95 %"):
        assert title in said
    assert "nan" not in said
