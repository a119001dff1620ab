"""Every command gives what it gave when the golden files were written, and a run folder of that day still opens."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from didact.cli.main import app
from golden.scenario import COMMANDS, EXPECTED, HERE, NO_JSON, OLD_RUN_REPORT, machine, page_text, prepare, run_commands

pytestmark = pytest.mark.usefixtures("unchecked")

DOCUMENTS = sorted(path.stem for path in EXPECTED.glob("*.json"))
# Rounding differs between processors, and training amplifies it: there only the shape of a document is compared.
SAME_MACHINE = (EXPECTED / "machine.txt").read_text(encoding="utf-8").strip() == machine()
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def produced(tmp_path_factory):
    """The documents of all commands, run once."""
    folder, before, arguments = tmp_path_factory.mktemp("golden"), Path.cwd(), sys.argv
    threads = torch.get_num_threads()
    prepare(folder)
    os.chdir(folder)
    torch.set_num_threads(1)
    try:
        return dict(run_commands())
    finally:
        sys.argv = arguments
        os.chdir(before)
        torch.set_num_threads(threads)


def differences(expected: Any, actual: Any, at: str = "") -> list[str]:
    """Return where two documents differ, with both values."""
    if isinstance(expected, bool) or not isinstance(expected, type(actual)):
        numbers = isinstance(expected, int | float) and isinstance(actual, int | float)
        if not numbers or isinstance(expected, bool) or isinstance(actual, bool):
            return [] if expected == actual or not SAME_MACHINE else [f"{at}: {expected!r} became {actual!r}"]
    if isinstance(expected, dict):
        lost = [f"{at}.{name}: gone" for name in expected if name not in actual]
        new = [f"{at}.{name}: new" for name in actual if name not in expected]
        both = [name for name in expected if name in actual]
        return (
            lost + new + [line for name in both for line in differences(expected[name], actual[name], f"{at}.{name}")]
        )
    if isinstance(expected, list):
        if len(expected) != len(actual) and SAME_MACHINE:
            return [f"{at}: {len(expected)} entries became {len(actual)}"]
        pairs = enumerate(zip(expected, actual, strict=False))
        return [line for index, (one, other) in pairs for line in differences(one, other, f"{at}[{index}]")]
    if not SAME_MACHINE:
        return []
    if isinstance(expected, float | int) and not isinstance(expected, bool):
        close = abs(expected - actual) <= TOLERANCE * max(1.0, abs(expected)) or (
            expected != expected and actual != actual
        )
        return [] if close else [f"{at}: {expected} became {actual}"]
    return [] if expected == actual else [f"{at}: {expected!r} became {actual!r}"]


def test_every_command_has_its_document_and_it_is_as_before(produced):
    """One test, since each process that has a part of it would run all commands."""
    assert sorted(produced) == DOCUMENTS
    assert set(COMMANDS) - set(NO_JSON) <= set(DOCUMENTS)
    expected = {name: json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8")) for name in DOCUMENTS}
    assert [line for name in DOCUMENTS for line in differences(expected[name], produced[name], name)] == []


def test_differences_are_found():
    assert differences({"a": [1.0, "x"]}, {"a": [1.0, "x"]}) == []
    assert differences({"a": [1.0]}, {"b": [1.0]}) == [".a: gone", ".b: new"]
    if SAME_MACHINE:
        assert differences({"a": [1.0, "x"]}, {"a": [1.1, "y"]}) == [".a[0]: 1.0 became 1.1", ".a[1]: 'x' became 'y'"]


@pytest.fixture
def old_run(tmp_path, monkeypatch):
    """A run folder that an earlier version wrote, beside the teacher and the plan it was made with."""
    prepare(tmp_path)
    shutil.copytree(HERE / "old_run", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def invoke(*arguments: str) -> Any:
    answer = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def test_an_old_run_is_still_reported(old_run):
    """Its page differs from that of a new run in what it does not store: shares, later metrics, notes of its day."""
    invoke("report", "run")
    lines = page_text(old_run / "report.html")
    assert "sizes = [" in lines, "the page shows the plan as the run has it, with the names of its day"
    assert differences(json.loads(OLD_RUN_REPORT.read_text(encoding="utf-8")), lines) == []
    start = len(lines) - lines[::-1].index("Ranking")
    end = next(number for number, line in enumerate(lines) if line.startswith("The same methods on"))
    gains = {line for line in lines[start:end] if re.search(r"\d\.\d", line)}
    assert len(gains) > 10
    assert gains <= set(json.loads((EXPECTED / "report-text.json").read_text(encoding="utf-8"))) or not SAME_MACHINE


def test_an_old_run_is_resumed_without_training_again(old_run):
    times = {path.name: path.stat().st_mtime_ns for path in (old_run / "cells").iterdir()}
    results = (old_run / "results.parquet").read_bytes()
    invoke("compare", "plan.toml", "--model", "teacher", "--out", "run", "--workers", "0")
    if SAME_MACHINE:  # elsewhere a teacher's explanations may differ in the last digits
        assert {path.name: path.stat().st_mtime_ns for path in (old_run / "cells").iterdir()} == times
        assert (old_run / "results.parquet").read_bytes() == results


def test_the_old_run_is_whole():
    files = {path.relative_to(HERE / "old_run").parts[0] for path in Path(HERE / "old_run").rglob("*")}
    assert {"cells", "explanations", "comparison.json", "measured.json", "results.parquet", "plan.toml"} <= files
