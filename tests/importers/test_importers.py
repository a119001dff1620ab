"""Foreign tokens found in a text by their letters, whatever a tokenizer did to them; ERASER written as it is read."""

import json

import numpy as np
import pytest

from didact.core.row import Row
from didact.data import fields
from didact.errors import DataError, OptionError, ShapeError
from didact.importers import FORMATS
from didact.importers.align import AlignmentFault, align
from didact.importers.align_rows import align_rows
from didact.importers.eraser import read, write_eraser
from didact.importers.parsed import ImportOptions
from didact.results.explanations import Explanations
from results.test_explanations import maps, pictures
from tiny import byte_tokenizer, wordpiece_tokenizer


def found(tokens, *texts, segments=None):
    """What stands where each token was placed; None for special ones."""
    places = align(tokens, texts, segments)
    return [None if place is None else texts[place.segment][place.start : place.end] for place in places]


def rows_of(explanations):
    return [Row(row.id, row.texts) for row in explanations]


def texts_of(tokens, *texts, segments=None):
    return [None if place is None else place.segment for place in align(tokens, texts, segments)]


class TestAlign:
    @pytest.mark.parametrize(
        ("tokens", "text", "expected"),
        [
            (
                ["[CLS]", "un", "##believ", "##ably", "good", ".", "[SEP]", "[PAD]"],
                "Unbelievably  good.",
                [None, "Un", "believ", "ably", "good", ".", None, None],
            ),
            (["<s>", "Ġcaf", "Ã©", "Ġis", "Ġok", "</s>"], " café is ok", [None, "caf", "é", "is", "ok", None]),
            (["it", "âĢ", "Ļ", "s"], "it’s", ["it", "’", "’", "s"]),  # one character in two tokens
            (["▁Caf", "é", "▁", "<0xE2>", "<0x82>", "<0xAC>", "</s>"], "Café €", ["Caf", "é", "", "€", "€", "€", None]),
            (["cafe", "strasse", "istanbul"], "Café Straße İstanbul", ["Café", "Straße", "İstanbul"]),
            (["ete"], "e\u0301te\u0301", ["e\u0301te\u0301"]),  # accents that stand alone go with their letter
            (["f", "##i", "##lm"], "ﬁlm", ["ﬁ", "ﬁ", "lm"]),  # a ligature in two pieces
            (["the</w>", "fi@@", "lm"], "The film", ["The", "fi", "lm"]),
            (["", "A ", "good ", "film", ""], "A good film", [None, "A", "good", "film", None]),  # as shap has them
            (["good", "film", "yes"], "“Good” film – yes!", ["Good", "film", "yes"]),  # words alone
            (["##", "#", "x"], "## # x", ["##", "#", "x"]),  # the text's own signs are no marks
            (["good", "[SEP]", "x"], "good [SEP] x", ["good", "[SEP]", "x"]),
            (["a", "[UNK]", "[UNK]", "x"], "a 魑魅 x", ["a", "魑", "魅", "x"]),
            (["<unk>", "good"], "★good", ["★", "good"]),
            (["a", "[MASK]", "film"], "a good film", ["a", "good", "film"]),
            (["Hello", "\n", "World"], "hello\n\nworld", ["hello", "", "world"]),
            (["good"], "Good film, cut short", ["Good"]),
        ],
    )  # fmt: skip
    def test_tokens_of_many_vocabularies(self, tokens, text, expected):
        assert found(tokens, text) == expected

    @pytest.mark.parametrize("tokenizer", [wordpiece_tokenizer(), byte_tokenizer()], ids=["wordpiece", "bytes"])
    def test_the_places_are_the_tokenizers_own(self, tokenizer):
        text = "a Good  film, un unbelievable plot!" if tokenizer.unk_token else "Große façade – it’s 😀 good"
        coded = tokenizer(text, return_offsets_mapping=True)
        places = align(tokenizer.convert_ids_to_tokens(coded["input_ids"]), [text])
        own = [text[start:end].strip() for start, end in coded["offset_mapping"]]
        assert ["" if place is None else text[place.start : place.end] for place in places] == own

    @pytest.mark.parametrize(
        "tokens",
        [
            ["[CLS]", "a", "film", "[SEP]", "not", "good", "[SEP]"],
            ["<s>", "A", "Ġfilm", "</s>", "</s>", "Not", "Ġgood", "</s>"],
            ["[PAD]", "[CLS]", "a", "film", "[SEP]", "not", "good"],
            ["a", "film", "not", "good"],  # nothing parts them but the end of the first
        ],
    )
    def test_two_texts_are_parted_by_special_tokens(self, tokens):
        assert [one for one in texts_of(tokens, "A film.", "Not good") if one is not None] == [0, 0, 1, 1]

    def test_segments_tell_the_text(self):
        tokens, segments = ["[CLS]", "good", "[SEP]", "good", "[SEP]"], [0, 0, 0, 1, 1]
        assert texts_of(tokens, "good and long", "good", segments=segments) == [None, 0, None, 1, None]
        assert texts_of(["good", "good"], "good good", "good", segments=[-1, 0]) == [None, 0]

    def test_a_token_that_is_not_there(self):
        with pytest.raises(
            AlignmentFault, match="token 3 of 3, '##lim', cannot be placed in the text: expected at character 7"
        ):
            align(["a", "good", "##lim"], ["A good film, I say"])
        with pytest.raises(AlignmentFault, match="token 2 of 2, 'end', .* the text ends before it, with …'good.'"):
            align(["good", "end"], ["good."])
        with pytest.raises(AlignmentFault, match="token 4 of 4, 'bad', cannot be placed in text 2"):
            align(["a", "[SEP]", "not", "bad"], ["a film", "not good"])

    def test_letters_are_never_passed_over(self):
        with pytest.raises(AlignmentFault):
            align(["good", "film"], ["good old film"])


class TestEraser:
    """Written by hand after the format that the benchmark's scorer reads."""

    def test_what_is_written(self, tmp_path):
        write_eraser(maps(), tmp_path / "x.jsonl", k=1)
        lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
        assert [line["annotation_id"] for line in lines] == ["r0", "r1", "r2"]
        first, second = lines[0]["rationales"]
        assert (first["docid"], second["docid"]) == ("r0_first", "r0_second")
        # "Unbelievably" has three pieces, "good." a word and a dot, "So-so" is one token between spaces.
        assert first["soft_rationale_predictions"] == pytest.approx([-0.5 + 0.3 - 0.0, 2.0 + 1e-300])
        assert second["soft_rationale_predictions"] == pytest.approx([0.25 - 2.0 + 0.1])
        assert first["hard_rationale_predictions"] == [{"start_token": 1, "end_token": 2}]
        assert second["hard_rationale_predictions"] == []
        assert "classification" not in lines[0]  # the scorer wants a class only with probabilities

    def test_a_class_comes_with_the_probabilities_of_all(self, tmp_path):
        write_eraser(maps(), tmp_path / "x.jsonl", probabilities=np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]))
        lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
        assert [line["classification"] for line in lines] == ["no", "no", "yes"]
        assert lines[0]["classification_scores"] == {"no": 0.9, "yes": 0.1}
        with pytest.raises(ShapeError, match="3 rows with the classes"):
            write_eraser(maps(), tmp_path / "y.jsonl", probabilities=np.ones((3, 3)))
        with pytest.raises(OptionError, match="images"):
            write_eraser(pictures(), tmp_path / "y.jsonl")

    @pytest.mark.parametrize("kind", ["signed", "magnitude", "distribution", "binary"])
    def test_what_is_written_is_read_again(self, tmp_path, kind):
        whole = on_tokens(kind)
        write_eraser(whole, tmp_path / "x.jsonl")
        rows = rows_of(whole)
        again = align_rows(read(tmp_path / "x.jsonl", "x", rows, ImportOptions()), rows)
        assert again.tokens == whole.tokens
        assert again.offsets.tolist() == whole.offsets.tolist()
        assert again.scores.tolist() == whole.scores.tolist()

    @pytest.mark.parametrize("kind", ["signed", "distribution"])
    def test_a_unit_over_several_tokens_is_shared_by_characters(self, tmp_path, kind):
        one = on_tokens(kind, ("So long",), [(0, 0, 7)], [0.6])
        write_eraser(one, tmp_path / "x.jsonl")
        [rationale] = json.loads((tmp_path / "x.jsonl").read_text())["rationales"]
        assert rationale == {"docid": "r0", "soft_rationale_predictions": pytest.approx([0.2, 0.4])}


def on_tokens(kind, texts=("A good – film!", "Not bad"), places=None, scores=None):
    """Scores on the tokens that ERASER counts."""
    places = places or [place for segment, text in enumerate(texts) for place in fields.tokens(text, segment)]
    scores = (
        scores
        or {
            "signed": [0.1, -2.5, 0.0, 1 / 3, 1e-9, 7.0],
            "magnitude": [0.1, 2.5, 0.0, 1 / 3, 1e-9, 7.0],
            "distribution": [0.1, 0.2, 0.3, 0.1, 0.2, 0.1],
            "binary": [0.0, 1.0, 1.0, 0.0, 0.0, 1.0],
        }[kind]
    )
    return Explanations(
        method="mine",
        kind=kind,
        options={},
        task="pair" if len(texts) == 2 else "classification",
        classes=None,
        teacher="",
        fingerprints={},
        ids=("r0",),
        texts=(texts,),
        bounds=np.array([0, len(places)]),
        tokens=tuple(texts[segment][start:end] for segment, start, end in places),
        segments=np.array([place[0] for place in places]),
        word_index=np.zeros(len(places), dtype=np.int64),
        offsets=np.array([place[1:] for place in places]),
        scores=np.array(scores),
        targets=("",),
        predictions=("",),
        residuals=np.full(1, np.nan),
    )


def test_every_format_can_be_loaded():
    assert {name: callable(FORMATS.load(name)) for name in FORMATS} == dict.fromkeys(FORMATS, True)


def test_all_faults_of_a_file_at_once(tmp_path):
    lines = ['{"annotation_id": "r0"}', "{", '{"annotation_id": "r9", "rationales": []}']
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    rows = rows_of(on_tokens("signed"))
    with pytest.raises(DataError) as caught:
        align_rows(read(tmp_path / "x.jsonl", "x.jsonl", rows, ImportOptions()), rows)
    assert [fault.partition(":")[0] for fault in caught.value.faults] == [
        "x.jsonl line 2", "x.jsonl line 1", "x.jsonl line 3 (row 'r9')",
    ]  # fmt: skip
