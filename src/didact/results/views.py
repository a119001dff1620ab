"""Explanations to look at: the same rows by one method or several, in the terminal or on a page."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from didact.errors import OptionError, ShapeError
from didact.files.atomic import ensure_parent, write_text
from didact.registry import Spec
from didact.results.words import check_level
from didact.viz.heat_map import RowView, show
from didact.viz.page import fragment
from didact.viz.page import page as page_of

if TYPE_CHECKING:
    from didact.results.explanations import Explanations

DEFAULT_ROWS: Final = 5


class RowViews(Sequence[RowView]):
    """The same rows by several methods, drawn only as far as they are asked for: whole words, or pieces (`token`).

    With `classes` they are of one method and explain these classes: each map is labelled with its class.
    """

    def __init__(
        self, many: "Sequence[Explanations]", *, level: str = "word", classes: Sequence[str] | None = None
    ) -> None:
        check_level(level)
        self.many, self.level, self.classes = many, level, classes
        self.method_labels = list(classes) if classes is not None else method_labels(many) if len(many) > 1 else [""]

    def __len__(self) -> int:
        return len(self.many[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[row] for row in range(len(self))[index]]
        pairs = zip(self.many, self.method_labels, strict=True)
        heats = [maps[index].at_level(self.level).heat_map(method=label) for maps, label in pairs]
        if self.classes is not None:  # the label says it
            heats = [replace(heat_map, target="") for heat_map in heats]
        return RowView(self.many[0].ids[index], heats)

    def show(self, rows: int) -> None:
        """Print the first rows to the terminal."""
        if rows < 1:
            raise OptionError(f"At least one row must be shown, not {rows}.")
        show(self[:rows], more=self._more_than(rows))

    def to_fragment(self) -> str:
        """The first rows for a notebook."""
        return fragment(self[:DEFAULT_ROWS], more=self._more_than(DEFAULT_ROWS))

    def to_page(self, path: Path | str, title: str, *, lead: str) -> None:
        """Write all rows as one page."""
        write_text(ensure_parent(Path(path)), page_of(title, self, lead=lead))

    def _more_than(self, shown: int) -> str:
        """The line that says how to see the rest."""
        left = len(self) - shown
        name = "maps" if self.classes is None else f"found[{self.classes[0]!r}]"
        return f"… and {left} more {'row' if left == 1 else 'rows'}: {name}[{shown}:].show()" if left > 0 else ""


def side_by_side(many: "Sequence[Explanations]", *, rows: int = DEFAULT_ROWS, level: str = "word") -> None:
    """Print the first rows to the terminal, each with the heat maps of all methods under one another."""
    RowViews(_same_rows(many), level=level).show(rows)


def page(many: "Sequence[Explanations]", path: Path | str, *, title: str | None = None, level: str = "word") -> None:
    """Write one HTML page with each row as all methods explain it."""
    sections = RowViews(_same_rows(many), level=level)
    methods = many[0].method if len(many) == 1 else f"{len(many)} methods"
    title = title or f"{methods} explain{'s' * (len(many) == 1)} {many[0].teacher}"
    sections.to_page(path, title, lead=f"{many[0].task} · {len(sections)} rows")


def _same_rows(many: "Sequence[Explanations]") -> "Sequence[Explanations]":
    if not many:
        raise ShapeError("There is nothing to show: give at least one set of explanations.")
    for maps in many[1:]:
        if maps.ids != many[0].ids or maps.task != many[0].task:
            raise ShapeError(
                f"Methods can be compared on the same rows only: {many[0]!r} and {maps!r} explain different ones. "
                "Choose rows with maps.select(indices)."
            )
    return many


def method_labels(many: "Sequence[Explanations]") -> list[str]:
    """The name of each method, with the options in which methods of one name differ."""
    found = []
    for maps in many:
        namesakes = [other.options for other in many if other.method == maps.method]
        differing = {
            name: value for name, value in maps.options.items() if any(one.get(name) != value for one in namesakes)
        }
        found.append(str(Spec(maps.method, differing)))
    return found
