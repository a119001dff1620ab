"""Explanations of the same rows for every class, as `didact.explain(…, target="all")` returns them. Needs no torch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from didact.errors import OptionError, UnknownNameError
from didact.registry import unknown_name_message
from didact.results.explanations import Explanations
from didact.results.views import DEFAULT_ROWS, RowViews
from didact.results.word_summary import WordSummary


@dataclass(frozen=True, eq=False, repr=False)
class ByClass(Mapping[str, Explanations]):
    """Explanations by class name, in the order of the teacher's classes."""

    explanations: Mapping[str, Explanations]

    def __post_init__(self) -> None:
        if not self.explanations:
            raise OptionError("Explanations by class need at least one class.")

    def __getitem__(self, name: str) -> Explanations:
        try:
            return self.explanations[name]
        except KeyError:
            raise UnknownNameError(unknown_name_message("class", str(name), self.explanations)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.explanations)

    def __len__(self) -> int:
        return len(self.explanations)

    def __repr__(self) -> str:
        first = next(iter(self.explanations.values()))
        return f"ByClass({first.method!r}, {len(first)} rows, classes: {', '.join(self.explanations)})"

    def show(self, rows: int = DEFAULT_ROWS, *, level: str = "word") -> None:
        """Print the first rows to the terminal, each with one heat map per class."""
        self._sections(level).show(rows)

    def _repr_html_(self) -> str:
        return self._sections("word").to_fragment()

    def to_html(self, path: Path | str, title: str | None = None, *, level: str = "word") -> None:
        """Write one page that shows each row with the heat maps of all classes."""
        first = next(iter(self.explanations.values()))
        lead = f"{first.task} · {len(first)} rows · {len(self)} classes"
        title = title or f"{first.method} explains {first.teacher} for every class"
        self._sections(level).to_page(path, title, lead=lead)

    def summary(self, k: int = 20, *, least: int | None = None) -> WordSummary:
        """The strongest words of each class. Every row counts for every class, since each explains all classes."""
        summaries = [explanations.summary(k, least=least) for explanations in self.explanations.values()]
        return replace(summaries[0], words=tuple(word for summary in summaries for word in summary.words))

    def to_documents(self, *, level: str = "token") -> list[dict[str, object]]:
        """One dictionary of JSON data per class and row."""
        return [row for explanations in self.explanations.values() for row in explanations.to_documents(level=level)]

    def to_pandas(self, *, level: str = "word") -> Any:
        """A data frame with one line per class and row; the column `target` names the class."""
        import pandas

        return pandas.concat(
            [explanations.to_pandas(level=level) for explanations in self.explanations.values()], ignore_index=True
        )

    def _sections(self, level: str) -> RowViews:
        return RowViews(list(self.explanations.values()), level=level, classes=list(self.explanations))
