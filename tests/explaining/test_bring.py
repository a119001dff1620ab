"""Explanations of other tools land on the right characters of the data, or are refused with file, row and reason."""

import base64
import copy
import gzip
import json
import logging
import random
import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

import didact
from didact.core.dataset import Dataset, Split
from didact.core.row import Row
from didact.core.task import CLASSIFICATION
from didact.errors import DataError, OptionError, RequestError, UnknownNameError

ROWS = [Row("a", ("A good film.",), label=1), Row("b", ("Café: not unbelievable",), label=0)]
PAIRS = [Row("a", ("A film", "Not good"), label=1), Row("b", ("Good", "Very good"), label=0)]
TOKENS = [["[CLS]", "a", "good", "film", ".", "[SEP]"], ["[CLS]", "cafe", ":", "not", "un", "##believable", "[SEP]"]]
SCORES = [[9.0, 0.1, 0.7, 0.2, 0.0, 9.0], [9.0, 0.3, 0.0, -0.5, 0.2, 0.4, 9.0]]
DATA = Dataset(
    "films", CLASSIFICATION, {"dev": Split("dev", ROWS[:1]), "test": Split("test", ROWS[1:])}, ("bad", "good")
)


def landed(maps):
    """The characters of each row with their scores."""
    return [
        [
            (row.texts[segment][start:end], score)
            for segment, (start, end), score in zip(row.segments, row.offsets, row.scores, strict=True)
        ]
        for row in maps
    ]


EXPECTED = [
    [("A", 0.1), ("good", 0.7), ("film", 0.2), (".", 0.0)],
    [("Café", 0.3), (":", 0.0), ("not", -0.5), ("un", 0.2), ("believable", 0.4)],
]


def lines(path, records):
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in records) + "\n")
    return path


# JSON lines


def rows_of_json(ids=("a", "b"), **changes):
    key = {} if ids is None else {"id": None}
    found = []
    for number, (tokens, scores) in enumerate(zip(TOKENS, SCORES, strict=True)):
        row: dict[str, Any] = {"tokens": tokens, "attributions": scores, "label": number, "predictions": [-1.0, 2.0]}
        found.append(row | ({"id": ids[number]} if key else {}) | changes)
    return found


class TestJsonLines:
    def test_scores_land_on_characters(self, tmp_path):
        maps = didact.read_explanations(lines(tmp_path / "x.jsonl", rows_of_json()), ROWS)
        assert landed(maps) == EXPECTED
        assert (maps.method, maps.kind, maps.task) == ("x", "signed", "classification")
        assert maps.options == {"format": "jsonl", "special_left_out": 4}
        assert maps.predictions == ("1", "1")
        assert maps[1].word_index.tolist() == [0, 1, 2, 3, 3]
        assert maps.words()[1].tokens == ("Café", ":", "not", "unbelievable")

    def test_what_came_in_is_saved_and_loaded(self, tmp_path):
        maps = didact.read_explanations(rows_of_json(), DATA, method="lig")
        assert (maps.method, maps.classes, maps.targets) == ("lig", ("bad", "good"), ("good", "good"))
        maps.save(tmp_path / "x.parquet")
        assert landed(didact.Explanations.load(tmp_path / "x.parquet")) == EXPECTED
        again = didact.read_explanations(tmp_path / "x.parquet", ROWS)
        assert landed(again) == EXPECTED
        with pytest.raises(DataError, match="row 'b': the data have no row of this id"):
            didact.read_explanations(tmp_path / "x.parquet", ROWS[:1])

    @pytest.mark.parametrize("form", ["packed", "list"])
    def test_other_forms(self, tmp_path, form):
        if form == "packed":
            source = tmp_path / "x.jsonl.gz"
            source.write_bytes(gzip.compress("\n".join(map(json.dumps, rows_of_json())).encode()))
        else:
            source = tmp_path / "x.json"
            source.write_text(json.dumps(rows_of_json(), indent=1))
        assert landed(didact.read_explanations(source, ROWS)) == EXPECTED

    def test_pairs(self):
        row = {"tokens": ["[CLS]", "a", "film", "[SEP]", "not", "good", "[SEP]"], "attributions": [0, 1, 2, 0, 3, 4, 0]}
        for segments in ({}, {"token_type_ids": [0, 0, 0, 0, 1, 1, 1]}, {"token_type_ids": [0] * 7}):
            maps = didact.read_explanations([row | {"id": "a"} | segments], PAIRS)
            assert maps.segments.tolist() == [0, 0, 1, 1]
            assert landed(maps) == [[("A", 1), ("film", 2), ("Not", 3), ("good", 4)]]
            assert maps.task == "pair"

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"attributions": [0.1, 0.2]}, "has 6 tokens and 2 scores"),
            ({"attributions": None}, "has no 'attributions'"),
            ({"attributions": ["a"] * 6}, "'attributions' must be numbers, got text"),
            ({"attributions": [None] * 6}, "'attributions' must be numbers, got None"),
            ({"attributions": [True] * 6}, "'attributions' must be numbers, got true and false"),
            ({"attributions": [[1.0], [2.0, 3.0]]}, "'attributions' must be one number per token, got lists"),
            ({"attributions": "many"}, "'attributions' must be numbers, got 'many'"),
            ({"attributions": [0, 0, np.nan, 0, 0, 0]}, "token 3 of 6, 'good', scores nan; scores must be finite"),
            ({"attributions": [0, float("inf"), 0, 0, 0, 0]}, "token 2 of 6, 'a', scores inf"),
            ({"tokens": None}, "has no 'tokens'; it has 'tokens', 'attributions'"),
            ({"tokens": "a good film"}, "'tokens' must be a list of tokens, got 'a good film'"),
            ({"tokens": ["a", 3]}, "'tokens' must contain only tokens, got 3"),
            (
                {"tokens": ["a", "bad", "film", ".", "x", "y"]},
                "token 2 of 6, 'bad', cannot be placed in the text: expected at character 2, where the text has 'A "
                "good film.'",
            ),
            ({"tokens": ["[CLS]"] * 6}, "none of its 6 tokens is in the text"),
            ({"id": "c"}, "the data have no row with this id; their ids are 'a', 'b'"),
            ({"id": "b"}, "the id is repeated, first in line 1"),
            ({"id": 1.5}, "'id' must be a text or an integer, got 1.5"),
            ({"id": None}, "has no id, but other rows have one"),
            ({"token_type_ids": [0, 0]}, "has 6 tokens and 2 segments"),
            ({"token_type_ids": [0, 0, 0, 1, 1, 1]}, "has tokens of segment 1 (counted from 0), and the row"),
            ({"token_type_ids": [0.5] * 6}, "'token_type_ids' must be integers, got 0.5"),
            ({"predictions": [float("nan"), 1.0]}, "'predictions' must be finite numbers, got [nan, 1.0]"),
        ],
    )  # fmt: skip
    def test_faults_are_told_by_file_row_and_reason(self, tmp_path, change, reason):
        first, second = rows_of_json()
        path = lines(tmp_path / "x.jsonl", [second, first | change])
        with pytest.raises(DataError) as caught:
            didact.read_explanations(path, ROWS)
        [fault] = caught.value.faults
        assert fault.startswith(f"{path} line 2")
        assert reason in fault

    def test_all_faults_are_told_at_once(self, tmp_path):
        first, second = rows_of_json()
        broken = [first | {"attributions": None}, '{"id": "a", "tok', second | {"tokens": ["x"] * 7}]
        path = lines(tmp_path / "x.jsonl", broken)
        with pytest.raises(DataError, match="none of it was loaded") as caught:
            didact.read_explanations(path, ROWS)
        assert [fault.removeprefix(f"{path} ")[:6] for fault in caught.value.faults] == ["line 2", "line 1", "line 3"]

    def test_without_ids_the_order_tells_if_all_rows_are_there(self, caplog):
        with caplog.at_level(logging.INFO, logger="didact"):
            assert landed(didact.read_explanations(rows_of_json(None), ROWS)) == EXPECTED
        assert "2 of 2 rows of the data, matched in the order of the data." in caplog.text
        assert "4 special tokens were left out with their scores." in caplog.text
        with pytest.raises(DataError, match="its 2 rows have no ids, but the data have 1 rows"):
            didact.read_explanations(rows_of_json(None), ROWS[:1])
        with pytest.raises(DataError, match="were matched in order. Check that the data have the same order"):
            didact.read_explanations(rows_of_json(None), ROWS[::-1])
        with pytest.raises(DataError, match="the data set has several splits. Choose a split"):
            didact.read_explanations(rows_of_json(None), DATA)


# ERASER


def marked(hard=None, soft=None, **more):
    one: dict[str, Any] = {"docid": "film.txt"}
    one |= {} if hard is None else {"hard_rationale_predictions": [{"start_token": s, "end_token": e} for s, e in hard]}
    one |= {} if soft is None else {"soft_rationale_predictions": soft}
    return {"annotation_id": "a", "rationales": [one]} | more


class TestEraser:
    def test_soft_scores(self, tmp_path):
        said = {"classification": "good", "classification_scores": {"bad": 0.2, "good": 0.8}}
        maps = didact.read_explanations(
            lines(tmp_path / "eraser.jsonl", [marked([(1, 2)], [0.1, 0.7, -0.2], **said)]), ROWS
        )
        assert landed(maps) == [[("A", 0.1), ("good", 0.7), ("film.", -0.2)]]
        assert (maps.kind, maps.method, maps.targets, maps.predictions) == ("signed", "eraser", ("good",), ("good",))

    def test_hard_marks(self, tmp_path):
        for record, kind in ((marked([(0, 1), (2, 3)]), None), (marked([(0, 1), (2, 3)], [0.1, 0.2, 0.3]), "binary")):
            maps = didact.read_explanations(lines(tmp_path / "x.jsonl", [record]), DATA, kind=kind)
            assert (maps.kind, landed(maps)) == ("binary", [[("A", 1.0), ("good", 0.0), ("film.", 1.0)]])
        assert landed(didact.read_explanations([marked([])], ROWS)) == [[("A", 0.0), ("good", 0.0), ("film.", 0.0)]]

    @pytest.mark.parametrize("names", [("x_premise", "x_hypothesis"), ("one", "two")])
    def test_pairs(self, names):
        rationales = [
            {"docid": n, "soft_rationale_predictions": s} for n, s in zip(names, ([1, 2], [3, 4]), strict=True)
        ]
        maps = didact.read_explanations([{"annotation_id": "a", "rationales": rationales}], PAIRS)
        assert landed(maps) == [[("A", 1), ("film", 2), ("Not", 3), ("good", 4)]]
        if names[0] == "one":
            with pytest.raises(DataError, match="rationales for 1 documents \\(one\\), but its row has 2 texts"):
                didact.read_explanations([{"annotation_id": "a", "rationales": rationales[:1]}], PAIRS)
        else:  # evidence in one text alone
            maps = didact.read_explanations([{"annotation_id": "a", "rationales": rationales[1:]}], PAIRS)
            assert landed(maps) == [[("Not", 3), ("good", 4)]]

    @pytest.mark.parametrize("kind", ["binary", None])
    def test_there_and_back(self, tmp_path, kind):
        maps = didact.read_explanations([marked([(1, 3)], None if kind else [0.5, 0.25, 1.5])], ROWS)
        didact.write_eraser(maps, tmp_path / "x.jsonl")
        again = didact.read_explanations(tmp_path / "x.jsonl", ROWS)
        assert landed(again) == landed(maps)
        assert again.kind == maps.kind == (kind or "magnitude")

    @pytest.mark.parametrize(
        ("record", "reason"),
        [
            ({"rationales": []}, "line 2: has no 'annotation_id'; it has 'rationales'"),
            ({"annotation_id": "a"}, "line 2: has no 'rationales'"),
            ({"annotation_id": "a", "rationales": 3}, "line 2: 'rationales' must be a list, got 3"),
            ({"annotation_id": "a", "rationales": [{"docid": "d"}]}, "line 2: the rationale of 'd' has neither"),
            ({"annotation_id": "a", "rationales": [{"hard_rationale_predictions": []}]}, "line 2: has no 'docid'"),
            (marked([(2, 4)]), "line 2 (row 'a'): marks the tokens 2 to 4 of a text of 3"),
            (marked([(1, 1)]), "marks the tokens 1 to 1 of a text of 3"),
            (marked([(0, 2), (1, 3)]), "marks some of the tokens 1 to 3 twice"),
            (marked([("0", 2)]), "marks the tokens '0' to 2"),
            (marked([(0, 1)], classification=3), "'classification' must be the name of a class, got 3"),
            (marked([(0, 1)], annotation_id="z"), "line 2 (row 'z'): the data have no row with this id"),
            ("[1, 2]", "line 2: must be an object, got [1, 2]"),
        ],
    )
    def test_faults(self, tmp_path, record, reason):
        path = lines(tmp_path / "x.jsonl", [marked([(0, 1)], annotation_id="b"), record])
        with pytest.raises(DataError) as caught:
            didact.read_explanations(path, ROWS)
        assert [reason in fault and str(path) in fault for fault in caught.value.faults] == [True]

    def test_soft_scores_are_for_all_rows_and_all_tokens(self):
        short = marked(soft=[0.1, 0.2])
        hard = marked([(0, 1)], annotation_id="b")
        with pytest.raises(DataError) as caught:
            didact.read_explanations([short, hard], ROWS)
        assert "2 soft scores for a text of 3 whitespace tokens" in caught.value.faults[0]
        assert "kind='binary' reads the hard marks of all" in caught.value.faults[1]


# inseq


def array(values, *, form="compact"):
    found = np.array(values, dtype=np.float32)
    if form == "plain":
        return found.tolist()
    content = found.tobytes()
    packed = {"packed": f"b64.gz:{base64.b64encode(gzip.compress(content)).decode()}", "lists": found.tolist()}
    data = packed.get(form, f"b64:{base64.b64encode(content).decode()}")
    return {"__ndarray__": data, "dtype": "float32", "shape": list(found.shape), "Corder": True}


def instance(name, fields, *, form):
    return fields if form == "plain" else {"__instance_type__": ["inseq.data.attribution", name], "attributes": fields}


def said(tokens, form):
    return [instance("TokenWithId", {"id": n, "token": token}, form=form) for n, token in enumerate(tokens)]


UNSEEN = float("nan")  # what inseq has where a step cannot look


def inseq(*, form="compact", **changes):
    """Encoder and decoder: attributions of (source token, generated step)."""
    matrix = [[0.1, 1.0], [0.7, 2.0], [0.2, 3.0], [0.0, 4.0], [0.5, 5.0]]
    fields = {
        "source": said(["▁A", "▁good", "▁film", ".", "</s>"], form), "target": said(["▁yes", "</s>"], form),
        "source_attributions": array(matrix, form=form),
        "target_attributions": None, "step_scores": {}, "sequence_scores": {}, "attr_pos_start": 0, "attr_pos_end": 2,
    }  # fmt: skip
    sequence = instance("FeatureAttributionSequenceOutput", fields | changes, form=form)
    info = {"attribution_method": "saliency", "model_name": "mini-mt", "input_texts": ["A good film."]}
    whole = {"sequence_attributions": [sequence], "step_attributions": None, "info": info}
    return instance("FeatureAttributionOutput", whole, form=form)


class TestInseq:
    @pytest.mark.parametrize("form", ["compact", "packed", "lists", "plain"])
    @pytest.mark.parametrize("is_packed", [True, False])
    def test_a_step_of_an_encoder_and_decoder(self, tmp_path, form, is_packed):
        path = tmp_path / ("x.json.gz" if is_packed else "x.json")
        content = json.dumps(inseq(form=form), indent=4).encode()
        path.write_bytes(gzip.compress(content) if is_packed else content)
        maps = didact.read_explanations(path, ROWS[:1], target=0)
        assert [token for token, _ in landed(maps)[0]] == ["A", "good", "film", "."]
        assert maps.scores.tolist() == pytest.approx([0.1, 0.7, 0.2, 0.0])
        assert (maps.method, maps.teacher, maps.targets, maps.predictions) == (
            "saliency", "mini-mt", ("▁yes",), ("yes</s>",),
        )  # fmt: skip
        assert didact.read_explanations(path, ROWS[:1], target=-1).scores.tolist() == [1, 2, 3, 4]
        mean = didact.read_explanations(path, ROWS[:1], target="mean")
        assert mean.scores.tolist() == pytest.approx([0.55, 1.35, 1.6, 2.0])

    def test_a_decoder(self, tmp_path):
        """Its target begins with the prompt; what comes after a step has no score."""
        fields = {
            "source": said(["A", "Ġgood"], "compact"), "target": said(["A", "Ġgood", "Ġfilm", "."], "compact"),
            "source_attributions": None, "target_attributions": array([[1, 2], [3, 4], [UNSEEN, 5], [UNSEEN, UNSEEN]]),
            "attr_pos_start": 2, "attr_pos_end": 4,
        }  # fmt: skip
        path = tmp_path / "x.json"
        path.write_text(json.dumps(inseq(**fields)))
        maps = didact.read_explanations(path, "A good", target=1)
        assert (landed(maps), maps.targets) == ([[("A", 2), ("good", 4)]], (".",))

    def test_source_and_target_of_a_pair(self, tmp_path):
        fields = {"source": said(["▁A", "▁film"], "compact"), "target": said(["▁Not", "▁good", "</s>"], "compact"),
                  "source_attributions": array([[1, 2, 3], [4, 5, 6]]),
                  "target_attributions": array([[UNSEEN, 7, 8], [UNSEEN, UNSEEN, 9], [UNSEEN] * 3])}  # fmt: skip
        path = tmp_path / "x.json"
        path.write_text(json.dumps(inseq(**fields)))
        maps = didact.read_explanations(path, PAIRS[:1], target=2)
        assert landed(maps) == [[("A", 3), ("film", 6), ("Not", 8), ("good", 9)]]
        assert landed(didact.read_explanations(path, PAIRS[:1], target=1)) == [[("A", 2), ("film", 5), ("Not", 7)]]
        mean = didact.read_explanations(path, PAIRS[:1], target="mean")
        assert (landed(mean), mean.targets) == (
            [[("A", 2), ("film", 5), ("Not", 7.5), ("good", 9)]], ("mean of all steps",),
        )  # fmt: skip

    def test_sequence_scores_by_name(self, tmp_path):
        path = tmp_path / "x.json"
        path.write_text(json.dumps(inseq(sequence_scores={"contrast": array([[5], [4], [3], [2], [1]])})))
        maps = didact.read_explanations(path, ROWS[:1], format="inseq(scores=contrast)")
        assert maps.scores.tolist() == [5, 4, 3, 2]
        with pytest.raises(DataError, match="sequence 1: has no sequence_scores 'other', but \\['contrast'\\]"):
            didact.read_explanations(path, ROWS[:1], format="inseq(scores=other)")

    def test_gradients_of_every_dimension_are_measured_by_their_length(self, tmp_path):
        sequence = inseq(source_attributions=array(np.tile([[[3.0, 4.0]]], (5, 1, 1))))
        sequence["attributes"]["sequence_attributions"][0]["__instance_type__"][1] = (
            "GranularFeatureAttributionSequenceOutput"
        )
        path = tmp_path / "x.json"
        path.write_text(json.dumps(sequence))
        assert didact.read_explanations(path, ROWS[:1]).scores.tolist() == [5.0] * 4

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({}, "sequence 1: has 2 generated steps ('▁yes', '</s>'): choose one by target=0 to 1, or target='mean'"),
            ({"source_attributions": None}, "has neither 'source_attributions' nor 'target_attributions'"),
            ({"source_attributions": array([[1.0], [2.0]])}, "has 5 tokens and attributions for 2"),
            ({"source_attributions": array(np.ones((5, 1, 2, 2)))}, "attributions of the shape (5, 1, 2, 2)"),
            ({"source_attributions": array([[1.0]] * 5) | {"shape": [9, 9]}}, "of the shape [9, 9] cannot be decoded"),
            ({"source_attributions": array(np.ones((5, 1))) | {"dtype": "object"}}, "numbers, got type 'object'"),
            ({"source_attributions": array(np.ones((5, 1))) | {"__ndarray__": "b64:&"}}, "cannot be decoded"),
            ({"source_attributions": array([[1.0]] * 2 + [[float("nan")]] * 3)}, "token 3 of 5, '▁film', scores nan"),
            ({"source": None}, "sequence 1: has no 'source'"),
            ({"source": [{"id": 1}]}, "has no 'token'"),
            (
                {"source": said(["▁A", "▁bad"], "compact"), "source_attributions": array([[1.0]] * 2)},
                "token 2 of 2, '▁bad', cannot be placed",
            ),
            ({"attr_pos_start": 7}, "'attr_pos_start' is 7, but there are 2 target tokens"),
        ],
    )  # fmt: skip
    def test_faults(self, tmp_path, change, reason):
        path = tmp_path / "x.json"
        path.write_text(json.dumps(inseq(**change), indent=1))
        with pytest.raises(DataError) as caught:
            didact.read_explanations(path, ROWS[:1])
        [fault] = caught.value.faults
        assert fault.startswith(f"{path} sequence 1")
        assert reason in fault

    def test_a_file_that_is_cut_off(self, tmp_path):
        path = tmp_path / "x.json"
        content = json.dumps(inseq(), indent=4)
        path.write_text(content[: len(content) // 2])
        with pytest.raises(DataError, match=f"{path} is cut off or broken: it is not valid JSON"):
            didact.read_explanations(path, ROWS[:1])
        path.write_bytes(gzip.compress(content.encode())[:-20])
        with pytest.raises(DataError, match="cut off, or its gzip data are damaged"):
            didact.read_explanations(path, ROWS[:1])
        path.write_text('{"x": 1}')
        with pytest.raises(DataError, match="is not a file of inseq: has no 'sequence_attributions'"):
            didact.read_explanations(path, ROWS[:1], format="inseq")

    def test_scores_saved_as_safetensors(self, tmp_path):
        from safetensors.numpy import save

        kept = {"attribution": np.ones((5, 1), dtype=np.float16)}
        path = tmp_path / "x.json"
        path.write_text(json.dumps(inseq(source_attributions=base64.b64encode(save(kept)).decode())))
        assert didact.read_explanations(path, ROWS[:1]).scores.tolist() == [1.0] * 4
        kept["scale"] = np.ones(1, dtype=np.float16)
        path.write_text(json.dumps(inseq(source_attributions=base64.b64encode(save(kept)).decode())))
        with pytest.raises(DataError, match="save with scores_precision='float32'"):
            didact.read_explanations(path, ROWS[:1])


# Arrays


def padded(value=0.0):
    return np.array([SCORES[0] + [value], SCORES[1]])


class TestArrays:
    def test_padded_and_end_to_end(self, tmp_path):
        words = np.array([TOKENS[0] + [""], TOKENS[1]])
        np.savez(tmp_path / "padded.npz", scores=padded(), tokens=words, ids=["a", "b"])
        flat = {"scores": np.concatenate(SCORES), "tokens": np.concatenate(TOKENS), "lengths": [6, 7]}
        np.savez(tmp_path / "flat.npz", **flat)
        for name in ("padded", "flat"):
            maps = didact.read_explanations(tmp_path / f"{name}.npz", ROWS)
            assert (landed(maps), maps.method) == (EXPECTED, name)

    @pytest.mark.parametrize("scores", [padded(9.0), torch.tensor(padded(9.0), requires_grad=True), SCORES], ids=type)
    def test_tensors_beside_lists(self, scores):
        """As captum gives them: scores on padding, too, which is left out."""
        maps = didact.read_explanations((scores, TOKENS), ROWS, method="lig", target="good")
        assert (landed(maps), maps.method, maps.targets) == (EXPECTED, "lig", ("good", "good"))
        maps = didact.read_explanations({"scores": scores, "tokens": TOKENS, "targets": np.array([1, 0])}, ROWS)
        assert maps.targets == ("1", "0")

    def test_captum(self):
        """Leaving a token out of a sum takes away what it adds."""
        captum = pytest.importorskip("captum.attr")
        weights = torch.arange(1.0, 9.0)
        ids = torch.tensor([[1, 2, 3, 4, 5, 0, 0], [1, 6, 4, 3, 2, 7, 5]])
        found = captum.FeatureAblation(lambda ids: weights[ids.long()].sum(1)).attribute(ids, baselines=0)
        maps = didact.read_explanations((found, TOKENS), ROWS)
        assert [row.scores.tolist() for row in maps] == [[2, 3, 4, 5], [6, 4, 3, 2, 7]]

    def test_tokens_beside_the_archive(self, tmp_path):
        np.savez(tmp_path / "x.npz", scores=padded())
        (tmp_path / "tokens.json").write_text(json.dumps(TOKENS))
        assert landed(didact.read_explanations(tmp_path / "x.npz", ROWS, tokens=tmp_path / "tokens.json")) == EXPECTED
        assert landed(didact.read_explanations(tmp_path / "x.npz", ROWS, tokens=TOKENS)) == EXPECTED
        with pytest.raises(DataError, match="has no 'tokens', so its scores cannot be placed in the texts"):
            didact.read_explanations(tmp_path / "x.npz", ROWS)

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"scores": padded()[:, :6]}, "row 1 (row 'a'): has 7 tokens and 6 scores"),
            ({"scores": np.full((2, 7), np.nan)}, "row 1 (row 'a'): token 2 of 7, 'a', scores nan"),
            ({"scores": np.ones((2, 9))}, "has 7 tokens and 9 scores, and the scores in the padding are not 0"),
            ({"scores": np.ones((2, 7, 4))}, "row 1 (row 'a'): scores must be one number per token, got the shape"),
            ({"scores": np.full((2, 7), "x")}, "scores must be numbers, got text"),
            ({"scores": np.ones((2, 7), dtype=bool)}, "scores must be numbers, got true and false"),
            ({"ids": np.array(["a", "z"])}, "row 2 (row 'z'): the data have no row with this id"),
            ({"ids": np.array(["a", "a"])}, "row 2 (row 'a'): the id is repeated, first in row 1"),
            ({"ids": np.array([0.5, 1.5])}, "'ids' must be a text or an integer, got 0.5"),
            ({"segments": np.zeros((2, 3), dtype=int)}, "has 7 tokens and 3 segments"),
        ],
    )  # fmt: skip
    def test_faults_of_rows(self, tmp_path, change, reason):
        path = tmp_path / "x.npz"
        words = np.array([TOKENS[0] + [""], TOKENS[1]])
        np.savez(path, **({"scores": padded(), "tokens": words, "ids": np.array(["a", "b"])} | change))
        with pytest.raises(DataError) as caught:
            didact.read_explanations(path, ROWS)
        fault = caught.value.faults[0]
        assert fault.startswith(f"{path} row")
        assert reason in fault

    @pytest.mark.parametrize(
        ("held", "reason"),
        [
            ({"scores": np.ones((2, 7)), "tokens": np.array([["a"]])}, "has scores for 2 rows, but tokens for 1"),
            ({"scores": np.ones(9), "tokens": np.full(9, "a"), "lengths": [4, 4]}, "'lengths' [4, 4] add up to 8"),
            ({"scores": np.ones((2, 7)), "tokens": np.full((2, 7), "a"), "ids": ["a"]}, "but 'ids' for 1"),
            ({"scores": np.ones((2, 7)), "words": np.full((2, 7), "a")}, "has 'scores', 'words'"),
            ({"scores": np.array([[1.0], [2.0, 3.0]], dtype=object)}, "didact never unpickles"),
        ],
    )
    def test_faults_of_archives(self, tmp_path, held, reason):
        path = tmp_path / "x.npz"
        np.savez(path, **held)
        with pytest.raises(DataError) as caught:
            didact.read_explanations(path, ROWS)
        assert reason in str(caught.value)
        assert str(path) in str(caught.value)

    def test_an_archive_that_is_cut_off(self, tmp_path):
        path = tmp_path / "x.npz"
        np.savez(path, scores=padded())
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(DataError, match=f"{path} cannot be read as an .npz archive; it may be cut off"):
            didact.read_explanations(path, ROWS)
        np.save(tmp_path / "x.npy", padded())
        with pytest.raises(DataError, match="is one bare array. Save arrays by name"):
            didact.read_explanations(tmp_path / "x.npy", ROWS)


# shap


@dataclass
class Explanation:
    """What shap's own class has, and no more."""

    values: Any
    data: Any
    base_values: Any = None
    output_names: Any = None


PARTS = [["", "A ", "good ", "film", ".", ""], ["", "Café", ": ", "not ", "un", "believable", ""]]
CLASSES = ["bad", "good"]


def ragged(parts):
    found = np.empty(len(parts), dtype=object)
    found[:] = parts
    return found


class TestShap:
    def both(self):
        return [np.stack([-np.array(scores), np.array(scores)], axis=1) for scores in SCORES]

    def test_a_class_by_name_or_number(self):
        for values in (self.both(), ragged(self.both())):
            whole = Explanation(values, tuple(map(np.array, PARTS)), np.zeros((2, 2)), CLASSES)
            for target in ("good", 1):
                maps = didact.read_explanations(whole, ROWS, target=target)
                assert (landed(maps), maps.targets, maps.method) == (EXPECTED, ("good", "good"), "shap")
            assert didact.read_explanations(whole, ROWS, target="bad").scores.tolist() == [
                -score for row in EXPECTED for _, score in row
            ]

    def test_the_predicted_class_unless_told(self):
        bases = np.array([[50.0, 0.0], [0.0, 0.0]])
        maps = didact.read_explanations(Explanation(self.both(), PARTS, bases, CLASSES), ROWS)
        assert maps.targets == maps.predictions == ("bad", "good")
        with pytest.raises(
            DataError, match="row 1: has scores for the classes 'bad', 'good', but no finite 'base_values'"
        ):
            didact.read_explanations(Explanation(self.both(), PARTS, None, CLASSES), ROWS, format="shap")
        with pytest.raises(OptionError, match="There is no class named 'fine'"):
            didact.read_explanations(Explanation(self.both(), PARTS, None, CLASSES), ROWS, target="fine")
        with pytest.raises(DataError, match="row 1: has no class 2, only 0, 1"):
            didact.read_explanations(Explanation(self.both(), PARTS), ROWS, target=2)

    def test_one_output_and_one_row(self):
        assert (
            landed(didact.read_explanations(Explanation(ragged(list(map(np.array, SCORES))), PARTS), ROWS)) == EXPECTED
        )
        one = Explanation(self.both()[0], np.array(PARTS[0]), np.zeros(2), CLASSES)
        assert landed(didact.read_explanations(one, ROWS[:1], target="good")) == EXPECTED[:1]

    def test_an_archive(self, tmp_path):
        values = np.zeros((2, 7, 2))
        values[0, :6], values[1] = self.both()
        words = np.array([[*PARTS[0], ""], PARTS[1]])
        np.savez(tmp_path / "x.npz", values=values, data=words, base_values=np.zeros((2, 2)), output_names=CLASSES)
        assert landed(didact.read_explanations(tmp_path / "x.npz", ROWS, target="good")) == EXPECTED

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"values": [np.ones(3), np.ones(7)]}, "row 1 (row 'a'): has 6 tokens and 3 scores"),
            ({"values": [np.ones((6, 2, 2)), np.ones(7)]}, "row 1: values must be tokens × classes, got the shape"),
            ({"values": [["x"] * 6, np.ones(7)]}, "row 1: values must be numbers, got text"),
            ({"values": [np.full(6, np.nan), np.ones(7)]}, "row 1 (row 'a'): token 2 of 6, 'A ', scores nan"),
            ({"data": [["", "A ", "bad ", "", "", ""], PARTS[1]]}, "row 1 (row 'a'): token 3 of 6, 'bad ', cannot be"),
            ({"data": [[1, 2, 3, 4, 5, 6], PARTS[1]]}, "row 1: 'data' must contain only tokens, got 1"),
            ({"values": [np.ones((6, 2)), np.ones(7)]}, "row 1: values have 2 classes, but 'output_names' has 1"),
        ],
    )  # fmt: skip
    def test_faults(self, change, reason):
        whole = {"values": [np.ones(6), np.ones(7)], "data": PARTS, "base_values": None, "output_names": ["x"]} | change
        with pytest.raises(DataError) as caught:
            didact.read_explanations(Explanation(**whole), ROWS)
        assert f"The shap object {reason}" in caught.value.faults[0]


# captum


def records(**changes):
    visualization = pytest.importorskip("captum.attr").visualization
    fields = {"pred_prob": 0.9, "pred_class": 1, "true_class": 0, "attr_class": 0, "attr_score": 1.0}
    return [
        visualization.VisualizationDataRecord(
            torch.tensor(scores), raw_input_ids=tokens, convergence_score=0.01, **(fields | changes)
        )
        for scores, tokens in zip(SCORES, TOKENS, strict=True)
    ]


class TestCaptumRecords:
    def test_lists_and_single_records(self):
        maps = didact.read_explanations(records(), ROWS, method="lig")
        assert [[(word, round(score, 6)) for word, score in row] for row in landed(maps)] == EXPECTED
        assert (maps.method, maps.targets, maps.predictions) == ("lig", ("0", "0"), ("1", "1"))
        alone = didact.read_explanations(records()[0], ROWS[:1])
        assert len(alone) == 1
        assert alone.method == "captum"

    @pytest.mark.parametrize(
        ("given", "wanted"), [(0, "bad"), ("good", "good"), ("1", "good"), (torch.tensor(1), "good"), (1.0, "good")]
    )
    def test_classes_by_name_or_number(self, given, wanted):
        maps = didact.read_explanations(
            records(attr_class=given), Dataset("x", CLASSIFICATION, {"test": Split("test", ROWS)}, ("bad", "good"))
        )
        assert maps.targets == (wanted, wanted)

    def test_faults(self):
        broken = records()
        broken[1].word_attributions = torch.ones(7, 2)
        with pytest.raises(DataError) as caught:
            didact.read_explanations(broken, ROWS)
        assert "record 2: 'word_attributions' must be one number per token, got" in caught.value.faults[0]
        with pytest.raises(DataError) as caught:
            didact.read_explanations([*records()[:1], None], ROWS)
        assert "record 2: must be a VisualizationDataRecord, got None" in caught.value.faults[0]
        with pytest.raises(DataError) as caught:
            didact.read_explanations(records(attr_class=[1]), ROWS)
        assert "'attr_class' must be the name or number of a class, got [1]" in caught.value.faults[0]


@pytest.mark.parametrize("scores", [padded(), torch.tensor(padded()), SCORES, [1.0, 2.0], [torch.ones(3)]], ids=type)
def test_scores_alone_are_asked_for_their_tokens(scores):
    with pytest.raises(OptionError, match=r"Pass \(scores, tokens\), with one list of tokens per row"):
        didact.read_explanations(scores, ROWS)


def test_scores_alone_with_their_tokens_beside():
    assert landed(didact.read_explanations(torch.tensor(padded()), ROWS, tokens=TOKENS)) == EXPECTED


class TestTargets:
    """What is explained, where the source does not say."""

    def test_is_the_teachers_prediction(self):
        teacher = didact.teacher_from_function(
            lambda texts: np.array([[0.9, 0.1] if "good" in text else [0.2, 0.8] for text in texts]), ["yes", "no"]
        )
        maps = didact.read_explanations((SCORES, TOKENS), ROWS, teacher=teacher)
        assert maps.targets == maps.predictions == ("yes", "no")
        assert didact.read_explanations((SCORES, TOKENS), ROWS, teacher=teacher, target="no").targets == ("no", "no")
        marks = [[0, 1, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0, 0]]
        assert didact.read_explanations((marks, TOKENS), ROWS, kind="binary", teacher=teacher).targets == ("", "")

    def test_is_unknown_without_a_teacher_and_agree_says_so(self):
        theirs = didact.read_explanations((SCORES, TOKENS), ROWS, method="theirs")
        ours = didact.read_explanations((SCORES, TOKENS), ROWS, method="ours", target="good")
        assert theirs.targets == ("", "")
        notes = didact.agree([theirs, ours]).notes
        assert any(note.startswith("Target unknown: theirs. ") for note in notes)
        assert not any("same target" in note for note in notes)
        assert not any("arget" in note for note in didact.agree([theirs, replace(theirs, method="again")]).notes)


# The front door


class TestClassesByNumber:
    """A number counts the outputs of the teacher that was explained, whatever the data call them."""

    def teacher(self, *classes):
        return didact.teacher_from_function(lambda texts: np.full((len(texts), len(classes)), 0.5), classes=classes)

    def test_named_by_the_teacher_else_by_the_data(self):
        assert didact.read_explanations(rows_of_json(), DATA).targets == ("good", "good")
        maps = didact.read_explanations(rows_of_json(), DATA, teacher=self.teacher("good", "bad"))
        assert (maps.targets, maps.predictions, maps.classes) == (("bad", "bad"), ("bad", "bad"), ("good", "bad"))
        assert didact.read_explanations(rows_of_json(), ROWS, teacher=self.teacher("no", "yes")).targets == (
            "yes",
            "yes",
        )
        assert didact.read_explanations(rows_of_json(), DATA, target=0, teacher=self.teacher("x", "y")).targets == (
            "x",
            "x",
        )
        assert (
            didact.read_explanations(rows_of_json(), DATA, target="good", teacher=self.teacher("x", "y")).targets[0]
            == "good"
        )

    def test_other_names_are_told(self, caplog):
        didact.read_explanations(rows_of_json(), DATA, teacher=self.teacher("bad", "good"))
        silent = [row | {"predictions": None} for row in rows_of_json()]
        didact.read_explanations(silent, DATA, teacher=self.teacher("good", "bad"))
        assert not caplog.text
        didact.read_explanations(rows_of_json(), DATA, teacher=self.teacher("good", "bad"))
        assert (
            "class numbers are read as the teacher's classes (good, bad), which differ from those of the data"
            in caplog.text
        )


class TestDoor:
    def test_kinds(self):
        positive = [row | {"attributions": np.abs(row["attributions"]).tolist()} for row in rows_of_json()]
        assert didact.read_explanations(positive, ROWS).kind == "magnitude"
        assert didact.read_explanations(positive, ROWS, kind="signed").kind == "signed"
        with pytest.raises(
            DataError, match="row 2 .row 'b'.: token 4 of 7, 'not', scores -0.5; .* must not be negative"
        ):
            didact.read_explanations(rows_of_json(), ROWS, kind="magnitude")
        with pytest.raises(DataError, match="scores 0.1; marks .kind 'binary'. must be 0 or 1"):
            didact.read_explanations(positive, ROWS, kind="binary")
        with pytest.raises(OptionError, match="no kind named 'sign'. Did you mean 'signed'"):
            didact.read_explanations(rows_of_json(), ROWS, kind="sign")

    def test_a_format_nobody_can_tell(self, tmp_path):
        path = tmp_path / "x.json"
        path.write_text('{"what": 1}')
        with pytest.raises(
            OptionError,
            match="has an unknown format. .*'eraser', 'inseq', 'jsonl', 'arrays', 'shap' or 'captum'",
        ):
            didact.read_explanations(path, ROWS)
        with pytest.raises(OptionError, match="An object of type int has an unknown format"):
            didact.read_explanations(3, ROWS)
        with pytest.raises(UnknownNameError, match="no format named 'erasr'. Did you mean 'eraser'"):
            didact.read_explanations(path, ROWS, format="erasr")
        with pytest.raises(OptionError, match="no option of format 'eraser' named 'x'"):
            didact.read_explanations(path, ROWS, format="eraser(x=1)")

    def test_files_that_are_not_there_or_empty(self, tmp_path):
        with pytest.raises(OptionError, match="There is no file or folder"):
            didact.read_explanations(tmp_path / "none.jsonl", ROWS)
        empty = tmp_path / "empty.jsonl"
        empty.write_text("\n")
        for chosen in (None, "eraser", "jsonl", "inseq"):
            with pytest.raises(DataError, match=f"{empty} is empty"):
                didact.read_explanations(empty, ROWS, format=chosen)
        (tmp_path / "empty.json").write_text("[]")
        with pytest.raises(DataError, match="contains no rows"):
            didact.read_explanations(tmp_path / "empty.json", ROWS, format="jsonl")
        with pytest.raises(DataError, match="is a folder. Name the file that holds the explanations"):
            didact.read_explanations(tmp_path, ROWS)

    def test_nothing_is_unpickled(self, tmp_path):
        torch.save(torch.ones(2), tmp_path / "x.pt")
        with pytest.raises(DataError, match="x.pt looks pickled, and didact never unpickles"):
            didact.read_explanations(tmp_path / "x.pt", ROWS)

    def test_bytes_that_are_no_text(self, tmp_path):
        (tmp_path / "x.jsonl").write_bytes(b'{"id": "a"}\n{"id": "\xff"}')
        with pytest.raises(DataError, match="x.jsonl line 2: byte 21 of the file is not UTF-8"):
            didact.read_explanations(tmp_path / "x.jsonl", ROWS)

    def test_a_table_that_didact_did_not_write(self, tmp_path):
        parquet.write_table(pyarrow.Table.from_pylist(rows_of_json()), tmp_path / "x.parquet")
        with pytest.raises(DataError, match="x.parquet was not written by didact, or is damaged. .*JSON lines"):
            didact.read_explanations(tmp_path / "x.parquet", ROWS)

    def test_images_and_splits_that_disagree_are_refused(self):
        image = Row("i", image=np.zeros((4, 4, 3), dtype=np.uint8))
        with pytest.raises(OptionError, match="Explanations of images cannot be read"):
            didact.read_explanations(rows_of_json(), [image])
        twice = Dataset("x", CLASSIFICATION, {"dev": Split("dev", ROWS), "test": Split("test", [Row("a", ("Other",))])})
        with pytest.raises(OptionError, match="Two splits of 'x' have different rows named 'a'"):
            didact.read_explanations(rows_of_json(), twice)

    def test_tasks_are_told_by_rows_or_by_name(self):
        rated = [Row("a", PAIRS[0].texts, label=0.5)]
        row = {"id": "a", "tokens": ["a", "film", "not", "good"], "attributions": [1, 2, 3, 4]}
        assert didact.read_explanations([row], rated).task == "regression"
        assert didact.read_explanations([row], PAIRS[:1]).task == "pair"
        assert didact.read_explanations([row], PAIRS[:1], task="reading").task == "reading"


STRANGE = (
    None,
    "",
    0,
    -1,
    1.5,
    True,
    [],
    {},
    "x",
    [1],
    ["a"],
    {"a": 1},
    float("nan"),
    10**30,
    [[]],
    [None],
    "b64:AAAA",
)


def changed(value, draw):
    """One value inside, at any depth, gone or replaced by something strange."""
    places = []

    def look(inside):
        for key in inside if isinstance(inside, dict) else range(len(inside)) if isinstance(inside, list) else ():
            places.append((inside, key))
            look(inside[key])

    value = copy.deepcopy(value)
    look(value)
    inside, key = draw.choice(places)
    if draw.random() < 0.3:
        del inside[key]
    else:
        inside[key] = copy.deepcopy(draw.choice(STRANGE))
    return value


@pytest.mark.parametrize("form", ["jsonl", "eraser", "inseq", "arrays", "shap"])
def test_whatever_a_value_is_replaced_by_it_is_read_or_refused(tmp_path, form):
    both = [[[-score, score] for score in row] for row in SCORES]
    whole = {
        "jsonl": rows_of_json(),
        "eraser": [marked([(0, 1)], [0.1, 0.2, 0.3], classification="good"), marked([], [0, 0, 0], annotation_id="b")],
        "inseq": inseq(sequence_scores={"c": array([[1.0]] * 5)}),
        "arrays": {"scores": SCORES, "tokens": TOKENS, "ids": ["a", "b"], "segments": [[0] * 6, [0] * 7]},
        "shap": {"values": both, "data": PARTS, "base_values": [[0, 0], [0, 0]], "output_names": CLASSES},
    }[form]  # fmt: skip
    draw, told = random.Random(0), {"read": 0, "refused": 0}
    for _ in range(300):
        source = changed(whole, draw)
        if form == "shap":
            source = SimpleNamespace(**source)
        elif form == "inseq":
            (tmp_path / "x.json").write_text(json.dumps(source))
            source = tmp_path / "x.json"
        try:
            didact.read_explanations(source, ROWS[:1] if form == "inseq" else ROWS, format=form, target=0)
            told["read"] += 1
        except RequestError:
            told["refused"] += 1
    assert min(told.values()) > 10


def test_the_page_shows_what_works(tmp_path, monkeypatch, capsys):
    """Its examples, one after another."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "bring-your-own.md").read_text(encoding="utf-8")
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), {})
    assert "good" in capsys.readouterr().out
    maps = didact.Explanations.load("maps.parquet")
    assert landed(maps)[1] == [("Not", -4), ("my", 0), ("ca", 1), ("fé", 1), ("!", 0)]
    bad = Path("scores.jsonl").read_text(encoding="utf-8").replace('"ca"', '"tea"')
    Path("scores.jsonl").write_text(bad, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        didact.read_explanations("scores.jsonl", [Row("r1", ("A good film.",)), Row("r2", ("Not my café!",))])
    assert str(caught.value) in page
