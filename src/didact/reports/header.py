"""The head of a report: what was found, in one line, and what must be known with it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from didact.viz.html import cut

_FLAG: Final = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")


@dataclass(frozen=True)
class Card:
    """Some sentences under a title; `small` is one more, smaller."""

    title: str
    lines: Sequence[str]
    small: str = ""

    @property
    def pieces(self) -> list[list[tuple[str, bool]]]:
        """Each line cut into pieces, with whether a piece is an option of the command line."""
        lines = [_FLAG.split(cut(line, 600)) for line in self.lines]
        return [[(piece, place % 2 == 1) for place, piece in enumerate(line)] for line in lines]


@dataclass(frozen=True)
class Header:
    """`over` stands above the title: words, a name, words. Leaders and facts are (name, text)."""

    over: tuple[str, str, str]
    title: str
    summary: str
    facts: Sequence[tuple[str, str]]
    leaders: Sequence[tuple[str, str]] = ()
    question: str = ""
    when: str = ""
    badges: Sequence[str] = ()
    cards: Sequence[Card] = ()
    cautions: Sequence[str] = ()
