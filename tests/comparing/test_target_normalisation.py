"""What students are sent: plans, trials, arms of a band, and what the table makes of them."""

import json
from dataclasses import replace

import numpy as np
import pytest

import didact
from didact.comparing.assemble import assemble
from didact.comparing.bands import Bands
from didact.comparing.cell import load_outputs, sent_explanations
from didact.comparing.config import CompareConfig
from didact.comparing.config_values import read_plan
from didact.comparing.costs import Costs, StudentCost
from didact.comparing.forecast import Workload, stages
from didact.comparing.statistics import contrasts_of, gain_rows
from didact.comparing.targets import student_trials, target_arms
from didact.errors import PlanError
from didact.explaining.explain import explain
from didact.files.store import Store
from didact.files.table_io import read_table
from didact.results.comparison import Comparison
from didact.results.explanations import Explanations
from didact.results.target_normalisation import GRIDS
from didact.results.temperature import mean_entropy
from didact.results.training_record import TrainingRecord

NAMES = {"model": "m", "data": "planted/sentiment", "explainers": ["gradient_norm", "lrp"]}
GRID = (4.0, 1.0, 0.25)


def plan(**entries):
    return CompareConfig.of(NAMES | entries)


class TestPlans:
    def test_raw_is_not_written_and_changes_no_request(self):
        assert plan(target_normalisation="raw").to_toml() == plan().to_toml()
        assert plan(target_normalisation="raw").request_text() == plan().request_text()
        assert plan() == plan(target_normalisation="raw")

    @pytest.mark.parametrize(
        "entries",
        [{"target_normalisation": name} for name in ("tuned", "matched", "ranks", "band")]
        + [{"target_normalisation": "band", "target_temperatures": [0.5, 2]}],
    )
    def test_what_is_written_reads_back(self, entries, tmp_path):
        (tmp_path / "plan.toml").write_text(plan(**entries).to_toml())
        again = CompareConfig.of(read_plan(tmp_path / "plan.toml"))
        assert again == plan(**entries)
        assert again.target_grid == ((2.0, 0.5) if len(entries) > 1 else GRIDS.get(again.target_normalisation, ()))

    def test_all_faults_at_once(self):
        bad = {
            "target_normalisation": "band", "target_temperatures": [0, -1.0, "x", 1, 1],
            "search_space": {"temperature": [1.0, 0.5]}, "seeds": 0,
            "students": [f"same/{one}" for one in ("attention(temperature=0.5)", "attention(signed=softmax)",
                                                   "pruthi(temperature=2.0)")],
        }  # fmt: skip
        with pytest.raises(PlanError) as caught:
            plan(**bad)
        text = str(caught.value)
        for part in (
            "target_normalisation: band sets the sharpness of what students are sent, and so does temperature in",
            "and so does student same/attention(temperature=0.5). Leave its",
            "and so does student same/attention(signed=softmax). Leave its",
            "target_temperatures: a temperature must be a finite number > 0, got 0",
            "got -1.0",
            "got 'x'",
            "seeds: must be an integer from 1",
        ):
            assert part in text
        assert "same/attention(send=top" not in text, "marks have no sharpness"

    @pytest.mark.parametrize(
        ("entries", "message"),
        [
            ({"target_normalisation": "band", "target_temperatures": [1]}, "a band needs at least 2 temperatures"),
            ({"target_normalisation": "band", "target_temperatures": [1, 1]}, "listed twice"),
            ({"target_normalisation": "ranks", "target_temperatures": [1, 2]}, "only tuned and band have temperatures"),
            ({"target_temperatures": [1, 2]}, "only tuned and band have temperatures, and target_normalisation is raw"),
            ({"target_normalisation": "tuend"}, "There is no target normalisation named 'tuend'. Did you mean 'tuned'"),
        ],
    )
    def test_each_fault(self, entries, message):
        with pytest.raises(PlanError, match=message):
            plan(**entries)


class TestRuns:
    """One tiny run of each kind: which students are trained, and what they are sent."""

    def records(self, run):
        table = read_table(run.folder / "results.parquet").columns
        store = Store(run.folder / "cells")
        names = zip(table["explainer"], table["seed"], table["key"], strict=True)
        return {(name, seed): TrainingRecord.load(store, key) for name, seed, key in names}

    def test_tuned_chooses_from_the_grid_on_dev_and_none_has_as_many_trials(self, compare, tmp_path):
        run = compare(target_normalisation="tuned", skip_controls=["trivial", "human"])
        for (name, _), record in self.records(run).items():
            assert len(record.trials) == 5
            assert record.trials[record.trial].dev == max(trial.dev for trial in record.trials)
            if name == "none":
                assert [trial.options for trial in record.trials] == [{"start": number} for number in range(5)]
            else:
                targets = [trial.options["target"] for trial in record.trials]
                assert [target["value"] for target in targets] == [4, 2, 1, 0.5, 0.25]
                assert {target["how"] for target in targets} == {"temperature"}
        assert "from 4, 2, 1, 0.5, 0.25 that is best on dev" in run.table()
        assert Comparison.load(run.folder).about.target_normalisation == "tuned"
        assert read_plan(tmp_path / "run" / "plan.toml")["target_normalisation"] == "tuned"

    def test_matched_sends_all_methods_at_one_entropy(self, compare, school):
        teacher, data = school()
        file = explain(teacher, data["train"].rows, "gradient_input")
        run = compare(explainers=["gradient_norm", file], target_normalisation="matched")
        (manifest,) = (run.folder / "classroom").glob("cells-*.json")
        cells = [cell for cell in json.loads(manifest.read_text())["cells"] if cell["maps"] is not None]
        assert {cell["explainer"] for cell in cells} == {
            "random",
            "trivial",
            "human",
            "gradient_norm",
            "gradient_input",
        }
        before, after = [], []
        for cell in cells:
            explanations = Explanations.load(run.folder / "explanations" / cell["maps"])
            ids = [number for number, name in enumerate(explanations.ids) if name in file.ids[:10]]
            (trial,) = cell["trials"]
            sent = sent_explanations(explanations.select(ids), trial)
            if cell["explainer"] != "random":  # drawn for other rows with each seed
                before.append(mean_entropy(explanations.select(ids)))
                after.append(mean_entropy(sent))
        assert np.ptp(before) > 0.2
        assert np.ptp(after) < 1e-3

    def test_ranks_teach_tempered_copies_the_same(self, compare, school):
        """Copies of a method at other temperatures and scales train the same students, to the byte."""
        teacher, data = school()
        scores = explain(teacher, data["train"].rows, "gradient_norm")
        copies = [
            replace(scores, method=f"copy{number}", scores=scores.scores**power * 3)
            for number, power in enumerate((0.25, 4))
        ]
        run = compare(explainers=[scores, *copies], target_normalisation="ranks", skip_controls=["trivial", "human"])
        records, store = self.records(run), Store(run.folder / "cells")
        for seed in (0, 1):
            answers = {
                name: load_outputs(store, records[name, seed]).columns["values"]
                for name in ("gradient_norm", "copy0", "copy1", "random")
            }
            assert answers["gradient_norm"] == answers["copy0"] == answers["copy1"] != answers["random"]

    def test_a_band_has_an_arm_per_temperature_and_one_row_per_method(self, compare, school):
        options = {"training": {"epochs": 4, "learning_rate": 0.02}, "target_normalisation": "band"}
        options |= {"skip_controls": ["trivial"], "seeds": 2}
        run = compare(explainers=["gradient_norm"], **options)
        assert [row.explainer for row in run.rows] == ["none", "random", "human", "gradient_norm"]
        table = read_table(run.folder / "results.parquet").columns
        values = {}
        for name, value in zip(table["explainer"], table["value"], strict=True):
            values.setdefault(name, []).append(value)
        assert set(values) == {"none", *(f"{row.explainer} (T={t:g})" for row in run.rows[1:] for t in GRID)}
        for row in run.rows[1:]:
            means = {t: np.mean(values[f"{row.explainer} (T={t:g})"]) for t in GRID}
            assert [point.temperature for point in row.band] == list(GRID)
            for point in row.band:
                assert point.mean == pytest.approx(means[point.temperature])
                assert point.gain == pytest.approx(point.mean - np.mean(values["none"]))
            assert row.span == pytest.approx(max(means.values()) - min(means.values()))
            assert row.gain == max(point.gain for point in row.band) == row.best_point.gain
            assert row.mean == pytest.approx(max(means.values()))
        assert len({row.span for row in run.rows[1:]}) > 1
        self.check_contrasts(run, values)
        again = Comparison.load(run.folder)
        assert again.table() == run.table()
        combined = {row.explainer: row.difference for row in didact.combine([run.folder]).gains}
        assert combined == pytest.approx({row.explainer: row.gain for row in run.rows[1:]})
        assert again.to_document() == run.to_document()
        assert len(again.to_pandas()) == 1 + 3 * 3
        teacher, data = school()
        small = {"train_sizes": [12], "workers": 0, "eval_rows": 0, "balance": False, "out": run.folder}
        forecast = didact.forecast(teacher, data, ["gradient_norm"], ["same/attention"], **small | options)
        assert (forecast.runs, forecast.done) == (20, 20)
        assert "(1 method + 3 controls) × 1 student × 2 seeds, with explanations at 3 temperatures" in forecast.table()

    def check_contrasts(self, run, values):
        """At each one's best temperature by the names of methods, and at the same temperature by the names of arms."""
        best = {
            row.explainer: np.mean(values[f"{row.explainer} (T={row.best_point.temperature:g})"])
            for row in run.rows[1:]
        }
        column = ("same/attention", 12)
        for first, second in (("gradient_norm", "random"), ("human", "gradient_norm")):
            contrast = run.contrasts.get(first, second, column)
            assert contrast.difference == pytest.approx(best[first] - best[second])
            assert run.contrast(first, second) == contrast
            for t in GRID:
                arms = [f"{name} (T={t:g})" for name in (first, second)]
                gap = np.mean(values[arms[0]]) - np.mean(values[arms[1]])
                assert run.contrasts.get(*arms, column).difference == pytest.approx(gap)

    @pytest.mark.slow
    def test_a_learned_explainer_has_a_band_too(self, compare, school):
        options = {
            "training": {"epochs": 1, "batch_size": 4},
            "target_normalisation": "band",
            "skip_controls": ["trivial"],
        }
        run = compare(explainers=["smat"], **options)
        rows = {row.explainer: row for row in run.rows}
        assert not run.failed
        assert len(rows["smat"].band) == len(rows["attention_all"].band) == 3
        assert not rows["smat(cotrained)"].band
        assert not {"smat(flattened)", "attention_all(matched)", "attention_all(sharpened)"} & set(rows)
        assert any("takes their place" in note for note in run.notes)
        small = {"train_sizes": [12], "seeds": 2, "workers": 0, "eval_rows": 0, "balance": False, "out": run.folder}
        forecast = didact.forecast(*school(), ["smat"], ["same/attention"], **small | options)
        assert (forecast.runs, forecast.done) == (28, 28)  # none, cotrained and four methods at three temperatures


class TestCounts:
    """Trials, arms and seconds that a plan needs."""

    @pytest.fixture
    def setup(self, school):
        def make(**entries):
            entries = {"students": ["same/attention", "bilstm/multitask"], "train_sizes": [20], "seeds": 2} | entries
            return assemble(plan(**entries), *school(), [], probe=False)

        return make

    def training(self, setup):
        labels = [method.label for method in setup.methods if method.method is not None]
        students = {str(student): StudentCost(1e-4, 0.0) for student in setup.students}
        work = Workload.of(setup, workers=1, eval_rows=0)
        parts = {part.name: part for part in stages(setup, Costs(0, dict.fromkeys(labels, 0.0), students, 0, 0), work)}
        return parts["training students"]

    def test_extra_students_are_counted(self, setup):
        """Four controls and two methods: attention costs 6 arms, and as much again for marks, which have no band."""
        seconds, counts = {}, {}
        for name in ("raw", "matched", "ranks", "tuned", "band"):
            stage = self.training(setup(target_normalisation=name))
            seconds[name], counts[name] = stage.seconds - 6.0, stage.count
        one = seconds["raw"] / 12
        assert seconds["matched"] == seconds["ranks"] == pytest.approx(12 * one)
        assert seconds["tuned"] == pytest.approx((6 * 5 + 6) * one)
        assert seconds["band"] == pytest.approx((1 + 5 * 3 + 6) * one)
        assert counts == {"raw": 24, "matched": 24, "ranks": 24, "tuned": 24, "band": 2 * (1 + 15 + 6)}

    def test_marks_are_not_normalised_and_the_table_says_so(self, setup):
        made = setup(target_normalisation="band")
        attention, multitask = made.students
        method = made.methods[-1]
        assert [arm.temperature for arm in target_arms(made.config, method, attention)] == list(GRID)
        assert [arm.transform for arm in target_arms(made.config, method, multitask)] == [None]
        tuned = plan(target_normalisation="tuned", search_space={"beta": [1.0, 5.0]})
        assert len(student_trials(tuned, attention)) == 10
        assert len(student_trials(tuned, multitask)) == 2
        (note,) = [note for note in made.notes if "target normalisation" in note]
        assert note.startswith("bilstm/multitask receives marks")


def test_claims_of_a_band_are_corrected_for_temperatures_and_methods():
    """Holm over all arms of the methods; a control over its own temperatures. The row is the best of the arms."""
    random = np.random.default_rng(3)
    arms = {f"{name} (T={t:g})": (name, t) for name in ("random", "a", "b") for t in GRID}
    scores = {(name, "s", 9): dict(enumerate((random.random((5, 80)) < 0.6).astype(float))) for name in ("none", *arms)}
    for row in scores["a (T=1)", "s", 9].values():
        row[:70] = 1.0
    labels, controls = ["none", *arms], ["none", *(arm for arm, (name, _) in arms.items() if name == "random")]
    contrasts = contrasts_of(scores, explainers=labels, columns=[("s", 9)])
    rows = gain_rows(
        scores, contrasts, explainers=labels, controls=controls, columns=[("s", 9)], measure="accuracy", lost={},
        test_rows=80, bands=Bands(arms),
    )  # fmt: skip
    none, control, a, b = rows
    assert [row.explainer for row in rows] == ["none", "random", "a", "b"]
    assert a.claimed
    assert a.best_point.temperature == 1.0
    assert a.level == pytest.approx(1 - 0.05 / 6)
    assert b.level == pytest.approx(1 - 0.05 / 5)
    assert control.level == pytest.approx(1 - 0.05 / 3)
    means = {
        name: max(np.mean(list(scores[arm, "s", 9].values())) for arm in arms if arms[arm][0] == name) for name in "ab"
    }
    assert [row.mean for row in (a, b)] == pytest.approx(list(means.values()))
    ordered = sorted(rows, key=lambda row: -row.mean)
    assert [row.rank for row in ordered] == [1.0, 2.0, 3.0, 4.0]
    assert none.band == ()
