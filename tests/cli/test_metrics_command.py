"""`didact metrics`: lists what can be measured, and measures files."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from didact.cli.main import app
from didact.data.load import load_data
from didact.errors import DidactError
from didact.explaining.explain import explain
from didact.importers.eraser import write_eraser
from didact.learning.train import train_teacher
from didact.results.explanations import Explanations

DATA = "planted/sentiment(teach=40, explain=10, train=10, dev=8, test=12)"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A teacher's folder and two files of explanations."""
    place = tmp_path_factory.mktemp("metrics")
    data = load_data(DATA)
    teacher = train_teacher(data, "native(width=16, layers=1, heads=2)", epochs=1, progress=False, out=place / "model")
    for method in ("gradient_input", "gradient_norm"):
        explain(teacher, data["test"], method).save(place / f"{method}.parquet")
    return place / "model", place / "gradient_input.parquet", place / "gradient_norm.parquet"


def run(*arguments):
    result = CliRunner().invoke(app, ["metrics", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit | DidactError):
        raise result.exception
    return result


def test_lists_them():
    assert "comprehensiveness" in run().stdout
    rows = json.loads(run("--json").stdout)["rows"]
    assert {"name", "measures", "bounds", "better", "needs", "paper", "summary", "default"} == set(rows[0])
    only_by_name = [row["name"] for row in rows if not row["default"]]
    assert only_by_name == ["f_fidelity", "f_fidelity_plus", "f_fidelity_minus"]
    assert "Computed only if they are named: f_fidelity," in run().stdout
    assert next(row for row in rows if row["name"] == "log_odds_top")["bounds"] == [None, None]


def test_measures(files):
    model, first, second = files
    result = run("--explanations", first, second, "--model", model, "--data", DATA, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert {row["method"] for row in document["rows"]} == {"gradient_input", "gradient_norm", "random"}
    wanted = {"method", "metric", "value", "low", "high", "rows", "skipped"}
    assert wanted <= set(document["rows"][0])
    empty = [
        row for row in document["rows"] if row["metric"] == "log_odds_positive" and row["method"] == "gradient_norm"
    ]
    assert empty[0]["value"] is None
    assert document["tests"]


def test_shows_a_table(files):
    model, first, _ = files
    result = run(first, "--model", model, "--data", DATA, "--metrics", "roc_auc,comprehensiveness(k=0.2)", "--tests")
    assert result.exit_code == 0, result.output
    assert "comprehensiveness(k=0.2) ↑" in result.stdout
    assert "Units are replaced by [MASK]." in result.stdout
    assert "Holm" in result.stdout


def test_files_of_other_tools(files, tmp_path):
    _, first, _ = files
    write_eraser(Explanations.load(first).words(), tmp_path / "theirs.jsonl")
    asked = ("--metrics", "roc_auc", "--no-control", "--json")
    for split in ((), ("--split", "test")):
        rows = json.loads(run(first, tmp_path / "theirs.jsonl", "--data", DATA, *split, *asked).stdout)["rows"]
        assert [row["method"] for row in rows] == ["gradient_input", "theirs"]
        assert rows[0]["value"] == pytest.approx(rows[1]["value"])
    assert "give the data (--data)" in str(run(tmp_path / "theirs.jsonl", "--model", "nowhere").exception)


def test_tells_what_cannot_be(files):
    model, first, _ = files
    assert "roc_auc" in str(run(first, "--metrics", "roc_auk").exception)
    assert "give it (--model)" in str(run(first, "--metrics", "flip_fraction").exception)
    assert "nothing to score" in str(run("--model", model).exception)
    assert "no file" in str(run("nowhere.parquet").exception)
    assert "--columns and --classes need --data" in str(run(first, "--classes", "a,b").exception)
    asked = ("--model", model, "--data", DATA, "--metrics", "roc_auc", "--classes")
    assert "one for each of the model's 2 classes" in str(run(first, *asked, "a,b,c").exception)
    assert run(first, *asked, "negative,positive").exit_code == 0


def test_what_is_no_number_is_a_dash(files, tmp_path, monkeypatch):
    """One row alone has no interval, scores without signs no positive words, and two such methods no difference."""
    monkeypatch.setenv("COLUMNS", "150")
    model, first, second = files
    alone = [tmp_path / "first.parquet", tmp_path / "second.parquet"]
    for path, whole in zip(alone, (first, second), strict=True):
        Explanations.load(whole)[:1].save(path)
    shown = run(*alone, "--model", model, "--metrics", "log_odds_positive,sufficiency", "--tests").stdout
    assert "sufficiency" in shown
    assert "–" in shown
    assert "nan" not in shown.replace("sufficiency", "")


def test_explanations_of_another_model_are_refused_before_anything_is_measured(files, monkeypatch):
    model, first, _ = files
    maps = Explanations.load(first)
    other = first.with_name("other.parquet")
    replace(maps, targets=(*maps.targets[:-1], "SAD")).save(other)  # the last row alone
    monkeypatch.setattr("didact.evaluation.metrics_job.Probe", None)
    result = run(other, "--model", model, "--metrics", "comprehensiveness")
    assert isinstance(result.exception, DidactError), result.output
    assert "explains 'SAD', and the classes of teacher" in str(result.exception)


def test_rows_of_a_file_are_found_wherever_its_splits_have_them(files, tmp_path):
    """All rows were explained, and the splits hold them in another order."""
    model, _, _ = files
    lines = "".join(f"{n};a film number {n % 5};negative\n" for n in range(12))
    (tmp_path / "a.csv").write_text(f"case_id;remark;verdict\n{lines}")
    columns = ("--data", tmp_path / "a.csv", "--columns", "text=remark,label=verdict")
    out = tmp_path / "maps.parquet"
    explained = ["explain", "--model", model, "--method", "gradient_norm", "--out", out, *columns]
    assert CliRunner().invoke(app, list(map(str, explained))).exit_code == 0
    result = run(out, "--model", model, *columns, "--metrics", "comprehensiveness", "--json")
    assert result.exit_code == 0, result.exception
    assert json.loads(result.stdout)["rows_asked"] == 12
    assert "note: Fields of a.csv are separated by semicolons." in result.stderr
