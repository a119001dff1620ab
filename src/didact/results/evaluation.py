"""What explanations are worth by every measure but teaching: the numbers of every row, their means and tests."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from didact.results.documents import Document, MappingDocument, load_document, plain, require_list, save_document

VERSION: Final = 1
_AGAIN: Final = "Measure the explanations again (didact metrics)."


@dataclass(frozen=True, eq=False)
class MetricRow(MappingDocument):
    """One metric of one method: the mean over rows with its 95 % interval, rows measured and skipped."""

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
    """Two methods by one metric, on the rows that both have: the mean difference, its interval and p."""

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
    """Every metric of every method. `heading` is what scores against rationales say: plausibility, or truth."""

    rows: tuple[MetricRow, ...] = ()
    tests: tuple[MetricTest, ...] = ()
    heading: str = "plausibility"
    notes: tuple[str, ...] = ()
    rows_asked: int | None = None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One number for each metric, method and row (NaN where a row has none), and the table of their means.

    `how` tells by metric what was done: what stood where units were taken away, whether sizes or signed scores were
    compared.
    """

    metrics: tuple[str, ...]
    methods: tuple[str, ...]
    ids: tuple[str, ...]
    values: Float[np.ndarray, "metric method row"]
    how: Mapping[str, str]
    table: MetricTable

    @property
    def heading(self) -> str:
        """What scores against rationales say: plausibility, or truth."""
        return self.table.heading

    @property
    def notes(self) -> tuple[str, ...]:
        return self.table.notes

    def summary(self) -> list[MetricRow]:
        """One line per method and metric: the mean over rows with its 95 % interval, rows measured and skipped."""
        return list(self.table.rows)

    def tests(self) -> list[MetricTest]:
        """Each two methods by each metric, on the rows both have: the mean difference, its interval and p."""
        return list(self.table.tests)

    def to_document(self) -> dict[str, object]:
        """The means and tests as JSON has them."""
        return self.table.to_document()

    def save(self, path: Path | str) -> None:
        """Write everything as JSON: the table, and the numbers of every row."""
        document = {"metrics": self.metrics, "methods": self.methods, "ids": self.ids, "how": self.how}
        document |= {"values": plain(self.values.tolist())}
        save_document(Path(path), {**self.to_document(), **document}, VERSION)

    @classmethod
    def load(cls, path: Path | str) -> "Evaluation":
        """What `save` wrote."""
        missing = f"There is no file {path}. An evaluation is written by its method save(path)."
        return load_document(Path(path), VERSION, cls._from_document, advice=_AGAIN, missing=missing)

    @classmethod
    def _from_document(cls, document: Mapping[str, Any]) -> "Evaluation":
        metrics, methods, ids = (
            tuple(map(str, require_list(document[name]))) for name in ("metrics", "methods", "ids")
        )
        values = np.array(document["values"], dtype=np.float64).reshape(len(metrics), len(methods), len(ids))
        return cls(metrics, methods, ids, values, dict(document["how"]), MetricTable.from_document(document))
