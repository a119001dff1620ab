"""What is said of a run is what its numbers say, and no more."""

import json
import re

import numpy as np
import pytest

from didact.reports.leaders import leaders, winners
from didact.reports.standing import more_data_advice
from didact.reports.verdict import verdict_of
from didact.results.comparison import Comparison
from didact.results.contrast import Contrast
from reports.folders import change, write_run

CONTROLS = {"random": 0.0, "trivial": -0.05, "human": 0.01}


def verdict(folder, **options):
    return verdict_of(Comparison.load(write_run(folder / "run", **options)))


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
            "No method clearly teaches: “attention_all” ranks first, but this may be chance",
        ),
        (
            "nothing",
            {"attention_all": -0.1, "gradient_norm": -0.2, "lime(samples=100)": -0.2},
            "No method helped: students did no better than without explanations",
        ),
        (
            "beaten",
            {"attention_all": 0.2, "gradient_norm": 0.1, "lime(samples=100)": 0.1, "random": 0.3},
            "“attention_all” ranks first, but random marks teach as much",
        ),
        (
            "beaten",
            {"attention_all": 0.2, "gradient_norm": 0.1, "lime(samples=100)": 0.1, "random": 0.196},
            "“attention_all” ranks first, but is not clearly ahead of random marks",
        ),
    ],
)
def test_levels(tmp_path, level, gains, title):
    found = verdict(tmp_path, gains=CONTROLS | gains, spread=0.02, seeds=6, measured=False)
    assert (found.level, found.title) == (level, title)


def test_one_method(tmp_path):
    found = verdict(tmp_path, methods=("lime",), gains=CONTROLS | {"lime": 0.2}, seeds=6)
    assert found.level == "alone"
    assert "No other method was compared." in found.text


def test_a_method_that_teaches_one_student_of_two(tmp_path):
    folder = write_run(tmp_path / "run", students=("a", "b"), gains=CONTROLS | {"lime(samples=100)": 0.3}, seeds=6)
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    unclaimed = {"low": -0.1, "p": 0.4, "claimed": False}
    spoilt = [
        row | (unclaimed if (row["explainer"], row["student"]) == ("lime(samples=100)", "b") else {}) for row in rows
    ]
    change(folder / "comparison.json", rows=spoilt)
    found = verdict_of(Comparison.load(folder))
    assert found.level == "mixed"
    assert found.title.startswith("“lime(samples=100)” ranks first, and clearly teaches in 1 of 2 combinations")
    assert "The interval exceeds 0 in 1 of 2 combinations" in found.text


def test_only_controls(tmp_path):
    assert verdict(tmp_path, methods=()).title == "Only controls were compared"


def test_without_none_there_is_no_gain(tmp_path):
    folder = write_run(tmp_path / "run")
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    change(folder / "comparison.json", rows=[row | {"gain": None} for row in rows if row["explainer"] != "none"])
    assert verdict_of(Comparison.load(folder)).title == "No gain could be measured"


def test_few_seeds_are_not_called_sure(tmp_path):
    gains = CONTROLS | {"attention_all": 0.3, "gradient_norm": 0.1, "lime(samples=100)": 0.1}
    few = verdict(tmp_path / "few", gains=gains, seeds=3)
    many = verdict(tmp_path / "many", gains=gains, seeds=8)
    assert "With 3 seeds, the variation between students is poorly known, so intervals are wide. Use 8" in few.text
    assert "The interval exceeds 0 (p = 0.03, Holm-corrected for the number of methods)." in many.confidence_notes
    assert "not chance" not in few.text + many.text


@pytest.mark.parametrize(("level", "is_corrected"), [(0.95, False), (1 - 0.05 / 3, True)])
def test_the_summary_says_whether_the_interval_is_corrected(tmp_path, level, is_corrected):
    folder = write_run(tmp_path / "run", gains=CONTROLS | {"attention_all": 0.3}, seeds=8)
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    change(folder / "comparison.json", rows=[row | {"level": level} for row in rows])
    found = verdict_of(Comparison.load(folder))
    assert "(95 % interval " in found.summary
    assert (", corrected for the number of methods; 8 seeds" in found.summary) == is_corrected


def test_a_control_that_teaches_more_is_named(tmp_path):
    gains = {**CONTROLS, "human": 0.4, "attention_all": 0.3, "gradient_norm": 0.1, "lime(samples=100)": 0.1}
    assert "These controls clearly teach more: human (" in verdict(tmp_path / "more", gains=gains, seeds=6).text
    near = verdict(tmp_path / "near", gains=gains | {"human": 0.302}, seeds=6)
    assert "It cannot be distinguished from these controls: human (" in near.text


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
    run = Comparison.load(folder)
    assert winners(run) == {"comprehensiveness": ["lrp"], "sufficiency": ["lrp"], "roc_auc": ["lime"]}
    told = ["faithfulness is led by lrp (best in 2 of 2 metrics)", "truth is led by lime (best in 1 of 1 metric)"]
    assert [one.text for one in leaders(run)] == told
    # What is no better than chance leads nothing.
    tests = [{"metric": "roc_auc", "method": "random", "other": "lime", "low": -0.5, "high": 0.1}]
    change(folder / "measured.json", metrics={"rows": rows, "heading": "truth", "tests": tests})
    assert [one.text for one in leaders(Comparison.load(folder))] == told[:1]


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
    return Comparison.load(folder)


def test_a_tie_names_all_and_tells_which_of_them_leads_elsewhere(tmp_path):
    values = {
        "comprehensiveness": {"lime": 0.2, "lrp": 0.6, "occlusion": 0.3},
        "deletion_auc": {"lime": 0.2, "lrp": 0.7, "occlusion": 0.3},
    }
    tests = [chance(metric, "lime", is_better=False) for metric in values]
    found = verdict_of(tied_run(tmp_path / "run", values=values, tests=tests))
    assert found.title == "“lime” and “lrp” lead, too close to call"  # lrp is better than random: no word in the title
    assert found.tied == ("lime", "lrp")
    assert "Of those tied, “lrp” also leads in faithfulness (best in 2 of 2 metrics)." in found.other_notes
    assert "By faithfulness “lime” is no better than random marks (2 of 2 metrics)." in found.other_notes
    assert all(line in found.text for line in found.other_notes)


def test_a_tie_tells_the_difference_and_its_interval(tmp_path):
    run = tied_run(tmp_path / "run", values={})
    found = verdict_of(run)
    contrast = run.contrasts.get("lime", "lrp", ("same/attention", 250))
    (text,) = [
        line for line in found.comparison_notes if line.startswith("Cannot be distinguished from it: lrp (gain ")
    ]
    assert f"difference {run.format.signed(contrast.difference)}, " in text
    assert text.endswith("It is clearly ahead of occlusion.")


def test_a_method_that_gains_nothing_is_no_tie_even_if_it_cannot_be_told_apart(tmp_path):
    gains = {"lime": 0.06, "lrp": -0.01, "occlusion": -0.005}
    found = verdict(
        tmp_path, methods=tuple(gains), controls=(), gains=gains, spread=0.035, error=0.05, seeds=6, measured=False
    )
    assert (found.level, found.tied) == ("close", ("lime",))
    assert found.title == "“lime” leads, but not clearly: 2 others cannot be distinguished from it"


# -- the rule ---------------------------------------------------------------------------------------------------------

TWO = {"A": 0.197, "B": 0.168}


def test_paired_contrasts_decide_where_intervals_of_gains_overlap(tmp_path):
    """The intervals of both gains share the students without explanations, and overlap; their difference is exact."""
    options = {"methods": tuple(TWO), "controls": (), "gains": TWO, "spread": 0.028, "seeds": 8, "measured": False}
    found = verdict(tmp_path / "exact", error=0.004, **options)
    assert (found.level, found.title) == ("clear", "“A” teaches best")
    assert "It is clearly ahead of every other method. The next one is B (gain +1" in found.text
    assert "overlap" not in found.text
    close = verdict(tmp_path / "wide", error=0.03, **options)
    assert (close.level, close.title) == ("close", "“A” and “B” lead, too close to call")


def test_a_lead_in_some_columns_is_not_called_a_lead_in_all(tmp_path):
    """Clearly ahead with two students of three: headline and sentence say so."""
    folder = write_run(
        tmp_path / "run", students=("a", "b", "c"), methods=("lime", "grad"), controls=(), seeds=8, measured=False,
        gains={"lime": 0.2, "grad": 0.1},
    )  # fmt: skip
    document = json.loads((folder / "comparison.json").read_text())
    for line in document["contrasts"]:
        if line["student"] == "b":
            line["se"] = 0.2
    change(folder / "comparison.json", contrasts=document["contrasts"])
    found = verdict_of(Comparison.load(folder))
    assert found.level == "close"
    assert found.title == "“lime” leads, but is clearly ahead of “grad” in only 2 of 3 combinations"
    assert "; clearly ahead in 2 of 3 combinations)" in found.text
    for line in document["contrasts"]:
        line["se"] = 0.2
    change(folder / "comparison.json", contrasts=document["contrasts"])
    assert verdict_of(Comparison.load(folder)).title == "“lime” and “grad” lead, too close to call"


def test_rivals_are_corrected_for_their_number(tmp_path):
    """A difference that is told alone is not told among ten."""
    names = {f"m{number}": 0.1 for number in range(9)}
    options = {"controls": (), "error": 0.012, "spread": 0.0001, "seeds": 8, "measured": False}
    alone = verdict(tmp_path / "two", methods=("A", "m0"), gains={"A": 0.13, "m0": 0.1}, **options)
    among = verdict(tmp_path / "ten", methods=("A", *names), gains={"A": 0.13, **names}, **options)
    assert (alone.level, among.level) == ("clear", "close")


def test_a_run_without_contrasts_claims_no_lead(tmp_path):
    gains = CONTROLS | {"attention_all": 0.3, "gradient_norm": 0.1, "lime(samples=100)": 0.1}
    found = verdict(tmp_path, gains=gains, seeds=8, contrasts=False, measured=False)
    assert (found.level, found.tied) == ("missing", ("attention_all",))
    assert "Run the same comparison again to add them: nothing is trained twice." in found.text
    for word in ("best", "lead,", "clearly", "tied", "p ="):
        assert word not in found.text


class TestAdvice:
    """What would help, from the parts of the variance."""

    def advice(self, folder, **parts):
        folder = write_run(
            folder / "run", methods=("A", "B"), controls=(), gains={"A": 0.2, "B": 0.19}, seeds=8, measured=False,
            spread=0.002,
        )  # fmt: skip
        lines = json.loads((folder / "comparison.json").read_text())["contrasts"]
        total = parts["seed_variance"] + parts["row_variance"]
        change(folder / "comparison.json", contrasts=[line | parts | {"se": total**0.5} for line in lines])
        return verdict_of(Comparison.load(folder)).text

    def test_students_that_differ_ask_for_seeds(self, tmp_path):
        text = self.advice(tmp_path, seed_variance=1e-4, row_variance=1e-7)
        assert "Most of the uncertainty about A against B comes from the students." in text
        assert re.search(r"use about \d+ seeds \(--seeds \d+\)\.", text)  # no number of rows would do
        assert 50 < int(re.search(r"--seeds (\d+)", text)[1]) < 120  # (2.8 · 0.01 · √8 / 0.01)² = 63

    def test_rows_that_differ_ask_for_rows(self, tmp_path):
        text = self.advice(tmp_path, seed_variance=1e-7, row_variance=1e-4)
        assert "comes from the test rows. To show a difference of the measured size, use about " in text
        assert 10_000 < int(re.search(r"--test-rows (\d+)", text)[1]) < 25_000  # 2.8² · 2000 = 15,680

    def test_differences_too_small_for_any(self, tmp_path):
        assert "no realistic number of seeds or test rows" in self.advice(tmp_path, seed_variance=1.0, row_variance=1.0)

    def test_one_seed_claims_nothing(self, tmp_path):
        found = verdict(tmp_path, methods=("A", "B"), controls=(), gains=TWO, seeds=1, measured=False)
        assert found.level == "unsure"
        assert "With one seed, nothing can be claimed about other seeds. Use 8 (--seeds 8)." in found.confidence_notes
        assert "--test-rows" not in found.text

    def test_the_numbers_advised_would_do(self):
        """With the advised number of seeds, everything else as measured, a lead is claimed four times in five."""
        contrast = Contrast(0.01, 0.01, 7.0, 8, 2000, 1e-4, 0.0, 0.0)
        seeds = int(re.search(r"--seeds (\d+)", more_data_advice(contrast, what="x"))[1])
        dice = np.random.default_rng(0)
        gaps = dice.normal(0.01, 0.01 * np.sqrt(8), (2000, seeds))
        claimed = abs(gaps.mean(1)) / (gaps.std(1, ddof=1) / np.sqrt(seeds)) > 1.99
        assert 0.75 < claimed.mean() < 0.88


def test_students_that_failed_to_learn_are_told(tmp_path):
    folder = write_run(tmp_path / "run", methods=("lime",), controls=(), gains={"lime": 0.2}, seeds=8, measured=False)
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    change(folder / "comparison.json", rows=[row | {"low_seeds": 2 * (row["explainer"] == "lime")} for row in rows])
    text = verdict_of(Comparison.load(folder)).text
    assert "lime: 2 of 8 students failed to learn what the others did; intervals with it are too narrow." in text


class TestFaithfulness:
    """A headline says so where the leader is no more faithful than random, or another method clearly is."""

    def title(self, folder, tests, *, gains=None):
        folder = write_run(
            folder / "run", methods=("lime", "lrp"), controls=("random",), seeds=8, spread=0.02,
            gains=gains or {"lime": 0.3, "lrp": 0.1, "random": 0.0},
        )  # fmt: skip
        values = {name: {"lime": 0.5, "lrp": 0.6, "random": 0.1} for name in ("comprehensiveness", "deletion_auc")}
        change(folder / "measured.json", metrics=metrics_of(values, tests=tests))
        return verdict_of(Comparison.load(folder)).title

    def test_no_better_than_random(self, tmp_path):
        tests = [chance(name, "lime", is_better=False) for name in ("comprehensiveness", "deletion_auc")]
        assert self.title(tmp_path, tests) == "“lime” teaches best, but it is no more faithful than random marks"

    def test_another_is_clearly_more_faithful(self, tmp_path):
        tests = [
            {"metric": name, "method": "lime", "other": "lrp", "low": -0.3, "high": -0.1}
            for name in ("comprehensiveness", "deletion_auc")
        ]
        assert self.title(tmp_path, tests) == "“lime” teaches best; “lrp” is clearly more faithful"

    def test_half_of_the_metrics_is_not_enough(self, tmp_path):
        tests = [
            {"metric": "comprehensiveness", "method": "lime", "other": "lrp", "low": -0.3, "high": -0.1},
            {"metric": "deletion_auc", "method": "lime", "other": "lrp", "low": -0.3, "high": 0.1},
            chance("comprehensiveness", "lime", is_better=False),
            chance("deletion_auc", "lime", is_better=True),
        ]
        assert self.title(tmp_path, tests) == "“lime” teaches best"

    def test_of_several_it_must_hold_for_all(self, tmp_path):
        gains = {"lime": 0.202, "lrp": 0.2, "random": 0.0}
        tests = [
            chance(metric, name, is_better=False)
            for name in ("lime", "lrp")
            for metric in ("comprehensiveness", "deletion_auc")
        ]
        title = self.title(tmp_path / "all", tests, gains=gains)
        assert title.endswith("too close to call, but none of them is more faithful than random marks")
        assert self.title(tmp_path / "one", tests[:2], gains=gains).endswith("too close to call")


def test_students_that_need_no_explanation_leave_nothing_to_gain(tmp_path):
    folder = write_run(tmp_path / "run", methods=("lime",), controls=(), gains={"lime": 0.0}, seeds=6)
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    change(folder / "comparison.json", rows=[row | {"mean": 0.999} for row in rows])
    found = verdict_of(Comparison.load(folder))
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
    for low, text in ((0.001, "The interval barely exceeds 0 (p"), (0.1, "The interval exceeds 0 (p")):
        change(folder / "comparison.json", rows=[row | {"low": low, "gain": row["gain"] and 0.2} for row in rows])
        assert verdict_of(Comparison.load(folder)).confidence_notes[0].startswith(text)


def test_a_gain_that_is_not_claimed_is_not_taught(tmp_path):
    """Whatever its interval says: `claimed` decides, and nothing else."""
    folder = write_run(tmp_path / "run", methods=("lime",), controls=(), gains={"lime": 0.2}, seeds=6)
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    change(folder / "comparison.json", rows=[row | {"claimed": False, "p": 0.12} for row in rows])
    found = verdict_of(Comparison.load(folder))
    assert found.level == "unsure"
    assert "The interval includes 0 (p = 0.12" in found.text


# -- students that did not learn --------------------------------------------------------------------------------------


def columns(*unlearned, reason="all answer one class"):
    return [{"student": name, "size": 250, "learned": False, "reason": reason} for name in unlearned]


def test_no_student_learned(tmp_path):
    gains = dict.fromkeys(("attention_all", "gradient_norm", "lime(samples=100)"), 0.0)
    found = verdict(tmp_path, gains=CONTROLS | gains, about={"columns": columns("same/attention")}, seeds=6)
    assert found.level == "unlearned"
    assert found.title == "The students did not learn; this run says nothing about the explanations"
    assert found.best is None
    assert "gains are chance. All answer one class." in found.summary
    for word in ("--train-sizes", "--epochs", "--students", "--base"):
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
    run = Comparison.load(folder)
    found = verdict_of(run)
    assert (found.level, found.best) == ("clear", "attention_all")
    assert "Left out, because their students did not learn: b, 250 rows." in found.confidence_notes
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
    assert "Always predicting the most frequent answer reaches 50.0 %." in found.comparison_notes


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


def test_no_leader_is_named_where_the_best_is_best_in_few_metrics(tmp_path):
    values = {
        "comprehensiveness": {"lime": 0.9, "lrp": 0.1, "occlusion": 0.2},
        "log_odds_positive": {"lime": 0.1, "lrp": 0.9, "occlusion": 0.2},
        "deletion_auc": {"lime": 0.1, "lrp": 0.2, "occlusion": 0.9},
        "roc_auc": {"lime": 0.9, "lrp": 0.8},
    }
    run = tied_run(tmp_path / "run", values=values)
    text = "no method leads in faithfulness (none is best in more than 1 of 3 metrics)"
    assert [leader.text for leader in leaders(run)] == [text, "truth is led by lime (best in 1 of 1 metric)"]
    other_notes = " ".join(verdict_of(run).other_notes)
    assert text in other_notes
    assert "point the same way" not in other_notes


def test_a_metric_that_one_method_has_is_no_lead(tmp_path):
    values = {"log_odds_positive": {"lrp": 0.9, "random": 0.1}, "roc_auc": {"lime": 0.9, "lrp": 0.8}}
    run = tied_run(tmp_path / "run", values=values)
    assert winners(run) == {"log_odds_positive": [], "roc_auc": ["lime"]}
    assert [(one.family, one.names) for one in leaders(run)] == [("truth", ("lime",))]


def test_the_best_has_no_star_where_random_is_as_good(tmp_path):
    values = {"comprehensiveness": {"lime": 0.9, "lrp": 0.8, "random": 0.85}}
    tests = [chance("comprehensiveness", "lime", is_better=False), chance("comprehensiveness", "lrp", is_better=True)]
    assert winners(tied_run(tmp_path / "run", values=values, tests=tests)) == {"comprehensiveness": []}
