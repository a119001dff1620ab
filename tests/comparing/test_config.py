"""A config says the same in a file, by keywords and by flags; all faults are told at once, before anything loads."""

import inspect
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from didact.cli.main import app
from didact.comparing import compare as module
from didact.comparing.config import DEFAULT_SEARCH_SPACE, PLAN_FIELDS, TRAINING_FIELDS, CompareConfig, read_plan
from didact.comparing.config_fields import CompareFields
from didact.comparing.config_values import SKIPPABLE, parse_seeds
from didact.comparing.prepare import _request_key, _stored_plan
from didact.config import option_of
from didact.core.function import FunctionTeacher
from didact.errors import OptionError, PlanError
from didact.files.store import key_of
from didact.registry import Spec
from didact.results.comparison import Comparison
from didact.results.run_record import RunInfo

GOOD = {
    "model": "runs/teacher", "data": "planted/sentiment", "explainers": ["gradient_norm", "lime(samples=20)"],
    "students": ["same/attention", "bilstm/multitask(k=0.2)", "same/attention@sgd"], "train_sizes": [50, 20],
    "seeds": [3, 1],
    "search_space": {"beta": [1.0, 5.0]}, "training": {"epochs": 2, "learning_rate": 0.01}, "soft_labels": True,
    "threads": 2,
}  # fmt: skip
FILE = """
model = "runs/teacher"
data = "planted/sentiment"
explainers = ["gradient_norm", "lime(samples=20)"]
students = ["same/attention", "bilstm/multitask(k=0.2)", "same/attention@sgd"]
train_sizes = [50, 20]
seeds = [3, 1]
soft_labels = true
threads = 2
[search_space]
beta = [1.0, 5.0]
[training]
epochs = 2
learning_rate = 0.01
"""
FLAGS = [
    "--model", "runs/teacher", "--data", "planted/sentiment", "--explainers", "gradient_norm,lime(samples=20)",
    "--students", "same/attention,bilstm/multitask(k=0.2),same/attention@sgd", "--train-sizes", "50,20", "--seeds",
    "3,1", "--soft-labels", "--threads", "2", "--search-space", "beta=[1.0,5.0]", "--epochs", "2", "--learning-rate",
    "0.01",
]  # fmt: skip
BAD = {
    "explainers": ["gradient_nrom", "lime(samples=many)", "lime(sample=3)", "nowhere.parquet", 7],
    "students": ["same/attentoin", "bilstm/multitask(k=2)", "nativ(width=2)/none", "same/attention@rmsprop"],
    "train_sizes": [0, 5.5],
    "seeds": -1,
    "sede": 3,
    "search_space": {"betta": [1.0], "beta": [-1.0], "temperature": 0.5, "k": [float("inf")]},
    "training": {"epoch": 3, "learning_rate": -1.0},
    "data": "planted/sentimant",
    "soft_labels": "yes",
    "threads": 0,
    "data_seed": "x",
}
WANTED = [
    "'gradient_nrom'", "'samples' of 'lime' must be an integer", "named 'sample'", "no file 'nowhere.parquet'",
    "must be given by its name, got 7",
    "'attentoin'", "'k' is a share", "named 'nativ'", "'rmsprop' in", "got 0", "got 5.5",
    "from 1 to 10,000, got -1", "entry of a plan named 'sede'", "named 'betta'", "'beta'",
    "temperature must be a list",
    "k must be finite", "named 'epoch'", "learning_rate: must be a number above 0", "'planted/sentimant'",
    "must be true or false, got 'yes'", "threads: must be an integer from 1", "data_seed: a seed", "model: missing",
]  # fmt: skip


@pytest.fixture
def unloaded(monkeypatch):
    """Nothing may be loaded."""
    for name in ("load_data", "load_teacher"):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("something was loaded"))


class TestFaults:
    @pytest.mark.usefixtures("unloaded")
    def test_all_are_told_at_once_and_nothing_is_loaded(self, tmp_path):
        names = BAD["explainers"]  # from a file: the suite checks arguments by their annotations, and 7 is no method
        (tmp_path / "plan.toml").write_text(f"explainers = {json.dumps(names)}", encoding="utf-8")
        rest = {name: value for name, value in BAD.items() if name != "explainers"}
        with pytest.raises(PlanError) as caught:
            module.compare(**rest, plan=tmp_path / "plan.toml", out=tmp_path / "run")
        text = str(caught.value)
        assert [one for one in WANTED if one not in text] == []
        assert len(caught.value.faults) == len(WANTED)
        assert f"{len(WANTED)} faults" in text
        assert not (tmp_path / "run").exists()

    @pytest.mark.usefixtures("unloaded")
    def test_also_on_the_command_line(self, tmp_path):
        arguments = [
            "compare",
            "--explainers",
            "lime(samples=x),nothing",
            "--students",
            "same/wrong",
            "--train-sizes",
            "0,x",
        ]
        result = CliRunner().invoke(
            app, [*arguments, "--seeds", "x", "--search-space", "maybe", "--out", str(tmp_path / "run")]
        )
        assert isinstance(result.exception, PlanError)
        found = str(result.exception)
        for part in (
            "'samples'",
            "'nothing'",
            "'wrong'",
            "got 0",
            "got 'x'",
            "--seeds:",
            "--search-space:",
            "model: missing",
            "data: missi",
        ):
            assert part in found

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"train_sizes": []}, "train_sizes: at least one size"),
            ({"seeds": []}, "at least one seed"),
            ({"test_rows": 1}, "test_rows: an interval needs at least 2 test rows"),
            ({"students": []}, "students: name at least one"),
            ({"explainers": "gradient_norm"}, "must be a list of explainers"),
            ({"explainers": ["lime", "lime()"]}, "lime is listed twice"),
            ({"seeds": [1, 1]}, "1 is listed twice"),
            ({"seeds": [True]}, "a seed must be an integer"),
            ({"search_space": {"beta": []}}, "beta must be a list"),
            (
                {"search_space": {"k": [0.1]}, "students": ["same/alignment"]},
                "no strategy of these students has an option 'k'",
            ),
            ({"data": "planted/sentiment(cuse=3)"}, "named 'cuse'"),
            ({"training": 3}, "training: must be a table"),
            ({"training": {"learning_rate": float("nan")}}, "learning_rate: must be a number above 0, got nan"),
            ({"training": {"learning_rate": "a", "epochs": -1}}, "epochs: must be an integer from 1"),
            ({"training": {"learning_rate": "a", "epochs": -1}}, "learning_rate: must be a number above 0, got 'a'"),
            ({"students": ["native(layrs=1)/attention"]}, "named 'layrs'"),
            ({"explainers": ["gradient_norm(precision=bfloat16)"]}, "gradient_norm"),
            ({"device": "meta"}, "device: Device 'meta'"),
            ({"max_length": 0}, "max_length: must be an integer from 1 to 1,000,000, got 0"),
            ({"model": ""}, "model: must be a name"),
            ({"engine": "rey"}, "engine: There is no engine named 'rey'. Did you mean 'ray'? Known: local, ray."),
            ({"out": "\0"}, "out: must be the path of a folder or a URL"),
            ({"workers": -1}, "workers: must be an integer from 0"),
            ({"workers": 9999}, "workers: must be an integer from 0"),
            ({"schedule": "cosine"}, "schedule: There is no schedule named 'cosine'. Known: constant, linear."),
            ({"momentum": 1.0}, "momentum: must be a number from 0 to below 1, got 1.0"),
            ({"training": {"speed": 1}}, "training: There is no entry of training named 'speed'"),
            ({"lenght": 3}, "There is no entry of a plan named 'lenght'. Did you mean 'max_length'?"),
            ({"zzz": 3}, "named 'zzz'. Known: address, balance"),
        ],
    )
    def test_each(self, said, message):
        with pytest.raises(PlanError, match=re.escape(message)):
            CompareConfig.of(GOOD | said)

    def test_a_processor_has_one_name(self):
        assert CompareConfig.of(GOOD | {"device": "cpu:3"}).device == "cpu"

    def test_numbers_of_numpy_are_numbers(self):
        import numpy as np

        plan = CompareConfig.of(
            GOOD | {"train_sizes": [np.int64(9)], "seeds": np.int64(2), "threads": np.int32(3), "workers": np.int64(2)}
        )
        assert (plan.train_sizes, plan.seeds, plan.threads, plan.workers) == ((9,), (0, 1), 3, 2)

    def test_more_workers_are_possible_on_a_cluster(self):
        assert CompareConfig.of(GOOD | {"workers": 9999, "engine": "ray"}).workers == 9999

    def test_a_config_is_checked_when_it_is_made(self):
        with pytest.raises(PlanError, match="seeds: must be an integer from 1"):
            CompareConfig(seeds=0)


class TestOnePlanSaidThreeWays:
    def test_file_keywords_and_flags(self, tmp_path, monkeypatch):
        seen = []
        monkeypatch.setattr(module, "run_config", lambda plan, **_: seen.append(plan.with_fields(progress=False)))
        (tmp_path / "plan.toml").write_text(FILE)
        CliRunner().invoke(app, ["compare", str(tmp_path / "plan.toml")])
        CliRunner().invoke(app, ["compare", *FLAGS])
        assert seen == [CompareConfig.of(GOOD)] * 2
        assert seen[0].train_sizes == (20, 50)
        assert seen[0] == CompareConfig.of(read_plan(tmp_path / "plan.toml"))

    def test_python_and_the_file(self, tmp_path, monkeypatch):
        seen = []
        monkeypatch.setattr(module, "ComparisonRunner", lambda setup, *_, **__: seen.append(setup) or _Nothing())
        monkeypatch.setattr(module, "_prepare_run", lambda plan, *_, **__: SimpleNamespace(setup=plan, forecast=None))
        (tmp_path / "plan.toml").write_text(FILE)
        module.compare(plan=tmp_path / "plan.toml", out=tmp_path / "a")
        rest = {name: value for name, value in GOOD.items() if name not in ("model", "data", "explainers", "students")}
        module.compare(GOOD["model"], GOOD["data"], GOOD["explainers"], GOOD["students"], out=tmp_path / "b", **rest)
        module.compare(plan=tmp_path / "plan.toml", out=tmp_path / "a", seeds=2, train_sizes=7)
        module.compare(CompareConfig(**GOOD), seeds=2, out=tmp_path / "c")
        assert [plan.with_fields(out=None) for plan in seen[:2]] == [CompareConfig.of(GOOD)] * 2
        assert seen[3].with_fields(out=None) == CompareConfig.of(GOOD | {"seeds": 2})
        assert (seen[2].seeds, seen[2].train_sizes, seen[2].search_space) == ((0, 1), (7,), {"beta": (1.0, 5.0)})

    def test_flags_win_over_the_file(self, tmp_path, monkeypatch):
        seen = []
        monkeypatch.setattr(module, "run_config", lambda plan, **_: seen.append(plan))
        (tmp_path / "plan.toml").write_text(FILE)
        changes = ["--seeds", "2", "--hard", "--epochs", "7", "--search-space", "no", "--students", "same/none"]
        CliRunner().invoke(app, ["compare", str(tmp_path / "plan.toml"), *changes])
        (plan,) = seen
        assert (plan.seeds, plan.soft_labels, plan.search_space) == ((0, 1), False, {})
        assert plan.training == {"epochs": 7, "rate": 0.01}, "the file's rate stays"
        assert [str(one) for one in plan.students] == ["same/none"]
        assert plan.threads == 2

    def test_what_is_written_reads_back(self, tmp_path):
        for said in (
            GOOD,
            GOOD | {"search_space": True},
            {name: GOOD[name] for name in ("model", "data", "explainers")},
        ):
            plan = CompareConfig.of(said)
            (tmp_path / "plan.toml").write_text(plan.to_toml())
            assert CompareConfig.of(read_plan(tmp_path / "plan.toml")) == plan
        assert CompareConfig.of(GOOD | {"search_space": True}).search_space == {
            name: tuple(values) for name, values in DEFAULT_SEARCH_SPACE.items()
        }

    def test_a_run_keeps_its_plan(self, compare, folder, tmp_path):
        asked = {"seeds": [4], "students": None, "search_space": {"beta": [1.0]}}
        done = compare(str(folder), "planted/sentiment(teach=4, explain=4, train=14, dev=4, test=6)", **asked)
        plan = CompareConfig.of(read_plan(tmp_path / "run" / "plan.toml"))
        assert [str(one) for one in plan.students] == ["same/attention"], "also what nobody asked for is said"
        again = module.compare(plan=tmp_path / "run" / "plan.toml", out=tmp_path / "again", workers=0)
        assert again.rows == done.rows
        parts = [(tmp_path / name / "results.parquet").read_bytes() for name in ("run", "again")]
        assert parts[0] == parts[1]

    @pytest.mark.parametrize(("text", "wanted"), [("3", 3), ("3,", [3]), ("3,4", [3, 4]), ("x", ["x"])])
    def test_seeds_are_a_number_or_a_list(self, text, wanted):
        assert parse_seeds(text) == wanted


class TestFiles:
    def test_broken(self, tmp_path):
        (tmp_path / "plan.toml").write_text("train_sizes = [1,")
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
        assert "training: must be a table" in str(result.exception)
        assert "seeds:" in str(result.exception)


FORMER = {
    "sizes": "train_sizes", "measure": "eval_rows", "rate": "learning_rate", "length": "max_length",
    "soft": "soft_labels",
    "sharpness": "temperatures", "leave_out": "skip_controls", "tune": "search_space",
}  # fmt: skip
VALUES = {
    "sizes": [9], "measure": 3, "rate": 0.5, "length": 7, "soft": True, "sharpness": [0.5], "leave_out": ["trivial"],
    "tune": {"beta": [1.0]},
}  # fmt: skip
TEXTS = VALUES | {"sizes": "9", "sharpness": "0.5", "leave_out": "trivial", "tune": "beta=[1.0]"}


class TestFormerNames:
    """Names that plans, calls and commands of before have: they work, with a warning that names the new one."""

    NAMED = {"model": "m", "data": "planted/sentiment"}  # noqa: RUF012

    def test_all_are_known(self):
        assert dict(CompareConfig.RENAMED) == FORMER

    @pytest.mark.parametrize("old", FORMER)
    def test_in_a_plan(self, old, caplog):
        found = CompareConfig.of(self.NAMED | {old: VALUES[old]})
        assert f"{old} is now called {FORMER[old]}" in caplog.text
        assert caplog.text.count("is now called") == 1
        assert found == CompareConfig.of(self.NAMED | {FORMER[old]: VALUES[old]})
        assert f"{FORMER[old]} = " in found.to_toml() or f"[{FORMER[old]}]" in found.to_toml()

    @pytest.mark.parametrize("old", FORMER)
    def test_as_a_flag(self, old, monkeypatch, caplog):
        seen = []
        monkeypatch.setattr(module, "run_config", lambda plan, **_: seen.append(plan))
        value = [] if old == "soft" else [str(TEXTS[old])]
        flags = ["--model", "m", "--data", "planted/sentiment", f"--{old.replace('_', '-')}", *value]
        CliRunner().invoke(app, ["compare", *flags])
        assert seen == [CompareConfig.of(self.NAMED | {FORMER[old]: VALUES[old], "progress": True})]
        assert f"{old} is now called {FORMER[old]}" in caplog.text
        assert f"--{old.replace('_', '-')} " not in CliRunner().invoke(app, ["compare", "--help"]).output

    def test_both_names_at_once_are_a_fault(self):
        with pytest.raises(PlanError, match="sizes: this is the former name of train_sizes, and both were given"):
            CompareConfig.of(GOOD | {"sizes": [3]})

    def test_a_flag_wins_over_the_former_name_in_a_file(self, tmp_path):
        (tmp_path / "plan.toml").write_text("sizes = [3]\n[training]\nrate = 0.5\nepochs = 3\n")
        found = CompareConfig.of(self.NAMED | {"plan": tmp_path / "plan.toml", "train_sizes": 7, "learning_rate": 0.1})
        assert (found.train_sizes, found.training) == ((7,), {"epochs": 3, "rate": 0.1})


class TestRetired:
    """Entries that plans and commands of before have: ignored, with a note."""

    def test_a_plan_that_has_them_is_read(self, caplog):
        found = CompareConfig.of(GOOD | {"test": "sign_flip", "replicates": 100})
        assert found == CompareConfig.of(GOOD)
        for name in ("test", "replicates"):
            assert f"{name} is no longer an option and is ignored. Intervals" in caplog.text
        assert "replicates" not in found.to_toml()
        assert "together" not in caplog.text

    @pytest.mark.parametrize("value", [True, False])
    def test_seeds_that_were_to_be_trained_together(self, caplog, value):
        found = CompareConfig.of(GOOD | {"together": value})
        assert found == CompareConfig.of(GOOD)
        assert "together is no longer an option and is ignored. Every seed" in caplog.text
        assert "together" not in found.to_toml()

    def test_flags_are_accepted_but_not_shown(self, monkeypatch, caplog):
        seen = []
        monkeypatch.setattr(module, "run_config", lambda plan, **_: seen.append(plan))
        CliRunner().invoke(app, ["compare", *FLAGS, "--test", "sign_flip", "--replicates", "9", "--together"])
        assert seen == [CompareConfig.of(GOOD | {"progress": True})]
        assert "replicates is no longer an option" in caplog.text
        shown = CliRunner().invoke(app, ["compare", "--help"]).output
        for flag in ("--replicates", "--test ", "--together"):
            assert flag not in shown

    def test_a_stored_plan_that_has_them_is_read_without_a_word(self, tmp_path, caplog):
        """Who resumes an old run has not asked for them."""
        plan = CompareConfig.of({"model": "a", "data": "planted/sentiment"}).with_fields(fitted_from="key")
        (tmp_path / "plan.toml").write_text(plan.to_toml() + 'test = "wilcoxon"\nreplicates = 2000\nsizes = [4]\n')
        assert _stored_plan(tmp_path, "key", plan) == plan.with_fields(train_sizes=(4,))
        assert caplog.text == ""

    def test_a_run_that_was_fitted_before_is_recognised(self):
        """The key of a request as it was when plans had both entries."""
        asked = CompareConfig.of(
            {"model": "a", "data": "planted/sentiment", "training": {"epochs": 3}, "budget": "20m"}
        )
        lines = asked.request_text().splitlines()
        place = next(number for number, line in enumerate(lines) if line.startswith("threads = "))
        lines[place:place] = ['test = "wilcoxon"', "replicates = 2000"]
        key = key_of({"plan": "\n".join(lines) + "\n", "teacher": "t", "methods": []})
        assert _request_key(asked, FunctionTeacher(len, ["a", "b"], name="t"), []) == key


class TestSparing:
    """What makes a comparison cheaper, and what it may not leave out."""

    def test_the_command_names_the_rows_of_a_plan(self):
        description = str(CompareConfig.model_fields["skip_controls"].description)
        assert re.findall(r"\w+", description.partition(": ")[2].replace("of smat ", "")) == list(SKIPPABLE)

    def test_said_and_written(self):
        plan = CompareConfig.of(GOOD | {"skip_controls": ["trivial", "matched"], "temperatures": [1, 0.5]})
        assert (plan.skip_controls, plan.temperatures) == (("trivial", "matched"), (1.0, 0.5))
        assert CompareConfig.of(tomllib.loads(plan.to_toml())) == plan

    def test_unsaid_it_is_not_written(self):
        written = CompareConfig.of(GOOD).to_toml()
        assert "temperatures" not in written
        assert "skip_controls" not in written

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"skip_controls": ["none"]}, "skip_controls: There is no control that can be left out named 'none'"),
            ({"skip_controls": ["random", "cotrained"]}, "named 'random'"),
            ({"skip_controls": ["trivail"]}, "Did you mean 'trivial'"),
            ({"temperatures": []}, "at least one temperature"),
            ({"temperatures": [0.0]}, "a finite number > 0, got 0.0"),
            ({"temperatures": [0.5, 0.5]}, "listed twice"),
            ({"temperatures": [float("inf")]}, "a finite number > 0, got inf"),
        ],
    )
    def test_faults(self, said, message):
        with pytest.raises(PlanError, match=re.escape(message)):
            CompareConfig.of(GOOD | said)


def test_the_key_of_a_request_is_that_of_the_first_names():
    """As didact wrote it before options were renamed: names, order and values."""
    asked = CompareConfig.of(
        {
            "model": "m", "data": "planted/sentiment", "explainers": ["lime"], "students": ["same/attention"],
            "train_sizes": [9], "seeds": 2, "soft_labels": True, "search_space": {"beta": [1.0]}, "max_length": 5,
            "training": {"epochs": 2, "learning_rate": 0.1}, "eval_rows": 3, "temperatures": [0.5],
            "skip_controls": ["trivial"], "columns": {"text": "a", "label": None}, "budget": "20m", "balance": False,
            "workers": 3, "out": "somewhere", "progress": True,
        }
    )  # fmt: skip
    assert (
        asked.request_text()
        == """\
model = "m"
data = "planted/sentiment"
explainers = [
    "lime",
]
students = [
    "same/attention",
]
sizes = [
    9,
]
seeds = [
    0,
    1,
]
soft = true
threads = 1
device = "cpu"
length = 5
truncate = false
data_seed = 0
trust_remote_code = false
measure = 3
sharpness = [
    0.5,
]
leave_out = [
    "trivial",
]
balance = false
budget = 1200.0

[tune]
beta = [
    1.0,
]

[training]
epochs = 2
rate = 0.1

[columns]
text = "a"
label = ""
"""
    )


class TestOneList:
    """Fields, flags, keyword arguments and documents are the same list."""

    def test_every_field_is_a_keyword_argument_of_compare_that_editors_know(self):
        named = set(inspect.signature(module.compare).parameters) - {"teacher", "fields", "config"}
        assert named | set(CompareFields.__annotations__) == {*CompareConfig.model_fields, "training"}
        assert not named & set(CompareFields.__annotations__)
        assert inspect.signature(module.forecast).parameters == inspect.signature(module.compare).parameters

    def test_every_field_is_an_option(self):
        hidden = {name for name, field in CompareConfig.model_fields.items() if option_of(field) is None}
        assert hidden == {"progress", "fitted_from", "left_out"}

    def test_every_field_is_written_or_about_one_call(self):
        about_calls = {"plan", "out", "cache", "workers", "engine", "address", "gpus", "recheck", "progress"}
        assert {*CompareConfig.model_fields, "training"} == {*PLAN_FIELDS, *TRAINING_FIELDS} | about_calls

    def test_every_field_has_a_help_text(self):
        assert [name for name, field in CompareConfig.model_fields.items() if not field.description] == []

    def test_no_model_code_is_loaded_for_the_list_alone(self):
        code = (
            "import sys\nfrom didact.comparing.config import CompareConfig\nCompareConfig.model_json_schema()\n"
            "assert not {'torch', 'transformers', 'pandas'} & set(sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_trials_are_the_grid_of_what_the_strategy_knows():
    plan = CompareConfig(search_space={"temperature": (1.0, 0.5), "beta": (1.0, 5.0)})
    assert len(plan.trials(Spec("attention"))) == 4
    assert plan.trials(Spec("multitask")) == [{"beta": 1.0}, {"beta": 5.0}]
    assert CompareConfig().trials(Spec("attention")) == [{}]


class _Nothing:
    def run(self, _):
        return Comparison(rows=(), failed=(), notes=(), about=RunInfo(), agreement={}, folder=Path())
