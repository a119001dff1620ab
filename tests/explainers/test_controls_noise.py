"""People who are careless, and chance: what is drawn depends on the seed, the row and the word alone."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from didact.core.human import HumanTeacher
from didact.core.row import Box, Row, Span
from didact.core.target import Target
from didact.core.task import READING
from didact.core.words import words
from didact.errors import OptionError
from didact.explainers.controls import Human, Random, Trivial
from didact.models.huggingface import HuggingFaceModel
from teachers import examples, teacher
from tiny import huggingface

TARGET = Target.value()
LEVELS = [round(0.1 * step, 1) for step in range(11)]
TEXTS = (
    "the unbelievable music was not very good , but the film was great ! bad plot",
    "a good film is unbelievable , and the unbelievable is good",
    "unbelievable",
)


def classified():
    """Marked: some words, one of them in several pieces; every word; only part of a word, which marks the piece."""
    spans = [(Span(0, 4, 22), Span(0, 27, 45)), (Span(0, 0, len(TEXTS[1])),), (Span(0, 0, 2),)]
    return [Row(f"c{i}", (text,), rationale=one) for i, (text, one) in enumerate(zip(TEXTS, spans, strict=True))]


def asked():
    """A question and its passage, with what refers to the same thing."""
    question, passage = "who sings the unbelievable music ?", "anna sings . the plot was bad , the music very good"
    pairs = ((Span(0, 10, 32), Span(1, 32, 41)), (Span(0, 4, 9), Span(1, 5, 10)), (Span(0, 0, 3), Span(1, 0, 4)))
    return [
        Row("a", (question, passage), label=(Span(1, 0, 4),), rationale=sum(pairs, ()), alignments=pairs),
        Row("b", ("a film", "bad film"), label=(Span(1, 0, 3),), rationale=(Span(1, 0, 3),)),
    ]


def marked(subject, rows, **options):
    """For each row the words that hold a mark."""
    batch = subject.encode(rows)
    scores = Human(**options)(subject, batch, TARGET).scores
    assert (scores[~batch.units] == 0).all()
    return [
        {
            (int(batch.segments[row, place]), int(batch.words[row, place]))
            for place in scores[row].nonzero()[:, 0].tolist()
            if batch.words[row, place] >= 0
        }
        for row in range(len(rows))
    ]


SETTINGS = [("hf", "classification", classified), ("native", "classification", classified), ("hf", "reading", asked)]


@pytest.mark.parametrize(("kind", "task", "rows"), SETTINGS)
class TestMarks:
    def test_no_noise_is_what_people_marked(self, kind, task, rows):
        subject = teacher(kind, task)
        batch = subject.encode(rows())
        plain = Human()(subject, batch, TARGET)
        assert torch.equal(plain.scores, (batch.rationale & batch.units).to(plain.scores))
        for how in ("drop", "swap"):
            assert torch.equal(Human(noise=0.0, how=how, seed=3)(subject, batch, TARGET).scores, plain.scores)

    def test_what_is_dropped_stays_dropped(self, kind, task, rows):
        subject = teacher(kind, task)
        found = [marked(subject, rows(), noise=noise) for noise in LEVELS]
        for less, more in pairwise(found):
            assert all(after <= before for before, after in zip(less, more, strict=True))
        assert found[-1] == [set()] * len(rows()), "and at last nothing is left"
        assert len({str(one) for one in found}) > 3

    def test_what_has_moved_stays_moved(self, kind, task, rows):
        subject = teacher(kind, task)
        before = marked(subject, rows())
        found = [marked(subject, rows(), noise=noise, how="swap") for noise in LEVELS]
        for less, more in pairwise(found):
            for own, first, second in zip(before, less, more, strict=True):
                assert second & own <= first & own, "what is lost"
                assert first - own <= second - own, "where it went"

    @pytest.mark.parametrize("noise", [0.3, 1.0])
    def test_moving_keeps_their_number_as_long_as_there_is_room(self, kind, task, rows, noise):
        subject, many = teacher(kind, task), rows()
        batch = subject.encode(many)
        for seed in range(5):
            found = marked(subject, many, noise=noise, how="swap", seed=seed)
            dropped = marked(subject, many, noise=noise, seed=seed)
            for row, (own, after, stays) in enumerate(zip(marked(subject, many), found, dropped, strict=True)):
                inside = batch.words[row] >= 0
                known = set(zip(batch.segments[row, inside].tolist(), batch.words[row, inside].tolist(), strict=True))
                assert after & own == stays, "the same words as without places to go to"
                assert len(after) == len(stays) + min(len(own) - len(stays), len(known - own))
                assert after <= known

    @pytest.mark.parametrize("how", ["drop", "swap"])
    def test_neighbours_and_order_do_not_matter(self, kind, task, rows, how):
        subject, many = teacher(kind, task), rows()
        together = marked(subject, many, noise=0.5, how=how)
        assert marked(subject, many[::-1], noise=0.5, how=how) == together[::-1]
        assert [marked(subject, [row], noise=0.5, how=how)[0] for row in many] == together

    def test_seeds_and_ids(self, kind, task, rows):
        subject = teacher(kind, task)
        drawn = [marked(subject, rows(), noise=0.5, seed=seed) for seed in range(8)]
        assert len({str(one) for one in drawn}) > 1
        other = [replace(row, id=f"other {row.id}") for row in rows()]
        assert any(marked(subject, other, noise=0.5, seed=seed) != drawn[seed] for seed in range(8))


@pytest.mark.parametrize("how", ["drop", "swap"])
@pytest.mark.parametrize("noise", [0.2, 0.5, 0.9])
def test_tokenizers_do_not_matter(how, noise):
    """Words, word pieces and bytes, where white space is a piece of its own."""
    rows = classified()
    inner, tokenizer = huggingface("gpt2")
    subjects = [
        teacher("native", "classification"),
        teacher("hf", "classification"),
        HuggingFaceModel(inner, tokenizer),
    ]
    found = [marked(subject, rows, noise=noise, how=how, seed=1) for subject in subjects]
    assert found[0] == found[1] == found[2]
    assert found[0] != marked(subjects[0], rows)
    native, pieces = teacher("native", "reading"), teacher("hf", "reading")
    people = HumanTeacher(READING)
    one, other, third = (marked(subject, asked(), noise=noise, how=how) for subject in (native, pieces, people))
    assert one == other == third


def test_a_text_cut_short_keeps_the_draws_of_its_words():
    text = "good " * 40
    row, short = (Row("r", (text[:end],), rationale=(Span(0, 0, end),)) for end in (200, 50))
    subject = teacher("native", "classification")
    whole, part = (marked(subject, [one], noise=0.5)[0] for one in (row, short))
    assert part == {(segment, word) for segment, word in whole if word < 10}


def test_marks_move_anywhere():
    row = Row("r", ("good " * 20,), rationale=(Span(0, 0, 4),))
    subject = teacher("native", "classification")
    places = [marked(subject, [row], noise=1.0, how="swap", seed=seed)[0] for seed in range(40)]
    assert all(len(one) == 1 for one in places)
    assert len(set.union(*places)) > 10
    assert (0, 0) not in set.union(*places)


def test_all_pieces_of_a_word_go_together():
    subject, rows = teacher("hf", "classification"), classified()[:2]
    batch = subject.encode(rows)
    for how in ("drop", "swap"):
        scores = Human(noise=0.5, how=how, seed=2)(subject, batch, TARGET).scores
        for row in range(2):
            for word in set(batch.words[row][batch.units[row]].tolist()):
                assert len(set(scores[row][batch.words[row] == word].tolist())) == 1


def test_the_share_that_is_lost():
    rows = [Row(f"n{n}", (" ".join(["good"] * 40),), rationale=(Span(0, 0, 199),)) for n in range(50)]
    left = sum(map(len, marked(teacher("native", "classification"), rows, noise=0.3)))
    assert abs(left / 2000 - 0.7) < 4 * np.sqrt(0.3 * 0.7 / 2000)


def test_patches_of_images():
    rows = [replace(row, rationale=(Box(0, 0, 16, 32),)) for row in examples("image")]
    subject = teacher("hf", "image")
    whole, some, none = (marked(subject, rows, noise=noise) for noise in (0, 0.5, 1))
    assert [len(one) for one in whole] == [8, 8, 8]
    assert all(after < before for before, after in zip(whole, some, strict=True))
    assert none == [set()] * 3
    assert [len(one) for one in marked(subject, rows, noise=1, how="swap")] == [8, 8, 8]


class TestAlignments:
    def found(self, rows=None, kind="hf", **options):
        subject = teacher(kind, "reading")
        return Human(**options)(subject, subject.encode(rows or asked()), TARGET).alignments

    @pytest.mark.parametrize("kind", ["hf", "native"])
    def test_people_give_those_of_the_row(self, kind):
        assert self.found(kind=kind) == (asked()[0].alignments, ())
        people = HumanTeacher(READING)
        assert Human()(people, people.encode(asked()), TARGET).alignments == (asked()[0].alignments, ())

    def test_none_where_nobody_aligned(self):
        assert self.found(asked()[1:]) is None
        subject = teacher("hf", "pair")
        assert Human()(subject, subject.encode(examples("pair")), TARGET).alignments is None

    def test_batches_keep_them(self):
        subject = teacher("hf", "reading")
        batch = subject.encode(asked())
        assert [row.id for row in batch.repeat(2).rows] == ["a", "a", "b", "b"]
        turned = Human()(subject, batch.select([1, 0, 0]).to("cpu"), TARGET).alignments
        assert turned == ((), asked()[0].alignments, asked()[0].alignments)

    def test_drops_are_nested(self):
        for seed in range(4):
            levels = [self.found(noise=noise, seed=seed)[0] for noise in LEVELS]
            assert all(set(more) <= set(less) for less, more in pairwise(levels))
            assert (levels[0], levels[-1]) == (asked()[0].alignments, ())

    @pytest.mark.parametrize("kind", ["hf", "native"])
    def test_swaps_move_the_span_in_the_passage(self, kind):
        row = asked()[0]
        for seed in range(5):
            moved = self.found(kind=kind, noise=1.0, how="swap", seed=seed)[0]
            for (first, second), (own, before) in zip(moved, row.alignments, strict=True):
                assert first == own
                assert second in words(row.texts[1], 1)
                assert row.text_of(second).isalnum()
                assert second.end <= before.start or second.start >= before.end
            some = self.found(kind=kind, noise=0.5, how="swap", seed=seed)[0]
            assert all(one in (before, after) for one, before, after in zip(some, row.alignments, moved, strict=True))

    def test_nowhere_to_go_to(self):
        row = replace(asked()[1], alignments=((Span(0, 2, 6), Span(1, 0, 8)),))
        assert self.found([row], noise=1.0, how="swap") == ((),)

    @pytest.mark.parametrize("kind", ["hf", "native"])
    def test_chance_pairs_any_words(self, kind):
        subject, rows = teacher(kind, "reading"), asked()
        both = Random(seed=1)(subject, subject.encode(rows), TARGET).alignments
        assert [len(pairs) for pairs in both] == [3, 2]
        for row, pairs in zip(rows, both, strict=True):
            assert len({first for first, _ in pairs}) == len(pairs)
            for first, second in pairs:
                assert first in words(row.texts[0], 0)
                assert second in words(row.texts[1], 1)
            alone = Random(seed=1)(teacher("hf", "reading"), teacher("hf", "reading").encode([row]), TARGET)
            assert alone.alignments == (pairs,)
        drawn = {Random(seed=seed)(subject, subject.encode(rows), TARGET).alignments for seed in range(5)}
        assert len(drawn) == 5
        pair = teacher(kind, "pair")
        assert Random()(pair, pair.encode(examples("pair")), TARGET).alignments is None

    def test_chance_has_nothing_to_pair_in_a_question_without_words(self):
        subject = teacher("hf", "reading")
        batch = subject.encode([Row("r", ("!", "bad film"))])
        assert Random()(subject, batch, TARGET).alignments == ((),)


def test_what_is_drawn_anew_for_each_seed():
    assert Random().resample_per_seed
    assert Human(noise=0.1).resample_per_seed
    assert not Human().resample_per_seed


def test_options_are_checked():
    for noise in (-0.1, 1.1, float("nan")):
        with pytest.raises(OptionError, match="between 0 and 1"):
            Human(noise=noise)
    with pytest.raises(OptionError, match="'drop' or 'swap', got 'move'"):
        Human(how="move")


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 1.0])
def test_each_class_has_a_block_of_its_own_whose_size_is_rounded_up(share):
    """The control `trivial`, by its definition: block c has the units from c · size on."""
    model, rows = teacher("native", "classification"), examples("classification")
    batch = model.encode(rows)
    classes = range(len(model.classes))
    marks = [Trivial(k=share)(model, batch, Target.label(torch.full((len(rows),), label))).scores for label in classes]
    for row, units in enumerate(batch.units):
        count = int(units.sum())
        size = max(1, -int(-share * count // 1))
        blocks = max(1, min(len(classes), count // size))
        for label in classes:
            expected = [place // size == label % blocks for place in range(count)]
            assert (marks[label][row][units] != 0).tolist() == expected
