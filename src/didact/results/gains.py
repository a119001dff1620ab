"""The rows of a comparison: gains per explainer, student and training size; failed runs; learned weights."""

from collections.abc import Iterator, Mapping
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
class BandPoint(MappingDocument):
    """A method at one temperature of a band. Gain and interval are corrected for all temperatures and methods."""

    temperature: float
    seeds: int
    mean: float | None
    gain: float | None
    low: float | None
    high: float | None
    p: float | None
    claimed: bool

    @property
    def order(self) -> tuple[bool, float, float]:
        """What temperatures are ordered by: the gain, or the mean where there is no gain."""
        return self.gain is not None, self.gain or 0.0, self.mean or 0.0

    @property
    def mark(self) -> str:
        """▲ for a gain claimed to be above 0, ▼ for one claimed to be below, otherwise empty."""
        return "" if not self.claimed else "▲" if (self.gain or 0.0) > 0 else "▼"


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

    With target normalisation `band`, the numbers are those of the temperature with the highest gain, and `band` has
    those of every temperature, from flat to sharp.
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
    band: tuple[BandPoint, ...] = ()

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

    def __iter__(self) -> Iterator[str]:
        return (name for name in super().__iter__() if name != "band" or self.band)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def to_document(self) -> dict[str, object]:
        """The row as JSON data. `band` is stored only if there is one, and shares only if they are defined."""
        document = super().to_document()
        return {name: document[name] for name in self if name not in SHARES or document[name] is not None}

    def frame_lines(self) -> list[dict[str, object]]:
        """The row as lines of a data frame: one, or with a band one per temperature."""
        if not self.band:
            return [dict(self)]
        unknown = dict.fromkeys(("median", "q25", "q75", "level"))
        return [{**dict(self), **unknown, **dict(point)} for point in self.band]

    @property
    def column(self) -> Column:
        return self.student, self.size

    @property
    def lowest_point(self) -> BandPoint | None:
        """The temperature with the lowest gain; None without a band."""
        return min(self.band, key=lambda point: point.order, default=None)

    @property
    def best_point(self) -> BandPoint | None:
        """The temperature with the highest gain, which the row shows; None without a band."""
        return max(self.band, key=lambda point: point.order, default=None)

    @property
    def span(self) -> float:
        """What temperature alone makes: the largest minus the smallest mean measure of the band. 0 without a band."""
        means = [point.mean for point in self.band if point.mean is not None]
        return max(means) - min(means) if means else 0.0

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
