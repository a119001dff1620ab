"""Measurements of a run that need no students: explained test rows, metrics, agreement and cost (measured.json)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, Final

from didact.errors import DidactError
from didact.results.agreement import AgreementMatrix
from didact.results.documents import NOT_STORED, Document, MappingDocument, load_document, save_document
from didact.results.evaluation import MetricTable
from didact.results.explanations import Explanations
from didact.results.task_kinds import task_kind
from didact.viz.text_spans import COMPLETENESS_TOLERANCE

FILE: Final = "measured.json"
VERSION: Final = 1


@dataclass(frozen=True, eq=False)
class Cost(MappingDocument):
    """The cost of one method per explained row. `memory` is the peak above idle, in megabytes.

    `forward` counts the rows that the model computes, including the pass that finds the predicted class; `backward`
    counts the rows whose gradient is computed. For a black box, `forward` counts its inputs; there is no backward pass.
    """

    method: str
    forward: float | None = None
    backward: float | None = None
    seconds: float | None = None
    memory: float | None = None
    rows: int = 0


@dataclass(frozen=True, eq=False)
class MeasuredRow(MappingDocument):
    """One row that all methods explained. `rationale` has (text, start, end), for images the sides of boxes."""

    id: str
    gold: str | None = None
    prediction: str = ""
    is_right: bool | None = None
    sureness: float | None = None
    agreement: float | None = None
    rationale: tuple[tuple[int, ...], ...] = ()
    picture: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> "MeasuredRow":
        """Convert a stored row. Answers stored by early versions may be numbers."""
        answers = {
            name: _answer_text(document[name]) for name in ("gold", "prediction") if document.get(name) is not None
        }
        return super().from_document(
            {"gold": None, **document, **answers, "picture": _optional_text(document.get("picture"))}
        )


@dataclass(frozen=True, eq=False)
class MeasuredMethod(MappingDocument):
    """The explanations by one method, and their file in the folder of the run."""

    label: str
    file: str
    kind: str = ""
    is_control: bool = False


@dataclass(frozen=True, eq=False)
class SkippedMethod(MappingDocument):
    """A method that could not explain the rows, and the reason."""

    label: str
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Measurements(Document):
    """Explanations of test rows and their metrics. `key` is a hash of everything that they depend on."""

    split: str = "test"
    task: str = ""
    rows: tuple[MeasuredRow, ...] = ()
    methods: tuple[MeasuredMethod, ...] = ()
    skipped: tuple[SkippedMethod, ...] = ()
    metrics: MetricTable = field(default_factory=MetricTable)
    agreement: tuple[AgreementMatrix, ...] = ()
    cost: tuple[Cost, ...] = ()
    notes: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    key: str = ""
    didact: str = ""
    folder: Path = field(default=Path(), metadata=NOT_STORED)

    @classmethod
    def load(cls, folder: Path) -> "Measurements | None":
        """The measurements of a run; None if it has none."""
        path = folder / FILE
        advice = f"Run the same comparison again with --eval-rows, or remove {path} for a report without it."
        try:
            return replace(load_document(path, VERSION, cls.from_document, advice=advice), folder=folder)
        except FileNotFoundError:
            return None

    def to_document(self) -> dict[str, object]:
        """The stored fields as JSON data. A table of metrics without rows is an empty object."""
        document = super().to_document()
        return document if self.metrics.rows else {**document, "metrics": {}}

    def save(self) -> None:
        """Write the measurements to `folder`."""
        save_document(self.folder / FILE, self.to_document(), VERSION)

    @property
    def is_image(self) -> bool:
        return task_kind(self.task).is_image

    @cached_property
    def controls(self) -> set[str]:
        return {method.label for method in self.methods if method.is_control}

    def inside(self, name: str) -> Path | None:
        """The path of a file that a record names; None if it is outside the folder of the run or does not exist."""
        path = self.folder / name
        try:
            is_inside = path.resolve().is_relative_to(self.folder.resolve()) and path.is_file()
        except (OSError, ValueError):  # not a valid file name
            return None
        return path if is_inside else None

    def explanations(self, method: MeasuredMethod) -> Explanations | str:
        """The explanations by one method, or a message that says why they cannot be loaded."""
        path = self.inside(method.file)
        if path is None:
            return f"the file {method.file!r} is not in the run's folder"
        try:
            return Explanations.load(path)
        except DidactError as error:
            return str(error)

    @cached_property
    def incomplete(self) -> dict[str, float]:
        """The median completeness error of each method that promises completeness and misses it by more than 5 %."""
        medians = {}
        for method in self.methods:
            explanations = self.explanations(method)
            residuals = (
                []
                if isinstance(explanations, str)
                else [value for value in explanations.residuals.tolist() if not math.isnan(value)]
            )
            if residuals and (residual := median(residuals)) > COMPLETENESS_TOLERANCE:
                medians[method.label] = residual
        return medians


def _answer_text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _optional_text(value: Any) -> str | None:
    return None if value is None else str(value)
