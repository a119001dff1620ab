"""What a run measured without students: explained test rows, metrics, agreement and cost (measured.json)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from didact.errors import DidactError
from didact.files.sealed import damaged, missing_entry, read_json, write_json
from didact.render.marks import INCOMPLETE
from didact.results.documents import BROKEN, Fields, check_version, list_of, number, plain
from didact.results.explanations import Explanations

FILE: Final = "measured.json"
VERSION: Final = 1


@dataclass(frozen=True, eq=False)
class MetricRow(Fields):
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
class MetricTest(Fields):
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
class MetricTable:
    """Every metric of every method. `heading` is what scores against rationales say: plausibility, or truth."""

    rows: tuple[MetricRow, ...] = ()
    tests: tuple[MetricTest, ...] = ()
    heading: str = "plausibility"
    notes: tuple[str, ...] = ()
    rows_asked: int | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "MetricTable":
        return cls(
            tuple(map(MetricRow.from_document, document.get("rows") or ())),
            tuple(map(MetricTest.from_document, document.get("tests") or ())),
            str(document.get("heading") or "plausibility"),
            tuple(map(str, document.get("notes") or ())),
            _count(document.get("rows_asked")),
        )

    def to_document(self) -> dict[str, Any]:
        return {
            "rows": [row.to_document() for row in self.rows],
            "tests": [test.to_document() for test in self.tests],
            "heading": self.heading,
            "notes": list(self.notes),
            "rows_asked": self.rows_asked,
        }


@dataclass(frozen=True, eq=False)
class AgreementMatrix(Fields):
    """One measure of agreement between all pairs of methods: means over rows, as they are stored."""

    methods: tuple[str, ...]
    measure: str
    matrix: Sequence[Sequence[float | None]] = ()
    sd: Sequence[Sequence[float | None]] = ()
    rows: Sequence[Sequence[int]] = ()
    skipped: Sequence[Sequence[int]] = ()
    by: str = "size"
    level: str = ""
    groups: tuple[str, ...] = ()
    group_sd: Sequence[Sequence[float | None]] = ()
    notes: tuple[str, ...] = ()
    caution: str = ""

    @cached_property
    def square(self) -> Float[np.ndarray, "method method"] | None:
        """The matrix with NaN for what is not known; None where it is not square or has fewer than two methods."""
        count = len(self.methods)
        if count < 2 or len(self.matrix) != count or any(len(line) != count for line in self.matrix):
            return None
        return np.array([[np.nan if (one := number(value)) is None else one for value in line] for line in self.matrix])

    def spread(self, first: int, second: int) -> float | None:
        """The standard deviation over rows of two methods."""
        count = len(self.methods)
        is_whole = len(self.sd) == count and len(self.sd[first]) == count
        return number(self.sd[first][second]) if is_whole else None


@dataclass(frozen=True, eq=False)
class Cost(Fields):
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
class MeasuredRow(Fields):
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
    def from_document(cls, document: Mapping[str, Any]) -> "MeasuredRow":
        is_right, picture = document.get("is_right"), document.get("picture")
        return cls(
            id=str(document["id"]),
            gold=None if document.get("gold") is None else _answer(document["gold"]),
            prediction="" if document.get("prediction") is None else _answer(document["prediction"]),
            is_right=None if is_right is None else bool(is_right),
            sureness=number(document.get("sureness")),
            agreement=number(document.get("agreement")),
            rationale=tuple(tuple(map(int, span)) for span in list_of(document.get("rationale") or [])),
            picture=None if picture is None else str(picture),
        )


@dataclass(frozen=True, eq=False)
class MeasuredMethod(Fields):
    """One set of explanations of the measured rows, and its file in the run's folder."""

    label: str
    file: str
    kind: str = ""
    is_control: bool = False


@dataclass(frozen=True, eq=False)
class SkippedMethod(Fields):
    """A method that could not explain the rows."""

    label: str
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Measured:
    """Explanations of test rows, and numbers about them. `key` hashes everything that they depend on."""

    split: str
    task: str
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
    folder: Path = Path()

    @classmethod
    def load(cls, folder: Path) -> "Measured | None":
        """What was measured in a run; None if nothing was."""
        path = folder / FILE
        advice = f"Run the same comparison again with --eval-rows, or remove {path} for a report without it."
        try:
            document = read_json(path, advice=advice)
            check_version(document, VERSION, path)
            return cls._from_document(document, folder)
        except FileNotFoundError:
            return None
        except BROKEN as error:
            raise damaged(path, missing_entry(error), advice) from error

    @classmethod
    def _from_document(cls, document: Mapping[str, Any], folder: Path) -> "Measured":
        def listed(name: str) -> list[Any]:
            return list_of(document.get(name) or [])

        classes = document.get("classes")
        return cls(
            split=str(document.get("split") or "test"),
            task=str(document.get("task") or ""),
            rows=tuple(map(MeasuredRow.from_document, listed("rows"))),
            methods=tuple(map(MeasuredMethod.from_document, listed("methods"))),
            skipped=tuple(map(SkippedMethod.from_document, listed("skipped"))),
            metrics=MetricTable.from_document(document.get("metrics") or {}),
            agreement=tuple(map(AgreementMatrix.from_document, listed("agreement"))),
            cost=tuple(map(Cost.from_document, listed("cost"))),
            notes=tuple(map(str, listed("notes"))),
            classes=None if classes is None else tuple(map(str, list_of(classes))),
            key=str(document.get("key") or ""),
            didact=str(document.get("didact") or ""),
            folder=folder,
        )

    def to_document(self) -> dict[str, Any]:
        lists = {
            name: [entry.to_document() for entry in getattr(self, name)]
            for name in ("rows", "methods", "skipped", "agreement", "cost")
        }
        document = {
            "didact": self.didact,
            "key": self.key,
            "split": self.split,
            "task": self.task,
            "classes": self.classes,
            **lists,
            "metrics": self.metrics.to_document() if self.metrics.rows else {},
            "notes": self.notes,
        }
        whole: dict[str, Any] = plain(document)
        return whole

    def save(self) -> None:
        write_json(self.folder / FILE, self.to_document())

    @cached_property
    def controls(self) -> set[str]:
        return {method.label for method in self.methods if method.is_control}

    def inside(self, name: str) -> Path | None:
        """A file of the run by the name that a record gives; None for what lies elsewhere or is not there."""
        path = self.folder / name
        try:
            is_ours = path.resolve().is_relative_to(self.folder.resolve()) and path.is_file()
        except (OSError, ValueError):  # a name that no file can have
            return None
        return path if is_ours else None

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
        residuals = {}
        for method in self.methods:
            maps = self.explanations(method)
            known = [] if isinstance(maps, str) else [one for one in maps.residuals.tolist() if not math.isnan(one)]
            if known and (residual := median(known)) > INCOMPLETE:
                residuals[method.label] = residual
        return residuals


def _count(value: Any) -> int | None:
    finite = number(value)
    return None if finite is None else int(finite)


def _answer(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
