"""Display explanations of the same rows by one or several methods, in a terminal or on a page."""

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
    """Views of the same rows by several methods, created on access, by whole words or by pieces (`token`).

    With `classes`, the sets are by one method and explain these classes: each heat map is labelled with its class.
    """

    def __init__(
        self, sets: "Sequence[Explanations]", *, level: str = "word", classes: Sequence[str] | None = None
    ) -> None:
        check_level(level)
        self.sets, self.level, self.classes = sets, level, classes
        self.labels = list(classes) if classes is not None else method_labels(sets) if len(sets) > 1 else [""]

    def __len__(self) -> int:
        return len(self.sets[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[row] for row in range(len(self))[index]]
        labelled = zip(self.sets, self.labels, strict=True)
        heat_maps = [
            explanations[index].at_level(self.level).heat_map(method=label) for explanations, label in labelled
        ]
        if self.classes is not None:  # the label already names the class
            heat_maps = [replace(heat_map, target="") for heat_map in heat_maps]
        return RowView(self.sets[0].ids[index], heat_maps)

    def show(self, rows: int) -> None:
        """Print the first rows to the terminal."""
        if rows < 1:
            raise OptionError(f"rows must be at least 1, got {rows}.")
        show(self[:rows], more=self._rest_hint(rows))

    def to_fragment(self) -> str:
        """The first rows as an HTML fragment for a notebook."""
        return fragment(self[:DEFAULT_ROWS], more=self._rest_hint(DEFAULT_ROWS))

    def to_page(self, path: Path | str, title: str, *, lead: str) -> None:
        """Write all rows as one page."""
        write_text(ensure_parent(Path(path)), page_of(title, self, lead=lead))

    def _rest_hint(self, shown: int) -> str:
        """A line that says how to show the remaining rows; empty if all are shown."""
        remaining = len(self) - shown
        name = "explanations" if self.classes is None else f"explanations[{self.classes[0]!r}]"
        return (
            f"… and {remaining} more {'row' if remaining == 1 else 'rows'}: {name}[{shown}:].show()"
            if remaining > 0
            else ""
        )


def side_by_side(sets: "Sequence[Explanations]", *, rows: int = DEFAULT_ROWS, level: str = "word") -> None:
    """Print the first rows to the terminal, each with one heat map per method."""
    RowViews(_same_rows(sets), level=level).show(rows)


def page(sets: "Sequence[Explanations]", path: Path | str, *, title: str | None = None, level: str = "word") -> None:
    """Write one HTML page that shows each row with the heat maps of all methods."""
    row_views = RowViews(_same_rows(sets), level=level)
    methods = sets[0].method if len(sets) == 1 else f"{len(sets)} methods"
    title = title or f"{methods} explain{'s' * (len(sets) == 1)} {sets[0].teacher}"
    row_views.to_page(path, title, lead=f"{sets[0].task} · {len(row_views)} rows")


def _same_rows(sets: "Sequence[Explanations]") -> "Sequence[Explanations]":
    if not sets:
        raise ShapeError("There is nothing to show: pass at least one set of explanations.")
    for explanations in sets[1:]:
        if explanations.ids != sets[0].ids or explanations.task != sets[0].task:
            raise ShapeError(
                f"Methods can only be compared on the same rows, but {sets[0]!r} and {explanations!r} explain "
                "different ones. Choose rows with explanations.select(indices)."
            )
    return sets


def method_labels(sets: "Sequence[Explanations]") -> list[str]:
    """The name of each method, with the options in which methods of the same name differ."""
    labels = []
    for explanations in sets:
        namesake_options = [other.options for other in sets if other.method == explanations.method]
        differing = {
            name: value
            for name, value in explanations.options.items()
            if any(options.get(name) != value for options in namesake_options)
        }
        labels.append(str(Spec(explanations.method, differing)))
    return labels
