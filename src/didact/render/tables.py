"""Tables of the page, and the same for papers: HTML, CSV, LaTeX."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from didact.render.formulas import without_formula
from didact.render.page import safe

PHONE, PAGE = 42, 120  # characters of a line of a table on a phone, and on the widest page
LONGEST: Final = 80  # characters of a name; the rest is in its title
_LATEX: Final = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "−": "$-$", "–": "--", "—": "---", "×": r"$\times$", "±": r"$\pm$",
    "τ": r"$\tau$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "▲": r"$\blacktriangle$", "▼": r"$\blacktriangledown$",
    "★": r"$\star$", "‡": r"$\ddagger$", "§": r"\S{}", "°": r"$^\circ$", "…": r"\dots{}", "≤": r"$\leq$",
    "≥": r"$\geq$", "→": r"$\to$", "·": r"$\cdot$",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """`look` are classes of the style, `title` is read by pointing at it, `aside` stands behind the text, smaller.

    Of a text longer than `longest` the end is cut off.
    """

    text: str
    look: str = ""
    title: str = ""
    aside: str = ""
    is_best: bool = False
    longest: int = LONGEST


@dataclass(frozen=True)
class Table:
    """One table: the first column names its rows. `groups` are (heading, number of rows) that divide them.

    `data` is the content as plain records, for CSV; without it the cells are written as they are read.
    """

    name: str
    caption: str
    heads: Sequence[Cell | str]
    rows: Sequence[Sequence[Cell | str]]
    look: str = ""
    words: Sequence[int] = (0,)  # columns that are read as text; numbers stand right
    groups: Sequence[tuple[str, int]] = ()
    data: Sequence[Mapping[str, Any]] = ()
    keys: int = 1  # columns that name a row: repeated where a terminal splits the table

    @property
    def text_heads(self) -> list[str]:
        return [_cell(head).text for head in self.heads]

    @property
    def text_rows(self) -> list[list[str]]:
        """The rows for a terminal; what stands behind a text is put into brackets."""
        cells = [[_cell(entry) for entry in row] for row in self.rows]
        return [[f"{cell.text} ({cell.aside})" if cell.aside else cell.text for cell in row] for row in cells]

    def html(self) -> str:
        heads = "".join(self._head(number, _cell(one)) for number, one in enumerate(self.heads))
        width = self._width()
        look = "hint many" if width > PAGE else "hint"
        hint = f'<p class="{look}" aria-hidden="true">scroll sideways →</p>' if width > PHONE else ""
        return (
            f'{hint}<div class="scroll" tabindex="0" role="region" aria-label="{safe(cut(self.caption))}">'
            f'<table class="{self.look}"><caption><span class="stay">{safe(self.caption)}</span></caption>'
            f"<thead><tr>{heads}</tr></thead>{self._bodies()}</table></div>"
        )

    def _bodies(self) -> str:
        if not self.groups:
            return f"<tbody>{''.join(map(self._line, self.rows))}</tbody>"
        found, at = [], 0
        for heading, count in self.groups:
            lines = "".join(map(self._line, self.rows[at : at + count]))
            head = f'<tr class="group"><th colspan="{len(self.heads)}" scope="rowgroup">'
            head += f'<span class="stay">{safe(heading)}</span></th></tr>'
            found.append(f"<tbody>{head}{lines}</tbody>")
            at += count
        return "".join(found)

    def _width(self) -> int:
        """About how many characters wide the table is: headings break between the parts of names, numbers never."""
        found = 0
        for number, head in enumerate(self.heads):
            cells = [_cell(row[number]) for row in self.rows if number < len(row)]
            if number in self.words and self.look != "words":
                texts = [piece for cell in cells for piece in _pieces(cell.text)]
            else:
                texts = [_whole(cell) for cell in cells]
            found += max(map(len, [*_pieces(_cell(head).text), *texts]), default=0) + 2
        return found

    def _head(self, number: int, cell: Cell) -> str:
        return f'<th scope="col"{self._looks(number, cell)}{_titled(cell)}><span>{soft(cut(cell.text))}</span></th>'

    def _line(self, row: Sequence[Cell | str]) -> str:
        return f"<tr>{''.join(self._cell(number, _cell(one)) for number, one in enumerate(row))}</tr>"

    def _cell(self, number: int, cell: Cell) -> str:
        inside = soft(cut(cell.text, cell.longest))
        if cell.is_best:
            inside = f'<b>{inside}</b><span class="best" aria-hidden="true">★</span><span class="unseen">, best</span>'
        if cell.aside:
            inside += f" <small>{safe(cell.aside)}</small>"
        tag = 'th scope="row"' if number == 0 else "td"
        return f"<{tag}{self._looks(number, cell)}{_titled(cell)}>{inside}</{tag[:2]}>"

    def _looks(self, number: int, cell: Cell) -> str:
        looks = " ".join(filter(None, ["" if number in self.words else "number", cell.look]))
        return f' class="{looks}"' if looks else ""

    def csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        if self.data:
            names = list(dict.fromkeys(name for line in self.data for name in line))
            writer.writerow(names)
            writer.writerows([_plain(line.get(name)) for name in names] for line in self.data)
        else:
            writer.writerow([_plain(_cell(one).text) for one in self.heads])
            writer.writerows([_plain(_whole(_cell(one))) for one in row] for row in self.rows)
        return out.getvalue()

    def latex(self) -> str:
        """A table for LaTeX with the package booktabs. The best of a line is bold."""
        sides = "".join("l" if number in self.words else "r" for number in range(len(self.heads)))
        starts, at = {}, 0
        for heading, count in self.groups:
            starts[at] = heading
            at += count
        lines = []
        for number, row in enumerate(self.rows):
            if number in starts:
                rule = [r"\midrule"] if number else []
                lines += [*rule, rf"\multicolumn{{{len(self.heads)}}}{{l}}{{\emph{{{latex(starts[number])}}}}} \\"]
            lines.append(" & ".join(_latex_cell(_cell(one)) for one in row) + r" \\")
        return "\n".join(
            [
                "% needs \\usepackage{booktabs}; symbols also \\usepackage{amssymb} and \\usepackage[T1]{fontenc}",
                r"\begin{table}", r"\centering",
                rf"\caption{{{latex(self.caption)}}}", rf"\label{{tab:{_key(self.name)}}}",
                rf"\begin{{tabular}}{{{sides}}}",
                r"\toprule", " & ".join(latex(_cell(one).text) for one in self.heads) + r" \\", r"\midrule", *lines,
                r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
            ]
        )  # fmt: skip


def cut(text: str, longest: int = LONGEST) -> str:
    """The text, its end cut off visibly where it is long."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def soft(text: str) -> str:
    """Escaped, with places where a long name may be broken."""
    return re.sub(r"([_(/=,.])(?=[^\W\d])", r"\1<wbr>", safe(text))


def latex(text: str) -> str:
    """Escaped for LaTeX; what cannot be printed is left out."""
    return "".join(_LATEX.get(sign, sign) for sign in text if sign.isprintable())


def _key(name: str) -> str:
    """A name as a label of LaTeX can hold it."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "table"


def _pieces(text: str) -> list[str]:
    return re.split(r"(?<=[_(/=,.\s])", cut(text))


def _latex_cell(cell: Cell) -> str:
    inside = latex(cell.text)
    inside = rf"\textbf{{{inside}}}" if cell.is_best else inside
    return inside + (f" {latex(cell.aside)}" if cell.aside else "")


def _cell(one: Cell | str) -> Cell:
    return one if isinstance(one, Cell) else Cell(one)


def _whole(cell: Cell) -> str:
    return f"{cell.text} {cell.aside}".strip()


def _plain(value: Any) -> Any:
    """For a sheet: what cannot be printed is left out, and text that a sheet would take for a formula is quoted."""
    if not isinstance(value, str):
        return "" if value is None else value
    text = "".join(sign for sign in value if sign.isprintable())
    return without_formula(text)


def _titled(cell: Cell) -> str:
    title = cell.title or (cell.text if len(cell.text) > cell.longest else "")
    return f' title="{safe(cut(title, 400))}"' if title else ""
