"""What a section gives to the page."""

from collections.abc import Sequence
from dataclasses import dataclass

from didact.render.page import safe
from didact.render.tables import Table, cut
from didact.reports.figure import Figure


@dataclass(frozen=True)
class Part:
    """A section of the page. `body` is HTML; figures and tables are there to be exported too.

    `style` and `script` are put into the page once; the page's policy allows a script by its hash alone.
    """

    id: str
    title: str
    body: str
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    style: str = ""
    script: str = ""

    def html(self) -> str:
        name = f"{self.id}-title"
        return (
            f'<section id="{self.id}" aria-labelledby="{name}"><h2 id="{name}">{safe(self.title)}</h2>'
            f"\n{self.body}\n</section>"
        )


AGAIN = "Give the same didact compare command again with --eval-rows 200: nothing that is done is computed twice."


def lead(text: str) -> str:
    """What a section shows, in a sentence or two."""
    return f'<p class="lead">{safe(text)}</p>'


def missing(text: str) -> str:
    """A line that says what is not there, and how to get it."""
    return f'<p class="missing">{safe(text)}</p>'


def notes(lines: Sequence[str], *, longest: int = 600, most: int = 40) -> str:
    """Remarks below a table, as a list."""
    if not lines:
        return ""
    said = [f"<li>{safe(cut(line, longest))}</li>" for line in lines[:most]]
    if len(lines) > most:
        said.append(f"<li>… and {len(lines) - most:,} more</li>")
    return f'<ul class="notes">{"".join(said)}</ul>'


def details(summary: str, inside: str) -> str:
    return f"<details><summary>{safe(summary)}</summary>{inside}</details>" if inside else ""
