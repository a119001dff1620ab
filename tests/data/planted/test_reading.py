"""Each question has one answer, in the sentence about the person it means."""

import re

import numpy as np
import pytest

from didact.core.row import Row
from didact.data.planted.reading import DOINGS, ORDER, reading
from didact.errors import OptionError


@pytest.fixture(scope="module")
def rows():
    return reading(by_name=0.3, teach=0, explain=0, train=0, dev=0, test=600)["test"]


def test_the_answer_is_found_by_reading_sentence_by_sentence(rows):
    """Done here with lists of words alone."""
    asked = set()
    for row in rows:
        question, passage = row.texts
        facts = [fact.split() for fact in passage.split(" . ")]
        key = next(word for word in question.split() if any(word in fact[:2] or word == fact[3] for fact in facts))
        (fact,) = [fact for fact in facts if key in fact]
        order, name, the, trade, _, thing, *_ = fact
        assert the == "the"
        by_who = question.startswith("who")
        assert row.text_of(row.label[0]) == (f"{name} the {trade}" if by_who else thing)
        asked.add((by_who, (order, name, trade).index(key)))
    assert len(asked) == 6


def test_alignments_pair_the_person_and_what_is_asked(rows):
    for row in rows:
        (person, same), (asks, stated) = row.alignments
        assert {person.segment, asks.segment} == {0}
        assert {same.segment, stated.segment} == {1}
        assert row.text_of(person).removeprefix("the ") == row.text_of(same).removeprefix("the ")
        verb = row.text_of(asks)
        assert row.text_of(stated) == (row.text_of(row.label[0]) if verb == "who" else f"{verb}s")
        marked = set(row.rationale)
        assert {person, asks, stated, row.label[0]} <= marked
        assert same in marked or row.text_of(same) in row.text_of(row.label[0])


def test_no_answer_is_told_without_the_question(rows):
    """Always the same sentence is right in a third of the rows, and no person or thing is told of twice."""
    places = [row.texts[1][: row.label[0].start].count(".") for row in rows]
    np.testing.assert_allclose(np.bincount(places) / len(rows), [1 / 3] * 3, atol=0.07)
    for row in rows:
        told = [word for word in row.texts[1].split() if word not in (".", "the") and not word.endswith("s")]
        assert len(set(told)) == len(told)


def test_a_new_rationale_asks_for_another_person_known_to_the_task(planted):
    data = planted("reading")
    known = {word for split in data.values() for row in split for text in row.texts for word in text.split()}
    new = {
        word for row in data["test"] for text in data.redraw(row, "rationale", seed=2).texts for word in text.split()
    }
    assert new <= known


def test_the_oracle_answers_any_text(planted):
    passage = "first anna the baker eats soup . second ben the miner eats rice ."
    questions = [
        "what does ben eat now ?",
        "ben eat",
        "who is anna",
        "what does the tailor eat ?",
        "what does ben play",
        "",
    ]
    outputs = planted("reading").oracle().predict([Row(str(n), (q, passage)) for n, q in enumerate(questions)])
    assert outputs.answers == (("rice",), ("rice",), ("anna the baker",), ("",), ("",), ("",))
    assert [passage[s.start : s.end] for s in outputs.spans] == [text for (text,) in outputs.answers]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"facts": 0}, "'facts' must be an integer from 1 to 6, not 0"),
        ({"facts": 7}, "'facts' must be an integer from 1 to 6, not 7"),
        ({"people": 13}, "'people' must be an integer from 1 to 12, not 13"),
        ({"doings": 5}, "'doings' must be an integer from 1 to 4, not 5"),
        ({"by_name": -0.5}, "'by_name' must be a probability from 0 to 1, not -0.5"),
        ({"who": 1.5}, "'who' must be a probability from 0 to 1, not 1.5"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        reading(**options)


def test_more_facts():
    data = reading(facts=10, people=12, doings=1, by_name=0.5, who=0.0, teach=0, explain=0, train=0, dev=0, test=50)
    for row in data["test"]:
        assert row.texts[1].count(".") == len(ORDER) == 10
        assert row.text_of(row.label[0]) in DOINGS["visit"]
        for part in ("rest", "rationale"):
            other = data.redraw(row, part)
            assert data.label_from(other) == other.label is not None
