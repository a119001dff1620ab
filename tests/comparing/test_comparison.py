"""What a comparison says: numbers that can be recomputed by hand, and a table that can be read."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import didact
from didact.comparing.statistics import contrasts_of, gain_rows
from didact.core.task import CLASSIFICATION
from didact.errors import OptionError, RecordError
from didact.files.table_io import read_table
from didact.results.comparison import Comparison
from didact.results.gains import FailedRun, GainRow
from didact.results.run_record import RunInfo
from didact.stats.contrast import crossed_contrast

# DESIGN.md, section 4: the columns of `compare`.
COLUMNS = [
    "explainer", "student", "size", "seeds", "measure", "median", "q25", "q75", "gain", "low", "high", "p", "rank",
    "test_rows",
]  # fmt: skip
LIME = "lime(samples=8)"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept") / "run"


@pytest.fixture
def result(compare, kept):
    """A run with two columns, kept for the module."""
    return compare(
        explainers=["gradient_norm", LIME], train_sizes=[8, 12], seeds=3, training={"epochs": 4, "rate": 0.02}, out=kept
    )


class TestNumbers:
    def test_by_hand(self, result, school):
        """From the answers on disk alone: accuracies, their paired differences, medians and ranks."""
        teacher, data = school()
        told = teacher.predict(data["test"].rows).labels
        lines = read_table(result.folder / "results.parquet").columns
        found = {}
        for key, name, size, seed in zip(*(lines[one] for one in ("key", "explainer", "size", "seed")), strict=True):
            values = read_table(result.folder / "cells" / f"{key}.parquet").columns["values"]
            found[name, size, seed] = np.mean(np.argmax(values, 1) == told)
        assert len(set(found.values())) > 3, "students differ"
        for row in result.rows:
            own = np.array([found[row["explainer"], row["size"], seed] for seed in range(3)])
            plain = np.array([found["none", row["size"], seed] for seed in range(3)])
            assert row["mean"] == pytest.approx(own.mean())
            assert row["median"] == pytest.approx(np.median(own))
            assert (row["q25"], row["q75"]) == pytest.approx(tuple(np.quantile(own, [0.25, 0.75])))
            assert (row["seeds"], row["test_rows"], row["measure"]) == (3, 16, "accuracy")
            if row["explainer"] == "none":
                assert row["gain"] is None
            else:
                assert row["gain"] == pytest.approx((own - plain).mean())
                assert row["low"] <= row["gain"] <= row["high"]
        for size in (8, 12):
            rows = [row for row in result.rows if row["size"] == size]
            means = np.array([row["mean"] for row in rows])
            for row in rows:
                wanted = (means > row["mean"]).sum() + ((means == row["mean"]).sum() + 1) / 2
                assert row["rank"] == pytest.approx(wanted)

    def test_correlations_by_hand(self, compare, school):
        teacher, data = school("quality")
        result = compare(teacher, data)
        told = teacher.predict(data["test"].rows).values[:, 0]
        lines = read_table(result.folder / "results.parquet").columns
        found = {}
        for key, name, seed, value in zip(*(lines[n] for n in ("key", "explainer", "seed", "value")), strict=True):
            values = read_table(result.folder / "cells" / f"{key}.parquet").columns["values"]
            found[name, seed] = np.corrcoef(np.array(values)[:, 0], told)[0, 1]
            assert value == pytest.approx(found[name, seed])
        for name in ("random", "human", "gradient_norm"):
            gain = np.mean([found[name, seed] - found["none", seed] for seed in (0, 1)])
            assert result.row(name)["gain"] == pytest.approx(gain)
            assert result.row(name)["measure"] == "pearson"
        assert "gain over none in Pearson's r" in result.table()
        first, second = ("human", "same/attention", 12), ("random", "same/attention", 12)
        gain = np.mean([found["human", seed] - found["random", seed] for seed in (0, 1)])
        assert result.contrast(first, second).difference == pytest.approx(gain)
        with pytest.raises(OptionError, match="There is no arm") as caught:
            result.contrast(("", "", 0), second)
        assert "('', '', 0), (" not in str(caught.value).partition("known are")[2]
        assert result.contrast("human", "random") == result.contrast(first, second)
        with pytest.raises(OptionError, match="0 rows match 'humans'.*Explainers: .*human"):
            result.contrast("humans", "random")

    def test_seeds_that_failed_in_one_arm_are_left_out_of_the_pair(self):
        scores = {
            ("none", "s", 9): {0: np.array([1.0, 0.0]), 1: np.array([0.0, 0.0]), 2: np.array([1.0, 1.0])},
            ("lime", "s", 9): {1: np.array([1.0, 1.0]), 2: np.array([1.0, 0.0]), 5: np.array([0.0, 0.0])},
        }
        rows = table_of(scores)
        assert rows[1]["gain"] == pytest.approx((1.0 - 0.5) / 2)
        assert rows[1]["seeds"] == 2

    def test_ranks_of_rows_that_lack_seeds_go_by_the_paired_gain(self):
        """lime failed on the hard seed: its mean is higher than that of all others, and it taught nothing."""
        easy, hard = np.array([1.0, 1.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0])
        scores = {
            ("none", "s", 9): {0: easy, 1: hard},
            ("lime", "s", 9): {0: easy},
            ("occlusion", "s", 9): {0: easy, 1: np.array([1.0, 1.0, 0.0, 0.0])},
        }
        rows = table_of(scores)
        assert [row["rank"] for row in rows] == [2.5, 2.5, 1.0]

    def test_one_seed_has_no_interval_and_no_claim(self):
        scores = {(name, "s", 9): {0: np.arange(6) % (2 + place) * 1.0} for place, name in enumerate(("none", "lime"))}
        row = table_of(scores)[1]
        assert row["gain"] is not None
        assert (row["low"], row["high"], row["p"], row["claimed"]) == (None, None, None, False)
        assert row["p_reason"] == "one seed says nothing about other seeds"

    def test_methods_are_one_family_and_controls_stand_alone(self):
        """p, mark and interval of every row say the same; a control is not corrected for the methods beside it."""
        dice = np.random.default_rng(3)
        names = ["none", "random", *(f"m{number}" for number in range(6))]
        scores = {(name, "s", 9): dict(enumerate((dice.random((5, 80)) < 0.6).astype(float))) for name in names}
        for row in scores["m0", "s", 9].values():
            row[:70] = 1.0
        rows = table_of(scores, controls=("none", "random"))
        for row in rows[1:]:
            assert row["claimed"] == (row["p"] < 0.05) == (row["low"] > 0 or row["high"] < 0)
        assert rows[2]["claimed"]
        assert [row["level"] for row in rows[1:]] == pytest.approx([0.95, 1 - 0.05 / 6, *[1 - 0.05 / 5] * 5])
        text = Comparison(tuple(rows), (), (), RunInfo(), {}, Path("x")).table()
        assert text.count("▲") == 2  # once in the table, once where it is explained

    def test_intervals_end_where_gains_do(self):
        """Two seeds can stretch them beyond a hundred points."""
        scores = {
            ("none", "s", 9): {0: np.array([0.0, 1.0]), 1: np.array([1.0, 0.0])},
            ("lime", "s", 9): {0: np.array([1.0, 1.0]), 1: np.array([0.0, 1.0])},
        }
        row = table_of(scores)[1]
        assert (row["low"], row["high"]) == (-1.0, 1.0)

    def test_students_that_failed_to_learn_are_counted_and_told(self):
        dice = np.random.default_rng(0)
        share = np.array([0.6, 0.6, *[0.9] * 6])
        scores = {("none", "s", 9): dict(enumerate((dice.random((8, 500)) < 0.8).astype(float)))}
        scores["lime", "s", 9] = dict(enumerate((dice.random((8, 500)) < share[:, None]).astype(float)))
        none, lime = table_of(scores)
        assert (none["low_seeds"], lime["low_seeds"]) == (0, 2)
        found = comparison(none, lime)
        assert "s, 9 rows: lime: 2 of 8 students failed to learn what the others did" in found.table()
        assert next(line for line in found.table().splitlines() if line.split()[:1] == ["lime"]).count("‡") == 1
        assert "9 rows ‡" in found.table()
        assert "9 rows ‡" in found._repr_html_()
        assert found.to_document()["rows"][1]["low_seeds"] == 2

    def test_students_without_a_pair_are_not_counted_among_those_that_failed_to_learn(self):
        """Seeds 6 and 7 failed without explanations: six pairs are left, of which one student failed to learn."""
        dice = np.random.default_rng(0)
        share = np.array([0.5, *[0.9] * 5, 0.5, 0.5])
        scores = {("none", "s", 9): dict(enumerate((dice.random((6, 500)) < 0.8).astype(float)))}
        scores["lime", "s", 9] = dict(enumerate((dice.random((8, 500)) < share[:, None]).astype(float)))
        lime = table_of(scores)[1]
        assert (lime["low_seeds"], lime["seeds"]) == (1, 6)

    def test_a_column_of_none_alone_ranks_nobody(self, compare):
        """Else `none` would be first there without a rival, and its mean rank the better for it."""
        found = compare(students=["same/none", "same/attention"])
        assert found.row("none", "same/none")["rank"] is None
        ranking = {one["explainer"]: one["rank"] for one in found.ranking()}
        assert ranking["none"] == found.row("none", "same/attention")["rank"]
        assert found.agreement["tau"][0] == [None, None]


class TestPlaces:
    def test_frames_have_the_columns_of_the_design(self, result):
        frame = result.to_pandas()
        assert list(frame.columns)[: len(COLUMNS)] == COLUMNS
        assert len(frame) == 2 * 6
        assert set(result.to_document()) >= {"rows", "failed"}
        assert set(COLUMNS) <= set(result.to_document()["rows"][0])
        assert set(result.rows[0]) == set(frame.columns), "a frame holds what a row holds"

    def test_saved_and_loaded(self, result, tmp_path):
        import pandas

        for ending in ("json", "csv", "parquet"):
            result.save(tmp_path / "deep" / f"table.{ending}")
        frame = result.to_pandas()
        assert json.loads((tmp_path / "deep" / "table.json").read_text())["rows"] == [
            row.to_document() for row in result.rows
        ]
        csv = pandas.read_csv(tmp_path / "deep" / "table.csv")
        parquet = pandas.read_parquet(tmp_path / "deep" / "table.parquet")
        for read in (csv, parquet):
            assert list(read.columns) == list(frame.columns)
            np.testing.assert_allclose(read["gain"].astype(float), frame["gain"].astype(float))
        with pytest.raises(OptionError, match=".json, .csv or .parquet"):
            result.save(tmp_path / "table.xlsx")

    def test_a_folder_is_read_back(self, result):
        loaded = Comparison.load(result.folder)
        assert loaded.table() == result.table()
        assert loaded.ranking() == result.ranking()
        assert loaded.to_document() == json.loads(json.dumps(result.to_document()))
        first, second = ("human", "same/attention", 8), ("random", "same/attention", 8)
        assert loaded.contrast(first, second) == result.contrast(first, second)
        assert len(loaded.contrasts.entries) == 2 * 15  # every two of six arms in two columns
        with pytest.raises(OptionError, match="Run the same comparison again"):
            loaded.contrast(first, ("random", "same/attention", 12))

    def test_a_folder_of_before_has_no_contrasts_and_claims_nothing(self, result, tmp_path):
        document = result.to_document()
        del document["contrasts"]
        new = {
            "level",
            "claimed",
            "low_seeds",
            "normalised_gain",
            "normalised_low",
            "normalised_high",
            "helped",
            "misled",
        }
        document["rows"] = [{name: row[name] for name in row if name not in new} for row in document["rows"]]
        (tmp_path / "comparison.json").write_text(json.dumps(document))
        loaded = Comparison.load(tmp_path)
        text = loaded.table()
        assert "stored no contrasts" in text
        loaded.save(tmp_path / "again" / "comparison.json")
        assert Comparison.load(tmp_path / "again").table() == text
        assert "Run the same comparison again to add them: nothing is trained twice." in text.replace("\n", " ")
        assert not any("▲" in line or "▼" in line for line in text.splitlines() if line.split()[:1] != ["▲"])
        with pytest.raises(OptionError, match="Run the same comparison again"):
            loaded.contrast(("human", "same/attention", 8), ("random", "same/attention", 8))

    @pytest.mark.parametrize(
        ("second", "reason"), [("none", "No column has runs of two explainers"), ("lime", "run of the same seed")]
    )
    def test_a_run_of_today_without_contrasts_is_not_called_old(self, second, reason):
        rows = [row("none", None, None, None), row(second, None, None, None)][: 1 + (second != "none")]
        text = comparison(*rows).table()
        assert "older didact" not in text
        assert reason in text

    def test_a_folder_without_one(self, tmp_path):
        with pytest.raises(OptionError, match="has no finished comparison"):
            Comparison.load(tmp_path)
        (tmp_path / "comparison.json").write_text("{}")
        with pytest.raises(RecordError, match="is damaged"):
            Comparison.load(tmp_path)

    def test_one_row(self, result):
        assert result.row(LIME, size=8)["explainer"] == LIME
        with pytest.raises(OptionError, match="2 rows match"):
            result.row(LIME)
        with pytest.raises(OptionError, match="0 rows match 'lime'"):
            result.row("lime")

    def test_ranking_and_agreement(self, result):
        ranking = result.ranking()
        assert [one["rank"] for one in ranking] == sorted(one["rank"] for one in ranking)
        assert {one["explainer"] for one in ranking} == set(result.explainers)
        for one in ranking:
            rows = [row for row in result.rows if row["explainer"] == one["explainer"]]
            assert one["rank"] == pytest.approx(np.mean([row["rank"] for row in rows]))
        assert [tuple(one.values()) for one in result.agreement["columns"]] == result.columns

    def test_contrast(self, result):
        first, second = ("human", "same/attention", 12), ("human", "same/attention", 8)
        scores = [np.stack([result.scores[name][seed] for seed in range(3)]).mean() for name in (first, second)]
        found = result.contrast(first, second)
        assert found.difference == pytest.approx(scores[0] - scores[1])
        assert result.contrast(second, first).difference == pytest.approx(-found.difference)

    def test_stored_contrasts_are_those_of_the_answers(self, result):
        first, second = ("human", "same/attention", 12), (LIME, "same/attention", 12)
        arms = [np.stack([result.scores[name][seed] for seed in range(3)]) for name in (first, second)]
        assert result.contrast(first, second) == crossed_contrast(*arms)
        row = result.row("human", size=12)
        gain = result.contrast(first, ("none", "same/attention", 12))
        assert (row["gain"], row["p"]) == pytest.approx((gain.difference, gain.p))

    def test_representation(self, result):
        assert repr(result) == f"Comparison(12 rows, 0 failed cells, {str(result.folder)!r})"


def table_of(scores, *, controls=("none",)):
    names, columns = [name for name, *_ in scores], [("s", 9)]
    return gain_rows(
        scores, contrasts_of(scores, explainers=names, columns=columns), explainers=names, controls=controls,
        columns=columns, measure="accuracy", lost={}, test_rows=2,
    )  # fmt: skip


def row(name, gain, low, high, *, seeds=8, p=None, student="same/attention", size=500, **more):
    value = 0.6 + (gain or 0)
    fields = {
        "explainer": name, "student": student, "size": size, "seeds": seeds, "measure": "accuracy", "mean": value,
        "median": value, "q25": value, "q75": value, "gain": gain, "low": low, "high": high, "p": p, "p_reason": "",
        "rank": 1.0, "test_rows": 100, "is_control": name == "none", "lost_rows": 0, "level": 0.95, "low_seeds": 0,
        "claimed": low is not None and (low > 0 or high < 0),
    } | more  # fmt: skip
    return GainRow(**fields)


def comparison(*rows, **more) -> Comparison:
    about = RunInfo(measure=CLASSIFICATION.measure, controls=("none",))
    return Comparison(
        rows=rows, failed=(), notes=(), about=about, agreement={}, folder=Path("runs/x"), **more
    )  # fmt: skip


class TestTable:
    def lines(self, found: Comparison) -> dict[str, str]:
        return {line.split()[0]: line for line in found.table().splitlines() if line.strip()}

    def test_marks(self):
        lines = self.lines(
            comparison(
                row("none", None, None, None), row("lime", 0.05, 0.01, 0.09, p=0.01),
                row("worse", -0.05, -0.09, -0.01, p=0.02), row("open", 0.01, -0.02, 0.04, p=0.8),
                row("few", 0.02, 0.01, 0.03, seeds=3),
            )
        )  # fmt: skip
        assert lines["none"].split()[1:] == ["60.0", "1.0"]
        assert "+5.0 [+1.0, +9.0] ▲" in lines["lime"]
        assert "-5.0 [-9.0, -1.0] ▼" in lines["worse"]
        assert not set("▲▼°") & set(lines["open"])
        assert "*" not in "".join(lines.values())  # one mark for one rule
        assert "▲°" in lines["few"]
        assert "fewer than 5 seeds" in lines["°"]

    def test_what_rounds_to_zero_has_no_sign(self):
        found = comparison(row("none", None, None, None), row("lime", -1e-9, -1e-4, 1e-4))
        assert "0.0 [0.0, 0.0]" in self.lines(found)["lime"]
        assert "-0.0" not in found.table()

    def test_without_intervals(self):
        found = comparison(row("none", None, None, None, seeds=1), row("lime", 0.05, None, None, seeds=1))
        assert self.lines(found)["lime"].split()[1] == "+5.0°"
        text = found.table()
        assert "without intervals" in text
        assert "▲" not in text
        assert "this ranking may be due to chance" in text

    def test_says_nothing_of_few_seeds_where_there_are_enough(self):
        assert "°" not in comparison(row("none", None, None, None), row("lime", 0.1, 0.0, 0.2)).table()

    def test_no_name_is_cut(self):
        """However many columns there are: names are copied into the next command."""
        students = [f"bilstm_attention(embeddings=base, width={width})/attention@sgd" for width in (32, 64, 128)]
        method = "integrated_gradients(at=embedding, baseline=pad, steps=50)"
        rows = [row(name, 0.1, 0.05, 0.15, student=one) for one in students for name in ("random", method)]
        text = comparison(*rows).table()
        for name in [*students, method]:
            assert name in text
        assert "…" not in text
        assert text.count("+10.0 [+5.0, +15.0] ▲") == 6

    def test_holes_are_dashes(self):
        lines = self.lines(
            comparison(
                row("none", None, None, None), row("none", None, None, None, size=9), row("lime", None, None, None),
                row("human", 0.1, 0.0, 0.2),
            )
        )  # fmt: skip
        assert lines["lime"].count("–") == 2
        assert lines["human"].count("–") == 1

    def test_reasons_notes_and_failures_are_told(self):
        found = comparison(row("lime", 0.1, 0.0, 0.2, p_reason="3 seeds cannot reach 0.05"))
        found = replace(found, notes=("Left out: trivial.",), failed=(FailedRun("k", "lime", "s", 9, 0, "no memory"),))
        text = found.table()
        for part in ("p: 3 seeds cannot reach 0.05", "Left out: trivial.", "'no memory'"):
            assert part in text

    def test_of_a_run(self, result):
        text, _, more = result.table().partition("gap closed")
        for name in result.explainers:
            assert (f"\n{name} " in f"\n{more}".replace("\n ", "\n")) == (name != "none")
            assert sum(line.split()[:1] == [name] for line in text.splitlines()) == 1
        head = result.table().splitlines()
        assert "same/attention" in text
        assert any("8 rows" in line and "12 rows" in line for line in head)
        assert all(line == line.rstrip() for line in head)


def test_a_report_of_a_comparison_that_is_not_kept_needs_a_path(compare, tmp_path):
    """Its folder goes with it: no path is given back that does not exist."""
    temporary = compare(out=None)
    with pytest.raises(OptionError, match=r"made without `out`.*'report.html'.*out="):
        didact.report(temporary)
    assert didact.report(temporary, tmp_path / "page.html").is_file()
