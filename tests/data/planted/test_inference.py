"""The hypothesis repeats, contradicts or goes beyond the premise, and no bag of words tells which."""

import re

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from didact.core.row import Row
from didact.data.planted.inference import ATTRIBUTES, NEGATORS, inference
from didact.data.planted.texts import FILLERS
from didact.errors import OptionError

OPPOSITE = {a: b for pair in ATTRIBUTES for a, b in (pair, pair[::-1])}


@pytest.fixture(scope="module")
def data():
    return inference(teach=1_200, explain=0, train=0, dev=0, test=600)


def test_words_are_distinct():
    assert not {*OPPOSITE, *NEGATORS} & set(FILLERS)
    assert len(OPPOSITE) == 2 * len(ATTRIBUTES)


def test_the_label_follows_from_the_two_texts(data):
    for row in data["test"]:
        premise, hypothesis = (text.split() for text in row.texts)
        stated = [word for word in premise if word in OPPOSITE]
        (claim,) = [word for word in hypothesis if word in OPPOSITE]
        assert 2 <= len(stated) <= 4
        assert len({frozenset((word, OPPOSITE[word])) for word in stated}) == len(stated)
        negated = any(word in NEGATORS for word in hypothesis)
        if claim not in stated and OPPOSITE[claim] not in stated:
            expected, units = "neutral", [claim]
        else:
            same = claim in stated
            expected = "entailment" if same != negated else "contradiction"
            units = [claim if same else OPPOSITE[claim], *(w for w in hypothesis if w in (claim, *NEGATORS))]
        assert data.classes[row.label] == expected
        assert [row.text_of(span) for span in row.rationale] == units
        assert [span.segment for span in row.rationale] == ([0] if expected != "neutral" else []) + [1] * (
            len(units) - (expected != "neutral")
        )


@pytest.mark.parametrize("apart", [False, True])
def test_a_bag_of_words_is_near_chance(data, apart):
    """Measured on the default set: 35 % with both texts in one bag, 34 % in two; the transformer has 100 %."""

    def features(rows):
        marks = ("p", "h") if apart else ("", "")
        return [
            " ".join(m + word for m, text in zip(marks, row.texts, strict=True) for word in text.split())
            for row in rows
        ]

    vectorizer = CountVectorizer(token_pattern=r"\S+")
    model = LogisticRegression(max_iter=1_000)
    model.fit(vectorizer.fit_transform(features(data["teach"])), [row.label for row in data["teach"]])
    assert model.score(vectorizer.transform(features(data["test"])), [row.label for row in data["test"]]) < 0.42


def test_the_oracle_needs_a_claim(data):
    rows = [Row("a", ("it was hot", "the cold")), Row("b", ("it was hot", "the")), Row("c", ("", "never cold"))]
    np.testing.assert_allclose(
        data.oracle().predict(rows).probabilities, [[0, 0, 1], [1 / 3] * 3, [0, 1, 0]], atol=1e-9
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negation": 2.0}, "'negation' must be a probability from 0 to 1, not 2.0"),
        ({"attributes": 2}, "'attributes' must be an integer from 3 to 8, not 2"),
        ({"stated": 1}, "'stated' must be an integer >= 2, not 1"),
        ({"stated": 6}, "'stated' must be less than attributes=6, not 6"),
        ({"fillers": 0}, "'fillers' must be an integer from 1 to 200, not 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        inference(**options)
