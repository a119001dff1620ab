"""`--device` and `--precision`: every command that computes takes the device, and tells which it cannot have."""

import pytest
from typer.testing import CliRunner

from didact.cli.main import app
from didact.data.load import load_data
from didact.errors import RequestError
from didact.explaining.explain import explain
from didact.learning.train import train_teacher

DATA = "planted/sentiment(teach=20, explain=10, train=20, dev=8, test=8)"
COMMANDS = {
    "train": ["train", "--data", DATA, "--out", "{out}/trained"],
    "explain": ["explain", "a good film", "--model", "{model}"],
    "stream": ["explain", "--stream", "--data", DATA, "--model", "{model}", "--out", "{out}/maps.parquet"],
    "compare": ["compare", "--model", "{model}", "--data", DATA, "--explainers", "random", "--out", "{out}/run"],
    "learn smat": [
        "learn",
        "smat",
        "--model",
        "{model}",
        "--data",
        DATA,
        "--size",
        "8",
        "--batch-size",
        "2",
        "--out",
        "{out}/smat",
    ],
    "learn l2e": ["learn", "l2e", "--model", "{model}", "--data", DATA, "--out", "{out}/l2e"],
    "metrics": ["metrics", "{maps}", "--model", "{model}", "--data", DATA],
    "agree": ["agree", "--model", "{model}", "--data", DATA, "--methods", "random,gradient_norm"],
    "sanity": ["sanity", "--model", "{model}", "--data", DATA],
    "cost": ["cost", "--model", "{model}", "--data", DATA],
    "demo": ["demo", "--out", "{out}/demo"],
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("devices")
    data = load_data(DATA)
    model = train_teacher(data, "native(width=8, heads=2)", epochs=1, progress=False, out=folder / "model")
    explain(model, data["test"], "gradient_norm", out=folder / "maps.parquet")
    return {"model": str(folder / "model"), "maps": str(folder / "maps.parquet"), "out": str(folder)}


def told(places, command, *flags):
    result = CliRunner().invoke(app, [part.format(**places) for part in COMMANDS[command]] + list(flags))
    assert isinstance(result.exception, RequestError), (result.output, result.exception)
    return str(result.exception)


@pytest.mark.parametrize("device", ["quantum", "mps", "cuda:7", "meta"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_device_that_is_not_here(places, command, device):
    said = told(places, command, "--device", device)
    assert f"Device {device!r} cannot be used here" in said
    assert "Leave it out for the CPU" in said
    assert len(said) < 250


@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_spread(places, command, monkeypatch):
    """What is trained, and native teachers."""
    monkeypatch.setattr("didact.models.load.default_device", lambda: "cpu")  # not a device of other tests
    wanted = "training needs one" if command in ("train", "demo") else "spreads Hugging Face models"
    assert wanted in told(places, command, "--device", "auto")


@pytest.mark.parametrize("command", ["train", "explain", "compare"])
def test_an_unknown_precision(places, command):
    assert "half" in told(places, command, "--precision", "half")


@pytest.mark.parametrize("command", ["train", "compare"])
def test_float16_trains_on_cuda_alone(places, command):
    assert "Choose precision 'bfloat16'" in told(places, command, "--precision", "float16")


def test_precision_is_handed_on(places):
    said = [*COMMANDS["explain"], "--method", "occlusion", "--precision", "bfloat16", "--json"]
    result = CliRunner().invoke(app, [part.format(**places) for part in said])
    assert result.exit_code == 0, result.output
    assert '"precision": "bfloat16"' in result.stdout
