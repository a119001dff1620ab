"""The wording of planted texts: English, invented words, or English words with exchanged roles.

A wording maps every word that has a role in a task to the word that takes it. A data set in another wording is the
English one with these words replaced, so that labels and rationales correspond word by word.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from didact.data.planted.random_stream import RandomStream
from didact.data.planted.rules import check_integers
from didact.data.planted.texts import FILLERS
from didact.errors import OptionError

WORDINGS: Final = ("english", "nonce", "permuted")

# Two syllables that begin with two consonants and end like few English words: brivak, zwenox.
_ONSETS: Final = ("bl", "br", "dr", "fl", "gl", "kl", "kr", "pl", "sk", "sn", "tr", "vl", "vr", "zl", "zw")
_VOWELS: Final = "aeiou"
_MIDDLES: Final = "bdgklmnrvz"
_CODAS: Final = "bfkpvxz"


def check_wording(words: object, words_seed: object) -> None:
    """Raise `OptionError` unless these are a wording and its seed."""
    if words not in WORDINGS:
        raise OptionError(f"Option 'words' must be one of {', '.join(map(repr, WORDINGS))}, not {words!r}.")
    check_integers(0, words_seed=words_seed)


def nonce_words(count: int, rng: RandomStream, *, avoid: Iterable[str] = ()) -> list[str]:
    """Distinct invented words that can be pronounced, none of them in `avoid` or among the fillers."""
    used, words = {*avoid, *FILLERS}, list[str]()
    while len(words) < count:
        word = "".join(map(rng.choice, (_ONSETS, _VOWELS, _MIDDLES, _VOWELS, _CODAS)))
        if word not in used:
            used.add(word)
            words.append(word)
    return words


def toned_wording(
    words: str, words_seed: int, name: str, *, roles: Sequence[Sequence[str]], tones: Sequence[Sequence[str]]
) -> Mapping[str, str]:
    """The wording of a task whose words have a positive or negative tone in English.

    `roles` groups the words by what they do in the task, `tones` has the negative and the positive ones; the others are
    neutral. `permuted` deals the words to the roles again, so that each role of an even size gets as many negative as
    positive words, and a role of an odd size a neutral word besides. In any beginning of a role, the numbers of
    negative and positive words differ by at most 1.
    """
    role_words = list(chain(*roles))
    if words == "english":
        return {word: word for word in role_words}
    rng = RandomStream(words_seed, name, words)
    if words == "nonce":
        return dict(zip(role_words, nonce_words(len(role_words), rng, avoid=role_words), strict=True))
    toned = [rng.sample(tone, len(tone)) for tone in tones]
    neutral = [word for word in role_words if word not in chain(*tones)]
    neutral = rng.sample(neutral, len(neutral))
    wording = dict[str, str]()
    for role in roles:
        first, second = rng.sample(toned, 2)
        dealt = [(second if index % 2 else first).pop() for index in range(len(role) // 2 * 2)]
        if len(role) % 2:
            dealt.insert(rng.integer(0, len(dealt)), neutral.pop())
        wording |= zip(role, dealt, strict=True)
    return wording


def paired_wording(words: str, words_seed: int, name: str, pairs: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    """The wording of a task whose words belong together in pairs, such as opposites.

    `permuted` pairs the words again at random; no two words of an English pair stay a pair.
    """
    role_words = list(chain(*pairs))
    if words == "english":
        return {word: word for word in role_words}
    rng = RandomStream(words_seed, name, words)
    if words == "nonce":
        return dict(zip(role_words, nonce_words(len(role_words), rng, avoid=role_words), strict=True))
    english = set(map(frozenset, pairs))
    while True:
        dealt = rng.sample(role_words, len(role_words))
        if english.isdisjoint(map(frozenset, zip(dealt[::2], dealt[1::2], strict=True))):
            return dict(zip(role_words, dealt, strict=True))


def dictionary_wording(words: str, words_seed: int, name: str, dictionary: Mapping[str, str]) -> Mapping[str, str]:
    """The dictionary in another wording, in the order of its entries.

    `nonce` invents both languages. `permuted` exchanges the translations; no word keeps its own.
    """
    if words == "english":
        return dictionary
    rng = RandomStream(words_seed, name, words)
    if words == "nonce":
        invented = nonce_words(2 * len(dictionary), rng, avoid=chain(*dictionary.items()))
        return dict(zip(invented[::2], invented[1::2], strict=True))
    translations = list(dictionary.values())
    while True:
        dealt = rng.sample(translations, len(translations))
        if all(new != old for new, old in zip(dealt, translations, strict=True)):
            return dict(zip(dictionary, dealt, strict=True))
