"""What a page holds: its head, and sections of blocks of plain data. `templates/` draws them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from markupsafe import Markup

from didact.reports.figure import Figure
from didact.viz.html import cut
from didact.viz.page import Scale
from didact.viz.tables import Table

MEASURE_HINT = (
    "Give the same didact compare command again with --eval-rows 200: nothing that is done is computed twice."
)
_FLAG: Final = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")


@dataclass(frozen=True)
class Paragraph:
    """A sentence or two. The look is lead, missing (what is not there, and how to get it) or none."""

    text: str
    look: str = ""


@dataclass(frozen=True)
class Heading:
    """A title inside of a section."""

    text: str


@dataclass(frozen=True)
class Notes:
    """Remarks below a table, as a list."""

    lines: Sequence[str]
    max_lines: int = 40

    @property
    def shown(self) -> list[str]:
        more = len(self.lines) - self.max_lines
        shown = [cut(line, 600) for line in self.lines[: self.max_lines]]
        return [*shown, f"… and {more:,} more"] if more > 0 else shown


@dataclass(frozen=True)
class Key:
    """A legend: (mark, words)."""

    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Terms:
    """Names, each with what it means."""

    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Code:
    """Text as it stands in a file."""

    text: str


@dataclass(frozen=True)
class Group:
    """Blocks side by side, by the name of their style."""

    look: str
    blocks: Sequence["Block"]


@dataclass(frozen=True)
class Details:
    """Blocks that are unfolded by a click."""

    summary: str
    blocks: Sequence["Block"]


@dataclass(frozen=True)
class Browser:
    """The browser of examples, which the page's script brings to life.

    Filters and sorts are (value, words), switches (name, words). `mark` is how the rationale is shown (look, word), if
    there is any; `data` is what the script reads.
    """

    scales: Sequence[Scale]
    mark: tuple[str, str] | None
    filters: Sequence[tuple[str, str]]
    sorts: Sequence[tuple[str, str]]
    methods: Sequence[str]
    switches: Sequence[tuple[str, str]]
    static_note: str
    static_rows: Sequence[Markup]
    data: Markup


# A piece of a section. The template `blocks` draws it by the name of its class.
Block: TypeAlias = Paragraph | Heading | Notes | Key | Terms | Code | Group | Details | Figure | Table | Browser


@dataclass(frozen=True)
class Section:
    """A section of the page. `charts` are for papers alone.

    `style` and `script` name files of the package; the page's policy allows a script by its hash alone.
    """

    id: str
    title: str
    blocks: Sequence[Block]
    charts: Sequence[Figure] = ()
    style: str = ""
    script: str = ""

    @property
    def figures(self) -> list[Figure]:
        """All charts that can be exported."""
        return [*(block for block in _walk(self.blocks) if isinstance(block, Figure)), *self.charts]

    @property
    def tables(self) -> list[Table]:
        return [block for block in _walk(self.blocks) if isinstance(block, Table)]


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
        return [[(piece, index % 2 == 1) for index, piece in enumerate(line)] for line in lines]


@dataclass(frozen=True)
class Header:
    """`over` stands above the title: words, a name, words. Leaders and facts are (name, text)."""

    overline: tuple[str, str, str]
    title: str
    summary: str
    facts: Sequence[tuple[str, str]]
    leaders: Sequence[tuple[str, str]] = ()
    question: str = ""
    when: str = ""
    badges: Sequence[str] = ()
    cards: Sequence[Card] = ()
    cautions: Sequence[str] = ()


def lead(text: str) -> Paragraph:
    """What a section shows, in a sentence or two."""
    return Paragraph(text, "lead")


def missing(text: str) -> Paragraph:
    """A line that says what is not there, and how to get it."""
    return Paragraph(text, "missing")


def folded(blocks: Sequence[Block], shown: int, look: str, summary: str) -> list[Block]:
    """The first blocks side by side, and the rest to be unfolded; `summary` says how many."""
    rest = blocks[shown:]
    more = [Details(f"{len(rest)} {summary}", [Group(look, rest)])] if rest else []
    return [Group(look, blocks[:shown]), *more]


def _walk(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Group | Details):
            yield from _walk(block.blocks)
