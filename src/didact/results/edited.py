"""Results on edited rows: gains of every explainer on all of them, on flips and on stays. Needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from didact.errors import OptionError
from didact.results.contrast import Column, Contrast, ContrastTable
from didact.results.documents import require_list
from didact.results.gains import GainRow

# `edited` is the mean of the other two, whatever their numbers of rows.
EDITED, FLIPS, STAYS = SUBSETS = ("edited", "flips", "stays")
KINDS: Final[Mapping[str, str]] = {
    "redrawn": "the rationale or the rest of a row was redrawn",
    "revised": "people revised the row",
    "swapped": "one word was swapped for another of like frequency and class",
}


@dataclass(frozen=True, eq=False)
class EditedSubset:
    """One `GainRow` per explainer, student and training size on some edited rows, and the contrasts of all pairs.

    `measure` of a row is agreement; `test_rows` counts the different edited rows of all students.
    """

    rows: tuple[GainRow, ...]
    contrasts: ContrastTable

    def find(self, explainer: str, column: Column) -> GainRow | None:
        """The row of this explainer and column, or None."""
        return self._by_arm.get((explainer, column))

    @cached_property
    def _by_arm(self) -> dict[tuple[str, Column], GainRow]:
        return {(row.explainer, row.column): row for row in self.rows}

    def to_document(self) -> dict[str, object]:
        return {"rows": [row.to_document() for row in self.rows], "contrasts": self.contrasts.to_document()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "EditedSubset":
        rows = tuple(map(GainRow.from_document, require_list(document["rows"])))
        return cls(rows, ContrastTable.from_document(require_list(document["contrasts"])))


@dataclass(frozen=True, eq=False)
class EditedResults:
    """How well students predict the teacher on rows that are one edit away from rows they were trained on.

    `kind` says how rows were edited (`KINDS`). `flips` and `stays` count the edited rows whose answer by the teacher
    differs from that to the row before the edit, and the others. `subsets` has the gains by the names in `SUBSETS`.
    """

    kind: str
    sources: int
    flips: int
    stays: int
    subsets: Mapping[str, EditedSubset]

    def subset(self, name: str = EDITED) -> EditedSubset:
        """The gains on all edited rows (`edited`), on `flips` or on `stays`."""
        if name not in self.subsets:
            raise OptionError(f"There is no subset {name!r} of edited rows. Choose one of {', '.join(self.subsets)}.")
        return self.subsets[name]

    def contrast(self, first: str, second: str, column: Column, subset: str = EDITED) -> Contrast | None:
        """The contrast of two explainers of a column, first minus second; None if it is undefined."""
        return self.subset(subset).contrasts.get(first, second, column)

    def summary(self) -> str:
        """A sentence with the numbers of rows."""
        how = KINDS.get(self.kind, self.kind)
        return (
            f"Edited rows: {self.flips + self.stays:,} edits of {self.sources:,} training rows ({how}). On "
            f"{self.flips:,} the model's answer flips, on {self.stays:,} it stays. Each student is tested on edits of "
            "rows that it was trained on."
        )

    def remarks(self) -> list[str]:
        """What a reader of the table must know."""
        lines = [
            self.summary(),
            "none: agreement with the model in percent. All others: gain over none, with interval and mark as above. "
            "edited is the mean of flips and stays, which count the same.",
        ]
        missing = [name for name, count in ((FLIPS, self.flips), (STAYS, self.stays)) if not count]
        if missing:
            lines.append(f"There are no {' and no '.join(missing)}, so there is no mean of the two.")
        return lines

    def to_document(self) -> dict[str, object]:
        subsets = {name: subset.to_document() for name, subset in self.subsets.items()}
        counts = {"sources": self.sources, "flips": self.flips, "stays": self.stays}
        return {"kind": self.kind, **counts, "subsets": subsets}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "EditedResults":
        """Read what `to_document` returned. Raises LookupError, TypeError or ValueError if it is damaged."""
        counts = {name: int(document[name]) for name in ("sources", "flips", "stays")}
        subsets = {name: EditedSubset.from_document(document["subsets"][name]) for name in SUBSETS}
        return cls(kind=str(document["kind"]), subsets=subsets, **counts)
