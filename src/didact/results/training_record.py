"""The record of one student: how it was trained and what it reached, or why its training failed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from didact.files.store import Store, StoredRecord
from didact.results.documents import NOT_STORED, Document, MappingDocument

_FAILURE_FIELDS = ("error", "traceback")


@dataclass(frozen=True, eq=False)
class EpochRecord(MappingDocument):
    """The losses of one epoch, and the task measure on dev."""

    loss: float | None
    dev_loss: float | None
    dev: float | None


@dataclass(frozen=True, eq=False)
class TrialRecord(MappingDocument):
    """One trial of a hyperparameter search: the options that it changed, and the task measure on dev."""

    options: Mapping[str, Any]
    dev: float | None


@dataclass(frozen=True, eq=False)
class LearningEpoch(MappingDocument):
    """One epoch of a learned explainer: the outer loss, and the entropy and number of active weights."""

    outer_loss: float | None
    entropy: float | None
    active: int | None


@dataclass(frozen=True, eq=False)
class LearnedRecord(MappingDocument):
    """What an explainer learned with a student: the weight of each named component, and how it was learned."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    coefficients: tuple[float, ...] = ()
    log_temperature: float | None = None
    entropy: float | None = None
    active: int | None = None
    route: str = ""
    notes: tuple[str, ...] = ()
    temperature: float | None = None
    kept: str = ""
    epochs: tuple[LearningEpoch, ...] = ()


@dataclass(frozen=True, eq=False)
class TrainingRecord(Document):
    """One student. `cell` is its specification; `outputs` is the SHA-256 of the file with its answers.

    `value` and `dev` are the task measure on test and dev rows for the selected epoch and trial; None if it is not a
    number. A student whose training failed has an `error` and no results.
    """

    cell: Mapping[str, Any] = field(default_factory=dict)
    value: float | None = None
    dev: float | None = None
    epoch: int | None = None
    trial: int | None = None
    trials: tuple[TrialRecord, ...] = ()
    lost_rows: int | None = None
    epochs: tuple[EpochRecord, ...] = ()
    seconds: float | None = None
    learned: LearnedRecord | None = None
    outputs: str = ""
    error: str | None = None
    traceback: str = ""
    key: str = field(default="", metadata=NOT_STORED)

    @property
    def is_done(self) -> bool:
        return self.error is None

    def to_document(self) -> dict[str, object]:
        """The fields that apply, as JSON data."""
        document = super().to_document()
        if not self.is_done:
            return {name: document[name] for name in ("cell", *_FAILURE_FIELDS)}
        omitted = (*_FAILURE_FIELDS, *(["learned"] if self.learned is None else []))
        return {name: value for name, value in document.items() if name not in omitted}

    def save(self, store: Store) -> None:
        """Write the record under its key."""
        store.save(StoredRecord(self.key, "done" if self.is_done else "failed", self.to_document()))

    @classmethod
    def load(cls, store: Store, key: str) -> "TrainingRecord":
        """Read the record with this key. Raises an error if it is missing or damaged."""
        record = store.load(key)
        failure = {"error": ""} if record.status == "failed" else {}
        return replace(cls.from_document({**failure, **record.payload}), key=key)
