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
from didact.field_types import parse_classes, parse_columns
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

    def test_says_which_method_the_default_is(self, folders, tmp_path):
        result = run("--model", folders / "native", "a delightful film")
        assert "note: explained with lrp, the default for this model." in result.stderr
        assert "note:" not in run("--model", folders / "native", "--method", "lrp", "a delightful film").stderr
        out = tmp_path / "maps.parquet"
        result = run("--model", folders / "native", "--data", DATA, "--stream", "--split", "test", "--out", out)
        assert result.exit_code == 0, result.output
        assert Explanations.load(out).method == "lrp"

    def test_speaks_json(self, folders):
        result = run("--model", folders / "native", "--method", "lime(samples=20)", "--json", "a delightful film")
        document = json.loads(result.stdout)
        assert document["method"] == "lime"
        assert document["options"]["samples"] == 20
        (row,) = document["rows"]
        assert set(row) == {
            "id", "text", "tokens", "scores", "target", "prediction", "probability", "label", "is_right",
            "completeness", "residual",
        }  # fmt: skip
        assert 0.5 <= row["probability"] <= 1
        assert (row["text"], row["label"], row["is_right"]) == ("a delightful film", None, None)
        assert row["tokens"] == ["a", "delightful", "film"]
        assert len(row["scores"]) == 3
        assert row["residual"] is None
        complete = run("--model", folders / "native", "--method", "kernel_shap", "--json", "a delightful film")
        assert json.loads(complete.stdout)["rows"][0]["residual"] < 1e-3

    def test_shows_words_unless_pieces_are_asked_for(self, folders, tmp_path):
        asked = ("--model", folders / "pair", "--method", "occlusion", "a film", "unbelievable film")
        shown = run(*asked).stdout
        assert "prediction" in shown
        assert " %)" in shown
        words, pieces = tmp_path / "words.html", tmp_path / "pieces.html"
        assert run(*asked, "--html", words).exit_code == 0
        assert run(*asked, "--html", pieces, "--level", "token").exit_code == 0
        assert ">unbelievable<" in words.read_text()
        assert ">believ<" in pieces.read_text()
        tokens = json.loads(run(*asked, "--json").stdout)["rows"][0]["tokens"]
        assert "believ" in tokens, "JSON keeps the method's units"

    def test_every_class(self, folders, tmp_path):
        asked = ("--model", folders / "native", "--method", "gradient_input", "--target", "all", "a delightful film")
        shown = run(*asked).stdout
        assert "negative " in shown
        assert "positive " in shown
        assert shown.count("prediction") == 1
        assert [row["target"] for row in json.loads(run(*asked, "--json").stdout)["rows"]] == ["negative", "positive"]
        assert "A page with 1 row is in" in run(*asked, "--html", tmp_path / "p.html").output
        refused = run(*asked, "--out", tmp_path / "m.parquet")
        assert "a file holds one" in str(refused.exception)

    def test_a_summary_of_a_data_set(self, folders):
        asked = ("--model", folders / "native", "--method", "gradient_input", "--data", DATA, "--summary")
        shown = run(*asked).stdout
        assert "gradient_input: mean scores over" in shown
        assert "mean |score|" in shown
        words = json.loads(run(*asked, "--json").stdout)["summary"]
        assert set(words[0]) == {"target", "word", "count", "mean_size", "mean"}

    def test_a_model_that_was_meant(self, folders):
        result = run(folders / "native", "a good film")
        assert isinstance(result.exception, OptionError)
        assert f"didact explain --model {folders / 'native'} 'a good film'" in str(result.exception)
        assert "Give the folder of a model" in str(run("a good film").exception)

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
        assert "2 texts per row, got 3" in str(refused.exception)

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
            (("native",), OptionError, "Give either texts to explain, or --data"),
            (("native", "--workers", "2", "good"), OptionError, "need --stream"),
            (("native", "--data", DATA, "good"), OptionError, "Give either texts to explain, or --data"),
            (("native", "--data", PAIRS, "--rows", "1"), OptionError, "is pair, but the model does"),
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
        assert "is set twice" in str(twice.exception)
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

    def test_a_long_text_can_be_cut(self, folders):
        result = run("--model", folders / "native", "--truncate", "--json", "--method", "gradient_norm", "good " * 600)
        assert len(json.loads(result.stdout)["rows"][0]["tokens"]) == 510


class TestOwnFile:
    """A stranger's CSV: semicolons, columns of other names, labels in the model's words but for their case."""

    @pytest.fixture
    def file(self, tmp_path):
        lines = [f"R{n};a {word} film, {n};{'Positive' if word == 'delightful' else 'NEGATIVE'}"
                 for n, word in enumerate(["delightful", "dreadful"] * 10)]  # fmt: skip
        path = tmp_path / "reviews.csv"
        path.write_text("\n".join(["review_id;remark;verdict", *lines]))
        return path

    COLUMNS = ("--columns", "text=remark,label=verdict")

    def rows(self, folders, file, *arguments):
        result = run("--model", folders / "native", "--method", "gradient_norm", "--data", file, "--json", *arguments)
        assert result.exception is None, result.exception
        return json.loads(result.stdout)["rows"]

    def test_all_rows_are_explained_in_the_order_of_the_file(self, folders, file):
        found = self.rows(folders, file, *self.COLUMNS)
        assert [row["id"] for row in found] == [f"R{n}" for n in range(20)]
        first = self.rows(folders, file, *self.COLUMNS, "--rows", "3")
        assert [row["id"] for row in first] == ["R0", "R1", "R2"]
        assert len(self.rows(folders, file, *self.COLUMNS, "--split", "all")) == 20
        assert len(self.rows(folders, file, *self.COLUMNS, "--split", "test")) == 4

    def test_labels_are_matched_by_name(self, folders, file):
        found = self.rows(folders, file, *self.COLUMNS, "--target", "gold", "--rows", "4")
        assert [row["target"] for row in found] == ["positive", "negative", "positive", "negative"]

    def test_labels_of_other_names(self, folders, file):
        file.write_text(file.read_text().replace("Positive", "good").replace("NEGATIVE", "terrible"))
        asked = ("--model", folders / "native", "--method", "gradient_norm", "--data", file, *self.COLUMNS, "--rows", 2)
        predicted = run(*asked, "--json")
        assert predicted.exit_code == 0
        assert "note: The labels are left out" in predicted.stderr
        refused = run(*asked, "--target", "gold")
        assert isinstance(refused.exception, OptionError)
        assert "The data's classes are good, terrible, and the model's are negative, positive." in str(
            refused.exception
        )
        found = self.rows(folders, file, *self.COLUMNS, "--target", "gold", "--rows", "2", "--classes", "terrible,good")
        assert [row["target"] for row in found] == ["positive", "negative"]
        l2e = run(*asked, "--preset", "l2e", "--method", "occlusion")
        assert isinstance(l2e.exception, OptionError)  # it explains gold labels, too

    def test_one_class_alone(self, folders, file):
        lines = file.read_text().splitlines()
        file.write_text("\n".join(line for line in lines if not line.endswith("NEGATIVE")))
        found = self.rows(folders, file, *self.COLUMNS, "--target", "gold")
        assert {row["target"] for row in found} == {"positive"}

    def test_what_was_guessed_is_told_on_stderr_alone(self, folders, file):
        result = run("--model", folders / "native", "--data", file, "--columns", "text=remark", "--rows", "1", "--json")
        assert "note: Fields of reviews.csv are separated by semicolons." in result.stderr
        assert "note: Column 'review_id' is used as id." in result.stderr
        assert "Columns not used: verdict." in result.stderr
        assert "Cut:" not in result.stderr  # all rows are explained
        assert "note" not in result.stdout

    def test_a_stream_reads_the_same_columns(self, folders, tmp_path):
        rows = [{"nr": f"R{n}", "remark": f"a film {n}", "verdict": ("Positive", "NEGATIVE")[n % 2]} for n in range(6)]
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        out = tmp_path / "maps.parquet"
        result = run(
            "--model", folders / "native", "--method", "gradient_norm", "--data", tmp_path / "rows.jsonl", "--stream",
            "--out", out, *self.COLUMNS, "--columns", "id=nr", "--target", "gold",
        )  # fmt: skip
        assert result.exit_code == 0, result.exception
        maps = Explanations.load(out)
        assert maps.ids == tuple(f"R{n}" for n in range(6))
        assert maps.targets[:2] == ("positive", "negative")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--columns", "remark"), "--columns takes role=column"),
            (("--columns", "text=remarks"), "Nearest: 'remark'"),
            (("--columns", "txet=remark"), "Did you mean 'text'?"),
            (("--columns", "text=remark", "--columns", "text=verdict"), "names 'text' twice"),
            (("--columns", "text="), "names no column"),
            ((), "--columns text=…"),
            (("--columns", "text=remark,label=verdict", "--target", "gold", "--classes", "a"), "2 classes"),
        ],
    )
    def test_refuses_with_advice(self, folders, file, arguments, message):
        result = run("--model", folders / "native", "--data", file, *arguments)
        assert isinstance(result.exception, RequestError), result.output
        assert message in str(result.exception)

    def test_columns_without_data(self, folders):
        result = run("--model", folders / "native", "--columns", "text=a", "a film")
        assert "need --data" in str(result.exception)


def test_columns_are_read_from_one_value_or_several():
    assert parse_columns([]) == {}
    assert parse_columns(["text=comment, label=verdict", "id=review=id"]) == {
        "text": "comment", "label": "verdict", "id": "review=id",
    }  # fmt: skip
    assert parse_columns(["label=none,id="]) == {"label": None, "id": None}
    assert parse_classes('bad, "so, so",good') == ["bad", "so, so", "good"]


class TestMethods:
    def test_for_machines(self):
        rows = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)["rows"]
        assert [row["name"] for row in rows] == list(EXPLAINERS)
        assert all(row["kind"] and row["needs"] and row["cost"] and row["paper"] for row in rows)

    def test_for_people(self):
        shown = CliRunner().invoke(app, ["methods"]).stdout
        assert all(name in shown for name in EXPLAINERS)
