"""What is said of a run is what its numbers say, and no more."""

import json

import pytest

from didact.reports.read import read_run
from didact.reports.verdict import favourites, verdict_of, winners
from reports.folders import change, write_run

CONTROLS = {"random": 0.0, "trivial": -0.05, "human": 0.01}


def verdict(folder, **options):
    return verdict_of(read_run(write_run(folder / "run", **options)))


@pytest.mark.parametrize(
    ("level", "gains", "title"),
    [
        (
            "clear",
            {"attention_all": 0.3, "gradient_norm": 0.1, "lime(samples=100)": 0.1},
            "“attention_all” teaches best",
        ),
        (
            "close",
            {"attention_all": 0.2, "gradient_norm": 0.19, "lime(samples=100)": 0.05},
            "“attention_all” leads, but “gradient_norm” is too close to call",
        ),
        (
            "close",
            {"attention_all": 0.2, "gradient_norm": 0.19, "lime(samples=100)": 0.18},
            "“attention_all” leads, but 2 others are too close to call",
        ),
        (
            "unsure",
            {"attention_all": 0.01, "gradient_norm": -0.1, "lime(samples=100)": -0.1, "random": -0.2},
            "No method clearly teaches: “attention_all” comes first, and it may be chance",
        ),
        (
            "nothing",
            {"attention_all": -0.1, "gradient_norm": -0.2, "lime(samples=100)": -0.2},
            "No method helped: students did no better than without",
        ),
        (
            "beaten",
            {"attention_all": 0.2, "gradient_norm": 0.1, "lime(samples=100)": 0.1, "random": 0.3},
            "“attention_all” comes first, but random marks teach as much",
        ),
    ],
)
def test_levels(tmp_path, level, gains, title):
    found = verdict(tmp_path, gains=CONTROLS | gains, spread=0.02, seeds=6)
    assert (found.level, found.title) == (level, title)


def test_one_method(tmp_path):
    found = verdict(tmp_path, methods=("lime",), gains=CONTROLS | {"lime": 0.2}, seeds=6)
    assert found.level == "alone"
    assert "No other method was compared." in found.text


def test_a_method_that_teaches_one_student_of_two(tmp_path):
    folder = write_run(tmp_path / "run", students=("a", "b"), gains=CONTROLS | {"lime(samples=100)": 0.3}, seeds=6)
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    spoilt = [
        row | ({"low": -0.1} if (row["explainer"], row["student"]) == ("lime(samples=100)", "b") else {})
        for row in rows
    ]
    change(folder / "comparison.json", rows=spoilt)
    found = verdict_of(read_run(folder))
    assert found.level == "mixed"
    assert "in 1 of 2 combinations, and not in the others" in found.text


def test_only_controls(tmp_path):
    assert verdict(tmp_path, methods=()).title == "Only controls were compared"


def test_without_none_there_is_no_gain(tmp_path):
    folder = write_run(tmp_path / "run")
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    change(folder / "comparison.json", rows=[row | {"gain": None} for row in rows if row["explainer"] != "none"])
    assert verdict_of(read_run(folder)).title == "No gain could be measured"


def test_few_seeds_are_not_called_sure(tmp_path):
    gains = CONTROLS | {"attention_all": 0.3, "gradient_norm": 0.1, "lime(samples=100)": 0.1}
    few = verdict(tmp_path / "few", gains=gains, seeds=3)
    many = verdict(tmp_path / "many", gains=gains, seeds=8)
    assert "as far as few seeds can tell" in few.text
    assert "not chance" not in few.text
    assert "not chance" in many.text


def test_a_control_that_teaches_more_is_named(tmp_path):
    gains = {**CONTROLS, "human": 0.4, "attention_all": 0.3, "gradient_norm": 0.1, "lime(samples=100)": 0.1}
    assert "These controls teach as much or more: human (" in verdict(tmp_path, gains=gains, seeds=6).text


def test_who_is_best_by_other_measures(tmp_path):
    folder = write_run(tmp_path / "run", methods=("lime", "lrp"), controls=("random",))
    lines = [
        ("comprehensiveness", "higher", {"lime": 0.5, "lrp": 0.6, "random": 0.9}),
        ("sufficiency", "lower", {"lime": 0.3, "lrp": 0.2, "random": 0.1}),
        ("roc_auc", "higher", {"lime": 0.9, "lrp": 0.8, "random": 0.5}),
    ]
    rows = [
        {"metric": metric, "better": better, "method": name, "value": value}
        for metric, better, own in lines for name, value in own.items()
    ]  # fmt: skip
    change(folder / "measured.json", metrics={"rows": rows, "heading": "truth"})
    run = read_run(folder)
    assert winners(run) == {"comprehensiveness": ["lrp"], "sufficiency": ["lrp"], "roc_auc": ["lime"]}
    assert favourites(run) == [("faithfulness", "lrp", 2, 2), ("truth", "lime", 1, 1)]
    # What is no better than chance leads nothing.
    tests = [{"metric": "roc_auc", "method": "random", "other": "lime", "low": -0.5, "high": 0.1}]
    change(folder / "measured.json", metrics={"rows": rows, "heading": "truth", "tests": tests})
    assert favourites(read_run(folder)) == [("faithfulness", "lrp", 2, 2)]
