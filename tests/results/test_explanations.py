"""Explanations of many rows: cut, joined to words, ranked, saved to the last bit, and never half written."""

import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import fields, replace
from pathlib import Path

import jaxtyping
import numpy as np
import pytest

from didact.errors import DataError, OptionError, RecordError, ShapeError
from didact.results import explanations, views
from didact.results.explanations import Explanations
from didact.results.temperature import apply_temperature
from didact.results.transforms import absolute_scores, normalise_scores
from didact.results.views import page, side_by_side

NOT_A_NUMBER = float("nan")
TEXTS = (("Unbelievably good.", "So-so"), ("", ""), ("good good", "x"))
# row, token, segment, word, start, end
UNITS = (
    (0, "[CLS]", -1, -1, 0, 0),
    (0, "un", 0, 0, 0, 2),
    (0, "##believ", 0, 0, 2, 8),
    (0, "##ably", 0, 0, 8, 12),
    (0, "good", 0, 1, 13, 17),
    (0, ".", 0, 2, 17, 18),
    (0, "so", 1, 0, 0, 2),
    (0, "▁", 1, -1, 2, 2),
    (0, "-", 1, 1, 2, 3),
    (0, "so", 1, 2, 3, 5),
    (2, "good", 0, 0, 0, 4),
    (2, "go", 0, 1, 5, 7),
    (2, "##od", 0, 1, 7, 9),
    (2, "x", 1, 0, 0, 1),
)
SCORES = np.array([0.1, -0.5, 0.1 + 0.2, -0.0, 2.0, 1e-300, 0.25, 0.0, -2.0, 0.1, 1 / 3, 0.7, 0.6, 1e17])


def maps(**changes):
    columns = list(zip(*UNITS, strict=True))
    scores = SCORES if changes.get("kind", "signed") == "signed" else np.abs(SCORES)
    facts = {
        "method": "lime",
        "kind": "signed",
        "options": {"samples": 200, "kernel": "cosine", "width": 0.1},
        "task": "pair",
        "classes": ("no", "yes"),
        "teacher": "minilm",
        "fingerprints": {"teacher": "ab", "data": "cd"},
        "ids": ("r0", "r1", "r2"),
        "texts": TEXTS,
        "bounds": np.array([0, 10, 10, 14]),
        "tokens": columns[1],
        "segments": np.array(columns[2]),
        "word_index": np.array(columns[3]),
        "offsets": np.array(columns[4:]).T,
        "scores": scores,
        "targets": ("yes", "no", "yes against no"),
        "predictions": ("yes", "no", "yes"),
        "residuals": np.array([0.5, NOT_A_NUMBER, -0.0]),
    }
    return Explanations(**(facts | changes))


KNOWN = {"probabilities": np.array([0.9, 0.6, NOT_A_NUMBER]), "labels": ("yes", "yes", None)}


def pictures(rows=2):
    boxes = [(top, left, top + 2, left + 2) for top in (0, 2) for left in (0, 2)]
    return Explanations(
        method="attention_all",
        kind="distribution",
        options={},
        task="image",
        classes=("disc", "bar"),
        teacher="vit",
        fingerprints={},
        ids=tuple(f"i{row}" for row in range(rows)),
        texts=((),) * rows,
        bounds=np.arange(rows + 1) * 4,
        tokens=("",) * 4 * rows,
        segments=np.zeros(4 * rows, dtype=np.int64),
        word_index=np.full(4 * rows, -1),
        offsets=np.array(boxes * rows),
        scores=np.arange(4 * rows) / 10,
        targets=("disc",) * rows,
        predictions=("bar",) * rows,
        residuals=np.full(rows, NOT_A_NUMBER),
        images=tuple(np.full((4, 4, 3), 40 * row, dtype=np.uint8) for row in range(rows)),
    )


def assert_same(one, other, *, but=()):
    for field in fields(Explanations):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name in but:
            continue
        if isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype, field.name
            assert mine.shape == theirs.shape, field.name
            assert mine.tobytes() == theirs.tobytes(), field.name
        else:
            assert mine == theirs, field.name


class TestRows:
    def test_a_row_is_a_view_of_its_units(self):
        row = maps()[2]
        assert (row.id, row.texts, row.tokens) == ("r2", ("good good", "x"), ("good", "go", "##od", "x"))
        assert row.scores.tolist() == SCORES[10:].tolist()
        assert row.offsets.tolist() == [[0, 4], [5, 7], [7, 9], [0, 1]]
        assert (row.target, row.prediction, row.residual) == ("yes against no", "yes", 0.0)
        assert maps()[-1].id == "r2"
        assert len(maps()[np.int64(1)]) == 0
        with pytest.raises(IndexError):
            maps()[3]

    def test_rows_in_order(self):
        assert [row.id for row in maps()] == ["r0", "r1", "r2"]
        assert len(maps()) == 3
        assert repr(maps()) == "Explanations('lime', 3 rows, kind='signed')"

    @pytest.mark.parametrize("wanted", [[2, 0, 2], [-1], [], [1, 1], np.array([True, False, True])])
    def test_selecting_takes_whole_rows(self, wanted):
        chosen = maps().select(wanted)
        rows = np.arange(3)[wanted] if len(wanted) else []
        assert len(chosen) == len(rows)
        for row, number in zip(chosen, rows, strict=True):
            whole = maps()[number]
            assert (row.id, row.texts, row.tokens) == (whole.id, whole.texts, whole.tokens)
            assert (row.target, row.prediction) == (whole.target, whole.prediction)
            for name in ("segments", "word_index", "offsets", "scores"):
                assert getattr(row, name).tolist() == getattr(whole, name).tolist()

    def test_slices_are_explanations(self):
        assert maps()[1:].ids == ("r1", "r2")
        assert maps()[::-1].ids == ("r2", "r1", "r0")
        assert len(maps()[5:]) == 0
        assert pictures()[1:].images[0][0, 0, 0] == 40
        with pytest.raises(ShapeError, match="mask for 3 rows"):
            maps().select(np.array([True]))
        with pytest.raises(IndexError):
            maps().select([3])

    def test_joining_undoes_cutting(self):
        whole = maps()
        assert_same(Explanations.joined([whole[:1], whole[1:2], whole[2:2], whole[2:]]), whole)
        assert_same(Explanations.joined([pictures()[:1], pictures()[1:]]), pictures(), but=["images"])
        assert len(Explanations.joined([pictures(), pictures()]).images) == 4
        assert Explanations.joined([pictures(), replace(pictures(), images=None)]).images is None

    def test_only_what_belongs_together_is_joined(self):
        with pytest.raises(ShapeError, match="differ in options: .*200.* and .*100"):
            Explanations.joined([maps(), maps(options={"samples": 100})])
        with pytest.raises(ShapeError, match="fingerprints"):
            Explanations.joined([maps(), maps(fingerprints={})])
        with pytest.raises(ShapeError, match="nothing to join"):
            Explanations.joined([])


class TestChecks:
    def test_a_set_is_checked_where_it_comes_from_outside_and_not_again(self, monkeypatch, tmp_path):
        whole, checked = maps(), []
        monkeypatch.setattr(explanations, "check_explanations", lambda found: checked.append(found))
        parts = [whole.select([2, 0]), whole[1:]]
        apply_temperature(normalise_scores(absolute_scores(Explanations.joined(parts).words()), "softmax"), 0.5)
        assert checked == []
        replace(whole, method="other")
        assert len(checked) == 1
        whole.save(tmp_path / "a.parquet")
        Explanations.load(tmp_path / "a.parquet")
        assert len(checked) == 2

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"kind": "sign"}, "no kind named 'sign'. Did you mean 'signed'"),
            ({"task": "generation"}, "no task named 'generation'"),
            ({"options": {"x": object()}}, "cannot be stored as JSON"),
            ({"options": {"x": NOT_A_NUMBER}}, "cannot be stored as JSON"),
            ({"targets": ("yes",)}, r"need targets of shape \(3,\), got \(1,\)"),
            ({"scores": SCORES[1:]}, "need scores of shape"),
            ({"offsets": np.zeros((14, 4), dtype=np.int64)}, r"need offsets of shape \(14, 2\)"),
            ({"residuals": np.zeros(2)}, "need residuals of shape"),
            ({"bounds": np.array([0, 12, 10, 14])}, "Bounds must increase from 0 to 14, the number of units"),
            ({"bounds": np.array([0, 10, 10, 13])}, "Bounds must increase"),
            ({"texts": (("short", "So-so"), ("", ""), ("good good", "x"))}, "'##believ' of row 'r0' is outside"),
            ({"texts": (("Unbelievably good.",), ("", ""), ("good good", "x"))}, "'so' of row 'r0' is outside"),
            ({"segments": np.full(14, -2)}, "is outside"),
            ({"images": (np.zeros((2, 2, 3), dtype=np.uint8),)}, "3 rows need 3 images"),
            ({"scores": np.where(SCORES == 2, np.inf, SCORES)}, "must be finite.*\n.*row 'r0', unit 'good': inf"),
            ({"kind": "magnitude", "scores": SCORES}, "finite and not negative"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, changes, message, monkeypatch):
        monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as outside of tests
        with pytest.raises((ShapeError, OptionError, DataError), match=message):
            maps(**changes)

    def test_options_are_a_copy_in_plain_json(self):
        options = {"layers": (1, 2)}
        held = maps(options=options)
        options["layers"] = ()
        assert held.options == {"layers": [1, 2]}

    def test_narrow_numbers_are_widened(self):
        held = maps(scores=SCORES[:14].clip(-9, 9).astype(np.float32), bounds=np.array([0, 10, 10, 14], dtype=np.int32))
        assert (held.scores.dtype, held.bounds.dtype) == (np.float64, np.int64)


class TestTop:
    def test_signed_scores_by_size_and_ties_by_position(self):
        assert maps()[0].top(3, level="token") == [("good", 2.0), ("-", -2.0), ("un", -0.5)]
        assert maps(kind="magnitude")[0].top(3, level="token") == [("good", 2.0), ("-", 2.0), ("un", 0.5)]
        assert [len(row) for row in maps().top(99, level="token")] == [10, 0, 4]
        assert maps().top(1)[2] == [("x", 1e17)]

    def test_zero_is_less_than_any_mark(self):
        marks = maps(kind="binary", scores=(np.arange(14) == 5).astype(float))
        assert marks[0].top(2) == [(".", 1.0), ("[CLS]", 0.0)]

    @pytest.mark.parametrize(("k", "units"), [(0.1, 1), (0.11, 2), (0.001, 1), (0.3, 3), (0.7, 7), (1.0, 10), (10, 10)])
    def test_fractions_round_up(self, k, units):
        assert len(maps()[0].top(k, level="token")) == units

    def test_a_fraction_that_means_a_whole_number_is_one(self):
        """0.07 · 100 is 7.000000000000001 to a computer."""
        assert math.ceil(0.07 * 100) == 8
        whole = maps()
        long = replace(
            whole[:1],
            bounds=np.array([0, 100]),
            tokens=tuple(map(str, range(100))),
            segments=np.full(100, -1),
            word_index=np.full(100, -1),
            offsets=np.zeros((100, 2), dtype=np.int64),
            scores=np.where(np.arange(100) % 2, -1.0, 0.5),
        )
        assert [token for token, _ in long[0].top(0.07)] == ["1", "3", "5", "7", "9", "11", "13"]

    @pytest.mark.parametrize("k", [0, -1, 0.0, 1.5, True, NOT_A_NUMBER])
    def test_other_counts_are_refused(self, k):
        with pytest.raises(OptionError, match="k must be"):
            maps().top(k)

    def test_whole_words_unless_asked_otherwise(self):
        first = [("good", 2.0), ("-", -2.0)]
        assert maps()[0].top(2) == maps().top(2)[0] == first
        words, pieces = maps()[0].top(99), maps()[0].top(99, level="token")
        assert "Unbelievably" in [word for word, _ in words]
        assert "Unbelievably" not in [piece for piece, _ in pieces]
        assert len(pieces) == 10 > len(words)
        with pytest.raises(OptionError, match="'level' must be 'word' .* or 'token' .*, got 'sentence'"):
            maps().top(1, level="sentence")


class TestWords:
    @staticmethod
    def literal(whole):
        """Word by word, as the sentence says it."""
        rows = []
        for row in whole:
            groups = defaultdict(list)
            for unit in range(len(row)):
                is_word = row.word_index[unit] >= 0
                key = (row.segments[unit], row.word_index[unit]) if is_word else ("alone", unit)
                groups[key].append(unit)
            found = []
            for (segment, _), units in groups.items():
                scores = [float(row.scores[unit]) for unit in units]
                if len(scores) == 1 and whole.kind != "binary":
                    score = scores[0]
                elif whole.kind == "magnitude":
                    score = math.sqrt(sum(one * one for one in scores))
                else:
                    score = float(any(scores)) if whole.kind == "binary" else sum(scores)
                start, end = min(row.offsets[units, 0]), max(row.offsets[units, 1])
                token = row.tokens[units[0]] if segment == "alone" else row.texts[segment][start:end]
                found.append((token, score, int(start), int(end)))
            rows.append(found)
        return rows

    @pytest.mark.parametrize("kind", ["signed", "distribution", "magnitude", "binary"])
    def test_against_the_literal_loop(self, kind):
        scores = (np.abs(SCORES) > 0.4).astype(float) if kind == "binary" else SCORES
        whole = maps(kind=kind, scores=scores if kind == "signed" else np.abs(scores))
        joined = whole.words()
        found = [
            [(token, score, *span) for token, score, span in zip(row.tokens, row.scores, row.offsets, strict=True)]
            for row in joined
        ]
        expected = self.literal(whole)
        assert [[unit[0] for unit in row] for row in found] == [[unit[0] for unit in row] for row in expected]
        assert found == expected
        assert joined.options == {**whole.options, "level": "word"}

    def test_random_pieces_against_the_literal_loop(self):
        rng = np.random.default_rng(0)
        rows, units = 40, 1500
        bounds = np.concatenate([[0], np.sort(rng.integers(0, units, rows - 1)), [units]])
        starts = rng.integers(0, 25, units)
        whole = Explanations(
            method="m",
            kind="signed",
            options={},
            task="pair",
            classes=None,
            teacher="t",
            fingerprints={},
            ids=tuple(map(str, range(rows))),
            texts=(("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),) * rows,
            bounds=bounds,
            tokens=tuple(f"t{unit}" for unit in range(units)),
            segments=rng.integers(0, 2, units),
            word_index=rng.integers(-1, 6, units),
            offsets=np.stack([starts, starts + 1], axis=1),
            scores=rng.normal(size=units),
            targets=("",) * rows,
            predictions=("",) * rows,
            residuals=np.zeros(rows),
        )
        for row, expected in zip(whole.words(), self.literal(whole), strict=True):
            assert row.tokens == tuple(unit[0] for unit in expected)
            np.testing.assert_allclose(row.scores, [unit[1] for unit in expected], rtol=1e-12, atol=1e-12)
            assert row.offsets.tolist() == [list(unit[2:]) for unit in expected]

    def test_words_of_two_texts_never_merge(self):
        tokens = maps().words().tokens
        assert tokens[:8] == ("[CLS]", "Unbelievably", "good", ".", "So", "▁", "-", "so")
        assert maps().words().words().tokens == tokens

    def test_patches_and_no_rows_stay_as_they_are(self):
        assert_same(pictures().words(), pictures(), but=["options", "images"])
        assert len(maps()[:0].words()) == 0


class TestTables:
    def test_documents_are_json(self):
        documents = maps().to_documents()
        assert json.loads(json.dumps(documents, allow_nan=False)) == documents
        assert documents[1] == {
            "id": "r1",
            "text": " | ".join(TEXTS[1]),
            "tokens": [],
            "scores": [],
            "target": "no",
            "prediction": "no",
            "probability": None,
            "label": None,
            "is_right": None,
            "completeness": None,
            "residual": None,
        }
        assert documents[2]["tokens"] == ["good", "go", "##od", "x"]
        assert (documents[0]["residual"], documents[0]["completeness"]) == (0.5, 0.5)
        known = maps(**KNOWN).to_documents()
        assert [row["probability"] for row in known] == [0.9, 0.6, None]
        assert [row["is_right"] for row in known] == [True, False, None]
        assert json.loads(json.dumps(known, allow_nan=False)) == known

    def test_frames_have_one_line_per_row(self):
        frame = maps().to_pandas()
        assert list(frame.columns) == [
            "id", "text", "tokens", "scores", "target", "prediction", "probability", "label",
            "is_right", "completeness",
        ]  # fmt: skip
        assert frame["scores"].tolist() == [row["scores"] for row in maps().words().to_documents()]
        pieces = maps().to_pandas(level="token")
        assert pieces["scores"].tolist() == [row["scores"] for row in maps().to_documents()]
        assert frame["completeness"].tolist()[0] == 0.5
        assert frame["completeness"].isna().tolist() == [False, True, False]
        known = maps(**KNOWN).to_pandas()
        assert known["is_right"].tolist()[:2] == [True, False]
        assert known["is_right"].isna().tolist() == [False, False, True]
        assert known["probability"].tolist()[:2] == [0.9, 0.6]
        assert list(maps()[:0].to_pandas().columns) == list(frame.columns)


class TestWhatIsKnownOfRows:
    def test_rows_know_their_probability_and_label(self):
        sure, wrong, unknown = maps(**KNOWN)
        assert (sure.probability, sure.label, sure.is_right) == (0.9, "yes", True)
        assert (wrong.label, wrong.is_right) == ("yes", False)
        assert math.isnan(unknown.probability)
        assert (unknown.label, unknown.is_right) == (None, None)
        assert all(row.is_right is None and math.isnan(row.probability) for row in maps())

    def test_they_follow_their_rows(self):
        whole = maps(**KNOWN)
        assert whole.select([2, 0]).labels == (None, "yes")
        assert whole[1:].probabilities.tolist()[0] == 0.6
        joined = Explanations.joined([whole[:1], whole[1:]])
        assert_same(joined, whole)
        assert Explanations.joined([maps(), whole]).labels == (None, None, None, "yes", "yes", None)
        assert whole.words().labels == absolute_scores(whole).labels == whole.labels

    def test_as_many_as_rows(self):
        with pytest.raises(ShapeError, match="need labels of shape"):
            maps(labels=("yes",))
        with pytest.raises(ShapeError, match="need probabilities of shape"):
            maps(probabilities=np.ones(2))

    def test_a_changed_label_is_damage(self, tmp_path):
        from pyarrow import parquet

        for column, value in (("label", "no"), ("probability", 0.1)):
            maps(**KNOWN).save(tmp_path / "maps")
            table = parquet.read_table(tmp_path / "maps")
            place = table.column_names.index(column)
            changed = [value, *table.column(column).to_pylist()[1:]]
            table = table.set_column(place, table.schema.field(column), [changed])
            parquet.write_table(table, tmp_path / "maps")
            with pytest.raises(RecordError, match="checksum"):
                Explanations.load(tmp_path / "maps")

    def test_files_of_earlier_versions_are_read(self, tmp_path):
        """They have neither column; shards of a run that an earlier version began are joined with newer ones."""
        from pyarrow import parquet

        from didact.results.explanations_parquet import merge_shards

        maps().save(tmp_path / "old")
        table = parquet.read_table(tmp_path / "old").drop_columns(["probability", "label"])
        parquet.write_table(table, tmp_path / "old")
        assert_same(Explanations.load(tmp_path / "old"), maps())
        maps(**KNOWN).save(tmp_path / "new")
        for order in (("old", "new"), ("new", "old")):
            merge_shards([tmp_path / name for name in order], tmp_path / "both", data="x")
            both = list(Explanations.shards(tmp_path / "both"))
            assert [part.labels[0] for part in both] == [None if name == "old" else "yes" for name in order]

    def test_completeness_is_what_the_residual_leaves(self):
        assert maps()[0].completeness == 0.5
        assert math.isnan(maps()[1].completeness)
        assert maps(residuals=np.array([7.0, 0.0, 0.25]))[0].completeness == 0.0

    def test_a_row_prints_in_a_few_lines(self):
        assert repr(maps(**KNOWN)[0]) == "\n".join(
            [
                "Row 'r0' explained by lime",
                f"  text        {TEXTS[0][0]} | {TEXTS[0][1]}",
                "  prediction  yes (90.0 %)",
                "  label       yes ✓",
                "  target      yes",
                "  strongest   good +2, - -2, So +0.25, Unbelievably -0.2, [CLS] +0.1",
                "  note        scores do not add up: off by 50 %",
            ]
        )
        assert len(repr(pictures()[0]).splitlines()) <= 5


class TestFiles:
    @pytest.mark.parametrize(
        "whole",
        [
            maps(), maps()[:0], maps()[1:2], maps().words(), maps(classes=None), pictures(), maps(**KNOWN),
            maps(**KNOWN)[2:],
        ],
    )  # fmt: skip
    def test_back_to_the_last_bit(self, tmp_path, whole):
        whole.save(tmp_path / "deep" / "maps.parquet")
        back = Explanations.load(tmp_path / "deep" / "maps.parquet")
        assert_same(back, whole, but=["images"])
        assert back.images is None
        assert back.scores.flags.writeable
        assert back.residuals.flags.writeable

    def test_each_nan_keeps_its_bits(self, tmp_path):
        residuals = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64)
        whole = maps(residuals=residuals.view(np.float64))
        whole.save(tmp_path / "maps")
        assert_same(Explanations.load(tmp_path / "maps"), whole)

    def test_same_content_same_bytes(self, tmp_path):
        maps().save(tmp_path / "1")
        maps(options={"width": 0.1, "kernel": "cosine", "samples": 200}).save(tmp_path / "2")
        Explanations.joined([maps()[:2], maps()[2:]]).save(str(tmp_path / "3"))
        Explanations.load(tmp_path / "1").save(tmp_path / "4")
        assert len({(tmp_path / name).read_bytes() for name in "1234"}) == 1
        maps(teacher="other").save(tmp_path / "5")
        assert (tmp_path / "5").read_bytes() != (tmp_path / "1").read_bytes()

    def test_other_tools_read_it(self, tmp_path):
        import pandas

        maps().save(tmp_path / "maps.parquet")
        frame = pandas.read_parquet(tmp_path / "maps.parquet")
        assert frame["id"].tolist() == ["r0", "r1", "r2"]
        assert frame["scores"][2].tolist() == SCORES[10:].tolist()
        assert frame["start"][2].tolist() == [0, 5, 7, 0]

    def test_every_damage_is_seen(self, tmp_path):
        path = tmp_path / "maps.parquet"
        maps().save(path)
        whole = path.read_bytes()
        for content in (b"", whole[:100], whole[:-1], whole[10:], b"PAR1", b"hello"):
            path.write_bytes(content)
            with pytest.raises(RecordError, match="maps.parquet cannot be read.*It may be damaged"):
                Explanations.load(path)
        rng = np.random.default_rng(0)
        seen = 0
        for place in rng.choice(len(whole), 300, replace=False):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << rng.integers(8)]) + whole[place + 1 :])
            try:
                assert_same(Explanations.load(path), maps())  # a byte that decides nothing
            except RecordError:
                seen += 1
        assert seen > 150

    def rewritten(self, path, **changes):
        """The file with another header."""
        from pyarrow import parquet

        maps().save(path)
        table = parquet.read_table(path)
        header = json.loads(table.schema.metadata[b"didact"])
        parquet.write_table(table.replace_schema_metadata({b"didact": json.dumps(header | changes)}), path)

    def test_a_changed_header_is_seen(self, tmp_path):
        self.rewritten(tmp_path / "maps")
        assert_same(Explanations.load(tmp_path / "maps"), maps())
        for changes in ({"method": "shap"}, {"options": {}}, {"kind": "new"}, {"checksum": ""}, {"format": "x"}):
            self.rewritten(tmp_path / "maps", **changes)
            with pytest.raises(RecordError, match="damaged"):
                Explanations.load(tmp_path / "maps")

    def test_newer_files_ask_for_a_newer_didact(self, tmp_path):
        self.rewritten(tmp_path / "maps", format=3)
        with pytest.raises(RecordError, match=r"newer didact \(format 3; this one reads up to 2\). Update didact"):
            Explanations.load(tmp_path / "maps")

    def test_foreign_and_missing_files(self, tmp_path):
        import pandas

        pandas.DataFrame({"id": ["a"]}).to_parquet(tmp_path / "table")
        with pytest.raises(RecordError, match="has a table but no explanations"):
            Explanations.load(tmp_path / "table")
        with pytest.raises(OptionError, match="There is no file .*nowhere"):
            Explanations.load(tmp_path / "nowhere")
        with pytest.raises(RecordError, match="Could not read"):
            Explanations.load(tmp_path)

    @pytest.mark.parametrize("write", [lambda m, path: m.save(path), lambda m, path: m.to_html(path)])
    def test_a_failure_leaves_the_old_file(self, tmp_path, monkeypatch, write):
        path = tmp_path / "file"
        write(maps(), path)
        old = path.read_bytes()

        def fail(*_, **__):
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr("pyarrow.parquet.write_table", fail)
            patched.setattr(views, "page_of", fail)
            with pytest.raises(ZeroDivisionError):
                write(maps(method="other"), path)
        monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(RecordError, match="No space left"):
            write(maps(method="other"), path)
        assert path.read_bytes() == old
        assert [file.name for file in tmp_path.iterdir()] == ["file"]

    def test_half_a_character_is_a_clear_error(self, tmp_path):
        with pytest.raises(DataError, match="incomplete character"):
            maps(predictions=("\ud800", "", "")).save(tmp_path / "maps")
        assert list(tmp_path.iterdir()) == []


def test_bars_of_a_row():
    chart = maps(**KNOWN)[0].plot(3).to_dict()
    assert [row["word"] for row in chart["data"]["values"]] == ["good", "So", "-"]
    assert chart["title"]["text"] == "lime · r0"
    assert chart["title"]["subtitle"][0] == "prediction yes (90.0 %) · label yes (right) · target yes"
    assert "believ" in str(maps()[0].plot(None, level="token").to_dict()["data"])


class TestShown:
    def test_on_a_terminal(self, capsys):
        maps().show(rows=1)
        shown = capsys.readouterr().out
        assert "r0" in shown
        assert "r2" not in shown
        assert "[good +2]" in shown
        assert "first" in shown
        assert "… and 2 more rows: explanations[1:].show()" in shown
        maps()[2].show()
        assert "[x +1e+17]" in capsys.readouterr().out
        with pytest.raises(OptionError, match="rows must be at least 1"):
            maps().show(rows=0)

    def test_whole_words_unless_asked_otherwise(self, capsys, tmp_path):
        def shown(show):
            show()
            return capsys.readouterr().out

        assert "[go" not in shown(maps()[2].show)
        for draw in (lambda **level: maps()[2:].show(**level), lambda **level: side_by_side([maps()[2:]], **level)):
            assert "good good" in shown(draw)
        whole = maps(scores=np.where(np.arange(14) == 11, 5.0, 0.0))
        assert "[good +5]" in shown(whole[2].show)
        assert "[go +5]od" in shown(lambda: whole[2].show(level="token"))
        assert "[go +5]od" in shown(lambda: whole[2:].show(level="token"))
        whole.to_html(tmp_path / "words.html")
        whole.to_html(tmp_path / "pieces.html", level="token")
        assert 'title="good: +5">good<' in (tmp_path / "words.html").read_text()
        assert 'title="go: +5">go<' in (tmp_path / "pieces.html").read_text()
        assert 'title="good: +5">good<' in whole._repr_html_()
        assert 'title="good: +5">good<' in whole[2]._repr_html_()

    def test_side_by_side(self, capsys):
        other = maps(options={**maps().options, "samples": 50})
        side_by_side([maps(), other, maps(method="ig")], rows=1)
        shown = capsys.readouterr().out
        assert shown.count("[good +2]") == 3
        assert "lime(samples=200)" in shown
        assert "lime(samples=50)" in shown
        assert "ig " in shown
        with pytest.raises(ShapeError, match="only be compared on the same rows"):
            side_by_side([maps(), maps()[1:]])
        with pytest.raises(ShapeError, match="nothing to show"):
            side_by_side([])

    def test_pages(self, tmp_path):
        maps().to_html(tmp_path / "one.html", title="Mine")
        content = (tmp_path / "one.html").read_text()
        assert "<title>Mine</title>" in content
        assert 'title="good: +2"' in content
        page([maps(), maps(method="ig")], tmp_path / "two.html")
        assert (tmp_path / "two.html").read_text().count('title="good: +2"') == 2

    def test_in_a_notebook(self):
        assert 'title="good: +2"' in maps()._repr_html_()
        assert ">r2<" in maps()._repr_html_()
        assert ">r2<" not in maps()[0]._repr_html_()
        many = Explanations.joined([maps()] * 3)._repr_html_()
        assert "… and 4 more rows" in many

    def test_pictures_come_with_their_images_or_without(self, tmp_path, capsys):
        pictures().to_html(tmp_path / "page.html")
        assert (tmp_path / "page.html").read_text().count("data:image/png;base64,") == 4
        pictures().save(tmp_path / "maps")
        bare = Explanations.load(tmp_path / "maps")
        bare.to_html(tmp_path / "page.html")
        content = (tmp_path / "page.html").read_text()
        assert "data:image/png" not in content
        assert content.count("<rect") == 8
        bare.show()
        assert "i1" in capsys.readouterr().out


def test_torch_is_never_needed(tmp_path):
    """A report is rebuilt on machines that have no torch."""
    script = """
import sys
import didact.results.explanations
assert "torch" not in sys.modules
sys.modules["torch"] = None  # now even looking for it fails
sys.path.insert(0, sys.argv[1])
from test_explanations import Explanations, maps, page
maps().save(sys.argv[2] + "/maps")
back = Explanations.load(sys.argv[2] + "/maps").words()
back.to_html(sys.argv[2] + "/page.html")
page([back, back], sys.argv[2] + "/page.html")
back.show()
assert sys.modules["torch"] is None
assert "transformers" not in sys.modules
"""
    here = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", script, here, str(tmp_path)], check=True, capture_output=True, text=True)
    assert (tmp_path / "page.html").exists()
