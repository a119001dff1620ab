"""`device="auto"`: a teacher that is spread by its name, and what learns from it on one device."""

import json
import sys

import numpy as np
import pytest
import torch
from transformers import BertForSequenceClassification
from typer.testing import CliRunner

import didact
import tiny
from didact.cli.main import app
from didact.comparing import compare as module
from didact.comparing.config import CompareConfig, read_plan
from didact.comparing.training import TrainRunner
from didact.errors import MissingExtraError, OptionError, PlanError
from didact.files.store import Store
from didact.learned.l2e import learn_l2e
from didact.learned.smat import learn_smat
from didact.models import load as load_module
from didact.models.huggingface import HuggingFaceModel
from didact.models.load import default_device
from far import NAME, far

DATA = "planted/sentiment(teach=10, explain=40, train=30, dev=8, test=16)"
# What accelerate decides where memory is short.
PLACES = {
    "bert.embeddings": "cpu", "bert.encoder.layer.0": "cpu", "bert.encoder.layer.1": "disk", "bert.pooler": "disk",
    "classifier": "cpu",
}  # fmt: skip
SMALL = {"train_sizes": [16], "seeds": 1, "training": {"epochs": 1, "batch_size": 8}}
PLAN = """
explainers = ["gradient_norm"]
students = ["pool(width=8)/attention"]
sizes = [16]
seeds = 1
training = {epochs = 1, batch_size = 8}
"""


@pytest.fixture(scope="module")
def name(tmp_path_factory):
    """The folder of a Hugging Face teacher that answers this or that."""
    place = tmp_path_factory.mktemp("teachers") / "bert"
    model, tokenizer = tiny.huggingface("bert", labels=2)
    logits = HuggingFaceModel(model, tokenizer).predict(didact.load_data(DATA)["train"].rows).values
    model.classifier.bias.data[0] += float(np.median(logits[:, 1] - logits[:, 0]))
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return str(place)


@pytest.fixture(autouse=True)
def spread(monkeypatch, tmp_path):
    """A machine whose memory is short, without an accelerator: all models that were spread there."""
    load, found = BertForSequenceClassification.from_pretrained, []

    def placed(*args, **options):
        if options.get("device_map") != "auto":
            return load(*args, **options)
        loaded = load(*args, **options | {"device_map": PLACES, "offload_folder": tmp_path / "offloaded"})
        found.append(loaded[0])
        return loaded

    monkeypatch.setattr(BertForSequenceClassification, "from_pretrained", placed)
    monkeypatch.setattr(
        load_module, "default_device", lambda: "cpu"
    )  # torch would say far, which tests have registered
    return found


def is_dispatched(model):
    return {str(one.device) for one in model.parameters()} == {"cpu", "meta"}


def kept(folder):
    """All that a run keeps but its plan, which names what was handed over; without the seconds that things took."""
    found = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = {path: content for path, content in found.items() if path.name not in ("run.json", "report.html")}
    for path in list(found):
        if path.name in ("plan.toml", "comparison.json", "measured.json"):
            del found[path]
        elif path.parent.name == "cells" and path.suffix == ".json":
            found[path] = {**Store(folder / "cells").load(path.stem).payload, "seconds": None}
    return found


def devices(folder):
    return {Store(folder / "cells").load(path.stem).payload["cell"]["device"] for path in folder.glob("cells/*.json")}


class TestComparisons:
    @pytest.mark.parametrize(
        "asked",
        [
            {"students": ["same/attention"], "eval_rows": 2},
            pytest.param({"explainers": ["smat"], "students": ["same/attention"]}, marks=pytest.mark.slow),
        ],
        ids=["alone", "smat"],
    )  # fmt: skip
    @pytest.mark.slow
    def test_it_is_that_of_a_spread_teacher_handed_over(self, name, compare, spread, tmp_path, asked):
        result = compare(name, DATA, device="auto", out=tmp_path / "by name", **SMALL | asked)
        assert not result.failed, result.failed[0]["error"]
        assert is_dispatched(spread[0])
        assert devices(tmp_path / "by name") == {"cpu"}
        teacher = didact.load_teacher(name, device="auto")
        assert teacher.is_dispatched
        other = compare(teacher, didact.load_data(DATA), device="cpu", out=tmp_path / "handed over", **SMALL | asked)
        assert kept(tmp_path / "handed over") == kept(tmp_path / "by name")
        assert other.to_document()["rows"] == result.to_document()["rows"]

    def test_students_are_where_torch_would_have_them(self, name, compare, spread, tmp_path, monkeypatch):
        work = TrainRunner.run

        def there(runner, key):
            with far():
                return work(runner, key)

        monkeypatch.setattr(TrainRunner, "run", there)
        monkeypatch.setattr(module, "checked_device", lambda _: None)  # it is there for cells alone
        monkeypatch.setattr(load_module, "default_device", lambda: NAME)
        asked = {"students": ["pool(width=8)/attention"], **SMALL}
        handed = didact.load_teacher(name, device="auto")
        for folder, teacher, device in (("auto", name, "auto"), ("far", handed, NAME)):
            result = compare(teacher, DATA, device=device, out=tmp_path / folder, **asked)
            assert not result.failed, result.failed[0]["error"]
        assert len(spread) == 2
        assert all(map(is_dispatched, spread))
        assert devices(tmp_path / "auto") == {NAME}
        assert kept(tmp_path / "auto") == kept(tmp_path / "far")

    @pytest.mark.slow
    def test_the_command_the_plan_and_the_dry_run(self, name, spread, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        said = ["--model", name, "--data", DATA, "--json"]
        (tmp_path / "plan.toml").write_text(PLAN + 'device = "auto"\n')
        told = CliRunner().invoke(app, ["compare", "plan.toml", *said, "--dry-run", "--workers", "0"])
        assert told.exit_code == 0, told.output
        assert not (tmp_path / "runs").exists()
        done = CliRunner().invoke(app, ["compare", "plan.toml", *said, "--out", "by plan", "--workers", "1"])
        assert done.exit_code == 0, done.output
        assert json.loads(told.stdout)["runs"] == json.loads(done.stdout)["about"]["cells"]
        again = CompareConfig.of(read_plan(tmp_path / "by plan/plan.toml"))
        assert (again.device, again.student_device) == ("auto", "cpu")
        (tmp_path / "plan.toml").write_text(PLAN)
        flags = ["--device", "auto", "--out", "by flag", "--workers", "0"]
        assert CliRunner().invoke(app, ["compare", "plan.toml", *said, *flags]).exit_code == 0
        assert len(spread) == 3
        assert kept(tmp_path / "by plan") == kept(tmp_path / "by flag")

    @pytest.mark.cluster
    @pytest.mark.timeout(240)
    def test_on_a_cluster(self, name, compare, tmp_path, monkeypatch):
        """The teacher explains where it is; its students travel."""
        pytest.importorskip("ray")
        monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        monkeypatch.setattr("didact.explaining.job.SHARD_ROWS", 4)
        monkeypatch.setattr(
            "didact.explaining.shard_jobs.ShardQueue.write_manifest", lambda *_: pytest.fail("it was sent")
        )
        asked = {"students": ["pool(width=8)/attention"], **SMALL}
        compare(name, DATA, device="auto", out=tmp_path / "local", **asked)
        result = compare(name, DATA, device="auto", out=tmp_path / "ray", **asked, engine="ray", workers=2)
        assert not result.failed, result.failed[0]["error"]
        assert kept(tmp_path / "ray") == kept(tmp_path / "local")


class TestFaults:
    """What is told before anything is loaded, but for what a folder holds."""

    @pytest.fixture
    def unloaded(self, monkeypatch):
        monkeypatch.setattr(module, "load_plan_data", lambda *_: pytest.fail("something was loaded"))

    @pytest.mark.usefixtures("unloaded")
    @pytest.mark.parametrize("kind", ["human", "a function", "native"])
    @pytest.mark.parametrize("ask", [didact.compare, didact.forecast])
    def test_teachers_that_cannot_be_spread(self, school, kind, ask):
        model, _ = school()
        function = didact.teacher_from_function(lambda texts: [[0.5, 0.5]] * len(texts), classes=["no", "yes"])
        teacher = {"human": "human", "a function": function, "native": model}[kind]
        with pytest.raises(OptionError, match="'auto' spreads a Hugging Face model.* is not one"):
            ask(teacher, DATA, ["random"], device="auto")

    def test_a_native_teacher_by_name(self, folder, compare):
        with pytest.raises(OptionError, match="'auto' spreads Hugging Face models.*small native"):
            compare(str(folder), DATA, device="auto")

    @pytest.mark.usefixtures("unloaded")
    def test_without_accelerate(self, name, monkeypatch):
        monkeypatch.setitem(sys.modules, "accelerate", None)
        for ask in (didact.compare, didact.forecast):
            with pytest.raises(MissingExtraError, match=r"didact\[accelerate\]"):
                ask(name, DATA, ["random"], device="auto")

    @pytest.mark.usefixtures("unloaded")
    def test_what_the_one_device_cannot_do(self, name):
        with pytest.raises(OptionError, match="the device is cpu"):
            didact.compare(name, DATA, ["random"], device="auto", engine="ray", gpus=0.5)
        with pytest.raises(OptionError, match="Choose precision 'bfloat16'"):
            didact.compare(name, DATA, ["random"], device="auto", precision="float16")

    def test_a_student_that_would_start_as_its_teacher(self, name, compare):
        with pytest.raises(PlanError, match="which is the teacher itself"):
            compare(name, DATA, device="auto", base=name)


@pytest.mark.parametrize("kind", ["cuda", "mps", None])
def test_the_device_that_torch_would_choose(monkeypatch, kind):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: kind is not None)
    # Some versions of torch name the device that they were built for, there or not.
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device(kind or "cuda", 0))
    assert default_device() == (kind or "cpu")


def test_gpus(monkeypatch):
    assert module._gpus(CompareConfig(device="auto")) == 0.0
    monkeypatch.setattr(load_module, "default_device", lambda: "cuda")
    assert module._gpus(CompareConfig(device="auto")) == 1.0
    assert module._gpus(CompareConfig(device="auto", gpus=0.25)) == 0.25


@pytest.mark.slow
class TestLearning:
    """The student, or the network, is where the teacher reads."""

    def test_smat(self, name, spread, tmp_path):
        flags = ["--size", "16", "--epochs", "1", "--batch-size", "8", "--student", "pool(width=8)/attention", "--json"]
        said = ["learn", "smat", "--model", name, "--data", DATA, "--out", str(tmp_path / "smat"), *flags]
        done = CliRunner().invoke(app, [*said, "--device", "auto"])
        assert done.exit_code == 0, done.output
        assert is_dispatched(spread[0])
        training = {"epochs": 1, "batch_size": 8}
        wanted = learn_smat(
            didact.load_teacher(name, device="auto"), DATA, size=16, student="pool(width=8)/attention",
            training=training,
        )  # fmt: skip
        assert json.loads(done.stdout)["metrics"] == wanted.learned["metrics"]
        whole = learn_smat(name, DATA, size=16, student="pool(width=8)/attention", training=training)
        torch.testing.assert_close(wanted.weights, whole.weights)

    def test_l2e(self, name, spread, tmp_path):
        flags = ["--imitate", "gradient_norm", "--epochs", "2", "--batch-size", "8", "--initialisations", "1"]
        flags += ["--options", "width=8,layers=1,heads=2", "--json", "--device", "auto"]
        out = tmp_path / "l2e"
        done = CliRunner().invoke(app, ["learn", "l2e", "--model", name, "--data", DATA, "--out", str(out), *flags])
        assert done.exit_code == 0, done.output
        assert is_dispatched(spread[0])
        asked = {"imitate": "gradient_norm", "initialisations": 1, "width": 8, "layers": 1, "heads": 2}
        wanted = learn_l2e(name, DATA, training={"epochs": 2, "batch_size": 8}, **asked).learned["metrics"]
        found = json.loads(done.stdout)["metrics"]
        assert found["dev_loss"] == pytest.approx(wanted["dev_loss"], abs=1e-5)


@pytest.mark.slow
def test_a_demo_of_ones_own(name, spread, tmp_path):
    flags = ["--quick", "--device", "auto", "--workers", "0"]
    done = CliRunner().invoke(app, ["demo", "--model", name, "--data", DATA, "--out", str(tmp_path / "demo"), *flags])
    assert done.exit_code == 0, done.output
    assert is_dispatched(spread[0])
    assert devices(tmp_path / "demo" / "quick") == {"cpu"}
    refused = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "planted"), *flags])
    assert isinstance(refused.exception, OptionError)
    assert "training needs one" in str(refused.exception)
