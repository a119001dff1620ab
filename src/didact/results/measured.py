"""What a run measured without students: explained test rows, metrics, agreement and cost (measured.json)."""

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
    """Of one method, per explained row. `memory` is the peak above idle, in megabytes.

    `forward` counts rows that went through the model, the pass that finds the predicted class included; `backward`
    those whose gradient was taken. Of a black box they are its inputs, and there is nothing backward.
    """

    method: str
    forward: float | None = None
    backward: float | None = None
    seconds: float | None = None
    memory: float | None = None
    rows: int = 0


@dataclass(frozen=True, eq=False)
class MeasuredRow(MappingDocument):
    """One row that all methods explained. `rationale` holds (text, start, end), or for images four sides."""

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
        """A stored row. Answers of the first versions may be numbers."""
        answers = {
            name: _answer_text(document[name]) for name in ("gold", "prediction") if document.get(name) is not None
        }
        return super().from_document(
            {"gold": None, **document, **answers, "picture": _optional_text(document.get("picture"))}
        )


@dataclass(frozen=True, eq=False)
class MeasuredMethod(MappingDocument):
    """One set of explanations of the measured rows, and its file in the run's folder."""

    label: str
    file: str
    kind: str = ""
    is_control: bool = False


@dataclass(frozen=True, eq=False)
class SkippedMethod(MappingDocument):
    """A method that could not explain the rows."""

    label: str
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Measurements(Document):
    """Explanations of test rows, and numbers about them. `key` hashes everything that they depend on."""

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
        """What was measured in a run; None if nothing was."""
        path = folder / FILE
        advice = f"Run the same comparison again with --eval-rows, or remove {path} for a report without it."
        try:
            return replace(load_document(path, VERSION, cls.from_document, advice=advice), folder=folder)
        except FileNotFoundError:
            return None

    def to_document(self) -> dict[str, object]:
        """The fields as JSON has them; nothing stands for a table without rows."""
        document = super().to_document()
        return document if self.metrics.rows else {**document, "metrics": {}}

    def save(self) -> None:
        save_document(self.folder / FILE, self.to_document(), VERSION)

    @property
    def is_image(self) -> bool:
        return task_kind(self.task).is_image

    @cached_property
    def controls(self) -> set[str]:
        return {method.label for method in self.methods if method.is_control}

    def inside(self, name: str) -> Path | None:
        """A file of the run by the name that a record gives; None for what lies elsewhere or is not there."""
        path = self.folder / name
        try:
            is_inside = path.resolve().is_relative_to(self.folder.resolve()) and path.is_file()
        except (OSError, ValueError):  # a name that no file can have
            return None
        return path if is_inside else None

    def explanations(self, method: MeasuredMethod) -> Explanations | str:
        """The explanations of one method, or what stands in the way."""
        path = self.inside(method.file)
        if path is None:
            return f"the file {method.file!r} is not in the run's folder"
        try:
            return Explanations.load(path)
        except DidactError as error:
            return str(error)

    @cached_property
    def incomplete(self) -> dict[str, float]:
        """The methods whose scores should add up and do not: the median residual, where it exceeds 5 %."""
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
