"""Results of metrics that need no students: values of every row, their means and significance tests."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from didact.results.documents import Document, MappingDocument, load_document, plain, require_list, save_document

VERSION: Final = 1
_AGAIN: Final = "Compute the metrics again (didact metrics)."


@dataclass(frozen=True, eq=False)
class MetricRow(MappingDocument):
    """One metric for one method: the mean over rows with its 95 % interval, and how many rows were used and skipped."""

    method: str
    metric: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    rows: int = 0
    skipped: int = 0
    better: str = "higher"
    how: str = ""


@dataclass(frozen=True, eq=False)
class MetricTest(MappingDocument):
    """The difference of two methods in one metric, over the rows that both have: mean, interval and p."""

    metric: str
    method: str
    other: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    rows: int = 0
    p: float | None = None
    claimed: bool = False


@dataclass(frozen=True, eq=False)
class MetricTable(Document):
    """Every metric for every method. `heading` is what metrics against rationales measure: plausibility, or truth."""

    rows: tuple[MetricRow, ...] = ()
    tests: tuple[MetricTest, ...] = ()
    heading: str = "plausibility"
    notes: tuple[str, ...] = ()
    rows_asked: int | None = None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One value per metric, method and row (NaN if undefined), and the table of their means.

    `how` describes the settings of each metric: what replaced removed units, and whether scores were compared with or
    without their signs.
    """

    metrics: tuple[str, ...]
    methods: tuple[str, ...]
    ids: tuple[str, ...]
    values: Float[np.ndarray, "metric method row"]
    how: Mapping[str, str]
    table: MetricTable

    @property
    def heading(self) -> str:
        """What metrics against rationales measure: plausibility, or truth."""
        return self.table.heading

    @property
    def notes(self) -> tuple[str, ...]:
        return self.table.notes

    def summary(self) -> list[MetricRow]:
        """One row per method and metric, with the mean over rows and its 95 % interval."""
        return list(self.table.rows)

    def tests(self) -> list[MetricTest]:
        """One test per metric and pair of methods, over the rows that both have."""
        return list(self.table.tests)

    def to_document(self) -> dict[str, object]:
        """The means and tests as JSON data."""
        return self.table.to_document()

    def save(self, path: Path | str) -> None:
        """Write the table and the values of every row as JSON."""
        document = {"metrics": self.metrics, "methods": self.methods, "ids": self.ids, "how": self.how}
        document |= {"values": plain(self.values.tolist())}
        save_document(Path(path), {**self.to_document(), **document}, VERSION)

    @classmethod
    def load(cls, path: Path | str) -> "Evaluation":
        """Read a file that `save` wrote. Raises RecordError if it is damaged."""
        missing = f"There is no file {path}. Write one with evaluation.save(path)."
        return load_document(Path(path), VERSION, cls._from_document, advice=_AGAIN, missing=missing)

    @classmethod
    def _from_document(cls, document: Mapping[str, Any]) -> "Evaluation":
        metrics, methods, ids = (
            tuple(map(str, require_list(document[name]))) for name in ("metrics", "methods", "ids")
        )
        values = np.array(document["values"], dtype=np.float64).reshape(len(metrics), len(methods), len(ids))
        return cls(metrics, methods, ids, values, dict(document["how"]), MetricTable.from_document(document))
