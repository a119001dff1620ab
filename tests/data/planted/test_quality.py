"""The score counts the errors, and the rationale names each with the word it should translate."""

import re

import numpy as np
import pytest

from didact.core.row import Row
from didact.data.planted.quality import DICTIONARY, quality
from didact.errors import OptionError


def test_the_dictionary_is_one_to_one():
    assert len(set(DICTIONARY.values())) == len(DICTIONARY) == 48
    assert not set(DICTIONARY) & set(DICTIONARY.values())


def test_the_score_counts_the_words_that_differ_from_the_dictionary():
    kinds = set()
    for row in quality(teach=0, explain=0, train=0, dev=0, test=500)["test"]:
        source, target = (text.split() for text in row.texts)
        wrong = [place for place, word in enumerate(source) if DICTIONARY[word] != target[place]]
        assert len(source) == len(target) == len(set(source))
        assert 6 <= len(source) <= 10
        assert row.label == 1 - len(wrong) / 4
        units = [(span.segment, row.text_of(span)) for span in row.rationale]
        assert units == [*((0, source[place]) for place in wrong), *((1, target[place]) for place in wrong)]
        kinds |= {"copied" if target[place] == source[place] else "mistaken" for place in wrong}
    assert kinds == {"copied", "mistaken"}


def test_a_new_rationale_may_mend_errors_but_not_add_any(planted):
    data = planted("quality")
    changes = [data.redraw(row, "rationale", seed=5).label - row.label for row in data["test"]]
    assert min(changes) == 0
    assert max(changes) == 1


def test_the_oracle_answers_any_text(planted):
    house, river = DICTIONARY["house"], DICTIONARY["river"]
    rows = [
        Row("a", ("house river", f"{house} {river}")),
        Row("b", ("house", f"{house} {river}")),
        Row("c", ("", "a " * 9)),
    ]
    np.testing.assert_array_equal(planted("quality").oracle().predict(rows).values, [[1.0], [0.75], [0.0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"most_errors": 0}, "'most_errors' must be an integer >= 1, not 0"),
        ({"shortest": 3}, "'shortest' must be an integer >= 4, not 3"),
        ({"longest": 5}, "'longest' must be an integer >= 6, not 5"),
        ({"vocabulary": 13}, "'vocabulary' must be at least longest + most_errors = 14, not 13"),
        ({"untranslated": -1.0}, "'untranslated' must be a probability from 0 to 1, not -1.0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        quality(**options)
