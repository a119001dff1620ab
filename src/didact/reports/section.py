"""What a section of a report holds: blocks of plain data. `templates/blocks.html.j2` draws them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from didact.reports.figure import Figure
from didact.viz.html import cut
from didact.viz.tables import Table

AGAIN = "Give the same didact compare command again with --eval-rows 200: nothing that is done is computed twice."


@runtime_checkable
class Block(Protocol):
    """A piece of a section; the template draws it by its kind."""

    kind: ClassVar[str]


@dataclass(frozen=True)
class Paragraph:
    """A sentence or two. The look is lead, missing (what is not there, and how to get it) or none."""

    kind: ClassVar = "paragraph"
    text: str
    look: str = ""


@dataclass(frozen=True)
class Heading:
    """A title inside of a section."""

    kind: ClassVar = "heading"
    text: str


@dataclass(frozen=True)
class Notes:
    """Remarks below a table, as a list."""

    kind: ClassVar = "notes"
    lines: Sequence[str]
    most: int = 40

    @property
    def shown(self) -> list[str]:
        more = len(self.lines) - self.most
        shown = [cut(line, 600) for line in self.lines[: self.most]]
        return [*shown, f"… and {more:,} more"] if more > 0 else shown


@dataclass(frozen=True)
class Key:
    """A legend: (mark, words)."""

    kind: ClassVar = "key"
    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Terms:
    """Names, each with what it means."""

    kind: ClassVar = "terms"
    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Code:
    """Text as it stands in a file."""

    kind: ClassVar = "code"
    text: str


@dataclass(frozen=True)
class Group:
    """Blocks side by side, by the name of their style."""

    kind: ClassVar = "group"
    look: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Details:
    """Blocks that are unfolded by a click."""

    kind: ClassVar = "details"
    summary: str
    blocks: Sequence[Block]


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
