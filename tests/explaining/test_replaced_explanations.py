"""Explanations of another model, method or data are replaced only if that is asked for."""

import re

import pytest
from typer.testing import CliRunner

import didact
from didact.cli.main import app
from didact.errors import OptionError
from didact.explainers.controls import Random
from didact.explaining.stream import explain_stream
from didact.models.huggingface import HuggingFaceModel
from didact.results.explanations import Explanations
from teachers import black_box
from tiny import huggingface, rows

TEXTS = ["a film", "the plot is not very good", "good"]
ADVICE = r"Name another file, or allow it to be replaced \(overwrite=True, --overwrite\)"


@pytest.fixture
def model():
    return HuggingFaceModel(*huggingface("bert"))


@pytest.fixture(params=[didact.explain, lambda *args, **options: explain_stream(*args, shard=2, **options)])
def explain(request):
    return request.param


def check_refused(path, reason, explain, *arguments, **options):
    before = path.read_bytes()
    with pytest.raises(OptionError, match=f"{re.escape(str(path))} contains other explanations.*{reason}.*{ADVICE}"):
        explain(*arguments, out=path, **options)
    assert path.read_bytes() == before
    explain(*arguments, out=path, overwrite=True, **options)
    assert path.read_bytes() != before


def test_the_same_is_replaced_as_before(model, explain, tmp_path):
    path = tmp_path / "maps.parquet"
    explain(model, TEXTS, "random", out=path)
    before = path.read_bytes()
    explain(model, TEXTS, "random", out=path)
    assert path.read_bytes() == before


def test_another_method_option_or_data_needs_leave(model, explain, tmp_path):
    path = tmp_path / "maps.parquet"
    explain(model, TEXTS, "random", out=path)
    check_refused(
        path, r"differs: method \('random' there, 'gradient_norm' here\)\.", explain, model, TEXTS, "gradient_norm"
    )
    check_refused(
        path,
        r"differs: option at \('word' there, 'embedding' here\)\.",
        explain,
        model,
        TEXTS,
        "gradient_norm(at=embedding)",
    )
    check_refused(path, r"differs: data \(other rows\)\.", explain, model, TEXTS[:2], "gradient_norm(at=embedding)")


def test_another_model_needs_leave(model, explain, tmp_path):
    path = tmp_path / "maps.parquet"
    explain(model, TEXTS, "gradient_norm", out=path)
    model.model.classifier.weight.data += 1.0
    check_refused(
        path, "differs: model .both are called .*differ in weights or settings", explain, model, TEXTS, "gradient_norm"
    )


def test_a_function_that_answers_otherwise_needs_leave(explain, tmp_path):
    path, teacher = tmp_path / "maps.parquet", black_box()
    explain(teacher, TEXTS, "occlusion", out=path)
    explain(teacher, TEXTS, "occlusion", out=path)
    function = teacher.function
    teacher.function = lambda inputs: function(inputs)[:, ::-1]
    check_refused(path, "differs: (model|data) ", explain, teacher, TEXTS, "occlusion")


def test_a_method_passed_as_an_object_needs_leave(model, explain, tmp_path):
    path = tmp_path / "maps.parquet"
    explain(model, TEXTS, Random(), out=path)
    with pytest.raises(OptionError, match=f"method 'random' was passed as an object and may have changed.*{ADVICE}"):
        explain(model, TEXTS, Random(), out=path)
    explain(model, TEXTS, Random(), out=path, overwrite=True)


def test_a_stream_of_other_data_keeps_its_shards(model, tmp_path):
    path = tmp_path / "maps.parquet"
    explain_stream(model, TEXTS, "random", out=path, shard=1)
    with pytest.raises(OptionError, match=f"data .other rows.*{ADVICE}.*2 shards are saved in"):
        explain_stream(model, TEXTS[:2], "random", out=path, shard=1)
    assert explain_stream(model, TEXTS[:2], "random", out=path, shard=1, overwrite=True).reused == 2


def test_the_same_data_in_shards_or_at_once(model, tmp_path):
    path = tmp_path / "maps.parquet"
    didact.explain(model, rows(), "random", out=path)
    for shard in (1, 2):
        explain_stream(model, rows(), "random", out=path, shard=shard)
    assert Explanations.load(path).fingerprints["data"] == didact.explain(model, rows(), "random").fingerprints["data"]


def test_the_command_line(tmp_path):
    for part in huggingface("bert"):
        part.save_pretrained(tmp_path / "model")
    command = ["explain", "--model", str(tmp_path / "model"), "a film", "--out", str(tmp_path / "maps.parquet")]
    assert CliRunner().invoke(app, [*command, "--method", "random"]).exit_code == 0
    error = CliRunner().invoke(app, [*command, "--method", "gradient_norm"]).exception
    assert "method ('random' there, 'gradient_norm' here)" in str(error)
    assert "--overwrite" in str(error)
    assert CliRunner().invoke(app, [*command, "--method", "gradient_norm", "--overwrite"]).exit_code == 0
