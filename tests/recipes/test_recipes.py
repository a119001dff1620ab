"""Every recipe runs as a script, prints its tables and ends well. The numbers of `--quick` mean nothing."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

RECIPES = Path(__file__).parents[2] / "recipes"


def run(name: str, *options: str) -> str:
    """What the recipe printed."""
    done = subprocess.run(
        [sys.executable, str(RECIPES / f"{name}.py"), *options],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def tools(name: str) -> ModuleType:
    """What recipes import from beside them."""
    spec = importlib.util.spec_from_file_location(f"recipes_{name}", RECIPES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up their annotations
    sys.path.insert(0, str(RECIPES))  # recipes import each other
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(RECIPES))
    return module


def table(text: str, title: str) -> list[list[str]]:
    """The cells of the table under a title, the head first."""
    lines = text[text.index(title) :].splitlines()[1:]
    start = next(place for place, line in enumerate(lines) if line.startswith("|"))
    end = next((place for place, line in enumerate(lines[start:], start) if not line.startswith("|")), len(lines))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:end]]
    return [rows[0], *rows[2:]]


@pytest.mark.slow
class TestSentiment:
    def test_tables(self):
        said = run("pruthi_sentiment", "--quick")
        for title, columns in (("Table 5", 4), ("Table 6", 3)):
            head, *lines = table(said, title)
            assert [line[0] for line in lines] == ["none", "random", "trivial", "human", "Gradient norm", "Attention"]
            assert len(head) == 1 + columns + 3
            assert all("–" not in line[1 : 1 + columns] for line in lines)
        assert table(said, "Table 5")[1][-2:] == ["92.6", "92.6"]
        assert [line[-1] for line in table(said, "Table 10")[1:]] == ["0.64", "0.65", "0.47", "0.52 (21 pairs)"]
        assert "all 21 pairs" in said

    def test_share_of_words(self):
        said = run("pruthi_sentiment", "--quick", "--part", "k")
        ours, paper = table(said, "Table 11, ours"), table(said, "Table 11, the paper")
        assert ours[0] == paper[0]
        assert [line[0] for line in ours[1:]] == ["none", "Gradient norm", "Attention"]
        assert paper[-1] == ["Attention", "94.7", "95.2", "95.3", "94.6", "94.0", "94.4", "94.7", "94.9"]

    def test_hyper_parameters(self):
        said = run("pruthi_sentiment", "--quick", "--part", "hyper")
        assert len(table(said, "Table 8, ours")[0]) == 1 + 2 * 2
        assert "The paper: 0.95" in said

    @pytest.mark.realdata
    def test_imdb(self, real_data):
        said = run("pruthi_sentiment", "--quick", "--data", "imdb", "--data-dir", str(real_data))
        assert len(table(said, "Table 6")[0]) == 1 + 3 + 3
        assert "Table 5" not in said


@pytest.mark.slow
class TestHuman:
    def test_planted(self):
        said = run("pruthi_human", "--quick", "--how", "swap")
        assert table(said, "Table 3")[3][-3:] == ["81.5", "83.1", "84.0"]
        assert [line[0] for line in table(said, "Noise (swap)")[1:]] == ["none", "0.0", "0.5", "1.0"]
        assert "The paper: -0.72" in said

    @pytest.mark.realdata
    def test_movie_reviews(self, real_data):
        options = ("--data", "movie_rationales", "--data-dir", str(real_data), "--part", "table")
        assert len(table(run("pruthi_human", "--quick", *options), "Table 3")) == 6


@pytest.mark.slow
class TestReading:
    @pytest.mark.parametrize(("part", "title", "paper"), [("human", "Table 4", 3), ("model", "Table 7", 4)])
    def test_planted(self, part, title, paper):
        said = run("pruthi_reading", "--quick", "--part", part)
        head, *lines = table(said, title)
        assert len(head) == 2 + paper
        assert [line[0] for line in lines[:4]] == [
            "none", "multitask learning", "attention regularisation", "alignment loss",
        ]  # fmt: skip
        assert "Alignment minus attention regularisation, 8 rows" in said

    @pytest.mark.realdata
    @pytest.mark.parametrize(("part", "title"), [("human", "Table 4"), ("model", "Table 7")])
    def test_qed(self, part, title, real_data):
        said = run("pruthi_reading", "--quick", "--part", part, "--data", "qed", "--data-dir", str(real_data))
        assert len(table(said, title)) >= 6


@pytest.mark.slow
@pytest.mark.realdata
def test_imdb_and_again(real_data, tmp_path):
    options = ("--quick", "--sgd", "--data-dir", str(real_data), "--out", str(tmp_path))
    first = run("pruthi_imdb", *options)
    assert [line[0] for line in table(first, "Simulation accuracy")[1:]] == [
        "none", "random", "trivial", "gradient_norm", "attention_all",
    ]  # fmt: skip
    assert "Temperatures chosen on dev" in first
    assert "above 0" in first
    assert (tmp_path / "teacher-imdb-quick" / "didact.json").is_file()
    assert len(list((tmp_path / "cells").glob("*.json"))) == 2 * 5
    again = run("pruthi_imdb", *options)
    assert table(again, "Simulation accuracy") == table(first, "Simulation accuracy")
    assert "Teacher minilm" not in again


STATIC = ["gradient_norm", "gradient_input", "integrated_gradients", "attention_all", "attention_last"]
COMPANIONS = ["smat(cotrained)", "smat(flattened)", "attention_all(matched)", "attention_all(sharpened)"]
DIFFERENCES = [
    "smat − none", "smat − attention_all", "smat − attention_all(sharpened)", "smat − attention_all(matched)",
    "smat − gradient_norm", "smat − smat(cotrained)",
]  # fmt: skip


def names_in(text: str, title: str) -> list[str]:
    return [line[0] for line in table(text, title)[1:]]


@pytest.mark.slow
class TestSmatText:
    def test_planted(self, tmp_path):
        said = run("smat_text", "--quick", "--extra", "--out", str(tmp_path))
        names = names_in(said, "Table 1")
        assert names[4:11] == [*STATIC, "smat", "smat(outer=dev)"]
        assert {*COMPANIONS, "none+extra", "smat(outer=dev, cotrained)"} <= {*names}
        assert [line[2] for line in table(said, "Table 1")[1:] if line[0] == "smat(cotrained)"] == ["91.5"]
        assert names_in(said, "Differences")[:6] == DIFFERENCES
        assert "smat(outer=dev) − none+extra" in said
        assert "no answers" not in said
        assert "Active heads of 8, by seed: seed 0:" in said
        assert "What differs from the paper" in said
        assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / "heads.svg").read_text()

    @pytest.mark.realdata
    @pytest.mark.parametrize(("data", "options"), [("imdb", ["--sgd"]), ("sst", [])])
    def test_real(self, data, options, real_data):
        said = run("smat_text", "--quick", "--data", data, "--data-dir", str(real_data), *options)
        assert said.count("Table 1,") == 1 + len(options)
        assert "no answers" not in said
        assert "Active heads of 72" in said


@pytest.mark.slow
def test_smat_normalizers():
    said = run("smat_normalizers", "--quick")
    lines = table(said, "Table 7")[1:]
    assert [line[0] for line in lines[:5]] == [
        "sparsemax", "softmax", "entmax 1.5", "none", "sparsemax, learned temperature",
    ]  # fmt: skip
    assert lines[0][-2:] == [".819", ".863"]
    assert all("–" not in line[1:6] for line in lines[:5])
    assert [line[5] for line in lines[:4]] == ["1.00"] * 4
    assert lines[4][5] != "1.00"
    assert len(table(said, "Sparsemax minus the others")) == 1 + 4 + 5


@pytest.mark.slow
class TestSmatImages:
    def test_planted(self):
        said = run("smat_images", "--quick")
        assert names_in(said, "Table 3")[4:10] == [*STATIC, "smat"]
        assert names_in(said, "Differences") == DIFFERENCES
        assert "Active heads of 8" in said

    @pytest.mark.realdata
    def test_cifar(self, real_data):
        said = run("smat_images", "--quick", "--data", "cifar100", "--data-dir", str(real_data))
        assert names_in(said, "Table 3")[3:9] == [*STATIC, "smat"]


@pytest.mark.slow
class TestSmatQuality:
    def test_planted(self):
        said = run("smat_quality", "--quick")
        assert names_in(said, "Table 5")[3:9] == [*STATIC, "smat"]
        ours, paper = table(said, "Table 6, ours"), table(said, "Table 6, the paper")
        assert ours[0][1:] == paper[0][1:] == ["overall src", "overall tgt"]
        assert [line[0] for line in ours[1:]] == [*STATIC, "smat", "best layer*", "best head*", "rows"]
        assert paper[6] == ["smat", ".66", ".60"]
        assert all(0 <= float(area) <= 1 for line in ours[1:-1] for area in line[1:])

    @pytest.mark.realdata
    def test_three_language_pairs(self, real_data):
        said = run("smat_quality", "--quick", "--data", "mlqe_pe", "--data-dir", str(real_data))
        head = table(said, "Table 6, ours")[0]
        assert {name.split()[0] for name in head[1:]} == {"en-de", "et-en", "ro-en", "overall"}
        assert table(said, "Table 6, the paper")[0] == head


@pytest.mark.slow
class TestSmatPlausibility:
    def test_planted_and_again_with_what_was_learned(self, tmp_path):
        first = table(run("smat_plausibility", "--quick", "--out", str(tmp_path)), "Table 2")
        assert [line[0] for line in first[1:]] == [*STATIC, "smat", "best layer*", "best head*"]
        teacher, explainer = tmp_path / "teacher-planted-sentiment-quick", tmp_path / "explainer"
        again = run("smat_plausibility", "--quick", "--model", str(teacher), "--explainer", str(explainer))
        assert table(again, "Table 2") == first

    @pytest.mark.realdata
    def test_movie_reviews(self, real_data):
        said = run("smat_plausibility", "--quick", "--data", "movie_rationales", "--data-dir", str(real_data))
        assert "marked words lie behind the cut" in " ".join(said.split())


class TestPlausibility:
    def test_areas_by_hand(self):
        """Of three pairs of a marked and an unmarked word two are in order; or one and a tie; or all are ties."""
        scores = np.array([[3.0, 1.0, 0.0], [2.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
        found = tools("plausibility_tools").areas(scores, np.array([False, True, False, False]))
        np.testing.assert_allclose(found, [2 / 3, 1.5 / 3, 0.5])

    def test_areas_as_scikit_learn_has_them(self):
        metrics = pytest.importorskip("sklearn.metrics")
        dice = np.random.default_rng(0)
        scores, marked = dice.integers(0, 5, (40, 3)).astype(float), dice.random(40) < 0.3
        wanted = [metrics.roc_auc_score(marked, column) for column in scores.T]
        np.testing.assert_allclose(tools("plausibility_tools").areas(scores, marked), wanted)

    def test_words_add_up_and_what_is_cut_is_counted(self):
        """Pieces of −1 and −2 make a word of 3, of 1 and −1 one of 0; a row without both kinds of words is skipped."""
        from didact.core.row import Row, Span
        from didact.results.explanations import Explanations

        text = "good film ending"  # the last word was cut: it has no unit
        marks = [(Span(0, 0, 4), Span(0, 10, 16)), (Span(0, 10, 16),)]
        rows = [Row(str(number), (text,), rationale=spans) for number, spans in enumerate(marks)]
        maps = Explanations(
            method="made", kind="signed", options={}, task="classification", classes=("no", "yes"), teacher="none",
            fingerprints={}, ids=("0", "1"), texts=((text,), (text,)), bounds=np.array([0, 3, 6]),
            tokens=("go", "od", "film") * 2, segments=np.zeros(6, dtype=int), word_index=np.array([0, 0, 1] * 2),
            offsets=np.array([(0, 2), (2, 4), (5, 9)] * 2), scores=np.zeros(6), targets=("yes",) * 2,
            predictions=("yes",) * 2, residuals=np.full(2, np.nan),
        )  # fmt: skip
        values = np.array([[-1.0, 1.0], [-2.0, -1.0], [2.0, 0.5]] * 2)
        judged = tools("plausibility_tools").Scores(rows, maps, ("adds up", "cancels"), values).judged()
        assert judged.areas.tolist() == [[1.0, 0.0]]
        assert (judged.skipped, judged.marked, judged.lost) == (1, 3, 2)


def test_data_that_are_missing_are_told_in_a_line(tmp_path):
    done = subprocess.run(
        [sys.executable, str(RECIPES / "pruthi_imdb.py"), "--quick", "--data-dir", str(tmp_path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(tmp_path) in done.stderr


@pytest.mark.slow
class TestL2E:
    def test_planted(self, tmp_path):
        said = run("l2e_text", "--quick", "--out", str(tmp_path))
        head, *lines = table(said, "planted/sentiment, labelling")
        assert head[2:] == ["agreement", "Δ+", "Δ−", "IoU semantic", "IoU lexical", "ROC-AUC", "ms"]
        assert [line[1] for line in lines[:3]] == ["method", "L2E", "lexicon"]
        assert table(said, "Stability")[1][-3:] == ["89 / 90", "5.04 / 4.79", "7.0 / 8.4"]
        again = run(
            "l2e_text", "--quick", "--out", str(tmp_path), "--formulation", "ranking", "--methods", "gradient_norm"
        )
        assert table(again, "planted/sentiment, ranking")[1][4] == "–", "magnitudes have no negative words"

    def test_rationales(self, tmp_path):
        said = run("l2e_rationales", "--quick", "--out", str(tmp_path))
        head, *lines = table(said, "Table 4")
        assert head[2:5] == ["precision, negative", "recall, negative", "F1, negative"]
        assert lines[0][-2:] == ["14 / 18", "16 / 19"]
        assert len(table(said, "Table 5")) == 7
        assert "it says neutral of" in said


@pytest.mark.slow
class TestNeely:
    def test_planted_and_again(self, tmp_path):
        said = run("neely_agreement", "--quick", "--out", str(tmp_path))
        for title, attention, own in (("Tables 1 and 5", "attention_rollout", 3), ("Tables 2 and 6", "attention", 1)):
            head, *lines = table(said, title)
            assert head == ["methods", "planted/sentiment", "paper", "planted/inference", "paper"]
            assert lines[0][0] == f"{attention} – lime"
            firsts = [line[0].split(" – ")[0] for line in lines]
            assert firsts.count("random") == own + 5
            assert firsts.count("human") == own + 6
            assert len(lines) == 15 + 6 * (own - 1) + own + 5 + own + 6
        assert table(said, "Tables 1 and 5")[1][2::2] == ["0.1359 ±0.1772", "0.1434 ±0.1649"]
        assert table(said, "Tables 2 and 6")[15][2::2] == ["0.8056 ±0.1566", "0.2219 ±0.1927"]
        assert table(said, "Table 3")[1][2::2] == ["0.823 ±0.008", "0.826 ±0.011", "0.823 ±0.004", "0.842 ±0.003"]
        assert table(said, "Table 4")[1][2::2] == [".1795", ".0689", ".1286", ".0811", ".1202", "–"]
        assert len(table(said, "Other measures")) == 1 + 2 * 7
        assert "RQ1, does it depend on the model?" in said
        assert "RQ2, does it depend on the task?" in said
        assert "Agreement is not correctness" in said
        assert len(list(tmp_path.glob("*/*-uniform-0/didact.json"))) == 2 * 2
        again = run("neely_agreement", "--quick", "--out", str(tmp_path))
        assert "learned attention, seed 0" not in again
        assert table(again, "Tables 1 and 5") == table(said, "Tables 1 and 5")

    @pytest.mark.realdata
    def test_real(self, real_data, tmp_path):
        options = ("--data", "real", "--data-dir", str(real_data), "--tasks", "sst", "quora", "--out", str(tmp_path))
        head = table(run("neely_agreement", "--quick", *options), "Tables 2 and 6")[0]
        assert head == ["methods", "SST-2", "paper", "Quora", "paper"]


class TestNeelyParts:
    def test_the_papers_numbers(self):
        """Means of what is quoted in the text and in the tables themselves."""
        numbers = tools("neely_tables")
        assert numbers.MEANS["transformer"]["esnli"]["deeplift", "deep_shap"] == 0.5554
        assert numbers.SPREADS["transformer"]["esnli"]["deeplift", "deep_shap"] == 0.3576
        assert numbers.MEANS["BiLSTM"]["imdb"]["attention", "deep_shap"] == 0.2309
        assert numbers.MEANS["BiLSTM"]["mnli"]["integrated_gradients", "gradient_shap"] == 0.8138
        assert numbers.FLOW["quora"]["integrated_gradients"] == 0.2426
        assert numbers.ACCURACY["transformer"]["mnli"] == {"uniform": (0.599, 0.002), "learned": (0.779, 0.002)}
        assert all(len(one) == 15 for tables in (numbers.MEANS, numbers.SPREADS) for one in tables["BiLSTM"].values())

    def test_rows_are_drawn_not_taken_from_the_front(self, monkeypatch):
        from didact.core.dataset import Dataset, Split
        from didact.core.row import Row
        from didact.core.task import CLASSIFICATION

        monkeypatch.syspath_prepend(RECIPES)
        rows = tuple(Row(str(number), ("a",), label=int(number >= 50)) for number in range(100))
        data = Dataset("sorted", CLASSIFICATION, {"test": Split("test", rows)}, ("no", "yes"))
        found = tools("neely_agreement").drawn(data, {"test": 40})["test"]
        assert len({row.id for row in found}) == 40
        assert 10 < sum(row.label for row in found) < 30

    def test_an_interval_of_a_mean(self, monkeypatch):
        """Without differences between seeds it is that of a mean over rows; equal parts differ by exactly nothing."""
        monkeypatch.syspath_prepend(RECIPES)
        estimate = tools("neely_agreement").Estimate
        values = np.random.default_rng(0).normal(0.3, 0.2, size=400)
        one = estimate.of(np.stack([values] * 3), seed=1)
        assert one.value == pytest.approx(values.mean())
        error = 1.96 * values.std(ddof=1) / 20
        np.testing.assert_allclose(one.interval, [values.mean() - error, values.mean() + error], atol=0.003)
        assert one.verdict == "above 0"
        assert (one - one).interval == (0, 0)
        holes = np.stack([values, values, np.where(np.arange(400) < 100, np.nan, values)])
        assert estimate.of(holes, seed=1).value == pytest.approx(values[100:].mean())


class TestL2EMeasures:
    def test_a_hidden_rationale(self):
        from didact.core.row import Row, Span

        row = Row("r", ("a very good film",), label=1, rationale=(Span(0, 2, 11),))
        found = tools("l2e_tools").hidden(row, 2)
        assert found.texts == ("a _ _ film",)
        assert (found.label, found.rationale, found.id) == (2, (), "r-hidden")

    def test_equally_many_words_of_either(self):
        measured = tools("l2e_tools")
        maps = [[Scores([3.0, -1.0, 2.0, 1.0])], [Scores([-1.0, -2.0, 0.5, -4.0])]]
        first, second = measured.selected(maps, 0, "positive")
        assert first.tolist() == [True, False, False, False], "two of 30 %, but the other has one positive word"
        assert second.tolist() == [False, False, True, False]
        first, second = measured.selected(maps, 0, "top")
        assert first.tolist() == [True, False, True, False]
        assert second.tolist() == [False, True, False, True]
        assert measured.selected([[Scores([1.0, 0.0])], [Scores([-1.0, 0.0])]], 0, "positive") is None

    def test_what_a_teacher_says_of_hidden_words(self):
        """All words shown is the document itself; log-odds fall by the difference of two plain passes."""
        import torch

        from teachers import examples, teacher

        measured = tools("l2e_tools")
        model, rows = teacher("native", "classification"), examples("classification")
        judge = measured.Judge(model, rows)
        batch = model.encode(rows)
        units = [int(one.sum()) for one in batch.units]
        everything = [np.ones(count, dtype=bool) for count in units]
        assert judge.agrees(everything).tolist() == [1.0] * len(rows)
        np.testing.assert_allclose(judge.drop([~one for one in everything]), 0, atol=1e-12)
        hidden = [np.arange(count) == 0 for count in units]
        inputs = model.embed(batch).detach().clone()
        for row in range(len(rows)):
            inputs[row, batch.units[row].nonzero()[0, 0]] = 0.0
        with torch.no_grad():
            left = model.run(inputs, batch).logits.softmax(-1).numpy()
        places = np.arange(len(rows)), judge.predicted
        expected = np.log(judge.full / (1 - judge.full))[places] - np.log(left / (1 - left))[places]
        np.testing.assert_allclose(judge.drop(hidden), expected, atol=1e-9)


class Scores:
    """What `selected` looks at of an explanation."""

    def __init__(self, scores):
        self.scores = np.array(scores)


@pytest.mark.slow
class TestMetrics:
    def test_truth(self, tmp_path):
        said = run("metrics_truth", "--quick", "--out", str(tmp_path))
        head, *lines = table(said, "faithfulness")
        assert head[1] == "sufficiency ↓"
        assert [line[0] for line in lines] == ["human", "gradient_norm", "gradient_input", "random"]
        assert table(said, "plausibility")[1][1] == "1.000"  # the truth itself
        assert table(said, "ROC-AUC, weights")[0][1:] == ["as it is", "head", "layer 2", "layer 1", "embeddings"]
        assert len(table(said, "Cost")) == 4

    def test_faithfulness_and_teaching(self):
        said = run("pruthi_faithfulness", "--quick")
        assert table(said, "Table 1")[1][1] == "1.00"
        assert table(said, "Table 9")[2][-2:] == ["0.06 (1)", "0.32 (1)"]
        assert len(table(said, "Table 10")) == 2

    @pytest.mark.realdata
    @pytest.mark.parametrize("data", ["movie_rationales", "sst_rationales", "mlqe_pe"])
    def test_rationales(self, tmp_path, real_data, data):
        options = ("--data", data, "--data-dir", str(real_data), "--out", str(tmp_path))
        said = run("metrics_rationales", "--quick", *options)
        title = {"mlqe_pe": "mlqe_pe en-de source"}.get(data, f"{data}:")
        rows = table(said, title)
        assert [row[0] for row in rows[1:4]] == ["gradient_norm", "gradient_input", "random"]
        assert rows[-1][0].startswith("best head*")


@pytest.mark.slow
class TestEditedRows:
    @pytest.mark.parametrize("data", ["planted/sentiment", "planted/inference"])
    def test_tables(self, data):
        printed = run("edited_rows", "--quick", "--data", data)
        sets = ["new", "edited", "flips", "stays"]
        for title, arms in (("Agreement with the teacher", 6), ("Planted truth minus", 5)):
            head, *lines = table(printed, title)
            assert head[1:] == sets
            assert len(lines) == arms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "title", "lines"),
    [("options", "Accuracy on dev", 4), ("truth", "Planted truth", 3), ("signs", "Signs", 12)],
)
def test_signed_lessons(part, title, lines, tmp_path):
    said = run("signed_lessons", "--quick", "--part", part, "--out", str(tmp_path))
    assert len(table(said, title)) == 1 + lines
