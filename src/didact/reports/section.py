"""The data of a page: its header, and sections made of blocks. `templates/` draws them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from markupsafe import Markup

from didact.reports.figure import Figure
from didact.viz.html import cut
from didact.viz.page import Scale
from didact.viz.tables import Table

MEASURE_HINT = "Run the same didact compare command again with --eval-rows 200; finished work is not computed again."
_FLAG: Final = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")


@dataclass(frozen=True)
class Paragraph:
    """One or two sentences. `look` is "lead", "missing" (content that is absent, and how to get it) or ""."""

    text: str
    look: str = ""


@dataclass(frozen=True)
class Heading:
    """A title within a section."""

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
    """A legend: pairs of a mark's CSS class and its meaning."""

    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Terms:
    """Names with their descriptions."""

    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Code:
    """Preformatted text, such as the content of a file."""

    text: str


@dataclass(frozen=True)
class Group:
    """Blocks in a container of CSS class `look`."""

    look: str
    blocks: Sequence["Block"]


@dataclass(frozen=True)
class Details:
    """Blocks that a click unfolds."""

    summary: str
    blocks: Sequence["Block"]


@dataclass(frozen=True)
class Browser:
    """The example browser, drawn by the page's script from `data`.

    Filters and sorts are (value, text), switches (name, text). `mark` is how the rationale is shown (CSS class, word),
    or None without rationales.
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


# An element of a section. The template `blocks` draws it by the name of its class.
Block: TypeAlias = Paragraph | Heading | Notes | Key | Terms | Code | Group | Details | Figure | Table | Browser


@dataclass(frozen=True)
class Section:
    """A section of the page. `charts` are exported for papers only.

    `style` and `script` name files of the package. The page's Content-Security-Policy allows scripts by hash.
    """

    id: str
    title: str
    blocks: Sequence[Block]
    charts: Sequence[Figure] = ()
    style: str = ""
    script: str = ""

    @property
    def figures(self) -> list[Figure]:
        """All charts to export."""
        return [*(block for block in _walk(self.blocks) if isinstance(block, Figure)), *self.charts]

    @property
    def tables(self) -> list[Table]:
        return [block for block in _walk(self.blocks) if isinstance(block, Table)]


@dataclass(frozen=True)
class Card:
    """Sentences under a title; `small` is one more, in small print."""

    title: str
    lines: Sequence[str]
    small: str = ""

    @property
    def pieces(self) -> list[list[tuple[str, bool]]]:
        """Each line as pieces: (text, whether it is a command-line option)."""
        lines = [_FLAG.split(cut(line, 600)) for line in self.lines]
        return [[(piece, index % 2 == 1) for index, piece in enumerate(line)] for line in lines]


@dataclass(frozen=True)
class Header:
    """The header of a page. `overline` is above the title: words, a name, words. Leaders and facts are (name, text)."""

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
    """A paragraph that introduces a section."""
    return Paragraph(text, "lead")


def missing(text: str) -> Paragraph:
    """A paragraph that says what is missing, and how to get it."""
    return Paragraph(text, "missing")


def folded(blocks: Sequence[Block], shown: int, look: str, summary: str) -> list[Block]:
    """The first `shown` blocks, and the others folded under their number and `summary`."""
    rest = blocks[shown:]
    more = [Details(f"{len(rest)} {summary}", [Group(look, rest)])] if rest else []
    return [Group(look, blocks[:shown]), *more]


def _walk(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Group | Details):
            yield from _walk(block.blocks)
