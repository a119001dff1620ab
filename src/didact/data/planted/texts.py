"""Words of planted texts: common filler words, their placement, and replacement of spans."""

from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from didact.core.row import Span
from didact.data.planted.rules import RandomStream, Texts


def split_words(words: str) -> tuple[str, ...]:
    """The words of a text that are separated by whitespace."""
    return tuple(words.split())


def any_word(words: Iterable[str]) -> str:
    """A regular expression that matches any of the words."""
    return rf"\b(?:{'|'.join(words)})\b"


# Common words that have no meaning in any task, most frequent first.
FILLERS: Final = split_words(
    """
    the a and of to in it is was for on with as at by from this that they we he she you his her our their its one
    two day time year people way man woman child world life hand part place week case point group number night
    room book word line page side house street city town car road door window table chair paper story film scene
    actor song band music show stage crowd ticket seat hour minute month summer winter morning evening train bus
    station bridge river lake hill tree garden field farm horse dog cat bird fish bread milk coffee tea water
    glass cup plate kitchen shop market office school teacher student doctor friend family mother father brother
    sister neighbour letter phone picture camera wall floor roof box bag coat shoe hat shirt pocket key clock lamp
    bed desk pen map ship boat sea beach sand stone wood iron wheel engine screen button after before during while
    when where then there here again also into over under between about around through said made took came went
    saw gave found told asked left put kept began turned walked read wrote heard sent held stood moved opened
    built
    """
)
_CUMULATIVE_WEIGHTS: Final = tuple(accumulate(1 / rank for rank in range(1, len(FILLERS) + 1)))


def filler(rng: RandomStream, count: int = len(FILLERS)) -> str:
    """One of the first `count` fillers, drawn by Zipf's law."""
    return FILLERS[bisect(_CUMULATIVE_WEIGHTS, rng.uniform() * _CUMULATIVE_WEIGHTS[count - 1])]


def scatter(phrases: Sequence[str], length: int, rng: RandomStream, *, fillers: int = len(FILLERS)) -> str:
    """A text of `length` words: the phrases in random order and at random positions among fillers."""
    filler_count = length - sum(phrase.count(" ") + 1 for phrase in phrases)
    slots = dict(zip(rng.sample(range(filler_count + len(phrases)), len(phrases)), phrases, strict=True))
    return " ".join(slots.get(slot) or filler(rng, fillers) for slot in range(filler_count + len(phrases)))


def replace_spans(texts: Texts, changes: Mapping[Span, str]) -> Texts:
    """The texts with these spans replaced."""
    changed = list(texts)
    for segment, start, end in sorted(changes, reverse=True):
        text = changed[segment]
        changed[segment] = text[:start] + changes[Span(segment, start, end)] + text[end:]
    return tuple(changed)


def word_at(texts: Texts, span: Span) -> str:
    return texts[span.segment][span.start : span.end]
