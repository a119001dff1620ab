"""Aligned phrases, where the attention between question and passage is set by hand, and against the literal loops."""

import itertools

import numpy as np
import pytest
import torch

from didact.core.row import Row, Span
from didact.core.target import Target
from didact.core.trace import Trace
from didact.core.words import words
from didact.errors import OptionError, UnsupportedError
from didact.explainers.attention_alignment import AttentionAlignment, alphanumeric_words, mutual_phrases
from didact.models.huggingface import HuggingFaceModel
from didact.models.tokenizer import WordTokenizer
from teachers import examples, teacher
from tiny import huggingface

QUESTION, PASSAGE = "who hits the big drum ?", "anna sings . then ben hits the big drum ."
ROWS = [Row("long", (QUESTION, PASSAGE)), Row("short", ("is it bad ?", "bad , very bad"))]
TARGET = Target.span(torch.tensor([0, 0]), torch.tensor([0, 0]))


def place(batch, row, segment, word):
    """The positions of a word of the text."""
    return ((batch.segments[row] == segment) & (batch.words[row] == word)).nonzero()[:, 0].tolist()


def attending(monkeypatch, model, links, *, layers=2):
    """The model attends evenly, and more so along the links: {row id: {(segment, word, segment, word): weight}}.

    `links` are those of the last layer; all others attend evenly.
    """

    def run(_, batch, **__):
        logits = torch.zeros(len(batch), layers, 4, *[batch.tokens.shape[1]] * 2, dtype=torch.float64)
        for row, name in enumerate(batch.ids):
            for (source, first, goal, second), weight in links.get(name, {}).items():
                for query, key in itertools.product(place(batch, row, source, first), place(batch, row, goal, second)):
                    logits[row, -1, :, query, key] = np.log(weight)
        seen = batch.mask[:, None, None, :, None] & batch.mask[:, None, None, None, :]
        empty = torch.zeros(len(batch), 2, batch.tokens.shape[1], dtype=torch.float64)
        return Trace(empty, full=logits.masked_fill(~seen, -torch.inf))

    monkeypatch.setattr(model, "run", run)


def texts(row, found):
    return [(row.text_of(first), row.text_of(second)) for first, second in found]


def native():
    model = teacher("native", "reading")
    return model, model.encode(ROWS)


class TestByHand:
    @pytest.mark.parametrize("layers", ["last", "all"])
    @pytest.mark.parametrize("towards", ["passage", "question"])
    def test_neighbours_are_one_phrase(self, monkeypatch, layers, towards):
        model, batch = native()
        # "hits" with "hits", "the" with "the", "big" with "big"; "who" with "anna" on its own, and weaker; "drum" would
        # like "hits", who has a better one.
        pairs = {(1, 5): 40.0, (2, 6): 30.0, (3, 7): 30.0, (0, 0): 20.0, (4, 5): 5.0}
        links = {
            (0, first, 1, second) if towards == "passage" else (1, second, 0, first): weight
            for (first, second), weight in pairs.items()
        }
        attending(monkeypatch, model, {"long": links, "short": {(0, 2, 1, 3): 9.0}})
        found = AttentionAlignment(layers=layers, pairs=2)(model, batch, TARGET)
        assert texts(ROWS[0], found.alignments[0]) == [("who", "anna"), ("hits the big", "hits the big")]
        assert ("bad", "bad") in texts(ROWS[1], found.alignments[1])
        assert (Span(0, 6, 9), Span(1, 11, 14)) in found.alignments[1], "the second of two equal words"
        marked = {(0, word) for word in (0, 1, 2, 3)} | {(1, word) for word in (0, 5, 6, 7)}
        for position in range(batch.tokens.shape[1]):
            key = int(batch.segments[0, position]), int(batch.words[0, position])
            assert found.scores[0, position] == (key in marked), key
        one = AttentionAlignment(layers=layers, pairs=1)(model, batch, TARGET)
        assert texts(ROWS[0], one.alignments[0]) == [("hits the big", "hits the big")], "the strongest stays"

    def test_signs_are_no_words(self, monkeypatch):
        model, batch = native()
        attending(monkeypatch, model, {"long": {(0, 5, 1, 2): 99.0, (0, 4, 1, 8): 5.0}})
        found = AttentionAlignment(pairs=1)(model, batch, TARGET)
        assert texts(ROWS[0], found.alignments[0]) == [("drum", "drum")]

    def test_even_attention_still_gives_one_pair(self, monkeypatch):
        model, batch = native()
        attending(monkeypatch, model, {})
        found = AttentionAlignment()(model, batch, TARGET)
        assert all(found.alignments)
        assert (found.scores.sum(-1) >= 2).all()

    def test_texts_of_signs_alone_have_nothing_to_align(self, monkeypatch):
        model = teacher("native", "reading")
        batch = model.encode([Row("signs", ("? !", "bad , very bad"))])
        attending(monkeypatch, model, {})
        found = AttentionAlignment()(model, batch, TARGET)
        assert found.alignments == ((),)
        assert (found.scores == 0).all()


class TestPhrases:
    def test_each_others_best_only(self):
        # 0 likes 1, but 1 likes 2 more; 2 and 1 choose each other.
        ties = np.array([[0.1, 0.5, 0.2], [0.3, 0.2, 0.1], [0.2, 0.9, 0.4]])
        assert mutual_phrases(ties, [0, 2, 4], [0, 2, 4]) == [[(1, 0)], [(2, 1)]]

    def test_words_without_a_tie_are_no_pair(self):
        ties = np.zeros((3, 3))
        assert mutual_phrases(ties, [0, 1, 2], [0, 1, 2]) == [[(0, 0)]], "unless there is nothing else"
        ties[1, 2] = 0.1
        assert mutual_phrases(ties, [0, 1, 2], [0, 1, 2]) == [[(1, 2)]]

    @pytest.mark.parametrize(
        ("pairs", "question", "passage", "expected"),
        [
            ([(0, 0), (1, 1), (2, 2)], [0, 1, 2], [0, 1, 2], [[0, 1, 2]]),
            ([(0, 2), (1, 1), (2, 0)], [0, 1, 2], [0, 1, 2], [[0, 1, 2]]),  # the other way round
            ([(0, 0), (1, 1), (2, 2)], [0, 2, 3], [0, 1, 2], [[0], [1, 2]]),  # a sign between the first two
            ([(0, 0), (1, 1), (2, 2)], [0, 1, 2], [0, 1, 5], [[0, 1], [2]]),
            ([(0, 1), (1, 0), (2, 2)], [0, 1, 2], [0, 1, 2], [[0, 1], [2]]),  # 1 to 2 is no step of one
        ],
    )
    def test_neighbours_in_both_texts_are_joined(self, pairs, question, passage, expected):
        ties = np.full((3, 3), 0.1)
        for pair in pairs:
            ties[pair] = 1.0
        found = mutual_phrases(ties, question, passage)
        assert [[first for first, _ in phrase] for phrase in found] == expected
        assert [pair for phrase in found for pair in phrase] == pairs

    def test_spoken_words_keep_their_numbers(self):
        row = Row("r", ("a , b-2 ?", ""))
        assert [(number, row.text_of(span)) for number, span in alphanumeric_words(row, 0)] == [
            (0, "a"),
            (2, "b"),
            (4, "2"),
        ]


def literal(model, row, layers):
    """Word by word, piece by piece, as the class says it: all pairs, neighbours not joined."""
    batch = model.encode([row])
    with torch.no_grad():
        weights = model(batch, listen=["full"]).full[0].softmax(-1).mean(1)
    weights = weights[-1] if layers == "last" else weights.mean(0)
    sides = [[n for n, word in enumerate(words(text)) if text[word.start].isalnum()] for text in row.texts]
    ties = {}
    for first, second in itertools.product(*sides):
        here, there = place(batch, 0, 0, first), place(batch, 0, 1, second)
        forth = sum(sum(weights[q, k] for k in there) for q in here) / len(here)
        back = sum(sum(weights[q, k] for k in here) for q in there) / len(there)
        ties[first, second] = float(forth + back)
    found = {
        (first, second)
        for first, second in ties
        if ties[first, second] > 0
        and all(ties[first, second] >= ties[first, other] for other in sides[1])
        and all(ties[first, second] >= ties[other, second] for other in sides[0])
    }
    return found or {(sides[0][0], sides[1][0])}  # windows may keep the two texts apart


@pytest.mark.parametrize("layers", ["last", "all"])
@pytest.mark.parametrize("architecture", ["bert", "modernbert", "native"])
def test_against_the_literal_loops(architecture, layers):
    rows = [
        Row("a", ("unbelievable , is the music unbelievable ?", "the unbelievable film was not very good , but great")),
        Row("b", ("who sings", "anna sings")),
    ]
    if architecture == "native":
        model = teacher("native", "reading")
    else:
        inner, tokenizer = huggingface(architecture, "ForQuestionAnswering", labels=2)
        model = HuggingFaceModel(inner, tokenizer).double().eval()
    found = AttentionAlignment(layers=layers, pairs=99)(model, model.encode(rows), TARGET)
    for row, pairs in zip(rows, found.alignments, strict=True):
        expected = literal(model, row, layers)
        spans = [words(text, segment) for segment, text in enumerate(row.texts)]
        inside = [
            {
                n
                for n, word in enumerate(spans[side])
                for pair in pairs
                if pair[side].start <= word.start < pair[side].end
            }
            for side in (0, 1)
        ]
        assert inside[0] == {first for first, _ in expected}
        assert inside[1] == {second for _, second in expected}


@pytest.mark.parametrize("kind", ["hf", "native"])
def test_alone_is_batched(kind):
    model, rows = teacher(kind, "reading"), examples("reading")
    together = AttentionAlignment()(model, model.encode(rows), TARGET)
    for index, row in enumerate(rows):
        assert AttentionAlignment()(model, model.encode([row]), TARGET).alignments == (together.alignments[index],)
        assert 1 <= len(together.alignments[index]) <= 3


def test_words_cut_off_are_not_aligned():
    torch.manual_seed(0)
    model = type(teacher("native", "reading"))(
        teacher("native", "reading").task, None, WordTokenizer.from_rows(ROWS), width=16, heads=4
    )
    model.max_length, model.truncate = 12, True
    batch = model.double().eval().encode(ROWS[:1])
    last = int(batch.words[0][batch.segments[0] == 1].max())
    assert last < len(words(PASSAGE)) - 1
    end = words(PASSAGE)[last].end
    found = AttentionAlignment(pairs=99)(model, batch, TARGET)
    assert all(second.end <= end for _, second in found.alignments[0])


def test_refusals():
    with pytest.raises(OptionError, match="'last' or 'all', got 'first'"):
        AttentionAlignment(layers="first")
    with pytest.raises(OptionError, match="at least 1, got 0"):
        AttentionAlignment(pairs=0)
    model = teacher("hf", "pair")
    with pytest.raises(UnsupportedError, match="aligns a question with its passage.*does pair. Choose attention_all"):
        AttentionAlignment()(model, model.encode(examples("pair")), TARGET)
