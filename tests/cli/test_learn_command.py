"""`didact learn smat`, through the command itself; and killed in the middle, which changes nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from didact.cli.main import app
from didact.data.load import load_data
from didact.errors import DidactError
from didact.learned.smat import check_smat
from didact.learned.smat_spec import learner_of
from didact.learning.train import train_teacher

DATA = "planted/sentiment(teach=60, explain=40, train=16, dev=8, test=12)"


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teachers") / "native"
    train_teacher(load_data(DATA), "native(width=16, layers=1, heads=4)", epochs=2, progress=False, out=folder)
    return folder


@pytest.fixture
def run(teacher, tmp_path):
    def command(*arguments):
        named = ["--model", teacher, "--data", DATA, "--out", tmp_path / "mine"]
        small = ["--size", "24", "--epochs", "2", "--batch-size", "6"]
        result = CliRunner().invoke(app, ["learn", "smat", *map(str, [*named, *small, *arguments])])
        if result.exception is not None and not isinstance(result.exception, SystemExit | DidactError):
            raise result.exception
        return result

    return command


def test_learns_and_shows_what_it_weighs(run, teacher, tmp_path):
    result = run()
    assert result.exit_code == 0, result.output
    assert "head" in result.stdout
    assert "dev_accuracy" in result.stdout
    assert f"Saved in {tmp_path / 'mine'}" in result.stderr
    explained = CliRunner().invoke(
        app, ["explain", "--model", str(teacher), "--method", str(tmp_path / "mine"), "--json", "a good film"]
    )
    assert explained.exit_code == 0, explained.output
    document = json.loads(explained.stdout)
    assert document["method"] == "attention_mix"
    assert document["options"]["weights"]
    again = run()
    assert "exists already" in str(again.exception)


def test_speaks_json(run):
    result = run("--json", "--family", "blend", "--options", "members='gradient_norm + gradient_input'", "--no-pilot")
    document = json.loads(result.stdout)
    assert set(document) == {"out", "metrics", "notes", "seconds"}
    assert {"dev_accuracy", "test_accuracy", "active", "parts", "entropy"} <= set(document["metrics"])
    assert document["metrics"]["parts"] == 2


def test_a_mix_that_collapses_is_kept_and_told(run, tmp_path):
    result = run("--outer-rate", "5")
    assert result.exit_code == 0, result.output
    assert "all weight is on one component" in " ".join(result.stderr.split())
    assert "all weight is on one component" in (tmp_path / "mine" / "config.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--family", "blnd"], "Did you mean 'blend'"),
        (["--options", "normaliser=sparsmax"], "'sparsemax' or 'softmax'"),
        (["--options", "pilots=true"], "Did you mean 'pilot'"),
        (["--outer", "test"], "outer must be train or dev"),
        (["--device", "quantum", "--data", "no/such/data"], "cannot be used here"),
        (["--size", "41"], "41 rows were requested, and .* has 40 in 'explain'"),
        (["--size", "9"], "6 rows for each step and 6 others .* there are 9"),
        (["--student", "same/multitask"], "Choose the strategy 'attention'"),
        (["--student", "bilstm/attention"], "bilstm_attention"),
        (
            ["--data", "planted/quality(teach=9, explain=24, train=9, dev=9, test=9)"],
            "is regression, but the teacher does classification",
        ),
    ],
)
def test_a_bad_request_says_what_to_do(run, tmp_path, arguments, message):
    result = run(*arguments)
    assert isinstance(result.exception, DidactError)
    import re

    assert re.search(message, str(result.exception)), str(result.exception)
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "32"], "32 rows for each step and 32 others .* there are 32"),
        (["--size", "41"], "41 rows were requested, and .* has 40 in 'explain'. Give a size"),
        (["--size", "40", "--batch-size", "9", "--outer", "dev"], "9 rows of dev, and there are 8"),
        (["--learning-rate", "-1"], "--learning-rate: must be a number above 0"),
        (["--student", "same/atention"], "Did you mean 'attention'"),
    ],
)
def test_what_needs_no_model_is_checked_before_it_is_loaded(monkeypatch, tmp_path, arguments, message):
    monkeypatch.setattr("didact.cli.inputs.open_teacher", lambda *_, **__: pytest.fail("the model was loaded"))
    named = ["--model", "my-model", "--data", DATA, "--out", str(tmp_path / "mine")]
    result = CliRunner().invoke(app, ["learn", "smat", *named, *arguments])
    assert re.search(message, str(result.exception)), str(result.exception)


def test_a_pretrained_student_may_learn_from_fewer_rows():
    learner = learner_of({"family": "attention_mix"})
    check_smat(load_data(DATA), learner, student="same/attention", size=32, training={})
    with pytest.raises(DidactError, match="16 rows for each step and 16 others"):
        check_smat(load_data(DATA), learner, student="same/attention", size=31, training={})


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_and_resumed_it_has_the_same_coefficients(teacher, tmp_path):
    def command(out):
        return [
            sys.executable, "-m", "didact.cli.main", "learn", "smat", "--model", str(teacher), "--data", DATA,
            "--size", "40", "--epochs", "40", "--batch-size", "4", "--out", str(out), "--threads", "1",
        ]  # fmt: skip

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command(whole), check=True, capture_output=True, env=environment)
    kept = broken.with_name("broken.learning")
    for _ in range(2):
        process = subprocess.Popen(
            command(broken), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        before = _marks(kept)
        end = time.monotonic() + 120
        while process.poll() is None and _marks(kept) == before and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command(broken), check=True, capture_output=True, env=environment)
    for name in ("model.safetensors", "config.json", "metrics.json"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name
    assert not kept.exists()


def _marks(folder):
    """When a checkpoint was last written."""
    return sorted(path.stat().st_mtime_ns for path in folder.glob("[0-9a-f]*.safetensors")) if folder.exists() else []


@pytest.fixture
def distil(teacher, tmp_path):
    def command(*arguments):
        named = ["--model", teacher, "--data", DATA, "--out", tmp_path / "fast", "--epochs", 1, "--batch-size", 8]
        named += ["--initialisations", 2]
        result = CliRunner().invoke(app, ["learn", "l2e", *map(str, [*named, "--options", "width=8", *arguments])])
        if result.exception is not None and not isinstance(result.exception, SystemExit | DidactError):
            raise result.exception
        return result

    return command


def test_distils_and_explains_with_it(distil, teacher, tmp_path):
    result = distil("--imitate", "occlusion,gradient_input", "--formulation", "ranking", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["metrics"]["train_rows"] + document["metrics"]["dev_rows"] == 40
    assert len(document["warnings"]) == 1
    assert document["warnings"][0].startswith("L2E imitates occlusion + gradient_input with ρ = ")
    explained = CliRunner().invoke(
        app, ["explain", "--model", str(teacher), "--method", str(tmp_path / "fast"), "--json", "a good film"]
    )
    assert explained.exit_code == 0, explained.output
    assert json.loads(explained.stdout)["options"]["formulation"] == "ranking"
    assert "exists already" in str(distil().exception)


def test_tells_what_distilling_cost(distil, tmp_path):
    result = distil("--imitate", "occlusion", "--size", "20", "--overwrite")
    assert "seconds to explain, to learn: " in result.stdout
    assert "rank correlation with occlusion on held-out rows: " in result.stdout
    assert re.search(r"rank correlation of each network: -?\d.\d\d, -?\d.\d\d\n", result.stdout)
    assert "warning: L2E imitates occlusion with ρ = " in result.stderr
    assert "on 2 held-out rows: too few rows; use 500 or more." in result.stderr
    assert f"Saved in {tmp_path / 'fast'}" in result.stderr
    assert "nothing" not in result.stderr


def test_the_next_command_names_the_columns(distil, tmp_path):
    rows = [f"{n};a {word} film {n};{label}" for n in range(80) for word, label in (("good", 1), ("bad", 0))]
    path = tmp_path / "odd.csv"
    path.write_text("\n".join(["Nr.;Film review (de);Urteil", *rows]))
    columns = "text=Film review (de),label=Urteil"
    result = distil("--imitate", "gradient_input", "--data", path, "--columns", columns)
    assert f"--data {path} --columns '{columns}' --method {tmp_path / 'fast'}" in result.stderr


def test_tells_what_cannot_be_distilled(distil):
    assert "kernel_shap" in str(distil("--imitate", "kernal_shap").exception)
    # Told before anything is loaded: neither this model nor these data exist.
    wrong = ["--imitate", "occlusion", "--formulation", "sorting", "--model", "nowhere", "--data", "nothing"]
    assert "labelling" in str(distil(*wrong).exception)
