"""Other wordings are the English data word by word, and knowledge of English says nothing about them."""

import re
from itertools import chain

import numpy as np
import pytest

from didact.core.words import marked_words, words_of
from didact.data.planted.graded import CUES, Graded, graded
from didact.data.planted.inference import ATTRIBUTES, NEGATORS, Inference, inference
from didact.data.planted.quality import DICTIONARY, Quality, quality
from didact.data.planted.reading import reading
from didact.data.planted.sentiment import DISTRACTORS, INTENSIFIERS, NEGATIVE, POSITIVE, Sentiment, sentiment
from didact.data.planted.texts import FILLERS
from didact.errors import OptionError, UnsupportedError

FEW = {"teach": 40, "explain": 0, "train": 40, "dev": 0, "test": 60}
GENERATORS = {"sentiment": sentiment, "graded": graded, "inference": inference, "quality": quality}
ENGLISH = {
    *NEGATIVE, *POSITIVE, *INTENSIFIERS, *NEGATORS, *DISTRACTORS, *FILLERS, *chain(*ATTRIBUTES),
    *chain(*DICTIONARY.items()), *chain(*CUES.values()),
}  # fmt: skip
NEGATIVE_TONE = {*NEGATIVE, "utterly", "hopelessly"}
POSITIVE_TONE = {*POSITIVE, "truly", "wonderfully"}


@pytest.mark.parametrize(
    ("task", "fingerprint"),
    [("sentiment", "0c0e4f763c7d8dbf"), ("inference", "97e7d4e732c0b319"), ("quality", "b34aa03cb6b849e7")],
)
def test_the_default_is_english_as_before(task, fingerprint):
    """The fingerprints of the data before there were wordings."""
    data = GENERATORS[task](**FEW)
    assert data.fingerprint == fingerprint
    assert GENERATORS[task](**FEW, words="english", words_seed=7).fingerprint == fingerprint


@pytest.mark.parametrize("words", ["nonce", "permuted"])
@pytest.mark.parametrize("task", GENERATORS)
def test_another_wording_is_the_english_data_with_other_words(task, words):
    """One word stands for one word, in all rows and redraws; labels, marked words and true scores are the same."""
    plain, other = GENERATORS[task](**FEW), GENERATORS[task](**FEW, words=words)
    assert plain.fingerprint != other.fingerprint
    pairs = list(zip(chain(*plain.values()), chain(*other.values()), strict=True))
    pairs += [(plain.redraw(a, part), other.redraw(b, part)) for a, b in pairs[-30:] for part in ("rest", "rationale")]
    mapping = [{}, {}] if task == "quality" else [{}] * 2  # in quality, each of the texts has a language
    for first, second in pairs:
        assert first.label == second.label
        assert first.rationale_weights == second.rationale_weights
        assert marked_words(first.rationale, first.texts) == marked_words(second.rationale, second.texts)
        for one, two in zip(words_of(first.texts), words_of(second.texts), strict=True):
            if task == "quality" and one.segment == 1 and first.text_of(one) in DICTIONARY:
                continue  # left untranslated
            assert mapping[one.segment].setdefault(first.text_of(one), second.text_of(two)) == second.text_of(two)
    for language in mapping:
        assert len(set(language.values())) == len(language)
    changed = {word for language in mapping for word, new in language.items() if word != new}
    assert changed
    assert task == "quality" or not changed & set(FILLERS)


@pytest.mark.parametrize("task", GENERATORS)
def test_invented_words_are_no_english_words(task):
    """Those of several seeds, too: distinct, and letters that can be spoken."""
    vocabularies = [invented(GENERATORS[task](**FEW, words="nonce", words_seed=seed).rules) for seed in (0, 0, 1, 2)]
    for vocabulary in vocabularies:
        assert len(set(vocabulary)) == len(vocabulary) >= 14
        assert not set(vocabulary) & ENGLISH
        assert all(re.fullmatch(r"[a-z]{2}[aeiou][a-z][aeiou][a-z]", word) for word in vocabulary)
    assert vocabularies[0] == vocabularies[1]
    assert len({*vocabularies[0]} & {*vocabularies[2]}) <= 2


def invented(rules):
    if isinstance(rules, Quality):
        return [*chain(*rules.dictionary.items())]
    if isinstance(rules, Inference):
        return [*chain(*rules.attributes), *rules.negators]
    if isinstance(rules, Graded):
        return [*rules.cues, *rules.negators]
    return [*rules.cues, *rules.negators, *chain(*rules.intensifiers.values())]


@pytest.mark.parametrize("cues", [1, 4, 15])
def test_each_role_has_equal_shares_of_negative_and_positive_words(cues):
    assignments = set()
    for seed in range(20):
        rules = Sentiment(words="permuted", words_seed=seed, cues=cues)
        roles = [*(rules.cues[:cues], rules.cues[cues:]), rules.negators, *rules.intensifiers.values()]
        for role in roles:
            balance = [(word in POSITIVE_TONE) - (word in NEGATIVE_TONE) for word in role]
            assert abs(sum(balance)) <= 1
            assert len(role) % 2 or sum(balance) == 0 or cues == 4  # a neutral word may be among four
        assert len(set(chain(*roles))) == 2 * cues + 6
        assignments.add(rules.cues)
    assert len(assignments) > 15


def test_strong_and_weak_words_are_dealt_by_chance():
    """Mean true weight of the words that English has as weight 4, over many draws."""
    strong = [
        np.mean([abs(rules.weights[word]) for word in (*CUES[4], *CUES[-4]) if word in rules.weights])
        for rules in (Graded(words="permuted", words_seed=seed) for seed in range(60))
    ]
    assert abs(np.mean(strong) - 7 / 3) < 0.25
    for seed in range(20):
        rules = Graded(words="permuted", words_seed=seed)
        for sign in (-1, 1):
            role = [word for word, weight in rules.weights.items() if weight * sign > 0]
            assert sum((word in POSITIVE) - (word in NEGATIVE) for word in role) == 0


def test_a_reader_of_english_is_at_chance():
    """Who knows which words are good and which are bad, and what negators do, is right by chance."""
    right = []
    for seed in range(12):
        english = Sentiment()
        rows = sentiment(**FEW, words="permuted", words_seed=seed)["test"]
        for row in rows:
            label = english.read(row.texts).label
            right.append(0.5 if label is None else float(label == row.label))
    assert abs(np.mean(right) - 0.5) < 0.06  # 720 rows of 12 assignments


def test_no_opposites_stay_opposites():
    english, drawn = set(map(frozenset, (*ATTRIBUTES, NEGATORS))), set()
    for seed in range(20):
        rules = Inference(words="permuted", words_seed=seed, attributes=8, stated=4)
        pairs = {frozenset(pair) for pair in (*rules.attributes, rules.negators)}
        assert not pairs & english
        assert set(chain(*pairs)) == set(chain(*english))
        drawn.add(frozenset(pairs))
    assert len(drawn) == 20


def test_no_word_keeps_its_translation():
    for seed in range(5):
        dictionary = Quality(words="permuted", words_seed=seed).dictionary
        assert list(dictionary) == list(DICTIONARY)
        assert sorted(dictionary.values()) == sorted(DICTIONARY.values())
        assert not set(dictionary.items()) & set(DICTIONARY.items())


def test_reading_has_no_words_to_exchange():
    assert reading(**FEW).fingerprint == reading(**FEW, words="english").fingerprint
    with pytest.raises(UnsupportedError, match="in planted/reading no word has a meaning .* choose planted/sentiment"):
        reading(words="nonce")


@pytest.mark.parametrize("task", [*GENERATORS, "reading"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": "german"}, "'words' must be one of 'english', 'nonce', 'permuted', not 'german'"),
        ({"words_seed": -1}, "'words_seed' must be an integer >= 0, not -1"),
    ],
)
def test_bad_options_are_named(task, options, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        (GENERATORS | {"reading": reading})[task](**options)
