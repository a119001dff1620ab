"""Every recipe runs as a script, prints its tables and ends well. The numbers of `--quick` mean nothing."""

import subprocess
import sys
from pathlib import Path

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


def test_data_that_are_missing_are_told_in_a_line(tmp_path):
    done = subprocess.run(
        [sys.executable, str(RECIPES / "pruthi_imdb.py"), "--quick", "--data-dir", str(tmp_path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(tmp_path) in done.stderr
