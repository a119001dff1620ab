"""Tables as HTML for pages and notebooks, as CSV and as LaTeX."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from didact.viz.formulas import csv_text
from didact.viz.html import MAX_NAME_LENGTH, asset, cut, render

PHONE_WIDTH, PAGE_WIDTH = 42, 120  # characters per line of a table on a phone and on the widest page
_TEXT_COMMANDS: Final = "textbackslash textasciitilde textasciicircum textless textgreater textbar textquotedbl dots S"
_MATH_COMMANDS: Final = (
    r"- \times \pm \tau \uparrow \downarrow \blacktriangle \blacktriangledown \star \ddagger ^\circ \leq \geq \to \cdot"
)
_LATEX: Final = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"\\{command}{{}}" for sign, command in zip('\\~^<>|"…§', _TEXT_COMMANDS.split(), strict=True)},
    **{sign: f"${command}$" for sign, command in zip("−×±τ↑↓▲▼★‡°≤≥→·", _MATH_COMMANDS.split(), strict=True)},
    "–": "--",
    "—": "---",
}
_LATEX_TABLE: Final = r"""%% needs \usepackage{booktabs}; symbols also \usepackage{amssymb} and \usepackage[T1]{fontenc}
\begin{table}
\centering
\caption{%s}
\label{tab:%s}
\begin{tabular}{%s}
\toprule
%s
\bottomrule
\end{tabular}
\end{table}
"""


@dataclass(frozen=True)
class Cell:
    """A table cell. `look` has CSS classes, `title` is shown on hover, `aside` follows the text in smaller type.

    A text longer than `longest` is truncated.
    """

    text: str
    look: str = ""
    title: str = ""
    aside: str = ""
    is_best: bool = False
    longest: int = MAX_NAME_LENGTH

    @property
    def shown(self) -> str:
        return cut(self.text, self.longest)

    @property
    def hover(self) -> str:
        """The text shown on hover: the title, or the full text if it is truncated."""
        return cut(self.title or (self.text if len(self.text) > self.longest else ""), 400)

    @property
    def full_text(self) -> str:
        """The text with the aside."""
        return f"{self.text} {self.aside}".strip()


@dataclass(frozen=True)
class Table:
    """A table whose first column names its rows. `groups` divides the rows by (heading, number of rows).

    `data` has the content as records for CSV; without it, CSV has the texts of the cells.
    """

    name: str
    caption: str
    heads: Sequence[Cell | str]
    rows: Sequence[Sequence[Cell | str]]
    look: str = ""
    words: Sequence[int] = (0,)  # columns of text; all others are right-aligned numbers
    groups: Sequence[tuple[str, int]] = ()
    data: Sequence[Mapping[str, Any]] = ()
    keys: int = 1  # columns that name a row, repeated if a terminal splits the table

    @property
    def head_cells(self) -> list[Cell]:
        return self._cells(self.heads)

    @property
    def bodies(self) -> Iterator[tuple[str, list[list[Cell]]]]:
        """The rows by group, each with its heading."""
        start = 0
        for heading, count in self.groups or [("", len(self.rows))]:
            yield heading, [self._cells(row) for row in self.rows[start : start + count]]
            start += count

    def _cells(self, row: Sequence[Cell | str]) -> list[Cell]:
        """The cells of a row, with the CSS classes of their columns."""
        cells = [content if isinstance(content, Cell) else Cell(content) for content in row]
        return [
            cell if column in self.words else replace(cell, look=f"number {cell.look}".strip())
            for column, cell in enumerate(cells)
        ]

    @property
    def text_heads(self) -> list[str]:
        return [cell.text for cell in self.head_cells]

    @property
    def text_rows(self) -> list[list[str]]:
        """The rows for a terminal, with asides in parentheses."""
        rows = map(self._cells, self.rows)
        return [[f"{cell.text} ({cell.aside})" if cell.aside else cell.text for cell in row] for row in rows]

    def notebook(self, notes: Sequence[str] = ()) -> str:
        """The table and notes below it as an HTML fragment with its own style."""
        style = asset("didact.viz", "grid.css")
        return render("didact.viz", "grid.html.j2", table=self, notes=notes, style=style)

    @property
    def hint(self) -> str:
        """The CSS class of a hint that the table scrolls sideways; empty if it fits a phone."""
        rows = list(map(self._cells, self.rows))
        heads = enumerate(self.head_cells)
        width = sum(self._width(n, head, [row[n] for row in rows if n < len(row)]) for n, head in heads)
        return "hint many" if width > PAGE_WIDTH else "hint" if width > PHONE_WIDTH else ""

    def _width(self, column: int, head: Cell, cells: Sequence[Cell]) -> int:
        """The approximate width of a column in characters. Names break between their parts, numbers never."""
        if column in self.words and self.look != "words":
            texts = [piece for cell in cells for piece in _pieces(cell.text)]
        else:
            texts = [cell.full_text for cell in cells]
        return max(map(len, [*_pieces(head.text), *texts]), default=0) + 2

    def csv(self) -> str:
        if not self.data:
            rows = [[cell.full_text for cell in self._cells(row)] for row in self.rows]
            return csv_text([_printable(line) for line in [self.text_heads, *rows]])
        names = list(dict.fromkeys(name for line in self.data for name in line))
        return csv_text([names, *(_printable([line.get(name) for name in names]) for line in self.data)])

    def latex(self) -> str:
        """A table for LaTeX with the package booktabs. The best of a line is bold."""
        alignment = "".join("l" if column in self.words else "r" for column in range(len(self.heads)))
        lines = [" & ".join(map(latex, self.text_heads)) + r" \\"]
        for heading, rows in self.bodies:
            lines.append(r"\midrule")
            lines += [rf"\multicolumn{{{len(self.heads)}}}{{l}}{{\emph{{{latex(heading)}}}}} \\"] if heading else []
            lines += [" & ".join(map(_latex_cell, row)) + r" \\" for row in rows]
        label = re.sub(r"[^A-Za-z0-9]+", "-", self.name).strip("-") or "table"
        return _LATEX_TABLE % (latex(self.caption), label, alignment, "\n".join(lines))


def latex(text: str) -> str:
    """Escape a text for LaTeX and remove characters that cannot be printed."""
    return "".join(_LATEX.get(character, character) for character in text if character.isprintable())


def _pieces(text: str) -> list[str]:
    return re.split(r"(?<=[_(/=,.\s])", cut(text))


def _latex_cell(cell: Cell) -> str:
    text = latex(cell.text)
    text = rf"\textbf{{{text}}}" if cell.is_best else text
    return text + (f" {latex(cell.aside)}" if cell.aside else "")


def _printable(line: Sequence[Any]) -> list[Any]:
    """A line of CSV cells without characters that cannot be printed."""
    return ["".join(filter(str.isprintable, value)) if isinstance(value, str) else value for value in line]
