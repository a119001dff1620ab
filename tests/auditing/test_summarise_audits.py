"""`summarise_audits` on audits made by hand: every count and every mean is known."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from auditing.made import METRIC, OTHER_METRIC, STABILITY, STUDENT, audit, equal, leak, less, methods, step, values
from didact.auditing.summarise import summarise_audits
from didact.errors import OptionError, RecordError
from didact.results.audit import Audit, AuditedEvaluator
from didact.results.audit_summary import MIN_DROP, AuditSummary, EvaluatorScore, Mean
from didact.results.evidence import Evidence


def score(*audits, name=STUDENT.name):
    found = summarise_audits(audits).score(name)
    assert found is not None
    return found


class TestSteps:
    def test_right_and_wrong(self):
        """Wrong is only what is clearly wrong: an interval below 0. No difference is not right."""
        answers = [step(0.05), step(0.001), step(0.0), step(-0.005), step(-0.05)]
        counted = score(audit(pairs=answers))
        assert (counted.steps, counted.steps_right, counted.steps_wrong) == (5, 2, 1)
        assert counted.right is not None
        assert counted.right.value == pytest.approx(2 / 5)

    def test_small_drops_do_not_count(self):
        answers = [step(0.1, drop=MIN_DROP), step(-0.1, drop=MIN_DROP - 1e-6), step(0.1, drop=0.5)]
        counted = score(audit(pairs=answers))
        assert (counted.steps, counted.steps_right, counted.steps_wrong) == (2, 2, 0)

    def test_without_truth_all_steps_count(self):
        answers = [step(0.1, drop=None), step(-0.1, drop=-0.3), step(0.1, drop=0.001)]
        counted = score(audit(pairs=answers, verified=None))
        assert (counted.steps, counted.steps_right) == (3, 2)
        assert not summarise_audits([audit(pairs=answers, verified=False)]).knows_truth
        assert summarise_audits([audit(pairs=answers, verified=None, is_exact=True)]).knows_truth

    def test_an_uneven_series_is_left_out_as_a_whole(self):
        answers = [step(0.1, drop=0.2), step(0.1, drop=0.0), step(0.1, drop=0.1, base="lrp")]
        summary = summarise_audits([audit(pairs=answers)])
        counted = summary.score(STUDENT.name)
        assert (counted.steps, counted.steps_right) == (1, 1)
        assert summary.left_out == ("a: lime, by rows (students)",)
        assert "lime, by rows (students)" in summary.table()

    def test_rows_and_units_are_two_series(self):
        answers = [step(0.1, drop=-0.2), step(0.1, damaged="units"), step(0.1, drop=0.01, damaged="units")]
        assert score(audit(pairs=answers)).steps == 1

    def test_students_and_metrics_are_given_other_rows(self):
        """The AUC falls on the rows of students and not on the evaluated ones: only metrics lose the series."""
        answers = [step(0.1), step(-0.1, drop=-0.1, by=METRIC)]
        summary = summarise_audits([audit(pairs=answers, evaluators=[STUDENT, METRIC])])
        assert (summary.score(STUDENT.name).steps, summary.score("srg").steps) == (1, 0)
        assert summary.left_out == ("a: lime, by rows (metrics)",)

    def test_an_unknown_drop_leaves_the_series_out(self):
        assert score(audit(pairs=[step(0.1), step(0.1, drop=None)])).steps == 0

    def test_a_pair_without_an_answer_does_not_count(self):
        missing = replace(step(0.1), difference=None, low=None, high=None)
        assert score(audit(pairs=[missing, step(0.1)])).steps == 1


class TestEqual:
    def test_intervals_that_exclude_zero(self):
        answers = [equal(0.02, 0.001, 0.04), equal(-0.03, -0.05, -0.001), equal(0.01, 0.0, 0.02), equal(0.005)]
        counted = score(audit(pairs=answers))
        assert (counted.equal, counted.equal_differ, counted.by_construction) == (4, 2, 0)
        assert counted.differ is not None
        assert counted.move is not None
        assert counted.differ.value == pytest.approx(0.5)
        assert counted.move.value == pytest.approx((0.02 + 0.03 + 0.01 + 0.005) / 4)

    def test_pairs_by_construction_do_not_count(self):
        answers = [equal(0.0, 0.0, 0.0, by_construction=True), equal(0.0, 0.0, 0.0), equal(0.5)]
        counted = score(audit(pairs=answers))
        assert (counted.equal, counted.equal_differ, counted.by_construction) == (2, 1, 1)
        assert counted.move.value == pytest.approx(0.25)

    def test_only_pairs_by_construction(self):
        counted = score(audit(pairs=[equal(0.0, 0.0, 0.0, by_construction=True)]))
        assert (counted.equal, counted.differ, counted.move) == (0, None, None)
        assert counted.goals()["equal"]

    def test_no_pairs_at_all(self):
        assert not score(audit(pairs=[step(0.1)])).goals()["equal"]


class TestLess:
    def test_ahead_by_the_interval(self):
        answers = [less(0.05), less(0.005), less(-0.05), less(0.011)]
        counted = score(audit(pairs=answers))
        assert (counted.less, counted.less_win) == (4, 2)


class TestLeaks:
    @pytest.mark.parametrize(("difference", "wins"), [(0.05, 1), (0.005, 0), (-0.05, 0)])
    def test_a_leak_wins_if_its_interval_is_above_0(self, difference, wins):
        counted = score(audit(pairs=[leak(difference, "none")]))
        assert (counted.leaks, counted.leaks_win) == (1, wins)

    def test_leaks_count_in_every_audit(self):
        answers = [leak(0.05, "none", first=name) for name in ("trivial", "leak_count")]
        counted = score(audit("a", answers), audit("b", answers))
        assert (counted.leaks, counted.leaks_win) == (4, 4)


class TestRanking:
    AREAS = (0.9, 0.8, 0.8, 0.6, 0.5)
    VALUES = (0.4, 0.5, 0.1, 0.1, 0.0)

    def test_tau_is_that_of_scipy(self):
        counted = score(audit(explanations=methods(self.AREAS), values=values(self.VALUES)))
        assert counted.tau is not None
        assert counted.tau.value == pytest.approx(stats.kendalltau(self.VALUES, self.AREAS).statistic)
        assert counted.span == pytest.approx(0.5)
        assert counted.methods == 5

    def test_students_and_metrics_have_their_own_areas(self):
        made = audit(
            explanations=methods((0.9, 0.8, 0.7), (0.7, 0.8, 0.9)),
            values=[*values((3, 2, 1)), *values((3, 2, 1), METRIC)],
            evaluators=[STUDENT, METRIC],
        )
        assert score(made).tau.value == 1.0
        assert score(made, name="srg").tau.value == -1.0

    def test_changed_versions_are_no_methods(self):
        listed = [*methods((0.9, 0.8, 0.7))]
        listed += [replace(listed[0], name="m3", is_method=False, train_auc=0.1)]
        assert score(audit(explanations=listed, values=values((3, 2, 1, 9)))).tau.value == 1.0

    def test_two_methods_have_no_ranking(self):
        counted = score(audit(explanations=methods((0.9, 0.8)), values=values((2, 1))))
        assert (counted.tau, counted.span, counted.methods) == (None, 1.0, 2)

    def test_methods_without_an_area_or_a_value_are_not_ranked(self):
        counted = score(audit(explanations=methods((0.9, 0.8, 0.7, None, 0.5)), values=values((3, 2, 1, 7, None))))
        assert (counted.tau.value, counted.span, counted.methods) == (1.0, 6.0, 3)

    @pytest.mark.parametrize("numbers", [(1, 1, 1), (0.0, 0.0, 0.0)])
    def test_equal_values_have_no_tau(self, numbers):
        assert score(audit(explanations=methods((0.9, 0.8, 0.7)), values=values(numbers))).tau is None

    def test_an_unverified_teacher_has_no_tau(self):
        made = audit(explanations=methods(self.AREAS), values=values(self.VALUES), verified=False)
        assert (score(made).tau, score(made).span) == (None, pytest.approx(0.5))
        assert (
            "The true AUC is unknown here: all steps of damage count, and there is no τ."
            in summarise_audits([made]).table()
        )


def ranked(name, **orders):
    """An audit in which evaluators order five methods; the true order is 5, 4, 3, 2, 1."""
    by_name = {"student": STUDENT, "srg": METRIC, "sufficiency": OTHER_METRIC, "iou_lexical": STABILITY}
    return audit(
        name,
        explanations=methods((0.9, 0.8, 0.7, 0.6, 0.5)),
        values=[value for who, order in orders.items() for value in values(order, by_name[who])],
        evaluators=[by_name[who] for who in orders],
    )


RIGHT, SWAPPED, WRONG = (5, 4, 3, 2, 1), (4, 5, 3, 2, 1), (1, 2, 3, 4, 5)


class TestLead:
    def test_over_the_best_faithfulness_metric_paired_by_audit(self):
        """Of srg the mean τ is (1 − 1) / 2 = 0, of sufficiency 0.8: the lead is that over sufficiency."""
        audits = [
            ranked("a", student=RIGHT, srg=RIGHT, sufficiency=SWAPPED),
            ranked("b", student=RIGHT, srg=WRONG, sufficiency=SWAPPED),
        ]
        counted = score(*audits)
        assert counted.tau_lead is not None
        assert counted.tau_lead.by_audit == pytest.approx((0.2, 0.2))
        assert counted.goals()["tau"]

    def test_metrics_of_stability_are_no_rivals(self):
        audits = [ranked("a", student=SWAPPED, srg=WRONG, iou_lexical=RIGHT)]
        assert score(*audits).tau_lead.value == pytest.approx(0.8 + 1)
        assert score(ranked("a", student=RIGHT, iou_lexical=WRONG)).tau_lead is None

    def test_a_metric_that_other_audits_lack_is_no_rival(self):
        audits = [ranked("a", student=SWAPPED, srg=WRONG, sufficiency=RIGHT), ranked("b", student=SWAPPED, srg=WRONG)]
        assert score(*audits).tau_lead.value == pytest.approx(1.8)

    def test_audits_of_the_same_name_are_two(self):
        """The default name has that of the teacher, which two teachers may share."""
        audits = [
            ranked("same", student=RIGHT, srg=WRONG),
            replace_teacher(ranked("same", student=WRONG, srg=SWAPPED), "other"),
        ]
        assert score(*audits).tau_lead.by_audit == pytest.approx((2.0, -1.8))

    def test_a_tie_is_no_lead(self):
        assert not score(ranked("a", student=RIGHT, srg=RIGHT)).goals()["tau"]

    def test_metrics_have_no_lead(self):
        assert score(ranked("a", student=RIGHT, srg=RIGHT), name="srg").tau_lead is None

    def test_metrics_that_are_not_registered_here(self):
        mine = AuditedEvaluator("my_own_metric", metric="my_own_metric")
        made = audit(
            explanations=methods((0.9, 0.8, 0.7)),
            values=[*values((3, 2, 1)), *values((3, 2, 1), mine)],
            evaluators=[STUDENT, mine],
        )
        assert score(made).tau_lead is None
        assert score(made, name="my_own_metric").tau.value == 1.0


def replace_teacher(made, fingerprint):
    teacher = replace(made.teacher, fingerprint=fingerprint)
    return replace(made, evidence=replace(made.evidence, teachers=(teacher,)))


class TestIntervals:
    SHARES = (1.0, 0.5, 0.75, 0.25)

    def audits(self):
        return [
            audit(f"a{number}", [step(0.1 if index < 4 * share else -0.1) for index in range(4)])
            for number, share in enumerate(self.SHARES)
        ]

    def test_t_over_audits(self):
        mean = score(*self.audits()).right
        low, high = stats.t.interval(0.95, 3, np.mean(self.SHARES), stats.sem(self.SHARES))
        assert (mean.value, mean.low, mean.high) == pytest.approx((np.mean(self.SHARES), low, high))
        assert mean.by_audit == self.SHARES

    def test_one_audit_has_no_interval(self):
        mean = score(self.audits()[0]).right
        assert (mean.value, mean.low, mean.high, mean.by_audit) == (1.0, None, None, (1.0,))

    def test_audits_without_steps_do_not_count(self):
        mean = score(*self.audits()[:2], audit("none", [equal(0.1)])).right
        assert mean.by_audit == (1.0, 0.5)


class TestGoals:
    def perfect(self, **changes):
        fields = {
            "steps": 10, "steps_right": 9, "equal": 20, "equal_differ": 1, "leaks": 2, "move": Mean(0.015),
            "tau_lead": Mean(0.01),
        }  # fmt: skip
        return EvaluatorScore(**{"name": "x"} | fields | changes)

    def test_all_reached(self):
        assert self.perfect().passes
        assert self.perfect().goals() == dict.fromkeys(["steps", "equal", "move", "leaks", "tau"], True)

    @pytest.mark.parametrize(
        ("changes", "goal"),
        [
            ({"steps_right": 8}, "steps"),
            ({"steps": 0, "steps_right": 0}, "steps"),
            ({"equal_differ": 2}, "equal"),
            ({"equal": 0, "equal_differ": 0}, "equal"),
            ({"move": Mean(0.0151)}, "move"),
            ({"leaks_win": 1}, "leaks"),
            ({"less_win": 1}, "leaks"),
            ({"leaks": 0}, "leaks"),
            ({"tau_lead": Mean(0.0)}, "tau"),
            ({"tau_lead": None}, "tau"),
        ],
    )
    def test_each_alone(self, changes, goal):
        assert self.perfect(**changes).missed == (goal,)
        assert not self.perfect(**changes).passes

    def test_metrics_have_no_goal_for_move_and_tau(self):
        assert self.perfect(is_metric=True, move=Mean(3.0), tau_lead=None).passes


class TestSummary:
    def made(self):
        pairs = [step(0.1), equal(0.5), leak(0.5, "none"), less(-0.5), step(0.1, by=METRIC), equal(0.0, by=METRIC)]
        return audit("a", pairs, evaluators=[METRIC, replace(STUDENT, reference=0.5, seconds=2.0)])

    def test_what_it_says_of_the_audits(self):
        other = audit("b", [step(0.1)], seeds=1, fingerprint="teacher of a", task="pair")
        summary = summarise_audits([self.made(), other])
        assert (summary.audits, summary.tasks, summary.data) == (
            ("a", "b"),
            ("classification", "pair"),
            ("planted/sentiment",),
        )
        assert (summary.teachers, summary.seeds, summary.knows_truth) == (1, 1, True)
        assert summary.score(STUDENT.name).audits == 2
        assert summary.score("srg").audits == 1
        assert summary.score("nothing") is None

    def test_students_first_and_the_best_first(self):
        better = replace(STUDENT, name="better")
        pairs = [step(0.1, by=METRIC), step(-0.1), step(0.1, by=better)]
        summary = summarise_audits([audit(pairs=pairs, evaluators=[METRIC, STUDENT, better])])
        assert [item.name for item in summary.scores] == ["better", STUDENT.name, "srg"]

    def test_files(self, tmp_path):
        summary = summarise_audits([self.made()])
        summary.save(tmp_path / "scores.json")
        assert AuditSummary.load(tmp_path / "scores.json").to_document() == summary.to_document()
        assert AuditSummary.load(tmp_path / "scores.json").table() == summary.table()
        summary.save(tmp_path / "scores.csv")
        lines = (tmp_path / "scores.csv").read_text().splitlines()
        assert len(lines) == 3
        assert "tau_lead_low" in lines[0]
        (tmp_path / "scores.json").write_text("{}")
        with pytest.raises(RecordError, match=r"scores\.json is damaged"):
            AuditSummary.load(tmp_path / "scores.json")
        with pytest.raises(OptionError, match="didact audit table"):
            AuditSummary.load(tmp_path / "none.json")

    def test_the_table(self):
        text = summarise_audits([self.made()]).table()
        student, metric = (
            next(line for line in text.splitlines() if line.startswith(f" {name}")) for name in (STUDENT.name, "srg")
        )
        assert " ".join(student.split()).startswith(
            "pool/attention, raw, new rows 1/1 = 100% 1/1 = 100% 50.0 / – 0/1 1/1 – 50.0 2 equal, move, leaks, tau"
        )
        assert " ".join(metric.split()) == "srg 1/1 = 100% 0/1 = 0% 0.000 / – 0/0 0/0 – – – leaks"
        assert "1 audit of 1 teacher on planted/sentiment; 2 seeds." in text
        assert "All goals are reached by: no evaluator." in text
        assert "<table" in summarise_audits([self.made()])._repr_html_()

    def test_no_audit(self):
        with pytest.raises(OptionError, match="There is no audit"):
            summarise_audits([])

    def test_the_same_audit_twice(self):
        with pytest.raises(OptionError, match="'a' is given twice"):
            summarise_audits([self.made(), self.made()])

    def test_two_evaluators_that_two_audits_share_in_part(self):
        """Every evaluator counts the audits that it took part in."""
        summary = summarise_audits([self.made(), audit("b", [step(-0.1)])])
        assert (summary.score(STUDENT.name).steps, summary.score("srg").steps) == (2, 1)


class TestAuditFiles:
    def test_it_reads_back_to_the_same_summary(self, tmp_path):
        made = TestSummary().made()
        made.save(tmp_path / "audit.json")
        loaded = Audit.load(tmp_path / "audit.json")
        assert loaded.to_document() == made.to_document()
        assert summarise_audits([tmp_path / "audit.json"]).to_document() == summarise_audits([made]).to_document()
        assert repr(loaded) == "Audit('a', 2 evaluators, 0 explanations)"

    def test_nan_is_unknown(self, tmp_path):
        audit(pairs=[step(math.nan)], values=values((math.nan,))).save(tmp_path / "audit.json")
        loaded = Audit.load(tmp_path / "audit.json")
        assert (loaded.pairs[0].difference, loaded.values[0].value) == (None, None)

    def test_other_evidence(self, tmp_path):
        made = audit().to_evidence()
        replace(made, kind="trial").save(tmp_path / "1.json")
        with pytest.raises(RecordError, match=r"1\.json holds no audit\. Part 'a' holds evidence of kind 'trial'"):
            Audit.load(tmp_path / "1.json")
        replace(made, teachers=()).save(tmp_path / "2.json")
        with pytest.raises(RecordError, match=r"2\.json holds no audit\. Part 'a' must have one teacher, and has 0"):
            Audit.load(tmp_path / "2.json")

    @pytest.mark.parametrize("damage", ["no table", "no column", "a text"])
    def test_damaged_tables(self, tmp_path, damage):
        document = json.loads(json.dumps(audit(pairs=[step(0.1)]).to_document()))
        pairs = document["tables"]["pairs"]
        if damage == "no table":
            del document["tables"]["pairs"]
        elif damage == "no column":
            index = pairs["names"].index("relation")
            pairs["names"].pop(index)
            pairs["values"].pop(index)
        else:
            document["tables"]["explanations"] = {"names": ["name", "level"], "values": [["x"], ["high"]]}
        del document["fingerprint"]
        (tmp_path / "audit.json").write_text(json.dumps(document))
        assert isinstance(Evidence.load(tmp_path / "audit.json"), Evidence)
        with pytest.raises(RecordError, match=r"audit\.json holds no audit"):
            Audit.load(tmp_path / "audit.json")


def test_students_that_learned_nothing_are_named():
    answers = [equal(0.0, 0.0, 0.0, by_construction=True)]
    deaf = replace(STUDENT, learned=False)
    summary = summarise_audits([audit("a", answers, evaluators=[deaf]), audit("b", answers)])
    assert summary.scores[0].unlearned == 1
    assert f"Students learned nothing without explanations in some audits: {STUDENT.name} (1)." in summary.table()
