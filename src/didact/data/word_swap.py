"""Swaps one word of a row for another of like frequency and class, for data without better edits.

There is no tagger offline, so the class of a word is what its form shows: a group of a closed list of English function
words, or capitalisation, digits and suffix. Grammar and sense of the edited text are not checked.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from didact.core.row import Row, Span
from didact.core.seeds import numpy_generator

# A word that may be swapped: no part of a contraction, an address, a tag such as <br/> or a special token as in [MASK].
_WORD: Final = re.compile(r"(?<![\w@#/\\<\[&.'’])\w+(?![\w@/\\>\]])(?!['’.]\w)")
_SENTENCE_START: Final = re.compile(r"(?:^|[.!?]['\")”’]*)\s*['\"(“‘]*$")
_SUFFIXES: Final = (
    *("tion", "sion", "ment", "ness", "ship", "able", "ible", "less", "ious", "ally", "ance", "ence"),
    *("ing", "ful", "ous", "ive", "ist", "ism", "ity", "est", "ers", "ies", "ed", "ly", "er", "al", "ic", "es", "s"),
    "y",
)
_FEWEST_STEM: Final = 3  # letters before a suffix
_FUNCTION_WORDS: Final[Mapping[str, str]] = {
    "article": "a an the",
    "demonstrative": "this that these those",
    "quantifier": "all any both each every few many more most much no none other same several some such",
    "pronoun": "he she it",
    "plural pronoun": "we you they",
    "object pronoun": "me him us them",
    "possessive": "my your his her its our their",
    "reflexive": "myself yourself himself herself itself ourselves themselves",
    "preposition": (
        "about above across after against along among around at before behind below beneath beside between beyond by "
        "despite down during for from in inside into near of off on onto out outside over past since through to toward "
        "towards under until up upon with within without"
    ),
    "conjunction": "and but or nor yet so",
    "subordinator": "although because if once than though unless whereas whether while as",
    "question": "how what when where which who whom whose why",
    "singular verb": "is was has does",
    "plural verb": "are were have do",
    "past verb": "had did been",
    "modal": "can could may might must shall should will would cannot",
    "negation": "not never",
    "adverb": "again also even ever here just now only often quite rather really still then there too very well",
    "I": "i",
    "be": "be being am",
}
_GROUP: Final = {word: group for group, words in _FUNCTION_WORDS.items() for word in words.split()}


class WordClass(NamedTuple):
    """What the form of a word shows: `kind` (a group of function words, "number" or "word"), case and suffix."""

    kind: str
    case: str
    suffix: str = ""


@dataclass(frozen=True)
class _Candidate:
    """A word that may be swapped. `form` is its spelling, in lower case if only its place makes it a capital."""

    span: Span
    form: str
    word_class: WordClass
    is_raised: bool  # written with a capital because it starts a sentence


@dataclass(frozen=True, eq=False)
class WordSwap:
    """Swaps words as they occur in `rows`, which give the frequencies. Frequencies are alike in one power of two."""

    rows: Sequence[Row]

    def edit(self, row: Row, *, seed: int) -> Row | None:
        """The row with one word swapped, without label and rationale; None if no word has an alternative.

        Row id and seed decide which word and which alternative, each drawn with equal probability.
        """
        options = [
            (candidate, words) for candidate in self._candidates(row) if (words := self._alternatives(candidate))
        ]
        if not options:
            return None
        rng = numpy_generator(seed, "word swap", row.id)
        candidate, words = options[int(rng.integers(len(options)))]
        word = words[int(rng.integers(len(words)))]
        texts, (segment, start, end) = list(row.texts), candidate.span
        word = word.capitalize() if candidate.is_raised else word
        texts[segment] = texts[segment][:start] + word + texts[segment][end:]
        return Row(row.id, tuple(texts))

    @cached_property
    def _lower_words(self) -> set[str]:
        """The words that occur in lower case. They show whether the first word of a sentence is a name."""
        texts = (text for row in self.rows for text in row.texts)
        return {*_GROUP, *(match[0] for text in texts for match in _WORD.finditer(text) if match[0].islower())}

    @cached_property
    def _counts(self) -> Counter[tuple[WordClass, str]]:
        return Counter(
            (candidate.word_class, candidate.form) for row in self.rows for candidate in self._candidates(row)
        )

    @cached_property
    def _bands(self) -> dict[tuple[WordClass, int], list[str]]:
        """The words of each class and power of two of their frequency, sorted."""
        bands: defaultdict[tuple[WordClass, int], list[str]] = defaultdict(list)
        for (word_class, form), count in sorted(self._counts.items()):
            bands[word_class, count.bit_length()].append(form)
        return dict(bands)

    def _alternatives(self, candidate: _Candidate) -> list[str]:
        count = self._counts.get((candidate.word_class, candidate.form), 1)
        words = self._bands.get((candidate.word_class, count.bit_length()), [])
        return [word for word in words if word != candidate.form]

    def _candidates(self, row: Row) -> Iterator[_Candidate]:
        for segment, text in enumerate(row.texts):
            for match in _WORD.finditer(text):
                word = match[0]
                is_raised = (
                    word[:1].isupper()
                    and not word[1:].isupper()
                    and word.lower() in self._lower_words
                    and bool(_SENTENCE_START.search(text[: match.start()]))
                )
                form = word.lower() if is_raised else word
                yield _Candidate(Span(segment, *match.span()), form, word_class(form), is_raised)


def word_class(word: str) -> WordClass:
    """The class of a word. Numbers of one length are one class, words with digits another; names have no suffix."""
    if any(map(str.isdigit, word)):
        return WordClass("number", "digits" if word.isdigit() else "mixed", str(len(word)))
    group = _GROUP.get(word.lower())
    if group is not None:
        return WordClass(group, _case(word))
    if not word.islower():  # a name
        return WordClass("word", _case(word))
    suffix = next((end for end in _SUFFIXES if word.endswith(end) and len(word) >= len(end) + _FEWEST_STEM), "")
    return WordClass("word", "lower", suffix)


def _case(word: str) -> str:
    if word.islower():
        return "lower"
    if word[:1].isupper() and (len(word) == 1 or word[1:].islower()):
        return "title"
    return "upper" if word.isupper() else "mixed"
