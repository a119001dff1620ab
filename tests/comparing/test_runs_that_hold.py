"""Runs that hold: records that cannot be read, versions in keys, black boxes that are asked once, bounds of counts."""

import contextlib
import importlib
import inspect
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from didact.cli.main import app
from didact.comparing import compare as compare_module
from didact.comparing import evaluation as measure_module
from didact.comparing import runner as run_module
from didact.comparing.answer_file import AnswerFile
from didact.comparing.compare import forecast
from didact.comparing.config import CompareConfig, read_plan
from didact.core.function import FunctionTeacher
from didact.data.load import load_data
from didact.errors import DidactError, OptionError, PlanError, RecordError
from didact.explaining.explain import explain
from didact.files.store import Store, StoredRecord, UnreadableError
from didact.learning.fit import Training
from didact.metrics import METRICS
from didact.models.native import NativeModel


class TestUnreadableRecords:
    def test_a_folder_in_its_place(self, tmp_path):
        (tmp_path / "abc.json").mkdir()
        with pytest.raises(UnreadableError, match=r"Could not read .*abc\.json: Is a directory.*remove it"):
            Store(tmp_path).load("abc")
        with pytest.raises(UnreadableError, match=r"abc\.json"):
            Store(tmp_path).is_done("abc")

    @pytest.mark.parametrize("ending", ["json", "parquet"])
    def test_a_run_says_what_to_do(self, compare, tmp_path, monkeypatch, ending):
        compare(seeds=1)
        path = sorted((tmp_path / "run" / "cells").glob(f"*.{ending}"))[1]
        read = Path.read_bytes

        def refuse(self):
            if self.name == path.name:
                raise PermissionError(13, "Permission denied", str(self))
            return read(self)

        monkeypatch.setattr(Path, "read_bytes", refuse)
        with pytest.raises(RecordError, match=rf"{path.name}: Permission denied.*Make it readable, or remove it"):
            compare(seeds=1)

    def test_a_record_without_fields(self, tmp_path):
        store = Store(tmp_path)
        store.save(StoredRecord("abc", "done", {}))
        text = (tmp_path / "abc.json").read_text().replace("payload", "paylaod")
        (tmp_path / "abc.json").write_text(text)
        with pytest.raises(RecordError, match="damaged"):
            store.load("abc")


class TestVersions:
    def test_a_changed_metric_is_computed_again(self, compare, monkeypatch):
        asked = []
        run_evaluation = measure_module.run_evaluation

        def watched(*args, **options):
            asked.append(1)
            return run_evaluation(*args, **options)

        monkeypatch.setattr(measure_module, "run_evaluation", watched)
        compare(seeds=1, eval_rows=2)
        assert len(asked) == 1
        compare(seeds=1, eval_rows=2)
        assert len(asked) == 1, "nothing has changed"
        monkeypatch.setitem(METRICS._builtin, "sufficiency", replace(METRICS["sufficiency"], version=7))
        compare(seeds=1, eval_rows=2)
        assert len(asked) == 2

    def test_scores_are_looked_up_before_the_model_is_asked(self, compare, school, monkeypatch):
        teacher, data = school()
        compare(teacher, data, seeds=1, eval_rows=2, out=None)
        seen = []
        run = measure_module.MethodEvaluation.run

        def watched(self, rows):
            predict = type(self.setup.teacher).predict
            with monkeypatch.context() as patch:
                patch.setattr(type(self.setup.teacher), "predict", lambda *a, **k: seen.append(1) or predict(*a, **k))
                return run(self, rows)

        compare(teacher, data, seeds=1, eval_rows=2)
        monkeypatch.setattr(run_module.MethodEvaluation, "run", watched)
        compare(teacher, data, seeds=1, eval_rows=2)
        assert not seen

    def test_a_changed_architecture_has_another_key(self, school, monkeypatch):
        teacher, _ = school()
        before = teacher.fingerprint()
        assert "version" not in teacher.facts()
        monkeypatch.setattr(NativeModel, "version", 2)
        assert teacher.facts()["version"] == 2
        assert teacher.fingerprint() != before


class Counted:
    """A function that remembers what it was asked. `shift` changes its answers, `fails_after` ends a run."""

    __name__ = "counted"

    def __init__(self, shift: float = 0.0, fails_after: int | None = None) -> None:
        self.shift, self.fails_after, self.asked = shift, fails_after, []

    def __call__(self, texts):
        self.asked += texts
        if self.fails_after is not None and len(self.asked) > self.fails_after:
            raise KeyboardInterrupt
        lengths = np.array([len(text) % 7 + sum(map(ord, text)) % 5 for text in texts], dtype=float)
        positive = (1 + lengths) / 13 * (1 - self.shift)
        return np.stack([1 - positive, positive], axis=1)


@pytest.fixture
def asked(compare):
    """Compare with a function; gives the texts it was asked about."""
    data = load_data("planted/sentiment(teach=40, explain=10, train=60, dev=20, test=40)")

    def run(function, **options):
        teacher = FunctionTeacher(function, data.classes, name="counted")
        small = {"train_sizes": [30], "seeds": 2, "students": ["pool/multitask"], **options}
        with contextlib.suppress(KeyboardInterrupt):
            compare(teacher, data, ["occlusion"], **small)
        return function.asked

    return run, [row.texts[0] for name in ("train", "dev", "test") for row in data[name]]


class TestBlackBoxes:
    def test_are_not_asked_again_about_answered_rows(self, asked):
        run, texts = asked
        before = run(Counted())
        assert before
        assert len(set(before) & set(texts)) > 60
        again = run(Counted())
        assert len([text for text in again if text in texts]) == 8
        untouched = run(Counted(), recheck=0)
        assert not [text for text in untouched if text in texts]
        assert len(untouched) < 100, "methods are tried on two rows"

    def test_a_killed_run_loses_one_batch_at_most(self, asked, tmp_path):
        run, texts = asked
        killed = run(Counted(fails_after=110))
        answered = list(dict.fromkeys(text for text in killed if text in texts))[:-32]
        assert len(answered) > 20
        resumed = run(Counted(), recheck=0)
        assert not set(answered) & set(resumed)
        whole = run(Counted(), recheck=0, out=tmp_path / "whole")
        assert set(texts) & set(whole) == set(texts) & (set(resumed) | set(answered))
        kept, alone = (sorted((tmp_path / name / "cells").glob("*.json")) for name in ("run", "whole"))
        assert [path.name for path in kept] == [path.name for path in alone]

    def test_a_changed_function_is_told(self, asked):
        run, _ = asked
        run(Counted())
        with pytest.raises(
            OptionError,
            match=r"has changed since this run began.*answer to row '.*out=, --out.*recheck=0 \(--recheck 0\)",
        ):
            run(Counted(shift=0.2))
        run(Counted(shift=0.2), recheck=0)

    def test_damaged_lines_are_asked_again(self, asked, tmp_path):
        run, texts = asked
        run(Counted())
        path = next((tmp_path / "run" / "classroom").glob("answers-*.jsonl"))
        lines = path.read_bytes().splitlines(keepends=True)
        place = next(n for n, line in enumerate(lines) if line.strip())
        lines[place] = lines[place].replace(b"values", b"velues")
        path.write_bytes(b"".join(lines) + b'{"row": "cut sh')
        assert len([text for text in run(Counted(), recheck=0) if text in texts]) == 1

    def test_a_forecast_stores_nothing(self, tmp_path):
        data = load_data("planted/sentiment(teach=40, explain=10, train=30, dev=8, test=16)")
        teacher = FunctionTeacher(Counted(), data.classes, name="counted")
        file = AnswerFile(tmp_path, teacher, writes=False)
        rows = data["test"].rows[:4]
        file.add(rows, teacher.predict(rows))
        assert not list(tmp_path.rglob("*"))
        assert all(file.get(row) is not None for row in rows)


BOUNDS = {
    "seeds": 10**9, "threads": 10**6, "eval_rows": 10**9, "train_sizes": [10**9], "length": 10**30,
    "train_rows": 10**9, "test_rows": 10**12, "dev_rows": -1,
}  # fmt: skip


# Wrong types, in a process whose annotations nobody checks: as users run it.
CALLS = """
import didact
from didact.errors import DidactError
asked = {"students": ["pool/multitask"], "explainers": ["lime"]}
calls = [
    (didact.compare, ("nowhere", "planted/sentiment"), {**asked, **options})
    for options in (
        {"workers": "x"}, {"workers": 1.5}, {"workers": True}, {"workers": 10**6}, {"recheck": -1}, {"out": ""},
        {"out": 5}, {"out": "a\\0b"}, {"plan": 5}, {"engine": "nope"}, {"base": "nope"}, {"seeds": list(range(10001))},
        {"seeds": "x"}, {"eval_rows": 10**9}, {"eval_rows": "x"}, {"threads": 10**6}, {"trust_remote_code": "yes"},
    )
]
calls += [(didact.load_data, ("planted/sentiment",), {"seed": seed}) for seed in ("x", float("nan"), -1, 2**40)]
for call, args, options in calls:
    try:
        call(*args, **options)
        print("accepted", options)
    except DidactError as error:
        print(str(error).replace(chr(10), " "))
    except Exception as error:
        print("traceback", type(error), error)
"""
TOLD = (
    *(["workers: must be an integer from 0"] * 4), "recheck: must be an integer from 0",
    *(["out: must be the path of a folder"] * 3), "plan must be the path of a TOML file", "no engine named 'nope'",
    "base: no student starts from 'nope'", "at most 10,000 seeds", "seeds: must be a list of seeds",
    *(["eval_rows: must be an integer from 0"] * 2), "threads: must be an integer from 1",
    "trust_remote_code: must be true or false", *(["seed must be an integer"] * 4),
)  # fmt: skip


class TestBounds:
    def test_are_told_together_before_anything_is_loaded(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        training = {"epochs": 10**9, "batch_size": 10**30}
        with pytest.raises(PlanError) as caught:
            compare_module.compare("nowhere", "planted/sentiment", ["lime"], workers=10**6, **BOUNDS, training=training)
        told = str(caught.value)
        for name in (*BOUNDS, "workers", "epochs", "batch_size"):
            assert name in told
        assert "The plan has 11 faults; nothing was loaded" in told
        assert not list(tmp_path.iterdir())

    def test_each_wrong_argument_is_told(self, tmp_path):
        done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True, check=True, cwd=tmp_path)
        lines = done.stdout.splitlines()
        assert len(lines) == len(TOLD)
        for line, message in zip(lines, TOLD, strict=True):
            assert message in line
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("name", ["epochs", "batch_size"])
    def test_of_training(self, name):
        with pytest.raises(OptionError, match=f"{name} must be at most 1"):
            Training(**{name: 10**30})

    @pytest.mark.parametrize("command", ["explain", "train", "cost", "sanity"])
    def test_of_threads(self, command):
        done = CliRunner().invoke(app, [command, "--model", "m", "--data", "planted/sentiment", "--threads", "1000000"])
        assert isinstance(done.exception, PlanError)
        assert "--threads: must be an integer from 1 to" in str(done.exception)

    def test_of_explain(self, school):
        teacher, data = school()
        with pytest.raises(OptionError, match="batch_size.*must be an integer from 1 to 1,000,000"):
            explain(teacher, data["test"][:2], "integrated_gradients", batch_size=10**30)

    def test_a_plan_that_nests_too_deeply(self, tmp_path):
        path = tmp_path / "plan.toml"
        path.write_text(f"explainers = {'[' * 5000}{']' * 5000}\n")
        with pytest.raises(OptionError, match=r"plan\.toml.*nested too deeply"):
            read_plan(path)

    def test_a_plan_with_a_byte_order_mark(self, tmp_path):
        path = tmp_path / "plan.toml"
        path.write_bytes(b'\xef\xbb\xbfdata = "planted/sentiment"\n')
        assert read_plan(path) == {"data": "planted/sentiment"}


class TestTrust:
    def test_is_never_taken_from_a_file(self, tmp_path):
        path = tmp_path / "plan.toml"
        path.write_text('model = "m"\ndata = "planted/sentiment"\ntrust_remote_code = true\n')
        with pytest.raises(OptionError, match=r"plan\.toml.*trust_remote_code.*--trust-remote-code"):
            read_plan(path)
        for options in ([], ["--dry-run"]):
            done = CliRunner().invoke(app, ["compare", str(path), "--model", str(tmp_path / "m"), *options])
            assert isinstance(done.exception, OptionError)
            assert "--trust-remote-code" in str(done.exception)
        with pytest.raises(OptionError, match="--trust-remote-code"):
            forecast(plan=path)
        assert "trust_remote_code" not in read_plan(path, trust_remote_code=True)

    def test_a_file_may_deny_it(self, tmp_path):
        path = tmp_path / "plan.toml"
        path.write_text("trust_remote_code = false\n")
        assert read_plan(path) == {}

    def test_code_of_a_plan_does_not_run(self, tmp_path):
        """A model whose config names a module of its own, which would leave a mark."""
        folder, mark = tmp_path / "evil", tmp_path / "mark"
        folder.mkdir()
        code = f"open({str(mark)!r}, 'w').close()\nfrom transformers import BertConfig as EvilConfig\n"
        (folder / "evil.py").write_text(code)
        (folder / "config.json").write_text(
            '{"model_type": "evil", "auto_map": {"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel"}}'
        )
        plan = tmp_path / "plan.toml"
        plan.write_text(f'model = "{folder}"\ndata = "planted/sentiment"\ntrust_remote_code = true\n')
        for options in ([], ["--dry-run"], ["--out", str(tmp_path / "run")]):
            assert CliRunner().invoke(app, ["compare", str(plan), *options]).exit_code != 0
        assert not mark.exists()

    def test_no_run_writes_it(self, compare, tmp_path):
        assert (
            "trust_remote_code"
            not in CompareConfig(model="m", data="planted/sentiment", trust_remote_code=True).to_toml()
        )
        compare(seeds=1, trust_remote_code=True)
        assert "trust_remote_code" not in (tmp_path / "run" / "plan.toml").read_text()

    def test_old_runs_resume_with_the_flag_alone(self, compare, tmp_path):
        """Their plan.toml says true: it counts only where the caller says so, too."""
        compare(seeds=1, eval_rows=None, trust_remote_code=True)
        path = tmp_path / "run" / "plan.toml"
        path.write_text("trust_remote_code = true\n" + path.read_text())
        with pytest.raises(OptionError, match="--trust-remote-code"):
            compare(seeds=1, eval_rows=None, plan=path)
        compare(seeds=1, eval_rows=None, plan=path, trust_remote_code=True)


class TestFlagsAndPlans:
    # Written by didact itself, or always on.
    EXCEPTIONS = ("fitted_from", "left_out", "progress")

    def test_every_entry_of_a_plan_has_a_flag(self):
        from didact.cli.compare import compare as command

        flags = set(inspect.signature(command).parameters)
        missing = [name for name in CompareConfig.model_fields if name not in flags and name not in self.EXCEPTIONS]
        assert not missing

    def test_the_new_ones_reach_the_plan(self, monkeypatch):
        seen = []

        def watched(plan, **_):
            seen.append(plan)
            raise OptionError("enough")

        monkeypatch.setattr(compare_module, "run_config", watched)
        flags = [
            "--data-seed",
            "3",
            "--temperatures",
            "1,0.5",
            "--skip-controls",
            "trivial,matched",
            "--train-rows",
            "9",
        ]
        done = CliRunner().invoke(app, ["compare", "--model", "m", "--data", "planted/sentiment", *flags])
        assert str(done.exception) == "enough"
        assert (seen[0].data_seed, seen[0].train_rows) == (3, 9)
        assert seen[0].temperatures == (1.0, 0.5)
        assert seen[0].skip_controls == ("trivial", "matched")

    @pytest.mark.parametrize("name", ["cost", "sanity", "demo"])
    def test_commands_that_load_a_model_have_them(self, name):
        command = getattr(importlib.import_module(f"didact.cli.{name}"), name)
        assert {"revision", "trust_remote_code"} <= set(inspect.signature(command).parameters)


class TestRefused:
    def test_a_refused_plan_leaves_no_folder(self, compare, tmp_path):
        with pytest.raises(DidactError, match="rows were requested"):
            compare(train_sizes=[10_000], out=tmp_path / "a" / "b" / "run")
        assert not (tmp_path / "a").exists()

    def test_one_number_of_runs(self, compare, school, tmp_path):
        """Students of two strategies share the runs without explanations: the forecast counts them once."""
        teacher, data = school()
        asked = {
            "train_sizes": [12], "seeds": 2, "workers": 0, "training": {"epochs": 1}, "eval_rows": 0,
            "balance": False, "out": tmp_path / "run",
        }  # fmt: skip
        students = ["same/attention", "same/multitask"]
        told = forecast(teacher, data, ["gradient_norm"], students, **asked)
        done = compare(teacher, data, ("gradient_norm",), students, **asked)
        assert done.about["cells"] == told.runs == 18
        assert "Plan: 18 runs; about" in told.summary[0]
        assert "are 20 combinations: 2 of them equal" in told.summary[0]
        training = next(stage for stage in told.stages if stage.unit == "runs")
        assert training.count == 18
        again = forecast(teacher, data, ["gradient_norm"], students, **asked)
        assert (again.runs, again.done) == (18, 18)


def test_a_data_folder_with_only_test(tmp_path, folder):
    data = load_data("planted/sentiment(teach=40, explain=10, train=30, dev=8, test=16)")
    place = tmp_path / "onlytest"
    place.mkdir()
    lines = ["text,label\n", *(f'"{row.texts[0]}",{data.classes[row.label]}\n' for row in data["test"])]
    (place / "test.csv").write_text("".join(lines))
    command = ["explain", "--model", str(folder), "--data", str(place), "--split", "test", "--method", "gradient_norm"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    huge = CliRunner().invoke(app, [*command, "--batch-size", str(10**30)])
    assert isinstance(huge.exception, PlanError)  # which the command ends with 2
    assert "--batch-size: must be an integer from 1 to 1,000,000" in str(huge.exception)
