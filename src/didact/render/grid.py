"""A small table for a notebook: text in, a piece of HTML out. Everything written in it is escaped.

It takes ink and page from whatever stands around it, so that it reads on a light page and on a dark one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from didact.render.page import safe

_STYLE: Final = """
.didact-grid { overflow-x: auto; font-family: system-ui, sans-serif; font-size: .875rem; line-height: 1.5; }
.didact-grid table { border-collapse: collapse; margin: .25rem 0 .5rem; display: table; width: auto; }
.didact-grid th, .didact-grid td { padding: .2rem .75rem; text-align: right; white-space: nowrap; border: 0;
  font-variant-numeric: tabular-nums; background: none; }
.didact-grid thead th { border-bottom: 1px solid currentColor; font-weight: 600; vertical-align: bottom;
  white-space: pre-line; }
.didact-grid th[scope=row], .didact-grid th.part, .didact-grid thead th:first-child { text-align: left;
  font-weight: 400; }
.didact-grid th.part { padding-top: .6rem; font-style: italic; opacity: .75; }
.didact-grid .quiet { opacity: .65; }
.didact-grid .best { font-weight: 700; }
.didact-grid .above { background: rgba(34, 150, 80, .18); }
.didact-grid .below { background: rgba(214, 80, 30, .18); }
.didact-grid p { margin: .15rem 0; opacity: .75; max-width: 60rem; }
"""


@dataclass(frozen=True)
class Cell:
    """`title` is read when one points at it; `mark` is best, above, below, quiet, or nothing."""

    text: str
    title: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """One line of the table. A line without cells heads those that follow."""

    name: Cell
    cells: Sequence[Cell] = ()


def grid(heads: Sequence[str], lines: Sequence[Line], *, notes: Sequence[str] = ()) -> str:
    """The first of `heads` stands above the names of the lines."""
    top = "".join(f'<th scope="col">{safe_lines(head)}</th>' for head in heads)
    body = "\n".join(_line(line, len(heads)) for line in lines)
    below = "".join(f"<p>{safe(note)}</p>" for note in notes)
    table = f'<table class="cells"><thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'
    return f'<style>{_STYLE}</style>\n<div class="didact-grid">{table}\n{below}</div>'


def safe_lines(text: str) -> str:
    """Escaped, and cut into lines where the text is."""
    return "<br>".join(safe(part) for part in text.split("\n"))


def _line(line: Line, width: int) -> str:
    if not line.cells:
        return f'<tr><th class="part" colspan="{width}">{safe(line.name.text)}</th></tr>'
    cells = "".join(f"<td{_facts(cell)}>{safe(cell.text)}</td>" for cell in line.cells)
    return f'<tr><th scope="row"{_facts(line.name)}>{safe(line.name.text)}</th>{cells}</tr>'


def _facts(cell: Cell) -> str:
    mark = f' class="{safe(cell.mark)}"' if cell.mark else ""
    return mark + (f' title="{safe(cell.title)}"' if cell.title else "")
