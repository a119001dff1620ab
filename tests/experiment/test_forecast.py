"""Forecasts: what probes find is what was spent, what is added up is what the run does, and nothing is kept."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import didact
from didact.cli.main import app
from didact.core.row import Row
from didact.errors import PlanError
from didact.experiment import compare as compare_module
from didact.experiment import forecaster as module
from didact.experiment import rehearsal
from didact.experiment.cell import Cell
from didact.experiment.engines import Told
from didact.experiment.engines.here import Here
from didact.experiment.forecast import Forecast, Stage, lasting, size
from didact.experiment.forecaster import makespan, over_rows
from didact.experiment.rehearsal import Desk, Pace, Rate, typical

NATIVE = "native(width=16, layers=1, heads=2)/attention"


@pytest.fixture
def forecast(monkeypatch, tmp_path, school):
    """`didact.forecast` on the scale of `compare` beside it; its probes are as short as can be."""
    for one in (module, rehearsal):
        monkeypatch.setattr(one, "_BUDGET", 0.02)

    def run(teacher=None, data=None, explainers=("gradient_norm",), students=("same/attention",), **options):
        if teacher is None:
            teacher, data = school()
        small = {"sizes": [12], "seeds": 2, "workers": 0, "replicates": 50, "training": {"epochs": 1}}
        return didact.forecast(teacher, data, explainers, students, **{"out": tmp_path / "run"} | small | options)

    return run


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on when it is told to, for both modules that time anything."""
    found = SimpleNamespace(now=0.0)
    for one in (module, rehearsal):
        monkeypatch.setattr(one, "time", SimpleNamespace(perf_counter=lambda: found.now))
    return found


def counts(found: Forecast) -> dict[str, int]:
    return {stage.name: stage.count for stage in found.stages}


def rows_of(*lengths: int) -> list[Row]:
    return [Row(f"r{place}", ("x" * length,)) for place, length in enumerate(lengths)]


class TestOverRows:
    def test_cost_by_length_is_added_up(self, clock):
        """Work that takes a tenth of a second and a millisecond for every sign, of rows of all lengths up to 900."""
        rows = rows_of(*np.random.default_rng(0).integers(1, 900, 2000))
        asked = []

        def work(some):
            asked.append(len(some))
            clock.now += 0.1 + sum(0.001 * len(row.texts[0]) for row in some)

        truth = 0.1 + sum(0.001 * len(row.texts[0]) for row in rows)
        assert over_rows(rows, work, fixed=0.1) == pytest.approx(truth, rel=0.05)
        assert sum(asked) < 20  # so slow that a row or two of each length must do

    def test_few_rows_are_timed_whole(self, clock):
        rows = rows_of(*range(1, 30))

        def work(some):
            clock.now += 1e-4 * len(some) ** 2  # no straight line: only all rows at once tell

        assert over_rows(rows, work) == pytest.approx(1e-4 * len(rows) ** 2)

    def test_images_are_all_alike(self, clock):
        rows = [Row(f"r{place}", image=np.zeros((2, 2, 1), np.uint8)) for place in range(500)]

        def work(some):
            clock.now += 0.2 * len(some)

        assert over_rows(rows, work) == pytest.approx(0.2 * 500)

    def test_nothing_takes_no_time(self):
        assert over_rows([], lambda rows: 1 / len(rows)) == 0.0


@pytest.mark.parametrize(
    ("seconds", "at_once", "last"), [([3, 3, 3], 2, 6), ([1, 1, 1, 5], 2, 6), ([2], 4, 2), ([], 2, 0), ([4, 5], 1, 9)]
)
def test_the_last_is_done_when_whoever_is_free_has_done_it(seconds, at_once, last):
    assert makespan(seconds, at_once) == last


def cell(**changes) -> Cell:
    known = {
        "key": "k", "explainer": "e", "student": "s", "start": "s", "strategy": "attention", "maps": "m", "size": 70,
        "seed": 0, "soft": False, "threads": 1, "device": "cpu", "training": {"epochs": 10, "batch_size": 32},
        "trials": [{}, {}],
    }  # fmt: skip
    return Cell(**known | changes)


class TestPace:
    PACE = Pace(1.0, 0.5, Rate(0.01, 2.0), None, 0, 0.001, 0.002, 100.0, 10**6)

    def test_a_cell_is_its_trials(self):
        """Two trials of a student, 70 rows, ten epochs of three steps and 20 rows of dev; then 1,000 rows of test."""
        alone = 0.5 + 0.7 + 10 * (3 * 2.0 + 20 * 0.001)
        assert self.PACE.seconds(cell(), dev=20, test=1000) == pytest.approx(2 * alone + 2.0)

    def test_a_student_with_more_rows_learns_from_dev_too(self):
        alone = 0.5 + 0.9 + 10 * (3 * 2.0 + 20 * 0.001)
        assert self.PACE.seconds(cell(extra=True, trials=[{}]), dev=20, test=0) == pytest.approx(alone)

    def test_learning_is_one_student_and_those_that_choose(self):
        pace = Pace(1.0, 0.5, Rate(0.01, 2.0), Rate(0.1, 8.0), 3, 0.001, 0.002, 100.0, None)
        learned = 0.5 + 7.0 + 10 * (3 * 8.0 + 20 * 0.001)
        taught = 0.5 + 0.7 + 10 * (3 * 2.0 + 20 * 0.001)
        assert pace.seconds(cell(learner="smat"), dev=20, test=1000) == pytest.approx(learned + 3 * taught + 2.0)

    def test_goes_through_a_record(self):
        assert Pace.of_payload(json.loads(json.dumps(rehearsal.asdict(self.PACE)))) == self.PACE


class TestRehearsal:
    def test_tells_rows_steps_and_answers_apart(self, compare, clock, monkeypatch, tmp_path):
        """Teaching and answering that take a known time: the pace is that time, whatever was taught to find it."""
        batch = 5
        compare(training={"epochs": 1, "batch_size": batch}, seeds=1)
        manifest = next((tmp_path / "run" / "classroom").glob("cells-*.json"))

        def teach(*given):
            *_, train, dev, training = given
            clock.now += 0.01 * len(train) + training.epochs * (3.0 * math.ceil(len(train) / batch) + 0.2 * len(dev))

        def answered(seconds):
            def work(_, parts):
                clock.now += seconds * sum(map(len, parts))

            return work

        monkeypatch.setattr(rehearsal, "teach", teach)
        monkeypatch.setattr(rehearsal, "dev_of", answered(0.2))
        monkeypatch.setattr(rehearsal, "answers", answered(0.4))
        desk = Desk(manifest)
        key = next(key for key, one in desk.own.cells.items() if one.maps is not None)
        found = desk._pace(desk.own.cells[key])
        assert found.taught.row == pytest.approx(0.01)
        assert found.taught.step == pytest.approx(3.0)
        assert (found.dev, found.test) == pytest.approx((0.2, 0.4))

    def test_typical_rows_are_of_mean_length(self, compare, tmp_path):
        compare()
        desk = Desk(next((tmp_path / "run" / "classroom").glob("cells-*.json")))
        first = next(iter(desk.own.cells.values()))
        test = desk.own.classroom.examples(first.start, False)["test"]
        lengths = test.batch.lengths.numpy()
        chosen = typical(test, 3)
        assert sorted(np.abs(lengths - lengths.mean()))[:3] == sorted(np.abs(lengths[chosen] - lengths.mean()))
        assert list(chosen) == sorted(chosen)


class TestForecast:
    @pytest.mark.slow
    def test_counts_what_the_run_then_does(self, forecast, compare, tmp_path):
        explainers = ["gradient_norm", "smat"]
        asked = {"training": {"epochs": 1, "batch_size": 4}, "sizes": [12, 16]}
        found = forecast(explainers=explainers, **asked)
        assert not (tmp_path / "run").exists()
        result = compare(explainers=explainers, **asked)
        assert found.cells == result.about["cells"]
        assert found.kept == 0
        known = counts(found)
        assert known["learning explainers"] + known["teaching students"] == found.cells
        assert known["explaining: random"] == 32
        used = len(didact.Explanations.load(next((tmp_path / "run" / "explanations").glob("gradient_norm-*"))))
        assert known["explaining: gradient_norm"] == known["weighing: smat"] == used
        assert known["intervals"] == len(result.rows) - 2
        assert found.seconds == pytest.approx(sum(stage.seconds for stage in found.stages))
        assert all(stage.seconds >= 0 for stage in found.stages)
        written = sum(file.stat().st_size for file in (tmp_path / "run").rglob("*") if file.is_file())
        assert written / 2 < found.disk < 2 * written

    @pytest.mark.slow
    def test_what_is_done_does_not_count(self, forecast, compare, tmp_path):
        compare(seeds=2, measure=4)
        before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")}
        found = forecast(seeds=2, measure=4)
        assert found.kept == found.cells
        assert counts(found)["asking the teacher"] == counts(found)["measuring"] == 0
        assert counts(forecast(seeds=2, measure=5))["measuring"] == 5
        assert not any(name.startswith(("explaining", "teaching")) for name in counts(found))
        assert found.disk == 0
        grown = forecast(seeds=3)
        assert (grown.cells, grown.kept) == (15, 10)
        assert counts(grown)["teaching students"] == 5
        assert 0 < counts(grown)["explaining: gradient_norm"] <= 12
        assert counts(grown)["explaining: random"] == 12
        assert {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")} == before

    @pytest.mark.slow
    def test_groups_of_seeds(self, forecast, compare, tmp_path):
        alone = forecast(students=["same/attention", "bilstm_attention(width=8)/attention"], together=True)
        assert any("is trained seed by seed" in note for note in alone.notes)
        found = forecast(together=True)
        assert counts(found)["teaching students"] == found.cells == 10
        compare(together=True)
        assert forecast(together=True).kept == 10
        next((tmp_path / "run" / "cells").glob("*.json")).unlink()  # its group is done again, whole
        assert forecast(together=True).kept == 8

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["sentiment", "inference", "quality", "reading", "shapes"])
    def test_every_task(self, forecast, school, name):
        found = forecast(*school(name), measure=4)
        assert counts(found)["measuring"] == 4
        assert found.seconds > 0
        assert not any("cannot be rehearsed" in note for note in found.notes)

    def test_a_function(self, forecast, school):
        _, data = school()

        def predict(texts):
            return np.array([[0.7, 0.3] if len(text) % 2 else [0.2, 0.8] for text in texts])

        teacher = didact.teacher_from_function(predict, classes=list(data.classes))
        assert forecast(teacher, data, ["occlusion"], [NATIVE]).cells == 10

    def test_people(self, forecast, school):
        found = forecast("human", school()[1], ["human"], [NATIVE])
        assert found.cells > 0

    def test_explanations_that_are_there_take_nothing(self, forecast, school):
        teacher, data = school()
        maps = didact.explain(teacher, data["train"], "occlusion")
        assert "explaining: occlusion" not in counts(forecast(explainers=[maps]))

    def test_a_blend(self, forecast):
        found = forecast(explainers=["smat(family=blend)"], training={"epochs": 1, "batch_size": 4})
        assert counts(found)["learning explainers"] == 2

    def test_other_students_and_trials_take_longer(self, forecast, clock, monkeypatch):
        """With a clock that only teaching moves, tuning multiplies what teaching takes."""

        def teach(*given):
            *_, train, _, training = given
            clock.now += training.epochs * math.ceil(len(train) / 32)

        monkeypatch.setattr(rehearsal, "teach", teach)
        plain = {stage.name: stage.seconds for stage in forecast().stages}["teaching students"]
        tuned = {stage.name: stage.seconds for stage in forecast(tune={"beta": [1.0, 2.0, 3.0]}).stages}
        assert tuned["teaching students"] == pytest.approx(3 * plain)
        assert plain == pytest.approx(10)  # ten cells of one step

    def test_what_a_cluster_explains_is_divided(self, forecast, monkeypatch):
        class Helping(Here):
            def shards(self, *_):
                return None

            def shards_at_once(self, *_):
                return 3

        monkeypatch.setattr(module.Forecaster, "_probed", lambda *_: 60.0)
        monkeypatch.setattr("didact.experiment.explain._SHARD", 4)
        stage = "explaining: gradient_norm"
        alone = {one.name: one.seconds for one in forecast().stages}[stage]
        monkeypatch.setattr(compare_module, "_engine", lambda *_, **options: Helping(**options))
        found = forecast(measure=4)
        assert {one.name: one.seconds for one in found.stages}[stage] == pytest.approx(alone / 3)
        assert found.all_memory is None, "that of this machine says nothing about others"
        assert any("Measuring is forecast as this process alone" in note for note in found.notes)

    @pytest.mark.slow
    def test_finished_blends_and_given_explanations_are_known(self, forecast, compare, school, tmp_path):
        teacher, data = school()
        didact.explain(teacher, data["train"], "gradient_input", out=tmp_path / "given.parquet")
        asked = {
            "explainers": [str(tmp_path / "given.parquet"), "smat(family=blend, members='gradient_norm + occlusion')"],
            "sizes": [16], "seeds": 1, "training": {"epochs": 1, "batch_size": 4},
        }  # fmt: skip
        compare(**asked)
        found = forecast(**asked)
        assert found.cells == found.kept
        assert not any(name.startswith(("explaining", "teaching", "learning")) for name in counts(found))

    def test_a_large_outer_batch_is_rehearsed(self, forecast):
        found = forecast(explainers=["smat(outer_batch=20)"], sizes=[30], training={"epochs": 1, "batch_size": 4})
        assert "learning explainers" in counts(found), found.notes

    def test_without_a_place_nothing_is_done_yet(self, forecast, compare, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        compare(out=tmp_path / "runs" / "compare-planted-sentiment")
        assert forecast(out=None).kept == 0

    def test_what_a_process_would_die_of_is_told(self, forecast, monkeypatch):
        def dies(_, __, keys):
            yield from (Told(key, "died", "The worker process ended with signal 9 (SIGKILL).") for key in keys)

        monkeypatch.setattr(Here, "run", dies)
        found = forecast()
        assert "teaching students" not in counts(found)
        assert any("may fail: The worker process ended with signal 9" in note for note in found.notes)

    def test_what_would_fail_is_told(self, forecast, monkeypatch):
        def broken(*_):
            raise RuntimeError("no memory")

        monkeypatch.setattr(rehearsal, "teach", broken)
        found = forecast()
        assert "teaching students" not in counts(found)
        assert any("cannot be rehearsed, and may fail: no memory" in note for note in found.notes)

    def test_a_bad_plan_is_refused_as_ever(self, forecast):
        with pytest.raises(PlanError, match="sizes"):
            forecast(sizes=[10_000])

    @pytest.mark.slow
    def test_processes_rehearse(self, forecast):
        found = forecast(workers=2)
        assert (found.at_once, found.workers) == (2, 2)
        assert found.memory_worker is not None
        assert found.memory == found.memory_here + 2 * found.memory_worker

    @pytest.mark.cluster
    def test_a_cluster_rehearses(self, forecast):
        pytest.importorskip("ray")
        found = forecast(engine="ray", workers=2)
        assert found.at_once == 2
        assert counts(found)["teaching students"] == found.cells


ASKED = ("--model", "m", "--data", "d", "--explainers", "lime", "--dry-run")


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


class TestCommand:
    @pytest.fixture
    def asked(self, monkeypatch):
        found = Forecast(
            (Stage("asking the teacher", 1200, "rows", 61.4), Stage("teaching students", 30, "cells", 7384.0)),
            36, 6, 2, 2, 5 * 10**8, 4 * 10**8, 10**9, 2 * 10**6, 10**6, 12.0, ("A note.",),
        )  # fmt: skip
        given = []
        monkeypatch.setattr(compare_module, "forecast_plan", lambda *one, **other: given.append((one, other)) or found)
        return given

    def test_a_table(self, asked, tmp_path):
        said = run("compare", *ASKED, "--out", str(tmp_path))
        for part in (
            "asking the teacher", "1,200 rows", "61.4 s", "30 cells", "2.1 h", "Cells: 36, 6 of which are done; 2 at",
            "Memory: 500.0 MB here + 2 × 400.0 MB; this machine has 1.0 GB.", "more than there is", "Disk: 2.0 MB",
            "more than is free", "A note.", "nothing is kept",
        ):  # fmt: skip
            assert part in said, part
        assert asked[0][0][0]["explainers"] == ["lime"]

    @pytest.mark.usefixtures("asked")
    def test_json(self):
        found = json.loads(run("compare", *ASKED, "--json"))
        assert found["seconds"] == pytest.approx(7445.4)
        assert found["memory"] == 13 * 10**8
        assert found["stages"][1] == {"name": "teaching students", "count": 30, "unit": "cells", "seconds": 7384.0}


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.04, "0.0 s"), (99.4, "99.4 s"), (99.6, "2 min"), (7200, "2.0 h"), (864000, "10.0 days")]
)
def test_times_for_people(seconds, said):
    assert lasting(seconds) == said


@pytest.mark.parametrize(("count", "said"), [(900, "1 KB"), (1.25e6, "1.2 MB"), (3e9, "3.0 GB")])
def test_bytes_for_people(count, said):
    assert size(count) == said
