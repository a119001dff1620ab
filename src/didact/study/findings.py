"""What an analysis finds, as typed values. `Findings.to_document` writes them for analysis.json."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from didact.study.contrasts import Contrasts, Pair


@dataclass(frozen=True)
class Settings:
    """How answers are analysed."""

    replicates: int
    level: float
    seed: int


@dataclass(frozen=True)
class MethodRow:
    """One method, or one cohort of a simulation. `rank` is about people at large, `rank_here` about those asked."""

    method: str
    estimate: float
    low: float
    high: float
    rank: int
    rank_here: int


@dataclass(frozen=True)
class RankedMethod(MethodRow):
    first_places: float
    mean_rank: float
    rankings: int


@dataclass(frozen=True)
class RatedMethod(MethodRow):
    """`counts` are the ratings by point of the scale."""

    raw_mean: float
    ratings: int
    counts: Sequence[int]


@dataclass(frozen=True)
class Cohort(MethodRow):
    """Shares of right answers: where the model is right, where it is wrong, while learning, and of each person."""

    is_control: bool
    people: int
    answers: int
    where_right: float
    where_wrong: float
    learning: float
    by_person: Mapping[str, float]


@dataclass(frozen=True)
class TestedPair(Pair):
    """Two cohorts of a simulation, with the permutation test of their difference."""

    p: float | None
    p_holm: float | None
    p_reason: str
    with_control: bool


@dataclass(frozen=True)
class PersonRow:
    """One person: how much was answered, how fast, how far they agree with the others (`tau`), and what looks odd."""

    person: str
    cohort: str
    answers: int
    steps: int
    is_finished: bool
    is_synthetic: bool
    median_seconds: float
    tau: float
    odd: Sequence[str]


@dataclass(frozen=True)
class Counts:
    """How large the study is, and who in it did not finish, looks odd or is left out."""

    people: int
    synthetic: int
    finished: int
    dropouts: Sequence[str]
    odd: Sequence[str]
    left_out: Sequence[str]
    items: int
    items_planned: int
    answers: int
    methods: int
    median_seconds: float


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What one kind of study finds. `more` is what only this kind has; `taus` are by person."""

    measure: str
    headline: str
    methods: Sequence[MethodRow]
    contrasts: Contrasts
    pairs: Sequence[Pair]
    agreement: Mapping[str, Any]
    notes: Sequence[str]
    taus: Mapping[str, float] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """The entries of analysis.json."""
        methods = sorted(self.methods, key=lambda row: (-row.estimate, row.method))
        return {
            "measure": self.measure,
            "headline": self.headline,
            "methods": [asdict(row) for row in methods],
            "pairs": [asdict(pair) for pair in self.pairs],
            "order": [asdict(row) for row in self.contrasts.order()],
            "order_here": [asdict(row) for row in self.contrasts.order(here=True)],
            "agreement": self.agreement,
            "notes": self.notes,
            **self.more,
        }
