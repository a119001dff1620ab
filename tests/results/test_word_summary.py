"""Mean scores by word and class: against a literal loop, and as tables."""

from collections import defaultdict

import numpy as np
import pytest
from test_explanations import pictures

from didact.errors import OptionError, UnsupportedError
from didact.results.explanations import Explanations
from didact.results.word_summary import WordScore, summarise

ROWS = [
    ("a", "Good good film", "yes", [2.0, 1.0, 0.5]),
    ("b", "good <b> film", "yes", [-1.0, 9.0, -0.25]),
    ("c", "good film", "no", [-3.0, 0.5]),
    ("d", "film", "no", [1.5]),
]


def words_of(rows=ROWS, **changes):
    texts = [text for _, text, _, _ in rows]
    spans = [[(text.index(word, place), word) for place, word in _words(text)] for text in texts]
    units = [(start, start + len(word), word) for row in spans for start, word in row]
    facts = {
        "method": "lime", "kind": "signed", "options": {}, "task": "classification", "classes": ("no", "yes"),
        "teacher": "t", "fingerprints": {}, "ids": tuple(row[0] for row in rows), "texts": tuple((t,) for t in texts),
        "bounds": np.cumsum([0, *map(len, spans)]), "tokens": tuple(word for *_, word in units),
        "segments": np.zeros(len(units), dtype=int),
        "word_index": np.concatenate([np.arange(len(row)) for row in spans]),
        "offsets": np.array([unit[:2] for unit in units]), "scores": np.concatenate([row[3] for row in rows]),
        "targets": tuple(row[2] for row in rows), "predictions": tuple(row[2] for row in rows),
        "residuals": np.full(len(rows), np.nan),
    }  # fmt: skip
    return Explanations(**(facts | changes))


def _words(text):
    place, found = 0, []
    for word in text.split():
        found.append((text.index(word, place), word))
        place = found[-1][0] + len(word)
    return found


def test_against_a_literal_loop():
    found = defaultdict(list)
    for _, text, target, scores in ROWS:
        for word, score in zip(text.lower().split(), scores, strict=True):
            found[target, word].append(score)
    summary = words_of().summary(least=1)
    assert {(word.target, word.word): (word.count, word.mean_size, word.mean) for word in summary.words} == {
        key: (len(scores), np.abs(scores).mean(), np.mean(scores)) for key, scores in found.items()
    }
    assert summary.targets == ("no", "yes")
    assert [word.word for word in summary.of("no")] == ["good", "film"], "the strongest first"


def test_words_in_any_case_and_often_enough():
    assert summarise(words_of(), k=1, least=3).words == (WordScore("yes", "good", 3, 4 / 3, 2 / 3),)
    assert words_of().summary().least == 1
    assert Explanations.joined([words_of()] * 3).summary().least == 2
    signs = words_of(rows=[("a", "good , film", "yes", [1.0, 5.0, 2.0])])
    assert [word.word for word in signs.summary().words] == ["film", "good"], "a comma is no word"


def test_pieces_count_as_their_word():
    one = words_of(rows=[("a", "un able", "yes", [1.0, 2.0])], texts=(("unable!",),), word_index=np.zeros(2, dtype=int),
                   offsets=np.array([[0, 2], [2, 6]]))  # fmt: skip
    assert one.summary().words == (WordScore("yes", "unable", 1, 3.0, 3.0),)


def test_tables():
    summary = words_of().summary(least=1)
    lines = repr(summary).splitlines()
    assert lines[0] == "lime: mean scores over 4 rows, words that occur at least 1×"
    assert lines[4].split() == ["good", "1", "3", "-3"]
    bare = repr(words_of(kind="magnitude", scores=np.ones(9)).summary()).splitlines()
    assert bare[3].split() == ["word", "count", "mean", "|score|"]
    frame = summary.to_pandas()
    assert list(frame.columns) == ["target", "word", "count", "mean_size", "mean"]
    assert frame["count"].sum() == 9
    page = summary._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "no word occurs that often" in repr(words_of().summary(least=9))


def test_what_has_no_summary():
    with pytest.raises(UnsupportedError, match="images have none"):
        pictures().summary()
    with pytest.raises(OptionError, match="at least 1, got 0"):
        words_of().summary(0)
