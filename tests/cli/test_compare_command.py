"""`didact compare`, through the command itself: what it prints, how it ends, and what it must not import."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from didact.cli.main import app
from didact.comparing import compare as module
from didact.comparing import training
from didact.comparing.cell import run_cell
from didact.comparing.config import DEFAULT_SEARCH_SPACE
from didact.data.load import load_data
from didact.errors import DidactError, PlanError
from didact.learning.train import train_teacher

DATA = "planted/sentiment(teach=40, explain=10, train=16, dev=8, test=12)"


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teachers") / "native"
    train_teacher(load_data(DATA), "native(width=16, layers=1, heads=2)", epochs=1, progress=False, out=folder)
    return folder


@pytest.fixture
def run(teacher, tmp_path):
    """The command on a small scale."""

    def command(*arguments):
        small = ["--train-sizes", "12", "--seeds", "1", "--epochs", "1", "--workers", "0"]
        small += ["--balance", "no", "--eval-rows", "0"]
        named = ["--model", teacher, "--data", DATA, "--explainers", "gradient_norm", "--out", tmp_path / "run"]
        result = CliRunner().invoke(app, ["compare", *map(str, [*named, *small, *arguments])])
        if result.exception is not None and not isinstance(result.exception, SystemExit | DidactError):
            raise result.exception
        return result

    return command


def test_prints_the_table_and_where_the_run_is(run, tmp_path):
    result = run()
    assert result.exit_code == 0, result.output
    lines = [line.split()[0] for line in result.stdout.splitlines() if line.strip()]
    assert {"none", "random", "trivial", "human", "gradient_norm"} <= set(lines)
    lines = result.stderr.splitlines()
    assert lines[-1] == f"Report: {tmp_path / 'run' / 'report.html'}"  # last of all
    assert any(line.startswith("Plan: 5 runs = (1 method + 4 controls) × 1 student × 1 seed; about") for line in lines)
    assert (tmp_path / "run" / "report.html").is_file()
    known = json.loads((tmp_path / "run" / "run.json").read_text())
    assert known["command"].split()[0] == "didact"
    assert known["started"] <= known["finished"]


def test_speaks_json(run):
    result = run("--json", "--students", "same/attention,same/none")
    document = json.loads(result.stdout)
    assert {"rows", "failed"} <= set(document)
    assert document["failed"] == []
    none = document["rows"][0]
    assert (none["explainer"], none["gain"], none["p"]) == ("none", None, None)
    assert "NaN" not in result.stdout
    assert len(document["rows"]) == 6


def test_a_failed_cell_is_exit_code_1(run, monkeypatch):
    def broken(cell, run_inputs):
        if cell.explainer == "random":
            raise ValueError("no luck")
        return run_cell(cell, run_inputs)

    monkeypatch.setattr(training, "run_cell", broken)
    result = run("--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert [one["error"] for one in document["failed"]] == ["no luck"]
    assert [row["explainer"] for row in document["rows"]] == ["none", "trivial", "human", "gradient_norm"]
    assert "Run the same command to try them again" in result.stderr
    monkeypatch.undo()
    assert run().exit_code == 0


def test_ctrl_c_is_exit_code_130(run, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "run_cell", stopped)
    result = run()
    assert result.exit_code == 130
    assert "0 of 5 cells are stored" in result.stderr
    assert "same command again" in result.stderr
    monkeypatch.setattr(module, "load_teacher", stopped)
    early = run()
    assert early.exit_code == 130
    assert "Stopped. Run the same command again to resume." in early.stderr


def test_faults_that_need_the_data_start_no_cell(run, monkeypatch):
    monkeypatch.setattr(training, "run_cell", lambda *_: pytest.fail("a cell was started"))
    result = run("--train-sizes", "500", "--students", "bilstm/attention")
    assert isinstance(result.exception, PlanError)
    assert len(result.exception.faults) == 2


@pytest.mark.parametrize(
    ("text", "wanted"), [("no", {}), ("Yes", dict(DEFAULT_SEARCH_SPACE)), ("beta=[1.0,2.0]", {"beta": (1.0, 2.0)})]
)
def test_tuning(run, monkeypatch, text, wanted):
    seen = []
    monkeypatch.setattr(module, "prepare", lambda plan, *_, **__: seen.append(plan) or pytest.fail("far enough"))
    with pytest.raises(pytest.fail.Exception, match="far enough"):
        run("--search-space", text)
    assert seen[0].search_space == wanted


def test_a_run_without_a_folder_is_named_after_its_data(teacher, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ["--model", str(teacher), "--data", DATA, "--explainers", "random", "--students", "same/none"]
    small = ["--train-sizes", "12", "--seeds", "1", "--epochs", "1", "--workers", "0", "--balance", "no"]
    result = CliRunner().invoke(app, ["compare", *given, *small])
    assert result.exit_code == 0, result.output
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("compare-planted-sentiment")


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["--train-sizes", "0"], 2), (["--no-such-flag"], 2)])
def test_exit_codes_of_the_process(arguments, code, tmp_path):
    asked = [sys.executable, "-m", "didact.cli.main", "compare", *arguments]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=tmp_path, env=os.environ)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom didact.cli.main import app\n"
        "assert CliRunner().invoke(app, ['compare', '--help']).exit_code == 0\n"
        "print(*({'torch', 'numpy', 'pandas', 'transformers', 'scipy', 'pyarrow', 'altair'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
