"""`didact sanity` and `didact cost`."""

import json

import pytest
from typer.testing import CliRunner

from didact.cli.main import app
from didact.data.load import load_data
from didact.errors import DidactError
from didact.learning.train import train_teacher

DATA = "planted/sentiment(teach=40, explain=10, train=10, dev=8, test=12)"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("sanity") / "model"
    train_teacher(load_data(DATA), "native(width=16, layers=1, heads=2)", epochs=1, progress=False, out=place)
    return place


def run(command, model, *arguments):
    asked = [command, "--model", str(model), "--data", DATA, "--rows", "4", *arguments]
    result = CliRunner().invoke(app, asked)
    if result.exception is not None and not isinstance(result.exception, SystemExit | DidactError):
        raise result.exception
    return result


def test_sanity(model):
    result = run("sanity", model, "--methods", "gradient_input,random")
    assert result.exit_code == 0, result.output
    assert "weights redrawn" in result.stdout
    assert "fooled" in result.stdout
    document = json.loads(run("sanity", model, "--methods", "random", "--checks", "weights", "--json").stdout)
    assert document["labels"] == document["trivial"] == []
    assert document["weights"][0]["step"] == "as it is"


def test_cost(model):
    document = json.loads(run("cost", model, "--methods", "gradient_input", "--json").stdout)
    assert document["rows"][0]["backward"] == 1
    assert "MB" in run("cost", model, "--methods", "random").stdout


def test_wrong_names(model):
    assert "gradient_input" in str(run("sanity", model, "--methods", "gradient_inputs").exception)
    assert "--methods: must not be empty" in str(run("cost", model, "--methods", "").exception)
    assert "'weights'" in str(run("sanity", model, "--methods", "random", "--checks", "wieghts").exception)
