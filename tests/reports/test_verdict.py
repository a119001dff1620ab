"""What is said of a run is what its numbers say, and no more."""

import json

import pytest

from didact.reports.leaders import leaders, winners
from didact.reports.read import read_run
from didact.reports.verdict import verdict_of
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
            {"attention_all": 0.206, "gradient_norm": 0.2, "lime(samples=100)": 0.05},
            "“attention_all” and “gradient_norm” lead, too close to call",
        ),
        (
            "close",
            {"attention_all": 0.212, "gradient_norm": 0.208, "lime(samples=100)": 0.205},
            "“attention_all”, “gradient_norm” and “lime(samples=100)” lead, too close to call",
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
    assert "With 3 seeds intervals say little, and no test can reach p < 0.05." in few.text
    assert "The interval lies above 0." in many.text
    assert "p = 0.03" in many.text
    assert "not chance" not in few.text + many.text


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
    told = ["faithfulness is led by lrp (best in 2 of 2 metrics)", "truth is led by lime (best in 1 of 1 metric)"]
    assert [one.text for one in leaders(run)] == told
    # What is no better than chance leads nothing.
    tests = [{"metric": "roc_auc", "method": "random", "other": "lime", "low": -0.5, "high": 0.1}]
    change(folder / "measured.json", metrics={"rows": rows, "heading": "truth", "tests": tests})
    assert [one.text for one in leaders(read_run(folder))] == told[:1]


# -- ties -------------------------------------------------------------------------------------------------------------


def metrics_of(values, *, tests=(), heading="truth", lower=()):
    """A record of metrics: by metric the value of each method."""
    rows = [
        {"metric": metric, "better": "lower" if metric in lower else "higher", "method": name, "value": value}
        for metric, own in values.items() for name, value in own.items()
    ]  # fmt: skip
    return {"rows": rows, "heading": heading, "tests": list(tests)}


def chance(metric, method, *, is_better):
    low, high = (0.1, 0.3) if is_better else (-0.1, 0.1)
    return {"metric": metric, "method": method, "other": "random", "low": low, "high": high}


def tied_run(folder, **metrics):
    folder = write_run(
        folder, methods=("lime", "lrp", "occlusion"), controls=("random",), seeds=6,
        gains={"lime": 0.202, "lrp": 0.2, "occlusion": 0.05, "random": 0.0}, spread=0.02,
    )  # fmt: skip
    change(folder / "measured.json", metrics=metrics_of(**metrics))
    return read_run(folder)


def test_a_tie_names_all_and_tells_which_of_them_leads_elsewhere(tmp_path):
    values = {
        "comprehensiveness": {"lime": 0.2, "lrp": 0.6, "occlusion": 0.3},
        "deletion_auc": {"lime": 0.2, "lrp": 0.7, "occlusion": 0.3},
    }
    tests = [chance(metric, "lime", is_better=False) for metric in values]
    found = verdict_of(tied_run(tmp_path / "run", values=values, tests=tests))
    assert found.title == "“lime” and “lrp” lead, too close to call"
    assert found.tied == ("lime", "lrp")
    assert "Of those tied, “lrp” also leads in faithfulness (best in 2 of 2 metrics)." in found.beside
    assert "“lime” teaches, but by faithfulness it is no better than random marks (2 of 2 metrics)." in found.beside
    assert all(line in found.text for line in found.beside)


def test_a_tie_counts_the_pairs_of_students_won(tmp_path):
    run = tied_run(tmp_path / "run", values={})
    own, other = (run.values[name, "same/attention", 250] for name in ("lime", "lrp"))
    won = sum(own[seed] > other[seed] for seed in own)
    assert 0 < won < 6
    start = "Tied with it, with their gains and the pairs of students in which lime was ahead"
    expected = f"{start}: lrp ({run.signed(run.gain('lrp'))}; {won} of 6). Their intervals overlap."
    assert expected in verdict_of(run).against


def test_a_method_that_lost_every_pair_or_gains_nothing_is_no_tie(tmp_path):
    gains = {"lime": 0.06, "lrp": 0.02, "occlusion": -0.005}
    found = verdict(tmp_path, methods=tuple(gains), controls=(), gains=gains, spread=0.035, seeds=6)
    assert (found.level, found.tied) == ("close", ("lime",))
    assert found.title == "“lime” leads, but not clearly: the intervals of 2 others overlap with its own"
    assert "lime was ahead in 6 of 6 pairs of students" in found.text


def test_a_paired_test_over_seeds_decides_where_intervals_overlap(tmp_path):
    """Students of one seed share rows and first weights: eight of eight is a finding, overlap or not."""
    gains = {"lime": 0.06, "lrp": 0.02}
    found = verdict(tmp_path, methods=tuple(gains), controls=(), gains=gains, spread=0.035, seeds=8)
    assert (found.level, found.title) == ("clear", "“lime” teaches best")
    assert "a paired test over seeds tells them apart" in found.text
    assert "lime was ahead in 8 of 8 pairs of students" in found.text


def test_students_that_need_no_explanation_leave_nothing_to_gain(tmp_path):
    folder = write_run(tmp_path / "run", methods=("lime",), controls=(), gains={"lime": 0.0}, seeds=6)
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    change(folder / "comparison.json", rows=[row | {"mean": 0.999} for row in rows])
    found = verdict_of(read_run(folder))
    assert (found.level, "there is nothing to gain" in found.title) == ("ceiling", True)


def test_many_that_are_tied(tmp_path):
    names = [f"m{n}" for n in range(7)]
    gains = dict.fromkeys(names, 0.2)
    found = verdict(tmp_path, methods=names, controls=(), gains=gains, seeds=4)
    assert found.title == f"{', '.join(f'“{name}”' for name in found.tied[:4])} and 3 more lead, too close to call"
    assert sorted(found.tied) == names


# -- no more than the numbers allow -----------------------------------------------------------------------------------


def test_an_interval_that_begins_near_0_is_barely_above_it(tmp_path):
    folder = write_run(tmp_path / "run", methods=("lime",), controls=(), gains={"lime": 0.2}, seeds=6)
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    for low, text in ((0.001, "The interval lies above 0 (barely)."), (0.1, "The interval lies above 0.")):
        change(folder / "comparison.json", rows=[row | {"low": low, "gain": row["gain"] and 0.2} for row in rows])
        assert verdict_of(read_run(folder)).sure[0] == text


def test_five_seeds_that_no_test_can_confirm_are_told_with_a_rounded_threshold(tmp_path):
    folder = write_run(tmp_path / "run", methods=("lime",), controls=(), gains={"lime": 0.2}, seeds=5)
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    reason = "5 seeds cannot reach 0.00833333: the smallest possible p is 0.0625"
    change(folder / "comparison.json", rows=[row | {"p": None, "p_reason": reason} for row in rows])
    found = verdict_of(read_run(folder))
    assert (
        "No test over seeds confirms it: 5 seeds cannot reach 0.0083: the smallest possible p is 0.0625." in found.sure
    )
    assert "chance" not in found.text


def test_a_p_above_the_level_does_not_rule_out_chance(tmp_path):
    folder = write_run(tmp_path / "run", methods=("lime",), controls=(), gains={"lime": 0.2}, seeds=6)
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    change(folder / "comparison.json", rows=[row | {"p": 0.12} for row in rows])
    assert "p = 0.12, so chance is not ruled out." in verdict_of(read_run(folder)).text


# -- students that did not learn --------------------------------------------------------------------------------------


def columns(*unlearned, reason="all answer one class"):
    return [{"student": name, "size": 250, "learned": False, "reason": reason} for name in unlearned]


def test_no_student_learned(tmp_path):
    gains = dict.fromkeys(("attention_all", "gradient_norm", "lime(samples=100)"), 0.0)
    found = verdict(tmp_path, gains=CONTROLS | gains, about={"columns": columns("same/attention")}, seeds=6)
    assert found.level == "unlearned"
    assert found.title == "The students did not learn; this run says nothing about the explanations"
    assert found.best is None
    assert "all answer one class." in found.summary
    for word in ("--sizes", "--epochs", "--students", "--base"):
        assert word in found.text
    assert "No method helped" not in found.text


def test_columns_that_did_not_learn_are_left_out_of_the_verdict(tmp_path):
    """By the second student alone gradient_norm would win by far."""
    folder = write_run(
        tmp_path / "run", students=("a", "b"), seeds=6, about={"columns": columns("b")},
        gains=CONTROLS | {"attention_all": 0.3, "gradient_norm": 0.1, "lime(samples=100)": 0.1},
    )  # fmt: skip
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    for row in rows:
        if row["student"] == "b" and row["explainer"] == "gradient_norm":
            row |= {"gain": 0.9, "low": 0.8, "high": 1.0, "rank": 1.0}
        elif row["student"] == "b" and row["rank"]:
            row["rank"] = 9.0
    change(folder / "comparison.json", rows=rows)
    run = read_run(folder)
    found = verdict_of(run)
    assert (found.level, found.best) == ("clear", "attention_all")
    assert "Left out, because their students did not learn: b, 250 rows." in found.sure
    assert run.gain("gradient_norm") == pytest.approx(0.1, abs=0.01)
    assert "over 2 combinations" not in found.summary.lower()


@pytest.mark.parametrize("learned", [True, None])
def test_columns_that_learned_or_may_have_are_judged(tmp_path, learned):
    about = {"columns": [{"student": "same/attention", "size": 250, "learned": learned, "reason": ""}]}
    gains = CONTROLS | {"attention_all": 0.3, "gradient_norm": 0.1, "lime(samples=100)": 0.1}
    assert verdict(tmp_path, gains=gains, about=about, seeds=6).level == "clear"


def test_balanced_agreement_and_the_share_of_one_answer(tmp_path):
    gains = CONTROLS | {"attention_all": 0.3, "gradient_norm": 0.1, "lime(samples=100)": 0.1}
    found = verdict(tmp_path, gains=gains, about={"measure": "balanced_accuracy", "majority": 0.5}, seeds=6)
    assert "reach a balanced agreement with the model of " in found.summary
    assert "Always giving the same answer reaches 50.0 %." in found.against


# -- who leads by other measures --------------------------------------------------------------------------------------


def test_leads_that_do_not_show_in_the_printed_digits_are_ties(tmp_path):
    values = {
        "roc_auc": {"lime": 0.999, "lrp": 1.0, "occlusion": 0.5, "random": 0.9},
        "average_precision": {"lime": 0.8, "lrp": 0.802, "occlusion": 0.5, "random": 0.9},
    }
    run = tied_run(tmp_path / "run", values=values)
    assert winners(run) == {"roc_auc": ["lime", "lrp"], "average_precision": ["lime", "lrp"]}
    (found,) = leaders(run)
    assert (found.names, found.count, found.total, found.tied) == (("lime", "lrp"), 2, 2, 2)
    assert found.text == "in truth lime and lrp are tied (each best in 2 of 2 metrics)"


def test_a_single_lead_counts_and_ties_beside_it_are_told(tmp_path):
    values = {
        "roc_auc": {"lime": 1.0, "lrp": 1.0, "occlusion": 0.5},
        "average_precision": {"lime": 0.8, "lrp": 0.9, "occlusion": 0.5},
    }
    (found,) = leaders(tied_run(tmp_path / "run", values=values))
    assert found.text == "truth is led by lrp (best in 1 of 2 metrics, 1 tied)"


def test_a_metric_that_one_method_has_is_no_lead(tmp_path):
    values = {"log_odds_positive": {"lrp": 0.9, "random": 0.1}, "roc_auc": {"lime": 0.9, "lrp": 0.8}}
    run = tied_run(tmp_path / "run", values=values)
    assert winners(run) == {"log_odds_positive": [], "roc_auc": ["lime"]}
    assert [(one.family, one.names) for one in leaders(run)] == [("truth", ("lime",))]


def test_the_best_has_no_star_where_random_is_as_good(tmp_path):
    values = {"comprehensiveness": {"lime": 0.9, "lrp": 0.8, "random": 0.85}}
    tests = [chance("comprehensiveness", "lime", is_better=False), chance("comprehensiveness", "lrp", is_better=True)]
    assert winners(tied_run(tmp_path / "run", values=values, tests=tests)) == {"comprehensiveness": []}
