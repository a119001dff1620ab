"""The weights add up, a negator flips the sum, and the true scores are what removal of a unit changes."""

import re
from dataclasses import replace
from itertools import combinations
from math import factorial

import numpy as np
import pytest

from didact.core.row import Row, Span, fingerprint_of
from didact.data.planted.graded import CUES, NEGATIVE, POSITIVE, graded
from didact.data.planted.sentiment import NEGATIVE as BAD
from didact.data.planted.sentiment import NEGATORS
from didact.data.planted.sentiment import POSITIVE as GOOD
from didact.errors import OptionError
from didact.explaining.row_io import load_rows, save_rows

WEIGHT = {word: weight for weight, words in CUES.items() for word in words}


@pytest.fixture(scope="module")
def rows():
    return graded(teach=0, explain=0, train=0, dev=0, test=600)["test"]


def test_the_words_are_those_of_planted_sentiment():
    assert set(NEGATIVE) == set(BAD)
    assert set(POSITIVE) == set(GOOD)
    assert {len(words) for words in CUES.values()} == {5}


def test_labels_and_true_scores_follow_from_the_words(rows):
    """Counted here word by word, by taking each word out of the sentence."""
    for row in rows:
        total = signed_sum(row.texts[0].split())
        assert total != 0
        assert row.label == int(total > 0)
        units = [word for word in row.texts[0].split() if word in WEIGHT or word in NEGATORS]
        assert [row.text_of(span) for span in row.rationale] == units
        words = row.texts[0].split()
        places = [place for place, word in enumerate(words) if word in WEIGHT or word in NEGATORS]
        without = [signed_sum(words[:place] + words[place + 1 :]) for place in places]
        towards = 1 if row.label else -1
        assert row.rationale_weights == tuple(towards * (total - other) for other in without)


def signed_sum(words):
    total = sum(WEIGHT.get(word, 0) for word in words)
    return -total if set(NEGATORS) & set(words) else total


def test_scores_have_three_sizes_and_both_signs(rows):
    plain = [row for row in rows if not has_negator(row)]
    negated = [row for row in rows if has_negator(row)]
    assert abs(len(negated) / len(rows) - 0.2) < 0.05
    assert {abs(score) for row in plain for score in row.rationale_weights} == {1, 2, 4}
    assert 0.08 < np.mean([score < 0 for row in plain for score in row.rationale_weights]) < 0.35
    assert {len(row.rationale) for row in plain} == {1, 2, 3, 4}
    for row in negated:
        (negator,) = [s for span, s in zip(row.rationale, row.rationale_weights, strict=True)
                      if row.text_of(span) in NEGATORS]  # fmt: skip
        cues = sum(row.rationale_weights) - negator
        assert negator == 2 * cues > 0
    assert abs(np.mean([row.label for row in rows]) - 0.5) < 0.07


def has_negator(row):
    return any(row.text_of(span) in NEGATORS for span in row.rationale)


def test_the_largest_cue_does_not_always_decide(rows):
    """Else the weights 1 and 2 would not matter to the label."""
    plain = [row for row in rows if not has_negator(row)]
    followed = []
    for row in plain:
        scores = np.array(row.rationale_weights)
        followed.append(scores[np.abs(scores) == np.abs(scores).max()].sum() > 0)
    assert 0.8 < np.mean(followed) < 0.95


def test_they_are_shapley_values_but_for_negated_sentences(rows):
    """Under a negator, the Shapley value of every cue is 0, which ranks nothing: that is why removal counts."""
    for row in [*[row for row in rows if not has_negator(row)][:20], *[row for row in rows if has_negator(row)][:10]]:
        units = [row.text_of(span) for span in row.rationale]
        values = (1 if row.label else -1) * shapley(units)
        if not has_negator(row):
            np.testing.assert_allclose(values, row.rationale_weights, atol=1e-12)
            continue
        is_cue = [unit in WEIGHT for unit in units]
        np.testing.assert_allclose(values[is_cue], 0, atol=1e-12)
        np.testing.assert_allclose(values.sum(), abs(signed_sum(units)), atol=1e-12)


def shapley(units):
    """By definition, over all subsets."""
    count, values = len(units), np.zeros(len(units))
    for index in range(count):
        others = [place for place in range(count) if place != index]
        for size in range(count):
            share = factorial(size) * factorial(count - size - 1) / factorial(count)
            for chosen in combinations(others, size):
                before, after = sorted(chosen), sorted((*chosen, index))
                gain = signed_sum([units[place] for place in after]) - signed_sum([units[place] for place in before])
                values[index] += share * gain
    return values


def test_the_oracle_answers_the_sum(rows):
    oracle = graded(teach=0, explain=0, train=0, dev=0, test=1).oracle()
    values = oracle.predict(list(rows[:50])).values
    np.testing.assert_allclose(values[:, 1] - values[:, 0], [signed_sum(row.texts[0].split()) for row in rows[:50]])
    nothing = oracle.predict([Row("a", ("the day",)), Row("b", ("lovely boring",))]).probabilities
    np.testing.assert_allclose(nothing, 0.5)


def test_a_new_rationale_never_ties():
    data = graded(teach=0, explain=0, train=0, dev=0, test=60)
    for row in data["test"]:
        other = data.redraw(row, "rationale", seed=4)
        assert signed_sum(other.texts[0].split()) != 0
        assert len(other.rationale_weights) == len(row.rationale_weights)
        assert data.redraw(row, "rest", seed=4).rationale_weights == row.rationale_weights


def test_fewer_cues_and_none_negated():
    data = graded(teach=0, explain=0, train=0, dev=0, test=80, cues=1, most_cues=2, negation=0.0, fillers=20)
    words = {row.text_of(span) for row in data["test"] for span in row.rationale}
    assert words == {role[0] for role in CUES.values()}


def test_true_scores_are_kept_with_the_row(tmp_path):
    plain = Row("a", ("a good film",), label=1, rationale=(Span(0, 2, 6),))
    scored = replace(plain, rationale_weights=(2.0,))
    assert fingerprint_of([plain]) == "30f2e6b6bd17596a"  # as before rows had true scores
    assert fingerprint_of([scored]) not in (
        fingerprint_of([plain]),
        fingerprint_of([replace(scored, rationale_weights=(1.0,))]),
    )
    save_rows(tmp_path / "rows.parquet", [plain, scored])
    loaded = load_rows(tmp_path / "rows.parquet")
    assert [row.rationale_weights for row in loaded] == [None, (2.0,)]
    assert fingerprint_of(loaded) == fingerprint_of([plain, scored])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negation": 1.2}, "'negation' must be a probability from 0 to 1, not 1.2"),
        ({"cues": 6}, "'cues' must be an integer from 1 to 5, not 6"),
        ({"most_cues": 0}, "'most_cues' must be an integer >= 1, not 0"),
        ({"shortest": 5}, "'shortest' must be at least 6 for most_cues=4, not 5"),
        ({"longest": 9}, "'longest' must be at least shortest=10, not 9"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        graded(**options)
