"""Records of audits are found for the evaluator they are of and for no other; kinds of student agree by hand."""

import importlib.util
import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from didact.errors import RecordError
from didact.results.audit import Audit, AuditedEvaluator, AuditedExplanation, AuditedPair, AuditedValue
from didact.results.audit_summary import AuditSummary, EvaluatorScore, Mean
from didact.results.comparison import Comparison
from didact.results.contrast import Contrast, ContrastTable
from didact.results.evidence import Evidence, EvidenceTeacher
from didact.results.gains import GainRow
from didact.results.run_record import ColumnInfo, RunInfo
from didact.results.student_agreement import second_student, student_agreement
from didact.results.trust import Trust
from didact.results.validation import (
    FILE,
    GOALS,
    Validation,
    canonical_student,
    find_validation,
    load_validations,
    save_validations,
)

SAME, POOL = "same/attention", "pool/attention"
SCRATCH = "the model's own architecture, starting from random weights"


def run_of(gains, *, sizes=(250,), about=None, se=0.01):
    """A run with these gains: by student, by method, one gain or one for each size. Every pair has a contrast."""
    columns = [(student, size) for student in gains for size in sizes]
    rows, entries = [], {}
    for index, (student, size) in enumerate(columns):
        by_method = {
            name: gain[index % len(sizes)] if isinstance(gain, tuple) else gain
            for name, gain in {"none": 0.0, "random": 0.05, **gains[student]}.items()
        }
        order = sorted(by_method, key=lambda name: -by_method[name])
        for name, gain in by_method.items():
            rows.append(
                GainRow(
                    explainer=name, student=student, size=size, seeds=8, measure="accuracy", mean=0.6 + gain,
                    median=0.6, q25=0.6, q75=0.6, gain=None if name == "none" else gain, low=None, high=None, p=None,
                    p_reason="", rank=1.0 + order.index(name), test_rows=100, is_control=name in ("none", "random"),
                    lost_rows=0, level=0.95, low_seeds=0, claimed=False,
                )
            )  # fmt: skip
        for first, second in itertools.combinations(by_method, 2):
            difference = by_method[first] - by_method[second]
            entries[first, second, (student, size)] = Contrast(difference, se, 1e9, 8, 100)
    info = RunInfo(task="classification", measure="accuracy", controls=("none", "random"), **(about or {}))
    return Comparison(tuple(rows), (), (), info, {}, Path("runs/x"), contrasts=ContrastTable(entries))


ONE = {SAME: {"lrp": 0.2, "lime": 0.1}}


def record(**fields):
    """A record of `same/attention` that reaches all goals."""
    defaults = {
        "task": "classification", "evaluator": "same/attention, raw, new rows", "student": SAME, "normalisation": "raw",
        "test_set": "new", "description": SCRATCH, "data": ("planted/sentiment", "sst"), "teachers": 10, "audits": 10,
        "seeds": 8, "methods": 14, "steps": 60, "steps_right": 57, "equal": 40, "equal_differ": 1, "move": 0.008,
        "leaks": 8, "lost_info": 24, "tau": 0.83, "tau_low": 0.7, "tau_high": 0.93, "tau_lead": 0.05,
    }  # fmt: skip
    return Validation(**{**defaults, **fields})


class TestTheRecord:
    score = EvaluatorScore(
        name="same/attention, raw, new rows", student=SAME, normalisation="raw", test_set="new", audits=3, steps=20,
        steps_right=17, equal=30, equal_differ=2, by_construction=4, less=12, less_win=1, leaks=6, leaks_win=2,
        move=Mean(0.0123456789), tau=Mean(0.8, 0.6, 1.0, (0.7, 0.8, 0.9)), tau_lead=Mean(-0.01, -0.05, 0.03), methods=9,
    )  # fmt: skip

    def test_has_the_figures_of_the_score(self):
        summary = AuditSummary((self.score,), ("a", "b", "c"), ("pair",), ("planted/inference",), teachers=3, seeds=8)
        made = Validation.of(self.score, summary, description=SCRATCH)
        assert (made.task, made.student, made.normalisation, made.test_set) == ("pair", SAME, "raw", "new")
        assert (made.data, made.teachers, made.audits, made.seeds) == (("planted/inference",), 3, 3, 8)
        assert (made.steps_right, made.steps, made.right_share) == (17, 20, 0.85)
        assert (made.equal_differ, made.equal, made.by_construction) == (2, 30, 4)
        assert (made.leaks_ahead, made.leaks, made.lost_info_ahead, made.lost_info) == (2, 6, 1, 12)
        assert (made.tau, made.tau_low, made.tau_high) == (0.8, 0.6, 1.0)
        assert (made.tau_lead, made.tau_lead_low, made.tau_lead_high) == (-0.01, -0.05, 0.03)
        assert made.move == 0.0123457
        assert made.missed == self.score.missed == ("steps", "equal", "leaks", "tau")
        assert made.missed_text == "4 of 5 goals (steps of damage, equal explanations, leaks or lost information, τ)"
        assert not made.passes

    def test_goals_have_words(self):
        assert list(GOALS) == list(self.score.goals())

    def test_comes_back_from_its_file(self, tmp_path):
        records = (record(), record(task="pair", tau=None, missed=("tau",)))
        save_validations(records, tmp_path / "a.json")
        save_validations(records, tmp_path / "b.json")
        assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
        assert [dict(item) for item in load_validations(tmp_path / "a.json")] == [dict(item) for item in records]
        (tmp_path / "a.json").write_text((tmp_path / "a.json").read_text().replace("57", "60"))
        with pytest.raises(RecordError, match="checksum"):
            load_validations(tmp_path / "a.json")

    def test_the_file_of_the_package_is_readable(self):
        keys = [(item.task, item.evaluator) for item in load_validations(FILE)]
        assert len(set(keys)) == len(keys)


class TestFinding:
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("pool(pool=mean, layers=1)/gradient", "pool( layers=1,pool = mean )/gradient"),
            ("cnn/gradient(signed=absolute, unsigned=for)", "cnn/gradient(unsigned=for,signed=absolute)"),
            ("pool/attention@sgd", " pool/attention@sgd "),
            ("org/name/attention(k=[1, 2])", "org/name/attention(k=[1, 2])"),
        ],
    )
    def test_names_that_are_the_same(self, first, second):
        assert canonical_student(first) == canonical_student(second)

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("pool/attention", "pool/attention@sgd"),
            ("pool/attention", "pool(layers=0)/attention"),
            ("pool/attention(beta=2)", "pool/attention(beta=20)"),
            ("a/attention(x=1)@sgd", "a/attention(x=1)"),
            ("a/attention(k=[1, 2])", "a/attention(k=[2, 1])"),
            ("a)(/attention", "a()/attention"),
        ],
    )
    def test_names_that_differ(self, first, second):
        assert canonical_student(first) != canonical_student(second)

    def test_for_this_run(self):
        run = run_of(ONE, about={"students": {SAME: SCRATCH}})
        assert find_validation(run, SAME, [record(task="pair"), record()]).task == "classification"
        assert find_validation(run_of(ONE), SAME, [record()]) is not None, "an old run records no first weights"

    @pytest.mark.parametrize(
        ("fields", "about"),
        [
            ({"task": "pair"}, {}),
            ({"normalisation": "matched"}, {}),
            ({"test_set": "edited"}, {}),
            ({"student": POOL}, {}),
            ({}, {"students": {SAME: "the model's own architecture, starting from minilm"}}),
            ({}, {"target_normalisation": "ranks"}),
            ({}, {"tune": {"temperature": [1, 0.5]}}),
        ],
    )
    def test_not_for_another_evaluator(self, fields, about):
        assert find_validation(run_of(ONE, about=about), SAME, [record(**fields)]) is None


class TestAgreementOfStudents:
    def test_by_hand(self):
        """Ranks of the methods 1, 2, 3, 4 and 2, 1, 3, 4: five of six pairs agree. `random` ranks between them."""
        gains = {"lrp": 0.4, "lime": 0.3, "ig": 0.2, "deeplift": 0.01}
        swapped = gains | {"lrp": 0.25, "lime": 0.3}
        agreement = student_agreement(run_of({SAME: gains, POOL: swapped}))
        assert agreement.leaders == ("lrp", "lime")
        assert not agreement.is_same_leader
        assert [pair.tau for pair in agreement.taus] == [pytest.approx((5 - 1) / 6)]
        assert {agreement.leader, agreement.runner_up} == {"lrp", "lime"}
        assert agreement.is_same_sign is False
        first, second = agreement.leads
        sign = 1 if agreement.leader == "lrp" else -1
        assert (first.difference, second.difference) == (pytest.approx(0.1 * sign), pytest.approx(-0.05 * sign))
        assert (first.low, first.high) == pytest.approx((0.1 * sign - 0.0196, 0.1 * sign + 0.0196), abs=1e-5)

    def test_the_same_leader_by_another_amount(self):
        agreement = student_agreement(run_of({SAME: {"lrp": 0.4, "lime": 0.3}, POOL: {"lrp": 0.21, "lime": 0.2}}))
        assert (agreement.is_same_leader, agreement.is_same_sign) == (True, True)
        assert [pair.tau for pair in agreement.taus] == [None], "two methods have no ranking worth a τ"

    def test_sizes_of_a_student_are_one_kind(self):
        assert student_agreement(run_of(ONE, sizes=(100, 200))) is None
        gains = {SAME: {"lrp": (0.4, 0.1), "lime": (0.3, 0.2)}, POOL: {"lrp": (0.4, 0.4), "lime": (0.3, 0.3)}}
        run = run_of(gains, sizes=(100, 200))
        agreement = student_agreement(run)
        assert agreement.leader == "lrp"
        assert agreement.is_same_sign is False
        text = agreement.leads_text(run.format)
        assert text == f"above 0 at 1 of 2 sizes with {SAME} and above 0 at 2 of 2 sizes with {POOL}"

    def test_students_that_learned_nothing_do_not_count(self):
        unlearned = {"columns": (ColumnInfo(POOL, 250, learned=False, reason="chance"),)}
        assert student_agreement(run_of({SAME: ONE[SAME], POOL: ONE[SAME]}, about=unlearned)) is None

    def test_one_method_is_no_ranking(self):
        run = run_of({SAME: {"lrp": 0.2}, POOL: {"lrp": 0.1}})
        assert student_agreement(run) is None
        assert "student" not in Trust.of(run, [record(), record(student=POOL)]).remark()

    @pytest.mark.parametrize(
        ("students", "about", "expected"),
        [
            ([SAME], {}, POOL),
            ([SAME], {"starts": {"same": "minilm"}}, "pool(embeddings=base)/attention"),
            ([POOL], {}, "pool(pool=mean, layers=1)/gradient"),
            (["pool(pool=mean, layers=1)/gradient"], {}, POOL),
            (["bilstm_attention(embeddings=base, width=64)/attention"], {}, "pool(embeddings=base)/attention"),
            (["pool(embeddings=teacher)/attention@sgd"], {}, "pool(pool=mean, layers=1, embeddings=teacher)/gradient"),
            ([POOL, "pool(layers=1)/gradient(beta=2)"], {}, ""),
            ([SAME], {"task": "image"}, "native/attention"),
            (["native/attention"], {"task": "reading"}, "bilstm/multitask"),
        ],
    )
    def test_a_second_student_that_suits(self, students, about, expected):
        run = run_of(dict.fromkeys(students, ONE[SAME]))
        assert second_student(replace(run, about=RunInfo(**{**run.about, **about}))) == expected


class TestTheRemark:
    def test_not_validated_and_not_checked(self):
        run = run_of(ONE)
        assert Trust.of(run, ()).remark() == (
            "Not validated: no audit has checked rankings by same/attention as in this run (classification, raw; see "
            'didact audit). Another kind of student: not checked (add one: --students "same/attention,pool/attention").'
        )

    def test_validated(self):
        remark = Trust.of(run_of(ONE), [record()]).remark()
        assert remark.startswith("Validated: same/attention (audited with 10 teachers). Another kind")
        assert "Not validated" not in remark

    def test_with_faults_and_two_kinds(self):
        gains = {SAME: {"lrp": 0.4, "lime": 0.3, "ig": 0.2}, POOL: {"lrp": 0.4, "lime": 0.45, "ig": 0.5}}
        remark = Trust.of(run_of(gains), [record(missed=("leaks",))]).remark()
        assert "Audited, with faults: same/attention misses 1 of 5 goals (leaks or lost information)" in remark
        assert "no audit has checked rankings by pool/attention as in this run" in remark
        assert "different leaders (lrp with same/attention and ig with pool/attention); τ -1.00;" in remark
        assert "−" not in remark, "terminals and files have hyphens"

    def test_stands_under_the_table_and_in_the_document(self):
        run = run_of(ONE)
        assert Trust.of(run).remark() in run.table().splitlines()
        entry = run.to_document()["validation"]
        assert [(line["student"], line["size"]) for line in entry["columns"]] == run.judged
        assert entry["student_agreement"] is None
        trust = Trust.of(run_of({SAME: ONE[SAME], POOL: ONE[SAME]}), [record()])
        audited, unknown = trust.to_document()["columns"]
        assert (audited["audited"]["steps_right"], unknown["audited"]) == (57, None)
        assert json.loads(json.dumps(trust.to_document()))["student_agreement"]["leader"] == "lrp"

    def test_nothing_is_said_without_a_verdict(self):
        assert Trust.of(run_of({SAME: {}}), ()).remark() == ""


# -- the script that writes the file ----------------------------------------------------------------------------------


def audit_of(name, *, task="classification", students=(SAME,), start=SCRATCH, right=True):
    """An audit of three methods and one step of damage, which the students see or do not see."""
    methods = {"a": 0.9, "b": 0.7, "c": 0.5}
    evaluators = [
        AuditedEvaluator(name=f"{student}, raw, new rows", student=student, normalisation="raw", test_set="new")
        for student in students
    ] + [AuditedEvaluator(name="comprehensiveness", metric="comprehensiveness")]
    difference = 0.1 if right else -0.1
    step = {"relation": "step", "first": "a 5 %", "second": "a 20 %", "base": "a", "damaged": "rows", "auc_drop": 0.1}
    teacher = EvidenceTeacher(name, name, "d", verified=True)
    settings = {"task": task, "data": f"planted/{task}", "students": dict.fromkeys(students, start)}
    return Audit(
        Evidence(kind="audit", name=name, tables={}, seeds=(0, 1), teachers=(teacher,), settings=settings),
        tuple(AuditedExplanation(item, is_method=True, train_auc=auc, test_auc=auc) for item, auc in methods.items()),
        tuple(evaluators),
        tuple(AuditedValue(item.name, method, auc) for item in evaluators for method, auc in methods.items()),
        tuple(
            AuditedPair(
                evaluator=item.name, difference=difference, low=difference - 0.05, high=difference + 0.05, **step
            )
            for item in evaluators
        ),
    )


@pytest.fixture(scope="module")
def script():
    path = Path(__file__).parents[2] / "evidence" / "write_validation.py"
    spec = importlib.util.spec_from_file_location("write_validation", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestTheScript:
    def test_counts_by_task_and_by_the_audits_that_a_student_took_part_in(self, script):
        audits = [
            audit_of("one", students=(SAME, POOL)), audit_of("two", students=(POOL,), right=False),
            audit_of("three", task="pair", students=(POOL,)),
        ]  # fmt: skip
        records = {(item.task, item.student): item for item in script.validations_of(audits)}
        assert list(records) == [("classification", POOL), ("classification", SAME), ("pair", POOL)]
        counts = {key: (item.audits, item.teachers, item.steps_right, item.steps) for key, item in records.items()}
        assert counts["classification", POOL] == (2, 2, 1, 2)
        assert counts["classification", SAME] == (1, 1, 1, 1)
        assert counts["pair", POOL] == (1, 1, 1, 1)
        assert records["pair", POOL].data == ("planted/pair",)
        assert (records["pair", POOL].tau, records["pair", POOL].tau_lead) == (1.0, 0.0)
        assert records["pair", POOL].missed == ("equal", "leaks", "tau"), "what was not asked is not reached"

    def test_first_weights_that_differ_are_not_stored(self, script):
        same, other = audit_of("one"), audit_of("two", start="other")
        assert script.validations_of([same])[0].description == SCRATCH
        assert script.validations_of([same, other])[0].description == ""

    def test_files(self, script, tmp_path, monkeypatch):
        out = tmp_path / "validation.json"
        monkeypatch.setattr("sys.argv", ["x", "--audits", str(tmp_path / "audits"), "--out", str(out)])
        script.main()
        assert load_validations(out) == ()
        for name in ("b", "a"):
            audit_of(name).save(tmp_path / "audits" / f"{name}.json")
        script.main()
        content = out.read_bytes()
        assert [item.audits for item in load_validations(out)] == [2]
        script.main()
        assert out.read_bytes() == content
