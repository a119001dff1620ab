"""A page as tests read it: its elements, its tables, its words."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

from didact.viz.html import render

_EMPTY = {"meta", "link", "br", "img", "wbr", "input", "rect", "path", "line", "circle"}


def section_html(section):
    """One section as it stands in the page."""
    return render("didact.reports", "section.html.j2", section=section)


@dataclass
class Page(HTMLParser):
    """Elements in order as (name, attributes); tables by caption as rows of texts; text outside of script and style."""

    html: str
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    scripts: list[tuple[dict[str, str], str]] = field(default_factory=list)

    def __post_init__(self):
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._caption, self._rows = "", []
        self.feed(self.html)
        self.close()

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _EMPTY:
            self._open.append(tag)
        if tag == "table":
            self._caption, self._rows = "", []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th") and self._rows:
            self._rows[-1].append("")
        elif tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in _EMPTY:
            self._open.pop()

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data):
        if "script" in self._open:
            attrs, said = self.scripts[-1]
            self.scripts[-1] = (attrs, said + data)
            return
        if "style" in self._open:
            return
        self.words.append(data)
        if "caption" in self._open:
            self._caption += data
        elif self._rows and ("td" in self._open or "th" in self._open):
            self._rows[-1][-1] += data
