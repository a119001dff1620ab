"""`didact explain` and `didact methods`, through the command itself: what they print, and how they refuse."""

import json

import pytest
from typer.testing import CliRunner

import tiny
from didact import Explanations
from didact.cli.main import app
from didact.data.load import load_data
from didact.errors import DataError, DidactError, OptionError, RequestError, UnknownNameError, UnsupportedError
from didact.explainers import EXPLAINERS
from didact.learning.train import train_teacher

SIZES = {"teach": 40, "explain": 10, "train": 5, "dev": 5, "test": 12}
DATA = f"planted/sentiment({', '.join(f'{key}={value}' for key, value in SIZES.items())})"
PAIRS = "planted/inference(teach=9, explain=9, train=9, dev=9, test=9)"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Small teachers on disk that learnt next to nothing: the command does not ask how good they are."""
    root = tmp_path_factory.mktemp("teachers")
    data = load_data(DATA)
    for name in ("native", "bilstm"):
        train_teacher(data, f"{name}(width=16, layers=1)", out=root / name, epochs=1)
    pair = root / "pair"
    model, tokenizer = tiny.huggingface("bert", id2label={0: "entailment", 1: "neutral", 2: "contradiction"})
    model.save_pretrained(pair)
    tokenizer.save_pretrained(pair)
    return root


def run(*arguments):
    """Exit code, stdout and the error that would become a message."""
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit | DidactError):
        raise result.exception
    return result


class TestExplain:
    def test_prints_a_heat_map(self, folders):
        result = run("--model", folders / "native", "a delightful film", "a dreadful film")
        assert result.exit_code == 0
        assert "delightful" in result.stdout
        assert "prediction" in result.stdout

    def test_speaks_json(self, folders):
        result = run("--model", folders / "native", "--method", "lime(samples=20)", "--json", "a delightful film")
        document = json.loads(result.stdout)
        assert document["method"] == "lime"
        assert document["options"]["samples"] == 20
        (row,) = document["rows"]
        assert set(row) == {"id", "tokens", "scores", "target", "prediction", "residual"}
        assert row["tokens"] == ["a", "delightful", "film"]
        assert len(row["scores"]) == 3
        assert row["residual"] is None
        complete = run("--model", folders / "native", "--method", "kernel_shap", "--json", "a delightful film")
        assert json.loads(complete.stdout)["rows"][0]["residual"] < 1e-3

    def test_keeps_a_split_and_draws_a_page(self, folders, tmp_path):
        out, page = tmp_path / "maps.parquet", tmp_path / "page.html"
        result = run(
            "--model", folders / "native", "--data", DATA, "--method", "gradient_shap", "--out", out, "--html", page,
            "--level", "word", "--normalise", "top(k=0.2)",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        maps = Explanations.load(out)
        assert len(maps) == SIZES["test"]
        assert maps.kind == "binary"
        assert "</html>" in page.read_text()

    def test_several_methods_side_by_side(self, folders):
        result = run("--model", folders / "native", "--method", "random,lime(samples=20)", "a delightful film")
        assert "random" in result.stdout
        assert "lime" in result.stdout

    def test_pairs_take_two_texts(self, folders):
        result = run("--model", folders / "pair", "--method", "gradient_norm", "--json", "a film", "bad film")
        assert [row["tokens"] for row in json.loads(result.stdout)["rows"]] == [["a", "film", "bad", "film"]]
        refused = run("--model", folders / "pair", "a film", "bad", "good")
        assert isinstance(refused.exception, OptionError)
        assert "2 texts for each row, not 3" in str(refused.exception)

    def test_a_preset_and_what_is_said_beside_it(self, folders):
        asked = (
            "--model",
            folders / "native",
            "--method",
            "integrated_gradients",
            "--preset",
            "neely",
            "--json",
            "a film",
        )
        options = json.loads(run(*asked).stdout)["options"]
        assert (options["scale"], options["special"], options["baseline"]) == ("probability", True, "pad")
        assert json.loads(run(*asked, "--scale", "logit").stdout)["options"]["scale"] == "logit"

    @pytest.mark.parametrize(
        ("arguments", "kind", "message"),
        [
            (("native", "--method", "limes", "good"), UnknownNameError, "Did you mean 'lime'"),
            (("native", "--method", "lime(sample=3)", "good"), OptionError, "Did you mean 'samples'"),
            (
                ("bilstm", "--method", "attention_all", "good"),
                UnsupportedError,
                "Choose 'bilstm_attention'",
            ),
            (("bilstm", "--method", "attention_rollout", "good"), UnsupportedError, "Choose"),
            (("native", "--method", "attention", "good"), UnsupportedError, "attention_"),
            (("native", ""), DataError, "empty"),
            (("native", "good " * 600), UnsupportedError, "--truncate"),
            (("native",), OptionError, "Give texts to explain, or --data"),
            (("native", "--workers", "2", "good"), OptionError, "say --stream, too"),
            (("native", "--data", DATA, "good"), OptionError, "one of the two"),
            (("native", "--data", PAIRS, "--rows", "1"), OptionError, "is pair, and the model does"),
            (("native", "--method", "lime,random", "--json", "good"), OptionError, "one by one"),
            (("native", "--target", "angry", "good"), UnknownNameError, "positive"),
        ],
    )
    def test_refuses_with_advice(self, folders, arguments, kind, message):
        model, *rest = arguments
        result = run("--model", folders / model, *rest)
        assert isinstance(result.exception, kind), result.output
        assert isinstance(result.exception, RequestError), "so the command exits with 2"
        assert message in str(result.exception)

    def test_options_in_brackets_and_beside(self, folders):
        asked = ("--model", folders / "native", "--json", "a film")
        options = json.loads(run(*asked, "--method", "lime(level=word, samples=20)").stdout)["options"]
        assert (options["level"], options["samples"]) == ("word", 20)
        twice = run(*asked, "--method", "lime(level=word)", "--level", "token")
        assert "given twice" in str(twice.exception)
        mine = run(*asked, "--preset", "smat", "--method", "gradient_norm", "--normalise", "raw", "--no-special")
        options = json.loads(mine.stdout)["options"]
        assert (options["normalise"], options["special"], options["at"]) == ("raw", False, "embedding")

    def test_background_for_a_single_text(self, folders):
        alone = run("--model", folders / "native", "--method", "deep_shap", "a film")
        assert isinstance(alone.exception, UnsupportedError)
        assert "--background" in str(alone.exception)
        assert (
            run("--model", folders / "native", "--method", "deep_shap", "--background", DATA, "a film").exit_code == 0
        )

    def test_a_page_cannot_be_a_folder(self, folders, tmp_path):
        result = run("--model", folders / "native", "--html", tmp_path, "a film")
        assert isinstance(result.exception, OptionError)

    def test_labels_follow_the_names_of_the_classes(self, capsys):
        """The data name the classes in another order than the model does, or otherwise."""
        from types import SimpleNamespace

        from didact.cli.explain import _labelled
        from didact.core.row import Row

        rows = [Row("a", ("good",), label=1), Row("b", ("bad",), label=0), Row("c", ("so so",))]
        data = SimpleNamespace(classes=("negative", "positive"))
        turned = _labelled(SimpleNamespace(classes=("positive", "negative")), data, rows)
        assert [row.label for row in turned] == [0, 1, None]
        assert capsys.readouterr().err == ""
        assert [row.label for row in _labelled(SimpleNamespace(classes=("no", "yes")), data, rows)] == [1, 0, None]
        assert "taken for the model's no, yes" in capsys.readouterr().err

    def test_a_long_text_can_be_cut(self, folders):
        result = run("--model", folders / "native", "--truncate", "--json", "--method", "gradient_norm", "good " * 600)
        assert len(json.loads(result.stdout)["rows"][0]["tokens"]) == 510


class TestMethods:
    def test_for_machines(self):
        rows = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)["rows"]
        assert [row["name"] for row in rows] == list(EXPLAINERS)
        assert all(row["kind"] and row["needs"] and row["cost"] and row["paper"] for row in rows)

    def test_for_people(self):
        shown = CliRunner().invoke(app, ["methods"]).stdout
        assert all(name in shown for name in EXPLAINERS)
