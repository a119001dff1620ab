"""What a comparison takes, how it is fitted to a budget, and what a resumed run reads."""

import json
from dataclasses import replace

import numpy as np
import pytest

import didact
from didact.comparing import prepare as preparing
from didact.comparing.assemble import assemble
from didact.comparing.budget import METRIC_ROWS, ROW_BUDGETS, fit_plan, metric_rows
from didact.comparing.config import CompareConfig, read_plan
from didact.comparing.costs import Costs, StudentCost, measure_costs
from didact.comparing.forecast import Forecast, Stage, Workload, expected_used, format_duration, stages, total_seconds
from didact.core.dataset import Split
from didact.data.subset import subset
from didact.errors import PlanError

METHODS = ["gradient_norm", "lrp", "occlusion", "lime"]


@pytest.fixture
def roster(school):
    """Plan, teacher and rows of a small comparison; what is asked for is said by keyword."""

    def make(explainers=METHODS, **asked):
        plan = CompareConfig.of({"model": "m", "data": "planted/sentiment", "explainers": explainers} | asked)
        return assemble(plan, *school(), [], probe=False), plan

    return make


def costs(roster, *, explain=0.001, train=1e-4, evaluate=0.01, **slow) -> Costs:
    labels = [one.label for one in roster.methods if one.method is not None]
    students = {str(student): StudentCost(train, train / 4) for student in roster.students}
    return Costs(0.001, {name: slow.get(name, explain) for name in labels}, students, evaluate, 0.0)


class TestEstimate:
    @pytest.mark.parametrize(("pool", "size", "seeds"), [(200, 50, 4), (100, 100, 3), (300, 30, 8)])
    def test_rows_that_subsets_share(self, pool, size, seeds):
        ids = [f"row {place}" for place in range(pool)]
        used_rows = {place for seed in range(seeds) for place in subset(ids, size=size, seed=seed).tolist()}
        assert expected_used(pool, size, seeds) == pytest.approx(len(used_rows), rel=0.08)

    def test_every_part_is_counted(self, roster):
        found, _ = roster(["gradient_norm", "lime"], train_sizes=[20], seeds=4)
        known = costs(found, lime=0.5)
        work = Workload(("none", "random", "trivial", "human", "gradient_norm", "lime"), (20,), 4, 30, 8, 16, 10, 2)
        parts = {part.name: part for part in stages(found, known, work)}
        assert parts["labelling"].seconds == pytest.approx(0.001 * (30 + 8 + 16))
        assert parts["explaining: lime"].seconds == pytest.approx(0.5 * 30)
        assert parts["explaining: random"].count == 4 * 20  # drawn again for each seed
        epochs = found.training(found.students[0]).epochs
        run = epochs * (20 * 1e-4 + 8 * 2.5e-5) + 16 * 2.5e-5
        assert parts["training students"].seconds == pytest.approx(6.0 + 1.15 * 6 * 4 * run / 2)
        assert parts["training students"].count == 24
        # 10 rows explained and scored; the cost of methods that are no controls is measured on 16 rows more.
        scored = 3 * 0.001 * 10 + (0.001 + 0.5) * 26 + 0.01 * 10 * 5
        assert parts["scoring with other metrics"].seconds == pytest.approx(scored)

    def test_costs_are_measured_on_real_parts(self, school):
        plan = CompareConfig.of(
            {"model": "m", "data": "planted/sentiment", "explainers": ["gradient_norm"], "train_sizes": [12]}
        )
        found = assemble(plan, *school(), [])
        known = measure_costs(found)
        assert set(known.explain) == {"random", "trivial", "human", "gradient_norm"}
        assert min(known.answer, known.evaluate, *known.explain.values()) > 0
        (student,) = known.students.values()
        assert student.train > student.predict > 0

    @pytest.mark.parametrize(
        ("seconds", "text"), [(0.2, "1 s"), (40, "40 s"), (700, "12 min"), (7200, "2.0 h"), (3e5, "3.5 days")]
    )
    def test_times_for_people(self, seconds, text):
        assert format_duration(seconds) == text


class TestFitting:
    def test_all_fits_into_much_time(self, roster):
        found, asked = roster()
        plan = fit_plan(found, costs(found), asked, workers=2, seconds=10_000)
        assert plan.explainers == tuple(METHODS)
        assert plan.train_sizes == (30,)  # all the rows there are
        assert (plan.eval_rows, plan.test_rows, plan.left_out) == (16, 16, ())
        assert len(plan.seeds) == 8

    def test_methods_that_didact_chose_go_first_the_slowest_first(self, roster):
        found, asked = roster()
        found = replace(found, defaults=frozenset(METHODS))
        known = costs(found, lime=10.0, occlusion=5.0)
        plan = fit_plan(found, known, asked.with_fields(explainers=()), workers=2, seconds=60)
        assert plan.explainers == ("gradient_norm", "lrp")
        assert [line.split()[0] for line in plan.left_out] == ["lime", "occlusion"]
        assert "(about 10 min to explain, train with and score)" in plan.left_out[0]  # 62 rows of 10 s each
        assert len(plan.seeds) == 8  # seeds stay: they decide what can be claimed

    def test_then_rows(self, roster):
        """A larger level is taken wherever it fits, and nothing is left out for it."""
        found, asked = roster(["gradient_norm", "lrp"])
        found = replace(found, pool=replace(found.pool, rows=found.pool.rows * 100))
        found = replace(found, config=found.config.with_fields(train_sizes=(500,)))
        known = costs(found, explain=0.01, train=1e-3, evaluate=0.0)
        sizes = [fit_plan(found, known, asked, workers=2, seconds=s).train_sizes[0] for s in (30, 60, 120, 1000)]
        assert sizes == sorted(sizes)
        assert sizes[0] < sizes[-1] == ROW_BUDGETS[0].size

    def test_then_samples(self, roster):
        found, asked = roster(["gradient_norm", "lime"])
        plan = fit_plan(found, costs(found, lime=0.5), asked, workers=2, seconds=24)
        assert plan.explainers[0] == "gradient_norm"
        assert plan.explainers[1].startswith("lime(samples=")
        assert int(plan.explainers[1].removeprefix("lime(samples=").removesuffix(")")) >= 100
        assert "lime draws fewer samples than usual" in plan.left_out[0]

    def test_methods_that_were_asked_for_go_last_and_it_is_said(self, roster):
        found, asked = roster(["gradient_norm", "lime"])
        plan = fit_plan(found, costs(found, lime=50.0), asked, workers=2, seconds=20)
        assert plan.explainers == ("gradient_norm",)
        assert any(line.startswith("lime (about") for line in plan.left_out)

    def test_too_little_time_is_said(self, roster):
        found, asked = roster(["gradient_norm"])
        plan = fit_plan(found, costs(found, gradient_norm=50.0), asked, workers=2, seconds=5)
        assert plan.explainers == ("gradient_norm",)
        assert plan.left_out[-1].endswith("the budget leaves 5 s: give more time or fewer seeds.")

    def test_numbers_that_were_asked_for_stay(self, roster):
        found, asked = roster(["gradient_norm"], train_sizes=[25], seeds=3, test_rows=7, eval_rows=5)
        plan = fit_plan(found, costs(found), asked, workers=2, seconds=1)
        assert (plan.train_sizes, len(plan.seeds), plan.test_rows, plan.eval_rows) == ((25,), 3, 7, 5)

    def test_test_rows_that_the_first_look_left_out_count(self, roster):
        """Before anything is fitted only some test rows are labelled; the plan may use all there are."""
        found, asked = roster(["gradient_norm"])
        plan = fit_plan(found, costs(found), asked, workers=2, seconds=10_000, test=5000)
        assert (plan.test_rows, plan.eval_rows) == (ROW_BUDGETS[0].test, ROW_BUDGETS[0].metrics)

    def test_metrics_without_a_budget_take_at_most_half_as_long_as_all_else(self, roster):
        found, _ = roster(["gradient_norm"])
        row = found.data["test"][0]
        larger = {
            name: Split(name, [replace(row, id=str(number)) for number in range(count)])
            for name, count in (("dev", 50), ("test", 500))
        }
        data = replace(found.data, splits={**found.data.splits, **larger})
        found = replace(found, sample=replace(found.sample, data=data))
        assert metric_rows(found, costs(found, evaluate=0.001), workers=2) == METRIC_ROWS[1]
        assert metric_rows(found, costs(found, evaluate=50.0), workers=2) == METRIC_ROWS[0]
        rows = metric_rows(found, costs(found, evaluate=0.35), workers=2)
        assert METRIC_ROWS[0] < rows < METRIC_ROWS[1]


class TestBudgets:
    @pytest.fixture
    def eval_rows(self, monkeypatch):
        """Costs are not measured but made up; how often they were asked for is counted."""
        calls = []

        def made_up(roster, **_):
            calls.append(roster)
            return costs(roster)

        monkeypatch.setattr(preparing, "measure_costs", made_up)
        return calls

    @pytest.mark.parametrize(("text", "seconds"), [("20m", 1200), ("2h", 7200), ("1h30m", 5400), ("90s", 90), (30, 30)])
    def test_are_times(self, text, seconds):
        assert CompareConfig.of({"model": "m", "data": "planted/sentiment", "budget": text}).budget == seconds

    @pytest.mark.parametrize("text", ["soon", "20 parsecs", "", "0s", -3, "1d"])
    def test_others_are_faults(self, text):
        with pytest.raises(PlanError, match="budget"):
            CompareConfig.of({"model": "m", "data": "planted/sentiment", "budget": text})

    def test_the_fitted_plan_is_written_and_read_again(self, compare, eval_rows, tmp_path):
        first = compare(budget="10m", eval_rows=None)
        written = read_plan(tmp_path / "run" / "plan.toml")
        assert written["budget"] == 600
        assert written["fitted_from"]
        assert (tmp_path / "run" / "measured.json").is_file()
        again = compare(budget="10m", eval_rows=None)
        assert len(eval_rows) == 1
        assert again.rows == first.rows
        assert read_plan(tmp_path / "run" / "plan.toml") == written

    def test_another_request_is_fitted_anew(self, compare, eval_rows):
        compare(budget="10m")
        compare(budget="20m")
        compare(budget="20m", seeds=3)
        assert len(eval_rows) == 3

    def test_a_fitted_plan_can_be_given_as_a_plan(self, compare, eval_rows, tmp_path):
        first = compare(budget="10m")
        said = read_plan(tmp_path / "run" / "plan.toml")
        again = compare(out=tmp_path / "other", **said)
        assert len(eval_rows) == 1
        assert [row["gain"] for row in again.rows] == [row["gain"] for row in first.rows]

    def test_what_needs_no_time_measures_none(self, compare, eval_rows):
        compare(eval_rows=0)
        assert not eval_rows

    def test_metrics_are_scored_by_default_where_a_run_is_kept(self, compare, eval_rows, tmp_path):
        compare(eval_rows=None)
        assert json.loads((tmp_path / "run" / "measured.json").read_text())["methods"]
        compare(eval_rows=None, out=None)
        assert len(eval_rows) == 1


class TestDryRuns:
    @pytest.fixture
    def forecast(self, school, tmp_path):
        def ask(explainers=("gradient_norm",), **options):
            small = {"train_sizes": [12], "seeds": 2, "workers": 0, "training": {"epochs": 1}}
            asked = {"out": tmp_path / "run", "eval_rows": 0} | small | options
            return didact.forecast(*school(), list(explainers), ["same/attention"], **asked)

        return ask

    def test_count_runs_and_what_is_done(self, forecast, compare, tmp_path):
        before = forecast()
        assert (before.runs, before.done) == (10, 0)  # none, random, trivial, human and the method, two seeds each
        assert not (tmp_path / "run").exists()
        compare(eval_rows=0)
        after = forecast()
        assert (after.runs, after.done) == (10, 10)
        assert {part.name for part in after.stages if part.seconds} == {"report"}
        more = forecast(seeds=3)
        assert (more.runs, more.done) == (15, 10)
        counts = {part.name: part.count for part in more.stages}
        assert counts["explaining: random"] == 12  # of the new seed
        assert 0 < counts["explaining: gradient_norm"] <= 12

    def test_of_a_learned_explainer(self, forecast, compare):
        compare(explainers=["smat"], eval_rows=0, training={"epochs": 1, "batch_size": 4})
        found = forecast(["smat"], training={"epochs": 1, "batch_size": 4})
        assert found.done == found.runs

    def test_what_a_function_has_done_is_not_known(self, school, tmp_path):
        def letters(texts):
            many = np.array([text.count("o") > 4 for text in texts])
            return np.stack([~many, many], 1).astype(float)

        teacher = didact.teacher_from_function(letters, classes=["few", "many"])
        data = school()[1]
        options = {"train_sizes": [12], "seeds": 2, "workers": 0, "training": {"epochs": 1}, "eval_rows": 0}
        didact.compare(teacher, data, ["occlusion"], ["native/attention"], out=tmp_path / "run", **options)
        found = didact.forecast(teacher, data, ["occlusion"], ["native/attention"], out=tmp_path / "run", **options)
        assert found.done is None
        assert "done already: unknown" in found.table()

    def test_a_table_and_a_document(self):
        parts = (Stage("labelling", 100, "rows", 10.0), Stage("training students", 8, "runs", 60.0))
        found = Forecast(("Plan: 8 runs",), parts, 8, 4, 2, 3.0, ("a note",))
        assert found.seconds == 70
        text = found.table()
        for part in (
            "Plan: 8 runs",
            "labelling",
            "100 rows",
            "70 s",
            "Runs: 8, done already: 4; 2 at a time.",
            "a note",
        ):
            assert part in text
        assert found.to_document()["seconds"] == 70

    def test_total(self):
        assert total_seconds([Stage("a", 1, "rows", 2.0), Stage("b", 1, "rows", 3.0)]) == 5.0
