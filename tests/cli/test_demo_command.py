"""`didact demo`, through the command itself, in small; once, marked slow, as people give it."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from didact.cli import demo_steps as module
from didact.cli.demo_steps import SIZES
from didact.cli.main import app
from didact.data.load import load_data
from didact.errors import DidactError
from didact.learning.train import train_teacher
from didact.models.load import load_teacher

DATA = "planted/sentiment(teach=600, explain=20, train=80, dev=32, test=16)"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Sizes of a few rows and one epoch, and planted data as small; threads are put back."""
    threads = torch.get_num_threads()
    for name, size in SIZES.items():
        few = {"eval_rows": 4, "imitated": 12 if size.imitated else 0, "seeds": 1, "rows": 64}
        monkeypatch.setitem(SIZES, name, replace(size, **few))
    monkeypatch.setattr(module, "STUDENT", {"epochs": 1})
    monkeypatch.setattr(module, "_L2E_TRAINING", {"epochs": 1})
    monkeypatch.setattr(module, "DATA", DATA)
    monkeypatch.setattr(module, "TEACHER", "native(layers=1, width=16, heads=2)")
    monkeypatch.setattr(module, "EPOCHS", 4)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The command, with its folders in a place of its own."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        result = CliRunner().invoke(app, ["demo", "--workers", "0", *map(str, arguments)])
        if result.exception is not None and not isinstance(result.exception, SystemExit | DidactError):
            raise result.exception
        return result

    return command


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A model of one's own that pools by the mean: it has no attention."""
    folder = tmp_path_factory.mktemp("teachers") / "bilstm"
    train_teacher(load_data(DATA), "bilstm(width=8)", epochs=6, rate=1e-2, progress=False, out=folder)
    return folder


def rows_of(result):
    """The first word of each line of the first table."""
    lines = result.stdout.partition("─\n")[2].partition("─\n")[0].splitlines()
    names = [line.split()[0] for line in lines if line.startswith(" ") and line.split()]
    return [name for name in names if name != "explainer" and not name.startswith("─")]


@pytest.mark.slow
def test_tells_its_steps_and_leaves_a_report(run, tmp_path):
    result = run()
    assert result.exit_code == 0, result.output
    told = " ".join(result.stdout.split())
    for number, heading in enumerate(["Data whose truth", "A teacher", "A fast imitation", "Students"], 1):
        assert f"{number}. {heading}" in told
    assert "which is few" in told
    assert "with the fixed temperature 0.5" in told
    assert "The report: runs/demo/report.html" in told
    assert (tmp_path / "runs/demo/report.html").is_file()
    assert (tmp_path / "runs/demo/teacher/didact.json").is_file()
    assert set(rows_of(result)) == {
        "none", "random", "trivial", "human", "gradient_norm", "integrated_gradients", "lime(samples=100)",
        "attention_all", "attention_all(sharpened)", "smat", "smat(cotrained)", "l2e",
    }  # fmt: skip


@pytest.mark.slow
def test_quick_has_five_rows_and_no_intervals_and_speaks_json(run, tmp_path):
    result = run("--quick", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert set(answer) == {"out", "report", "ranking", "verdict", "seconds"}
    names = {row["explainer"] for row in answer["ranking"]}
    assert names == {"none", "random", "human", "gradient_norm", "attention_all"}
    assert answer["verdict"]
    assert (tmp_path / answer["report"]).is_file()
    assert (tmp_path / "runs/demo/quick/comparison.json").is_file()
    kept = json.loads((tmp_path / "runs/demo/quick/comparison.json").read_text())
    assert all(row["low"] is None for row in kept["rows"])
    assert "Left out by skip_controls: trivial." in kept["notes"]


@pytest.mark.slow
def test_goes_on_where_it_was_and_never_mixes_seeds(run, tmp_path, monkeypatch):
    monkeypatch.setitem(SIZES, "quick", replace(SIZES["quick"], eval_rows=0))
    flags = ("--quick", "--json")
    first = json.loads(run(*flags).stdout)
    made = (tmp_path / "runs/demo/teacher/didact.json").read_bytes()
    with monkeypatch.context() as patched:
        for name in ("didact.learning.train.train_teacher", "didact.comparing.training.TrainRunner.run"):
            patched.setattr(name, lambda *_, **__: pytest.fail("it was done before"))
        assert json.loads(run(*flags).stdout)["ranking"] == first["ranking"]
        assert "Reused from an earlier demo" in run("--quick").stdout

    other = json.loads(run(*flags, "--seed", 1).stdout)
    assert (tmp_path / "runs/demo/teacher/didact.json").read_bytes() != made
    assert json.loads((tmp_path / "runs/demo/quick/comparison.json").read_text())["about"]["seeds"] == [1]
    assert other["ranking"] == json.loads(run(*flags, "--seed", 1, "--out", "elsewhere").stdout)["ranking"]


@pytest.mark.filterwarnings("ignore::didact.learned.l2e.ImitationWarning")  # a dozen rows are few
def test_an_imitation_is_learned_once(teacher, tmp_path):
    data, owner = load_data(DATA), load_teacher(teacher)

    def learned(seed=0):
        found = module.learn_imitation(owner, data, tmp_path / "l2e", SIZES["default"], seed)
        return found.learned["metrics"], (tmp_path / "l2e/model.safetensors").stat().st_mtime_ns

    first = learned()
    assert learned() == first
    assert learned(seed=1)[1] != first[1]


def test_a_stop_is_told_and_is_no_traceback(run, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("didact.learning.train.train_teacher", stopped)
    result = run("--quick")
    assert result.exit_code == 130
    assert "Run the same command again to resume." in result.stderr


def test_what_no_demo_made_is_not_overwritten(run, tmp_path):
    (tmp_path / "mine/teacher").mkdir(parents=True)
    (tmp_path / "mine/teacher/notes.txt").write_text("mine")
    result = run("--quick", "--out", "mine")
    assert "was not written by a demo" in str(result.exception)
    assert (tmp_path / "mine/teacher/notes.txt").read_text() == "mine"


class TestOnesOwn:
    @pytest.mark.slow
    def test_no_teacher_is_trained_and_what_is_impossible_is_told(self, run, teacher, tmp_path):
        result = run("--model", teacher, "--data", DATA, "--out", "mine")
        assert result.exit_code == 0, result.output
        told = " ".join(result.stdout.split())
        assert "Left out: attention_all:" in told
        assert "Left out: smat:" in told
        assert "human" in rows_of(result)
        assert {"lime(samples=100)", "l2e"} <= set(rows_of(result))
        assert "attention_all" not in rows_of(result)
        assert not (tmp_path / "mine/teacher").exists()
        assert (tmp_path / "mine/report.html").is_file()

    def test_without_marks_of_people(self, run, teacher, tmp_path):
        data = load_data(DATA)
        rows = [(row.texts[0], data.classes[row.label]) for row in data["teach"][:160]]
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
        (tmp_path / "own.jsonl").write_text("\n".join(lines))
        result = run("--quick", "--model", teacher, "--data", "own.jsonl")
        assert result.exit_code == 0, result.output
        assert "Left out: human: not every row has a rationale" in result.stdout
        assert set(rows_of(result)) == {"none", "random", "gradient_norm"}
        assert (tmp_path / "runs/demo-own.jsonl/quick/report.html").is_file()

    def test_json_leaves_reasons_to_stderr(self, run, teacher, monkeypatch):
        monkeypatch.setitem(SIZES, "quick", replace(SIZES["quick"], eval_rows=0, rows=16))
        result = run("--quick", "--model", teacher, "--data", DATA, "--json")
        assert set(json.loads(result.stdout)) == {"out", "report", "ranking", "verdict", "seconds"}
        assert "Left out: attention_all:" in result.stderr

    @pytest.mark.parametrize("name", ["quality", "inference", "reading", "shapes"])
    def test_every_task_has_methods(self, name):
        data = load_data(DATA.replace("sentiment", name).replace("teach=600", "teach=60"))
        model = train_teacher(data, "native(layers=1, width=16, heads=2)", epochs=1, progress=False)
        possible, left_out = module.possible_methods(model, data, SIZES["full"].explainers, 64)
        assert {"gradient_norm", "occlusion", "attention_all"} <= set(possible)
        assert "human" not in left_out

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["reading", "shapes"])
    def test_other_tasks(self, run, name, tmp_path):
        data = DATA.replace("sentiment", name).replace("teach=600", "teach=60")
        model = "native(layers=1, width=16, heads=2)"
        train_teacher(load_data(data), model, epochs=1, progress=False, out=tmp_path / "model")
        result = run("--quick", "--model", tmp_path / "model", "--data", data)
        assert result.exit_code == 0, result.output
        assert {"none", "gradient_norm", "attention_all"} <= set(rows_of(result))

    def test_large_splits_are_cut(self, run, teacher, monkeypatch, tmp_path):
        monkeypatch.setattr(module, "LIMITS", {"test_rows": 10, "dev_rows": 100, "train_rows": 70})
        result = run("--quick", "--model", teacher, "--data", DATA)
        assert result.exit_code == 0, result.output
        kept = json.loads((tmp_path / "runs/demo-sentiment/quick/comparison.json").read_text())
        assert (kept["about"]["train_rows"], kept["about"]["dev_rows"], kept["about"]["test_rows"]) == (70, 32, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--quick", "--full"], "Choose one"),
        (["--model", "somewhere"], "--model needs --data"),
        (["--data", "planted/sentiment"], "--data needs --model"),
        (["--model", "human", "--data", "planted/sentiment"], "'human' is no model that could be explained"),
        (["--truncate"], "--truncate needs a model of your own"),
        (["--length", "5"], "--max-length needs a model of your own"),  # the former name
        (["--length", "5", "--max-length", "5"], "both were given"),
        (["--device", "quantum"], "cannot be used here"),
        (["--seed", str(2**40)], "--seed: must be an integer from 0 to 16,777,215"),
        (["--model", "nowhere", "--data", "planted/sentimnt"], "sentiment"),
    ],
)
def test_bad_requests_are_told_before_anything_is_made(run, tmp_path, arguments, message):
    result = run(*arguments)
    assert isinstance(result.exception, DidactError)
    assert message in str(result.exception)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_full_has_every_control(run, monkeypatch, tmp_path):
    """With few methods, so that it stays quick: the companions of learned explainers are all there."""
    few = ("gradient_norm", "smat", "smat(outer=dev)")
    size = replace(SIZES["full"], explainers=few, imitated=0, students=("same/attention",))
    monkeypatch.setitem(SIZES, "full", size)
    result = run("--full")
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "runs/demo/full/comparison.json").read_text())
    names = {row["explainer"] for row in kept["rows"]}
    assert {
        "attention_all(sharpened)", "attention_all(matched)", "smat(flattened)", "smat(cotrained)", "none+extra",
    } <= names  # fmt: skip


@pytest.mark.slow
def test_the_quick_demo_as_people_give_it(tmp_path):
    """In processes of its own, with nothing made smaller."""
    command = [sys.executable, "-m", "didact.cli.main", "demo", "--quick", "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "HF_HUB_OFFLINE": "1"}, timeout=280,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert {row["explainer"] for row in answer["ranking"]} == {
        "none", "random", "human", "gradient_norm", "attention_all",
    }  # fmt: skip
    gains = {row["explainer"]: row["gain"] for row in answer["ranking"]}
    assert gains["human"] > max(gains["random"], 0.0), "the truth teaches"
    assert (tmp_path / answer["report"]).stat().st_size > 10_000
    record = json.loads((tmp_path / "runs/demo/teacher/didact.json").read_text())
    assert record["metrics"]["verified"]
