"""The rows of a comparison: gains per explainer, student and training size; failed runs; learned weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from didact.results.contrast import Column
from didact.results.documents import NOT_STORED, MappingDocument
from didact.results.training_record import LearnedRecord, LearningEpoch

NONE: Final = "none"  # the arm without explanations, the reference of every gain
FEW_SEEDS: Final = 5  # rows with fewer seeds are marked: their intervals are unreliable
_COUNTS: Final = ("size", "seeds", "test_rows", "lost_rows", "low_seeds")
# Numbers that are stored only if they are defined; older runs do not have them.
SHARES: Final = ("normalised_gain", "normalised_low", "normalised_high", "helped", "misled")
_NUMBERS: Final = ("mean", "median", "q25", "q75", "gain", "low", "high", "level", "p", "rank", *SHARES)


@dataclass(frozen=True, eq=False)
class GainRow(MappingDocument):
    """One explainer with one student and training size. Measures and gains are fractions; unknown values are None.

    `gain` is the mean paired difference to `none` over seeds and test rows. It is `claimed` by the rule in
    docs/compare.md, which is equivalent to an interval from `low` to `high` (at `level`) that excludes 0. `low_seeds`
    counts the seeds that form a separate, lower group; `lost_rows` counts the rows that lost part of their explanation.

    `normalised_gain` is the share of the gap between `none` and 1 that is closed, with its interval at the same level.
    `helped` and `misled` are the shares of pairs (seed, test row) on which the explanations corrected the student, and
    on which the student was right without them and wrong with them; their difference is the gain. All are None for a
    correlation, and the normalised gain is None if `none` is at the ceiling.
    """

    explainer: str
    student: str
    size: int
    seeds: int
    measure: str
    mean: float | None = None
    median: float | None = None
    q25: float | None = None
    q75: float | None = None
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    p: float | None = None
    p_reason: str = ""
    claimed: bool = False
    rank: float | None = None
    test_rows: int = 0
    is_control: bool = False
    lost_rows: int = 0
    low_seeds: int = 0
    normalised_gain: float | None = None
    normalised_low: float | None = None
    normalised_high: float | None = None
    helped: float | None = None
    misled: float | None = None

    def to_document(self) -> dict[str, object]:
        """The fields as JSON data, without shares that are undefined."""
        return {name: value for name, value in super().to_document().items() if name not in SHARES or value is not None}

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> "GainRow":
        """A stored row. Raises KeyError or TypeError where an entry is missing or of another type."""
        for name in ("explainer", "student", "size", "seeds", "gain", "low", "high"):
            document[name]
        for name in (*_COUNTS, *_NUMBERS):
            value = document.get(name)
            kinds = int if name in _COUNTS else int | float
            if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
                raise TypeError(f"{name} of a row is {value!r}")
        for name in ("explainer", "student"):
            if not isinstance(document[name], str):
                raise TypeError(f"{name} of a row is {document[name]!r}")
        counts = {name: document.get(name) or 0 for name in _COUNTS}
        measure, mean = document.get("measure") or "accuracy", document.get("mean", document.get("median"))
        return super().from_document({**document, **counts, "measure": measure, "mean": mean})  # older rows lack some

    @property
    def column(self) -> Column:
        return self.student, self.size

    @property
    def has_interval(self) -> bool:
        return self.low is not None and self.high is not None

    @property
    def is_above(self) -> bool:
        """Whether the gain is claimed to be above 0."""
        return self.claimed and (self.gain or 0.0) > 0

    @property
    def is_below(self) -> bool:
        """Whether the gain is claimed to be below 0."""
        return self.claimed and (self.gain or 0.0) < 0

    @property
    def mark(self) -> str:
        """▲ for a gain claimed to be above 0, ▼ for one claimed to be below, otherwise empty."""
        return "▲" if self.is_above else "▼" if self.is_below else ""

    @property
    def footnotes(self) -> str:
        """° for few seeds, ‡ for students that failed to learn."""
        return ("°" if self.seeds < FEW_SEEDS else "") + ("‡" if self.low_seeds else "")

    @property
    def modes_sentence(self) -> str:
        """A warning for an arm whose students fall into two groups."""
        if 2 * self.low_seeds <= self.seeds:
            finding = f"{self.low_seeds} of {self.seeds} students failed to learn what the others did"
        else:
            finding = f"{self.seeds - self.low_seeds} of {self.seeds} students learned what the others did not"
        return f"{self.explainer}: {finding}; intervals with it are too narrow."


@dataclass(frozen=True, eq=False)
class FailedRun(MappingDocument):
    """A student whose training failed, and the error."""

    key: str
    explainer: str
    student: str
    size: int
    seed: int
    error: str


@dataclass(frozen=True, eq=False, kw_only=True)
class LearnedWeights(LearnedRecord):
    """The weights that an explainer learned for one student, size and seed, one per named component."""

    explainer: str
    student: str
    size: int
    seed: int
    epochs: tuple[LearningEpoch, ...] = field(default=(), metadata=NOT_STORED)

    @classmethod
    def of(cls, learned: LearnedRecord, explainer: str, student: str, size: int, seed: int) -> "LearnedWeights":
        """The weights in the record of a learned explainer, without its epochs."""
        identity = {"explainer": explainer, "student": student, "size": size, "seed": seed}
        return cls.from_document({**identity, **learned.to_document()})


def column_name(column: Column) -> str:
    return f"{column[0]}, {column[1]:,} rows"
