"""Cues, negators and intensifiers decide; distractors only pretend to, and only in `train`."""

import re

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from didact.core.row import Row
from didact.data.planted.sentiment import DISTRACTORS, INTENSIFIERS, NEGATIVE, NEGATORS, POSITIVE, sentiment
from didact.data.planted.texts import FILLERS
from didact.errors import OptionError

FEW = {"teach": 0, "explain": 0, "train": 0, "dev": 0}


@pytest.fixture(scope="module")
def data():
    return sentiment(teach=2_000, explain=0, train=0, dev=0, test=600)


def test_no_word_has_two_meanings():
    groups = (NEGATIVE, POSITIVE, NEGATORS, tuple(INTENSIFIERS), DISTRACTORS, FILLERS)
    everything = [word for group in groups for word in group]
    assert len(set(everything)) == len(everything)
    assert all(re.fullmatch(r"[a-z]+", word) for word in everything)
    assert (len(NEGATIVE), len(POSITIVE), len(NEGATORS), len(FILLERS)) == (15, 15, 2, 200)


def test_the_label_is_the_sign_of_the_cue_sum(data):
    """Counted here word by word, from the sentence alone."""
    for row in data["test"]:
        sentence, total = row.texts[0].split(), 0
        for place, word in enumerate(sentence):
            value = (word in POSITIVE) - (word in NEGATIVE)
            total += value * (2 if place and sentence[place - 1] in INTENSIFIERS else 1)
        turned = any(word in NEGATORS for word in sentence)
        assert total != 0
        assert row.label == int((total > 0) != turned)
        meant = [word for word in sentence if word in (*POSITIVE, *NEGATIVE, *NEGATORS, *INTENSIFIERS)]
        assert [row.text_of(span) for span in row.rationale] == meant


def test_lengths_and_frequencies(data):
    lengths = [len(row.texts[0].split()) for row in data["test"]]
    assert (min(lengths), max(lengths)) == (10, 20)
    words = [[row.text_of(span) for span in row.rationale] for row in data["teach"]]
    cues = [sum(word in (*POSITIVE, *NEGATIVE) for word in row) for row in words]
    assert set(cues) == {1, 2, 3}
    assert abs(np.mean([any(word in NEGATORS for word in row) for row in words]) - 0.2) < 0.03
    assert 0.08 < np.mean([word in INTENSIFIERS for row in words for word in row]) < 0.13


def test_an_intensifier_stands_before_a_cue_of_its_own_polarity(data):
    redrawn = [data.redraw(row, "rationale", seed=3) for row in data["test"][:300]]
    seen = 0
    for row in [*data["test"], *redrawn]:
        sentence = row.texts[0].split()
        for word, after in zip(sentence, [*sentence[1:], ""], strict=True):
            if word in INTENSIFIERS:
                seen += 1
                assert after in (POSITIVE if INTENSIFIERS[word] > 0 else NEGATIVE)
    assert seen > 100


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("a lovely day", 1),
        ("a lovely day not", 0),
        ("lovely but awful", None),
        ("lovely but utterly awful", 0),
        ("truly lovely but awful", 1),
        ("never truly lovely but awful", 0),
        ("lovely truly", 1),
        ("the day", None),
        ("", None),
    ],
)
def test_the_oracle_answers_any_text(data, text, label):
    """Where nothing decides, as after the removal of words, both classes are equally likely."""
    probabilities = data.oracle().predict([Row("a", (text,))]).probabilities[0]
    expected = [0.5, 0.5] if label is None else np.eye(2)[label]
    np.testing.assert_allclose(probabilities, expected, atol=1e-9)


def test_a_bag_of_words_fails_on_negated_sentences(data):
    """Measured on the default set: 99.6 % of plain sentences, 0.8 % of the negated; the transformer has 100 %."""
    vectorizer = CountVectorizer()
    model = LogisticRegression(max_iter=500)
    model.fit(vectorizer.fit_transform(row.texts[0] for row in data["teach"]), [row.label for row in data["teach"]])

    def accuracy(rows):
        return model.score(vectorizer.transform(row.texts[0] for row in rows), [row.label for row in rows])

    negated = [row for row in data["test"] if {row.text_of(span) for span in row.rationale} & set(NEGATORS)]
    plain = [row for row in data["test"] if row not in negated]
    assert len(negated) > 90
    assert accuracy(plain) > 0.9
    assert accuracy(negated) < 0.3


def test_distractors_tell_the_label_in_train_only():
    data = sentiment(distractors=0.5, teach=400, explain=400, train=400, dev=400, test=400)
    for name, split in data.items():
        sides = [
            (row.label, DISTRACTORS.index(word) // 4)
            for row in split
            for word in row.texts[0].split()
            if word in DISTRACTORS
        ]
        assert abs(len(sides) / len(split) - 0.5) < 0.1
        agree = np.mean([label == side for label, side in sides])
        assert agree == 1.0 if name == "train" else abs(agree - 0.5) < 0.14
    assert not any(row.text_of(span) in DISTRACTORS for row in data["train"] for span in row.rationale)
    redrawn = [data.redraw(row, "rest") for row in data["train"]]
    sides = [
        (row.label, DISTRACTORS.index(w) // 4) for row in redrawn for w in row.texts[0].split() if w in DISTRACTORS
    ]
    assert abs(np.mean([label == side for label, side in sides]) - 0.5) < 0.14


def test_without_the_option_there_are_no_distractors(data):
    assert not any(word in DISTRACTORS for split in data.values() for row in split for word in row.texts[0].split())


def test_difficulty():
    easy = sentiment(
        **FEW, test=200, cues=1, most_cues=1, negation=0.0, intensity=0.0, fillers=5, shortest=4, longest=12
    )
    assert {row.text_of(span) for row in easy["test"] for span in row.rationale} == {NEGATIVE[0], POSITIVE[0]}
    assert {word for row in easy["test"] for word in row.texts[0].split()} <= {NEGATIVE[0], POSITIVE[0], *FILLERS[:5]}
    turned = sentiment(**FEW, test=100, negation=1.0)
    assert all({row.text_of(span) for span in row.rationale} & set(NEGATORS) for row in turned["test"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negation": 1.2}, "'negation' must be a probability from 0 to 1, not 1.2"),
        ({"intensity": -0.1}, "'intensity' must be a probability from 0 to 1, not -0.1"),
        ({"distractors": 2}, "'distractors' must be a probability from 0 to 1, not 2"),
        ({"cues": 0}, "'cues' must be an integer from 1 to 15, not 0"),
        ({"most_cues": 0}, "'most_cues' must be an integer >= 1, not 0"),
        ({"fillers": 201}, "'fillers' must be an integer from 1 to 200, not 201"),
        ({"shortest": 5}, "'shortest' must be at least 8 for most_cues=3, not 5"),
        ({"longest": 9}, "'longest' must be at least shortest=10, not 9"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        sentiment(**options)


def test_too_small_a_space_is_an_error_not_a_loop():
    """One cue of each polarity in a sentence of four words: eight sentences, and `test` takes three."""
    tiny = {"cues": 1, "most_cues": 1, "fillers": 1, "shortest": 4, "longest": 4, "negation": 0.0, "intensity": 0.0}
    assert len(sentiment(**tiny, **FEW | {"teach": 5}, test=3)["teach"]) == 5
    with pytest.raises(
        OptionError, match="Option 'teach' asks for 12000 rows, but .* after 5 rows, 1000 draws in a row"
    ):
        sentiment(**tiny, **FEW | {"teach": 12_000}, test=3)
