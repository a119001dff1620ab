"""A plan says the same in a file, by keywords and by flags; all its faults are told at once, before anything loads."""

import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from didact.cli import compare as command
from didact.cli.main import app
from didact.core.function import FunctionTeacher
from didact.errors import OptionError, PlanError
from didact.experiment import compare as module
from didact.experiment.plan import SPARED, TUNED, Plan, make_plan, read_plan
from didact.experiment.prepare import _request, _stored
from didact.records.store import key_of
from didact.registry import Spec
from didact.results.comparison import Comparison

GOOD = {
    "model": "runs/teacher", "data": "planted/sentiment", "explainers": ["gradient_norm", "lime(samples=20)"],
    "students": ["same/attention", "bilstm/multitask(k=0.2)", "same/attention@sgd"], "sizes": [50, 20], "seeds": [3, 1],
    "tune": {"beta": [1.0, 5.0]}, "training": {"epochs": 2, "rate": 0.01}, "soft": True, "threads": 2,
}  # fmt: skip
FILE = """
model = "runs/teacher"
data = "planted/sentiment"
explainers = ["gradient_norm", "lime(samples=20)"]
students = ["same/attention", "bilstm/multitask(k=0.2)", "same/attention@sgd"]
sizes = [50, 20]
seeds = [3, 1]
soft = true
threads = 2
[tune]
beta = [1.0, 5.0]
[training]
epochs = 2
rate = 0.01
"""
FLAGS = [
    "--model", "runs/teacher", "--data", "planted/sentiment", "--explainers", "gradient_norm,lime(samples=20)",
    "--students", "same/attention,bilstm/multitask(k=0.2),same/attention@sgd", "--sizes", "50,20", "--seeds", "3,1",
    "--soft", "--threads", "2", "--tune", "beta=[1.0,5.0]", "--epochs",
    "2", "--rate", "0.01",
]  # fmt: skip
BAD = {
    "explainers": ["gradient_nrom", "lime(samples=many)", "lime(sample=3)", "nowhere.parquet", 7],
    "students": ["same/attentoin", "bilstm/multitask(k=2)", "nativ(width=2)/none", "same/attention@rmsprop"],
    "sizes": [0, 5.5],
    "seeds": -1,
    "sede": 3,
    "tune": {"betta": [1.0], "beta": [-1.0], "temperature": 0.5, "k": [float("inf")]},
    "training": {"epoch": 3, "rate": -1.0},
    "data": "planted/sentimant",
    "soft": "yes",
    "threads": 0,
    "data_seed": "x",
}
WANTED = [
    "'gradient_nrom'", "'samples' of 'lime' is a whole number", "named 'sample'", "no file 'nowhere.parquet'", "not 7",
    "'attentoin'", "'k' is a share", "named 'nativ'", "'rmsprop' in", "got 0", "got 5.5",
    "from 1 to 10,000, got -1", "entry of a plan named 'sede'", "named 'betta'", "'beta'",
    "temperature needs",
    "k is tried with numbers", "named 'epoch'", "rate must be above 0", "'planted/sentimant'",
    "true or false is wanted, not 'yes'", "got 0", "data_seed: a seed", "model: missing",
]  # fmt: skip


@pytest.fixture
def unloaded(monkeypatch):
    """Nothing may be loaded."""
    for name in ("load_data", "load_teacher"):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("something was loaded"))


class TestFaults:
    @pytest.mark.usefixtures("unloaded")
    def test_all_are_told_at_once_and_nothing_is_loaded(self, tmp_path):
        with pytest.raises(PlanError) as caught:
            module.run_plan(BAD, out=tmp_path / "run")
        text = str(caught.value)
        assert [one for one in WANTED if one not in text] == []
        assert len(caught.value.faults) == len(WANTED)
        assert f"{len(WANTED)} faults" in text
        assert not (tmp_path / "run").exists()

    @pytest.mark.usefixtures("unloaded")
    def test_also_on_the_command_line(self, tmp_path):
        arguments = ["compare", "--explainers", "lime(samples=x),nothing", "--students", "same/wrong", "--sizes", "0,x"]
        result = CliRunner().invoke(
            app, [*arguments, "--seeds", "x", "--tune", "maybe", "--out", str(tmp_path / "run")]
        )
        assert isinstance(result.exception, PlanError)
        found = str(result.exception)
        for part in (
            "'samples'",
            "'nothing'",
            "'wrong'",
            "got 0",
            "got 'x'",
            "seeds:",
            "tune:",
            "model: missing",
            "data: missi",
        ):
            assert part in found

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"sizes": []}, "sizes: at least one size"),
            ({"seeds": []}, "at least one seed"),
            ({"test_rows": 1}, "test_rows: one test row gives no interval"),
            ({"students": []}, "students: name at least one"),
            ({"explainers": "gradient_norm"}, "a list of explainers is wanted"),
            ({"explainers": ["lime", "lime()"]}, "lime is there twice"),
            ({"seeds": [1, 1]}, "1 is there twice"),
            ({"seeds": [True]}, "a seed is a whole number"),
            ({"tune": {"beta": []}}, "beta needs a list"),
            ({"tune": {"k": [0.1]}, "students": ["same/alignment"]}, "'k' is an option of none"),
            ({"data": "planted/sentiment(cuse=3)"}, "named 'cuse'"),
            ({"training": 3}, "a table is wanted"),
            ({"training": {"rate": float("nan")}}, "rate is a number"),
            ({"training": {"rate": "a", "epochs": -1}}, "epochs must be at least 1"),
            ({"training": {"rate": "a", "epochs": -1}}, "'rate' of training is a number"),
            ({"students": ["native(layrs=1)/attention"]}, "named 'layrs'"),
            ({"explainers": ["gradient_norm(precision=bfloat16)"]}, "gradient_norm"),
            ({"device": "meta"}, "device: Device 'meta'"),
            ({"length": 0}, "length: must be an integer from 1 to 1,000,000, got 0"),
            ({"model": ""}, "model: a name is wanted"),
        ],
    )
    def test_each(self, said, message):
        with pytest.raises(PlanError, match=message.replace("(", r"\(")):
            make_plan(GOOD | said)

    def test_a_processor_has_one_name(self):
        assert make_plan(GOOD | {"device": "cpu:3"}).device == "cpu"

    def test_numbers_of_numpy_are_numbers(self):
        import numpy as np

        plan = make_plan(GOOD | {"sizes": [np.int64(9)], "seeds": np.int64(2), "threads": np.int32(3)})
        assert (plan.sizes, plan.seeds, plan.threads) == ((9,), (0, 1), 3)
        assert module._call_faults(None, np.int64(2), "local", np.int64(8)) == []

    @pytest.mark.usefixtures("unloaded")
    def test_workers(self):
        with pytest.raises(PlanError, match="workers: must be an integer from 0"):
            module.run_plan(GOOD, workers=-1)


class TestOnePlanSaidThreeWays:
    def test_file_keywords_and_flags(self, tmp_path, monkeypatch):
        seen = []
        monkeypatch.setattr(module, "run_plan", lambda said, **_: seen.append(make_plan(said)) or pytest.skip)
        (tmp_path / "plan.toml").write_text(FILE)
        CliRunner().invoke(app, ["compare", str(tmp_path / "plan.toml")])
        CliRunner().invoke(app, ["compare", *FLAGS])
        assert seen == [make_plan(GOOD)] * 2
        assert seen[0].sizes == (20, 50)
        assert seen[0] == make_plan(read_plan(tmp_path / "plan.toml"))

    def test_python_and_the_file(self, tmp_path, monkeypatch):
        seen = []
        monkeypatch.setattr(module, "Run", lambda roster, *_, **__: seen.append(roster) or _Nothing())
        monkeypatch.setattr(module, "prepare", lambda plan, *_, **__: SimpleNamespace(roster=plan, forecast=None))
        for name in ("_loaded_data", "_loaded_teacher", "announce_notes"):
            monkeypatch.setattr(module, name, lambda *_, **__: None)
        (tmp_path / "plan.toml").write_text(FILE)
        module.compare(plan=tmp_path / "plan.toml", out=tmp_path / "a")
        rest = {name: value for name, value in GOOD.items() if name not in ("model", "data", "explainers", "students")}
        module.compare(GOOD["model"], GOOD["data"], GOOD["explainers"], GOOD["students"], out=tmp_path / "b", **rest)
        module.compare(plan=tmp_path / "plan.toml", out=tmp_path / "a", seeds=2, sizes=7)
        assert seen[0] == seen[1] == make_plan(GOOD)
        assert (seen[2].seeds, seen[2].sizes, seen[2].tune) == ((0, 1), (7,), {"beta": (1.0, 5.0)})

    def test_flags_win_over_the_file(self, tmp_path, monkeypatch):
        seen = []
        monkeypatch.setattr(module, "run_plan", lambda said, **_: seen.append(make_plan(said)))
        (tmp_path / "plan.toml").write_text(FILE)
        changes = ["--seeds", "2", "--hard", "--epochs", "7", "--tune", "no", "--students", "same/none"]
        CliRunner().invoke(app, ["compare", str(tmp_path / "plan.toml"), *changes])
        (plan,) = seen
        assert (plan.seeds, plan.soft, plan.tune) == ((0, 1), False, {})
        assert plan.training == {"epochs": 7, "rate": 0.01}, "the file's rate stays"
        assert [str(one) for one in plan.students] == ["same/none"]
        assert plan.threads == 2

    def test_what_is_written_reads_back(self, tmp_path):
        for said in (GOOD, GOOD | {"tune": True}, {name: GOOD[name] for name in ("model", "data", "explainers")}):
            plan = make_plan(said)
            (tmp_path / "plan.toml").write_text(plan.to_toml())
            assert make_plan(read_plan(tmp_path / "plan.toml")) == plan
        assert make_plan(GOOD | {"tune": True}).tune == {name: tuple(values) for name, values in TUNED.items()}

    def test_a_run_keeps_its_plan(self, compare, folder, tmp_path):
        asked = {"seeds": [4], "students": None, "tune": {"beta": [1.0]}}
        done = compare(str(folder), "planted/sentiment(teach=4, explain=4, train=14, dev=4, test=6)", **asked)
        plan = make_plan(read_plan(tmp_path / "run" / "plan.toml"))
        assert [str(one) for one in plan.students] == ["same/attention"], "also what nobody asked for is said"
        again = module.compare(plan=tmp_path / "run" / "plan.toml", out=tmp_path / "again", workers=0)
        assert again.rows == done.rows
        parts = [(tmp_path / name / "results.parquet").read_bytes() for name in ("run", "again")]
        assert parts[0] == parts[1]

    @pytest.mark.parametrize(("text", "wanted"), [("3", 3), ("3,", [3]), ("3,4", [3, 4]), ("x", ["x"])])
    def test_seeds_are_a_number_or_a_list(self, text, wanted):
        assert command._seeds(text) == wanted


class TestFiles:
    def test_broken(self, tmp_path):
        (tmp_path / "plan.toml").write_text("sizes = [1,")
        with pytest.raises(OptionError, match="cannot be read as TOML"):
            read_plan(tmp_path / "plan.toml")

    def test_missing(self, tmp_path):
        with pytest.raises(OptionError, match="There is no plan"):
            read_plan(tmp_path / "plan.toml")

    def test_a_folder(self, tmp_path):
        with pytest.raises(OptionError, match="cannot be read"):
            read_plan(tmp_path)

    def test_bytes_that_are_no_text(self, tmp_path):
        (tmp_path / "plan.toml").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(OptionError, match="cannot be read"):
            read_plan(tmp_path / "plan.toml")

    def test_training_that_is_no_table_is_a_fault_like_others(self, tmp_path):
        (tmp_path / "plan.toml").write_text("training = 3\nseeds = 0")
        result = CliRunner().invoke(app, ["compare", str(tmp_path / "plan.toml"), "--epochs", "2"])
        assert isinstance(result.exception, PlanError)
        assert "training: a table is wanted" in str(result.exception)
        assert "seeds:" in str(result.exception)


class TestRetired:
    """Entries that plans and commands of before have: ignored, with a note."""

    def test_a_plan_that_has_them_is_read(self, caplog):
        found = make_plan(GOOD | {"test": "sign_flip", "replicates": 100})
        assert found == make_plan(GOOD)
        assert "test, replicates: no longer an option of a comparison, and ignored" in caplog.text
        assert "replicates" not in found.to_toml()
        assert "together" not in caplog.text

    @pytest.mark.parametrize("value", [True, False])
    def test_seeds_that_were_to_be_trained_together(self, caplog, value):
        found = make_plan(GOOD | {"together": value})
        assert found == make_plan(GOOD)
        assert "together: no longer an option of a comparison, and ignored. Every seed" in caplog.text
        assert "together" not in found.to_toml()

    def test_flags_are_accepted_but_not_shown(self, monkeypatch):
        seen = {}
        monkeypatch.setattr(module, "run_plan", lambda request, **_: seen.update(request) or sys.exit(0))
        CliRunner().invoke(app, ["compare", *FLAGS, "--test", "sign_flip", "--replicates", "9", "--together"])
        assert seen["replicates"] == 9
        assert seen["together"] is True
        shown = CliRunner().invoke(app, ["compare", "--help"]).output
        assert "--replicates" not in shown
        assert "--together" not in shown
        assert "--test " not in shown

    def test_a_stored_plan_that_has_them_is_read_without_a_word(self, tmp_path, caplog):
        """Who resumes an old run has not asked for them."""
        plan = replace(make_plan({"model": "a", "data": "planted/sentiment"}), fitted_from="key")
        (tmp_path / "plan.toml").write_text(plan.to_toml() + 'test = "wilcoxon"\nreplicates = 2000\n')
        assert _stored(tmp_path, "key", plan) == plan
        assert caplog.text == ""

    def test_a_run_that_was_fitted_before_is_recognised(self):
        """The key of a request as it was when plans had both entries."""
        asked = make_plan({"model": "a", "data": "planted/sentiment", "training": {"epochs": 3}, "budget": "20m"})
        lines = asked.request_text().splitlines()
        place = next(number for number, line in enumerate(lines) if line.startswith("threads = "))
        lines[place:place] = ['test = "wilcoxon"', "replicates = 2000"]
        key = key_of({"plan": "\n".join(lines) + "\n", "teacher": "t", "methods": []})
        assert _request(asked, FunctionTeacher(len, ["a", "b"], name="t"), []) == key


class TestSparing:
    """What makes a comparison cheaper, and what it may not leave out."""

    def test_the_command_names_the_rows_of_a_plan(self):
        assert command._SPARED == SPARED

    def test_said_and_written(self):
        plan = make_plan(GOOD | {"leave_out": ["trivial", "matched"], "sharpness": [1, 0.5]})
        assert (plan.leave_out, plan.sharpness) == (("trivial", "matched"), (1.0, 0.5))
        assert make_plan(tomllib.loads(plan.to_toml())) == plan

    def test_unsaid_it_is_not_written(self):
        written = make_plan(GOOD).to_toml()
        assert "sharpness" not in written
        assert "leave_out" not in written

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"leave_out": ["none"]}, "leave_out: There is no row that can be left out named 'none'"),
            ({"leave_out": ["random", "cotrained"]}, "named 'random'"),
            ({"leave_out": ["trivail"]}, "Did you mean 'trivial'"),
            ({"sharpness": []}, "at least one temperature"),
            ({"sharpness": [0.0]}, "a number above 0, not 0.0"),
            ({"sharpness": [0.5, 0.5]}, "there twice"),
            ({"sharpness": [float("inf")]}, "a number above 0, not inf"),
        ],
    )
    def test_faults(self, said, message):
        with pytest.raises(PlanError, match=re.escape(message)):
            make_plan(GOOD | said)


def test_trials_are_the_grid_of_what_the_strategy_knows():
    plan = Plan(tune={"temperature": (1.0, 0.5), "beta": (1.0, 5.0)})
    assert len(plan.trials(Spec("attention"))) == 4
    assert plan.trials(Spec("multitask")) == [{"beta": 1.0}, {"beta": 5.0}]
    assert Plan().trials(Spec("attention")) == [{}]


class _Nothing:
    def comparison(self, _):
        return Comparison(rows=(), failed=(), notes=(), about={}, agreement={}, folder=Path())
