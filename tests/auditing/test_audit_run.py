"""`didact.audit` on tiny teachers: its numbers are those of the comparison and of the metrics that it runs."""

import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import didact
from didact.auditing import audit as module
from didact.comparing import training
from didact.core.dataset import Dataset, Split
from didact.core.row import Row
from didact.core.task import CLASSIFICATION
from didact.data.planted.verify import verify
from didact.evaluation.evaluate import run_evaluation
from didact.files.store import Store
from didact.files.table_io import read_table
from didact.metrics.truth import true_area
from didact.results.audit import Audit, Relation
from didact.results.comparison import Comparison
from didact.results.explanations import Explanations
from didact.results.training_record import TrainingRecord
from school import planted, taught
from teachers import black_box

SMALL = {
    "explainers": ["gradient_norm", "gradient_input", "random"],
    "students": ["pool/attention", "pool(pool=mean, layers=1)/gradient"],
    "bases": ["gradient_norm", "human"],
    "damage": [0.3, 0.6],
    "normalisations": ["raw", "ranks"],
    "metrics": ["sufficiency", "comprehensiveness"],
    "train_sizes": [24],
    "seeds": 2,
    "workers": 0,
    "epochs": 4,
    "learning_rate": 0.03,
    "eval_rows": 8,
    "balance": False,
}


def small(**options):
    return module.audit(taught("sentiment"), planted("sentiment"), **SMALL | options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An audit, and the comparison of its last target normalisation."""
    folder = tmp_path_factory.mktemp("audit") / "run"
    return small(out=folder), folder


@pytest.mark.slow
class TestRun:
    def test_evaluators(self, run):
        audit, _ = run
        students = [*SMALL["students"], "mean of students"]
        names = [f"{student}, {sent}, new rows" for sent in ("raw", "ranks") for student in students]
        learned = [item.name for item in audit.evaluators if item.student != "mean of students"]
        assert set(learned) == {name for name in names if "mean of" not in name} | set(SMALL["metrics"])
        assert {item.name for item in audit.evaluators} <= {*names, *SMALL["metrics"]}
        assert [item.is_metric for item in audit.evaluators] == sorted(item.is_metric for item in audit.evaluators)

    def test_values_and_pairs_of_students_are_those_of_the_comparison(self, run):
        """comparison.json is that of the last target normalisation."""
        audit, folder = run
        comparison = Comparison.load(folder / "comparison")
        assert comparison.about.target_normalisation == "ranks"
        checked = 0
        for column in comparison.columns:
            name = f"{column[0]}, ranks, new rows"
            assert audit.by_evaluator[name].reference == pytest.approx(comparison.find("none", column).mean, rel=1e-5)
            for value in (item for item in audit.values if item.evaluator == name):
                row = comparison.find(value.explainer, column)
                assert value.value == pytest.approx(row.gain, rel=1e-5, abs=1e-12)
                assert len(value.by_seed) == 2
                assert np.mean(value.by_seed) == pytest.approx(row.gain, rel=1e-5, abs=1e-9)
            for pair in (item for item in audit.pairs if item.evaluator == name):
                contrast = comparison.contrasts.get(pair.first, pair.second, column)
                expected = (contrast.difference, *contrast.interval())
                assert (pair.difference, pair.low, pair.high) == pytest.approx(expected, rel=1e-5, abs=1e-12)
                checked += 1
        steps, equal, less, leaks = 4, 10 + 6, 4, 2
        assert checked == 2 * (steps + equal + less + leaks)

    def test_times_are_those_of_each_normalisation(self, run, tmp_path):
        """Every comparison writes its results over those of the one before it."""
        audit, folder = run
        lines, store = (
            read_table(folder / "comparison" / "results.parquet").columns,
            Store(folder / "comparison" / "cells"),
        )
        names = {item.name for item in audit.explanations}
        for student in SMALL["students"]:
            seconds = [
                TrainingRecord.load(store, key).seconds
                for key, arm, other in zip(lines["key"], lines["explainer"], lines["student"], strict=True)
                if other == student and arm in names
            ]
            by_name = {item.normalisation: item.seconds for item in audit.evaluators if item.student == student}
            assert by_name["ranks"] == pytest.approx(np.mean(seconds), rel=1e-4)
        shutil.copytree(folder, tmp_path / "run")
        only_raw = small(out=tmp_path / "run", normalisations=["raw"])
        raw, again = (
            {item.student: item.seconds for item in made.evaluators if item.normalisation == "raw"}
            for made in (audit, only_raw)
        )
        assert raw == again

    def test_metrics_are_those_of_evaluate_and_higher_is_better(self):
        data, teacher = planted("sentiment"), taught("sentiment")
        rows = data["test"]
        fields = {"normalisations": ["raw"], "students": ["pool/attention"], "bases": ["gradient_norm"], "seeds": 1}
        audit = small(eval_rows=len(rows), **fields)
        damaged = "degraded(base=gradient_norm, by=rows, share=0.3)"
        methods = {name: didact.explain(teacher, rows, name) for name in ("gradient_norm", "random", damaged)}
        for metric, sign in [("sufficiency", -1), ("comprehensiveness", 1)]:
            rowwise = {
                name: sign * run_evaluation([explained], teacher, data, metrics=[metric]).values[0][0]
                for name, explained in methods.items()
            }
            values = {item.explainer: item.value for item in audit.values if item.evaluator == metric}
            expected = np.nanmean(rowwise["gradient_norm"] - rowwise["random"])
            assert values["gradient_norm"] == pytest.approx(expected, rel=1e-4, abs=1e-9)
            assert audit.by_evaluator[metric].reference == pytest.approx(np.nanmean(rowwise["random"]), rel=1e-4)
            pair = next(item for item in audit.pairs if (item.evaluator, item.second) == (metric, damaged))
            expected = np.nanmean(rowwise["gradient_norm"] - rowwise[damaged])
            assert pair.difference == pytest.approx(expected, rel=1e-4, abs=1e-9)
            assert expected != 0

    def test_areas_are_those_of_the_rows(self, run):
        audit, folder = run
        data, teacher = planted("sentiment"), taught("sentiment")
        by_name = {item.name: item for item in audit.explanations}
        used = next((folder / "comparison" / "explanations").glob("gradient_input-*.parquet"))
        explanations = Explanations.load(used)
        rows = {row.id: row for row in data["train"]}
        expected = np.nanmean(true_area(explanations, [rows[name] for name in explanations.ids], teacher))
        assert by_name["gradient_input"].train_auc == pytest.approx(expected, rel=1e-5)
        start, *levels = [by_name["degraded(base=human, share=0)"]] + [
            by_name[f"degraded(base=human, by=rows, share={share})"] for share in (0.3, 0.6)
        ]
        assert (start.train_auc, start.test_auc) == (1.0, 1.0)
        assert start.train_auc > levels[0].train_auc > levels[1].train_auc
        for pair in audit.pairs:
            if pair.relation != Relation.LEAK:
                field = "test_auc" if audit.by_evaluator[pair.evaluator].is_metric else "train_auc"
                areas = [getattr(by_name[name], field) for name in (pair.first, pair.second)]
                assert pair.auc_drop == pytest.approx(areas[0] - areas[1], abs=2e-6)

    def test_scaled_pairs_are_by_construction(self, run):
        audit, _ = run
        scaled = [
            pair
            for pair in audit.pairs
            if {pair.first, pair.second} == {"gradient_norm", "scaled(base=gradient_norm, factor=8)"}
        ]
        assert len(scaled) == len(audit.evaluators)
        assert all(pair.by_construction for pair in scaled)
        assert not any(pair.by_construction for pair in audit.pairs if pair.relation != Relation.EQUAL)
        moved = [pair for pair in audit.pairs if pair.relation == Relation.EQUAL and pair.difference]
        assert moved
        assert not any(pair.by_construction for pair in moved)

    def test_the_teacher_and_the_settings(self, run):
        audit, _ = run
        teacher, verification = audit.teacher, verify(taught("sentiment"), planted("sentiment"))
        rows = list(planted("sentiment")["test"])
        right = np.mean([row.label for row in rows] == taught("sentiment").predict(rows).labels)
        assert teacher.accuracy == pytest.approx(right)
        assert (teacher.unchanged, teacher.followed) == (verification.unchanged, verification.followed)
        assert (teacher.verified, teacher.is_exact) == (verification.verified, False)
        assert audit.knows_truth == verification.verified
        assert audit.evidence.seeds == (0, 1)
        assert audit.evidence.settings["normalisations"] == ["raw", "ranks"]

    def test_a_file_reads_back_to_the_same_summary(self, run):
        audit, folder = run
        loaded = Audit.load(folder / "audit.json")
        assert loaded.evidence.fingerprint == audit.evidence.fingerprint
        summaries = [didact.summarise_audits([item]).to_document() for item in (audit, loaded)]
        assert summaries[0] == summaries[1]

    def test_it_is_resumed_without_training(self, run, monkeypatch):
        audit, folder = run
        monkeypatch.setattr(training, "run_cell", lambda *_, **__: pytest.fail("trained again"))
        again = small(out=folder)
        assert again.evidence.fingerprint == audit.evidence.fingerprint
        assert [item.seconds for item in again.evaluators] == [item.seconds for item in audit.evaluators]

    def test_a_killed_run_is_resumed(self, tmp_path, monkeypatch):
        """Killed in the middle of the second comparison."""
        fields = {"students": ["pool/attention"], "bases": ["gradient_norm"], "seeds": 1, "epochs": 2}
        trained, run_cell = [], training.run_cell

        def train(cell, *rest, limit=None):
            if len(trained) == limit:
                raise KeyboardInterrupt
            trained.append(cell.key)
            return run_cell(cell, *rest)

        monkeypatch.setattr(training, "run_cell", train)
        whole = small(out=tmp_path / "whole", **fields)
        keys, trained[:] = list(trained), []
        monkeypatch.setattr(training, "run_cell", partial(train, limit=len(keys) * 3 // 4))
        with pytest.raises(KeyboardInterrupt):
            small(out=tmp_path / "run", **fields)
        assert not (tmp_path / "run" / "audit.json").exists()
        monkeypatch.setattr(training, "run_cell", train)
        again = small(out=tmp_path / "run", **fields)
        assert trained == keys, "no student is trained twice"
        assert again.evidence.fingerprint == whole.evidence.fingerprint


LEXICON = {"good": 2.0, "great": 1.5, "bad": -2.0, "awful": -1.0, "fine": 0.5}
NEUTRAL = ["film", "the", "plot", "music", "actor", "scene", "was", "with"]


def own_data(name="own", **changes):
    """A plain data set: words of a lexicon among others."""
    rng = np.random.default_rng(0)

    def row(split, index):
        words = [*rng.choice(NEUTRAL, 5), *rng.choice(list(LEXICON), 2)]
        rng.shuffle(words)
        return Row(f"{split}-{index}", (" ".join(words),), label=int(sum(LEXICON.get(word, 0) for word in words) > 0))

    sizes = {"explain": 6, "train": 30, "dev": 8, "test": 16}
    splits = {split: Split(split, [row(split, index) for index in range(size)]) for split, size in sizes.items()}
    return replace(Dataset(name, CLASSIFICATION, splits, classes=("negative", "positive")), **changes)


def plain(teacher, data=None, **options):
    """The fastest audit that asks every kind of question."""
    fields = {
        "explainers": ["occlusion"], "bases": ["occlusion"], "students": ["pool/attention"], "damage": [0.5],
        "normalisations": ["raw"], "metrics": ["srg"], "seeds": 1, "epochs": 1, "train_sizes": [12], "workers": 0,
        "eval_rows": 4, "balance": False,
    }  # fmt: skip
    return module.audit(teacher, own_data() if data is None else data, **fields | options)


def test_an_exact_teacher_knows_the_truth():
    teacher = didact.teacher_from_lexicon(LEXICON)
    made = plain(teacher, explainers=["truth", "random", "occlusion"], bases=["truth"], damage=[0.5])
    areas = {item.name: (item.train_auc, item.test_auc) for item in made.explanations}
    assert areas["truth"] == (1.0, 1.0)
    assert areas["occlusion"] == (1.0, 1.0)
    assert 0.2 < areas["random"][0] < 0.8
    assert areas["degraded(base=truth, by=rows, share=0.5)"][0] < 0.95
    assert (made.teacher.is_exact, made.teacher.verified, made.knows_truth) == (True, None, True)
    summary = didact.summarise_audits([made])
    assert summary.knows_truth
    assert [score.methods for score in summary.scores] == [3, 3]
    assert summary.score("srg").tau is not None


@pytest.mark.slow
def test_a_file_without_splits_is_cut_as_in_a_comparison(tmp_path):
    """Students also learn from the rows of `teach`, which another cut of the file would miss."""
    rows = [row for name in ("train", "test", "dev") for row in own_data()[name]]
    path = tmp_path / "her.csv"
    path.write_text("\n".join(["Was meint der Kunde;Urteil", *(f"{row.texts[0]};{row.label}" for row in rows)]))
    data = didact.load_data(path, columns={"text": "Was meint der Kunde", "label": "Urteil"})
    made = plain(didact.teacher_from_lexicon(LEXICON, ["0", "1"]), data, bases=["truth"])
    assert all(item.train_auc is not None and item.test_auc is not None for item in made.explanations if item.base)


@pytest.mark.slow
def test_a_plain_data_set_has_no_truth():
    """Damaged explanations are ordered by their damage alone: steps count, and there is no τ."""
    made = plain(black_box())
    assert (made.teacher.verified, made.knows_truth) == (None, False)
    assert any(note.startswith("No true AUC is known") for note in made.evidence.notes)
    assert {(item.train_auc, item.test_auc) for item in made.explanations} == {(None, None)}
    for score in didact.summarise_audits([made]).scores:
        assert (score.steps, score.equal + score.by_construction, score.leaks) == (1, 10, 2)
        assert score.tau is None
    assert made.name == "own, predict"
