"""The result of an audit: how each evaluator answers questions about explanations whose answers are known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from didact.errors import RecordError
from didact.files.checksummed import describe_entry_error
from didact.results.documents import DAMAGE_ERRORS, MappingDocument
from didact.results.evidence import Evidence, EvidenceTable, EvidenceTeacher

KIND: Final = "audit"


class Change(StrEnum):
    """What was done to the scores of a base."""

    NONE = ""  # the method itself
    START = "start"  # what the changed scores of a base are compared with: the base, or its marks as magnitudes
    DAMAGE = "damage"  # some scores are wrong
    SAME = "same"  # says the same at another sharpness
    LESS = "less"  # can only lose information
    LEAK = "leak"  # gives the answer away and explains nothing


class Relation(StrEnum):
    """The question that a pair of explanations asks."""

    STEP = "step"  # the first is damaged less than the second, and must be ahead
    EQUAL = "equal"  # both say the same, and must not differ
    LESS = "less"  # the first can only have lost information, and must not be ahead of its base
    LEAK = "leak"  # the first only gives the answer away, and must not be ahead of none (of random, for metrics)


@dataclass(frozen=True, eq=False)
class AuditedExplanation(MappingDocument):
    """One set of explanations and its true AUC, on the rows that students learn from and on the evaluated rows.

    `base`, `change` and `level` say how it was made; `is_method` that it is one of the methods to be ranked. An AUC is
    None where the truth is unknown.
    """

    name: str
    base: str = ""
    change: str = Change.NONE
    level: float = 0.0
    damaged: str = ""  # rows or units
    is_method: bool = False
    train_auc: float | None = None
    test_auc: float | None = None


@dataclass(frozen=True, eq=False)
class AuditedEvaluator(MappingDocument):
    """One way of judging: a student with a target normalisation and a test set, or a metric.

    `reference` is the simulability of students without explanations, or the value of random scores. `seconds` are per
    student that was trained, or per explained row for all metrics together.
    """

    name: str
    student: str = ""
    size: int = 0
    normalisation: str = ""
    test_set: str = ""
    metric: str = ""
    reference: float | None = None
    seconds: float | None = None
    learned: bool = True

    @property
    def is_metric(self) -> bool:
        return bool(self.metric)


@dataclass(frozen=True, eq=False)
class AuditedValue(MappingDocument):
    """The value that an evaluator gives an explanation, minus its reference. Higher is better, for all metrics, too.

    `low` and `high` are the 95 % interval, uncorrected; `by_seed` has the value with each seed.
    """

    evaluator: str
    explainer: str
    value: float | None
    low: float | None = None
    high: float | None = None
    by_seed: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class AuditedPair(MappingDocument):
    """What an evaluator says about two explanations: `first` minus `second`, with its paired 95 % interval.

    `auc_drop` is the true AUC of the first minus that of the second. `by_construction` means that the evaluator is
    given exactly the same for both, so that it cannot see a difference.
    """

    evaluator: str
    relation: str
    first: str
    second: str
    base: str
    difference: float | None
    low: float | None
    high: float | None
    auc_drop: float | None = None
    damaged: str = ""
    by_construction: bool = False


Row = TypeVar("Row", bound=MappingDocument)
Answer = TypeVar("Answer", AuditedValue, AuditedPair)


@dataclass(frozen=True, eq=False)
class Audit:
    """An audit of evaluators on one teacher: explanations, evaluators, values and pairs.

    `evidence` has the teacher, seeds, settings, notes, command, date and versions. `AuditSummary` counts the answers.
    """

    evidence: Evidence
    explanations: tuple[AuditedExplanation, ...]
    evaluators: tuple[AuditedEvaluator, ...]
    values: tuple[AuditedValue, ...]
    pairs: tuple[AuditedPair, ...]

    def __repr__(self) -> str:
        return f"Audit({self.name!r}, {len(self.evaluators)} evaluators, {len(self.explanations)} explanations)"

    @property
    def name(self) -> str:
        return self.evidence.name

    @property
    def task(self) -> str:
        """The kind of task that was audited."""
        return str(self.evidence.settings.get("task", ""))

    @property
    def teacher(self) -> EvidenceTeacher:
        return self.evidence.teachers[0]

    @property
    def knows_truth(self) -> bool:
        """Whether the true AUC of explanations is that of this teacher: it is verified, or exact."""
        return bool(self.teacher.verified or self.teacher.is_exact)

    @cached_property
    def by_evaluator(self) -> dict[str, AuditedEvaluator]:
        return {evaluator.name: evaluator for evaluator in self.evaluators}

    @cached_property
    def pairs_by_evaluator(self) -> dict[str, list[AuditedPair]]:
        return _grouped(self.pairs)

    @cached_property
    def values_by_evaluator(self) -> dict[str, list[AuditedValue]]:
        return _grouped(self.values)

    # -- files --------------------------------------------------------------------------------------------------------

    def to_evidence(self) -> Evidence:
        """The audit as evidence. Numbers are rounded to six significant digits."""
        tables = {name: EvidenceTable.of(list(getattr(self, name))) for name in _TABLES}
        return replace(self.evidence, kind=KIND, tables=tables)

    @classmethod
    def of_evidence(cls, evidence: Evidence) -> "Audit":
        """Read the tables of evidence. Raises RecordError if it is of another kind."""
        if evidence.kind != KIND:
            raise RecordError(f"Part {evidence.name!r} holds evidence of kind {evidence.kind!r}, not of an audit.")
        if len(evidence.teachers) != 1:
            raise RecordError(f"Part {evidence.name!r} must have one teacher, and has {len(evidence.teachers)}.")
        return cls(evidence, **{name: _rows(evidence, name, kind) for name, kind in _TABLES.items()})

    def to_document(self) -> dict[str, object]:
        """The audit as JSON data."""
        evidence = self.to_evidence()
        return {**evidence.to_document(), "fingerprint": evidence.fingerprint}

    def save(self, path: Path | str) -> None:
        """Write the audit as a part of evidence (JSON). Raises OptionError if it would be larger than 1 MB."""
        self.to_evidence().save(path)

    @classmethod
    def load(cls, path: Path | str) -> "Audit":
        """Read a file that `save` wrote. Raises RecordError, which names the file, if it is damaged."""
        evidence = Evidence.load(path)
        try:
            return cls.of_evidence(evidence)
        except RecordError as error:
            raise RecordError(f"{path} holds no audit. {error}") from error


_TABLES: Final[Mapping[str, type[Any]]] = {
    "explanations": AuditedExplanation,
    "evaluators": AuditedEvaluator,
    "values": AuditedValue,
    "pairs": AuditedPair,
}


def _grouped(rows: Iterable[Answer]) -> dict[str, list[Answer]]:
    """The rows by the name of their evaluator."""
    groups: dict[str, list[Answer]] = {}
    for row in rows:
        groups.setdefault(row.evaluator, []).append(row)
    return groups


def _rows(evidence: Evidence, name: str, kind: type[Row]) -> tuple[Row, ...]:
    if name not in evidence.tables:
        raise RecordError(f"Part {evidence.name!r} has no table {name!r}, which an audit needs.")
    try:
        return tuple(kind.from_document(row) for row in evidence.tables[name].rows())
    except DAMAGE_ERRORS as error:
        reason = describe_entry_error(error)
        raise RecordError(f"Table {name!r} of part {evidence.name!r} is damaged ({reason}).") from error
