"""`didact agree` through the command itself: files, methods explained now, JSON, pictures, refusals."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from didact.cli.main import app
from didact.data.load import load_data
from didact.errors import DidactError, OptionError, RequestError, UnknownNameError
from didact.evaluation.agree import agree
from didact.explaining.explain import explain
from didact.importers.eraser import write_eraser
from didact.learning.train import train_teacher
from didact.metrics.probe import Probe
from didact.models.load import load_teacher
from didact.results.agreement import CAUTION
from didact.results.explanations import Explanations
from scored import maps_of

DATA = "planted/sentiment(teach=40, explain=10, train=5, dev=5, test=12)"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("maps")
    rows = [[1.0, 2, 3], [1, 2], [4]]
    maps_of(*rows).save(root / "a.parquet")
    maps_of([3.0, -2, 1], [1, 2], [5], method="ig").save(root / "b.parquet")
    maps_of([1.0, 1, 1], [1, 1], [1], method="flat", kind="magnitude").save(root / "c.parquet")
    maps_of([3.0, -2, 1], [1, 2], method="short").save(root / "short.parquet")
    return root


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher") / "native"
    train_teacher(load_data(DATA), "native(width=16, layers=1)", out=folder, epochs=1)
    return folder


def run(*arguments):
    result = CliRunner().invoke(app, ["agree", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit | DidactError):
        raise result.exception
    return result


def named(files, *names):
    return [files / f"{name}.parquet" for name in names]


class TestFiles:
    def test_prints_the_matrix_and_the_caution(self, files):
        result = run(*named(files, "a", "b", "c"))
        assert result.exit_code == 0, result.output
        assert "2 ig" in result.stdout
        assert "±1.41" in result.stdout
        assert CAUTION in result.stdout

    def test_json_of_one_measure(self, files):
        document = json.loads(run(*named(files, "a", "b", "c"), "--json").stdout)
        assert document["methods"] == ["lime", "ig", "flat"]
        assert document["measure"] == "kendall"
        assert document["matrix"][0] == [1.0, 0.0, None], "(−1 + 1) / 2; what is not a number is null"
        assert document["rows"][0][1] == 2
        assert document["skipped"][0] == [1, 1, 3]
        assert document["by"] == "size"

    def test_json_of_several(self, files):
        asked = ("--measure", "kendall,top_overlap(k=1),sign", "--json", "--each", "length")
        documents = json.loads(run(*named(files, "a", "b"), *asked).stdout)["measures"]
        assert [one["measure"] for one in documents] == ["kendall", "top_overlap(k=1)", "sign"]
        assert [one["by"] for one in documents] == ["size", "size", "signed"]
        assert documents[1]["matrix"][0][1] == 0.5
        assert documents[2]["matrix"][0][1] == pytest.approx((2 / 3 + 1 + 1) / 3)
        assert list(documents[0]["each"]["length"]) == ["1 unit", "2 units", "3 units"]

    def test_by_signed(self, files):
        found = json.loads(run(*named(files, "a", "b"), "--by", "signed", "--json").stdout)
        assert found["matrix"][0][1] == pytest.approx((-1 / 3 + 1) / 2)

    def test_parts_are_printed(self, files):
        assert "length 3 units: 1 rows" in run(*named(files, "a", "b"), "--each", "length").stdout

    @pytest.mark.parametrize("kind", ["png", "svg", "html"])
    def test_draws(self, files, tmp_path, kind):
        out = tmp_path / f"map.{kind}"
        result = run(*named(files, "a", "b"), "--measure", "kendall,sign", "--out", out)
        assert result.exit_code == 0, result.output
        assert out.stat().st_size > 1000
        assert str(out) in result.stderr
        assert str(out) not in result.stdout


class TestExplainedNow:
    def test_as_explained_before(self, teacher, tmp_path):
        methods = "gradient_norm,gradient_input,lime(samples=20)"
        asked = ("--model", teacher, "--data", DATA, "--methods", methods, "--rows", 6, "--level", "word")
        found = json.loads(run(*asked, "--json").stdout)
        assert found["methods"] == ["gradient_norm", "gradient_input", "lime"]
        assert found["level"] == "word"
        kept = []
        for number, method in enumerate(["gradient_norm", "gradient_input", "lime(samples=20)"]):
            kept.append(tmp_path / f"{number}.parquet")
            made = ("--model", teacher, "--data", DATA, "--rows", 6, "--level", "word", "--method", method)
            CliRunner().invoke(app, ["explain", *map(str, made), "--out", str(kept[-1])], catch_exceptions=False)
        assert len(Explanations.load(kept[0])) == 6
        expected = agree(kept)
        np.testing.assert_allclose(found["matrix"], expected.matrix, atol=1e-6)
        both = json.loads(run(*asked, kept[0], "--json").stdout)
        assert both["methods"] == ["0", "gradient_norm #2", "gradient_input", "lime"]
        assert both["matrix"][0][1] == 1


class TestOtherTools:
    def test_files_of_other_tools(self, teacher, tmp_path):
        """Beside a file of ours, and beside a method that explains now; read onto the data as `metrics` does."""
        data = load_data(DATA)
        maps = explain(load_teacher(teacher), data["test"][:6], "gradient_input")
        maps.save(tmp_path / "ours.parquet")
        write_eraser(maps.words(), tmp_path / "theirs.jsonl")
        asked = (tmp_path / "theirs.jsonl", "--data", DATA, "--level", "word", "--json")
        found = json.loads(run(tmp_path / "ours.parquet", *asked).stdout)
        assert found["methods"] == ["gradient_input", "theirs"]
        np.testing.assert_allclose(found["matrix"], np.ones((2, 2)))
        for more in (("--split", "test"), ("--split", "test", "--rows", 6), ("--model", teacher)):
            assert json.loads(run(tmp_path / "ours.parquet", *asked, *more).stdout)["matrix"] == found["matrix"]
        now = ("--model", teacher, "--methods", "gradient_input,random", "--rows", 6)
        three = json.loads(run(*asked, *now).stdout)
        assert three["methods"] == ["theirs", "gradient_input", "random"]
        assert three["matrix"][0][1] == pytest.approx(1)

    def test_refused(self, files, tmp_path):
        (tmp_path / "theirs.jsonl").write_text("{}")
        for given, message in (
            ((files / "a.parquet", tmp_path / "theirs.jsonl"), "give the data (--data)"),
            ((files / "a.parquet", tmp_path / "none.jsonl"), "There is no file"),
            ((files / "a.parquet", files / "b.parquet", "--data", DATA), "--data is only for files of other tools"),
        ):
            result = run(*given)
            assert isinstance(result.exception, OptionError), result.output
            assert message in str(result.exception)


class TestPrediction:
    def test_of_files_and_now(self, teacher, tmp_path):
        asked = ("--model", teacher, "--data", DATA, "--rows", 6)
        kept = []
        for number, method in enumerate(["gradient_input", "random"]):
            kept.append(tmp_path / f"{number}.parquet")
            made = ["explain", *map(str, asked), "--method", method, "--out", str(kept[-1])]
            CliRunner().invoke(app, made, catch_exceptions=False)
        measure = ("--measure", "prediction(k=2),kendall", "--json")
        files = json.loads(run(*kept, "--model", teacher, *measure).stdout)["measures"]
        now = json.loads(run(*asked, "--methods", "gradient_input,random", *measure).stdout)["measures"]
        assert [one["measure"] for one in files] == ["prediction(k=2)", "kendall"]
        assert files[0]["matrix"] == now[0]["matrix"] == agree(kept, "prediction(k=2)", teacher=teacher).matrix.tolist()
        assert files[0]["matrix"][0][0] == 1
        assert files[0]["by"] == "signed"

    def test_in_batches_of_the_size_that_was_asked_for(self, teacher, monkeypatch):
        sizes = []

        class Watched(Probe):
            def __init__(self, *given, batch_size, **options):
                sizes.append(batch_size)
                super().__init__(*given, batch_size=batch_size, **options)

        monkeypatch.setattr("didact.metrics.prediction.Probe", Watched)
        asked = ("--model", teacher, "--data", DATA, "--rows", 3, "--methods", "gradient_input,random")
        for more in ((), ("--batch-size", 3)):
            assert run(*asked, "--measure", "prediction", *more).exit_code == 0
        assert sizes == [64, 3]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((), OptionError, "give at least two files of explanations"),
        (("a",), OptionError, "give at least two files of explanations"),
        (("a", "short"), RequestError, "explains 3 rows, 'short' 2"),
        (("a", "b", "--measure", "tau"), UnknownNameError, "top_tau"),
        (("a", "b", "--measure", ","), OptionError, "Name at least one agreement measure"),
        (("a", "b", "--measure", "top_tau(k=0)"), OptionError, "k must be"),
        (("a", "b", "--measure", "sign", "--by", "size"), OptionError, "compares signs"),
        (("a", "b", "--measure", "prediction"), OptionError, "asks the teacher"),
        (("a", "b", "--measure", "prediction(replace=burn)", "--model", "m"), OptionError, "mask, delete, pad, zero"),
        (
            ("--methods", "lime,random", "--data", "d", "--measure", "prediction"),
            OptionError,
            "give --model, --data and --methods together",
        ),
        (("a", "b", "--each", "day"), OptionError, "task"),
        (("a", "b", "--out", "map.pdf"), OptionError, "png, svg, html"),
        (("a", "b", "--model", "somewhere"), OptionError, "only the measure `prediction` uses --model"),
        (("--methods", "lime,random"), OptionError, "give --model, --data and --methods together"),
        (("--model", "m", "--data", "d", "--methods", "limes,random"), UnknownNameError, "Did you mean 'lime'"),
    ],
)
def test_refuses_with_advice(files, arguments, kind, message):
    given = [files / f"{one}.parquet" if one in ("a", "b", "short") else one for one in arguments]
    result = run(*given)
    assert isinstance(result.exception, kind), result.output
    assert isinstance(result.exception, RequestError), "so the command exits with 2"
    assert message in str(result.exception)
