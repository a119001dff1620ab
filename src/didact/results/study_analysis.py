"""The result of a study with people: `StudyAnalysis`, which `didact study analyze` stores in analysis.json."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from didact.errors import OptionError
from didact.results.documents import NOT_STORED, Document, MappingDocument, load_document, number, plain, save_document
from didact.results.number_format import NumberFormat

FILE: Final = "analysis.json"
VERSION: Final = 1
KINDS: Final = ("ranking", "simulation", "rating")


@dataclass(frozen=True, eq=False)
class MethodEstimate(MappingDocument):
    """The estimate for one method, or for one cohort of a simulation.

    `rank` generalises to people in general, `rank_here` only to the participants. A cohort has proportions of correct
    answers: where the model is right, where it is wrong, while learning, and per person. `counts` has the number of
    ratings at each point of the scale. Values that a kind of study does not have are None and not stored.
    """

    method: str
    estimate: float
    low: float | None
    high: float | None
    rank: int
    rank_here: int
    is_control: bool | None = None
    people: int | None = None
    answers: int | None = None
    where_right: float | None = None
    where_wrong: float | None = None
    learning: float | None = None
    by_person: Mapping[str, float] | None = None
    first_places: float | None = None
    mean_rank: float | None = None
    rankings: int | None = None
    raw_mean: float | None = None
    ratings: int | None = None
    counts: tuple[int, ...] | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> "MethodEstimate":
        by_person = document.get("by_person")
        entries = by_person.items() if isinstance(by_person, Mapping) else ()
        finite = {name: value for name, entry in entries if (value := number(entry)) is not None}
        return super().from_document({**document, "by_person": finite})

    def to_document(self) -> dict[str, object]:
        return {name: plain(value) for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, eq=False)
class PairwiseDifference(MappingDocument):
    """The difference between two methods, better minus worse.

    The `sure` interval is simultaneous over all pairs. The `here` interval is for these participants only.
    """

    better: str
    worse: str
    difference: float
    low: float | None
    high: float | None
    sure_low: float | None
    sure_high: float | None
    here_low: float | None
    here_high: float | None
    is_sure: bool
    is_sure_here: bool


@dataclass(frozen=True, eq=False)
class TestedPair(PairwiseDifference):
    """The difference between two cohorts of a simulation, with its permutation test."""

    p: float | None = None
    p_holm: float | None = None
    p_reason: str = ""
    with_control: bool = False


@dataclass(frozen=True, eq=False)
class Participant(MappingDocument):
    """One person: number and speed of answers, agreement with the others (`tau`), and anything suspicious (`odd`)."""

    person: str
    cohort: str
    answers: int
    steps: int
    is_finished: bool
    is_synthetic: bool
    median_seconds: float | None
    tau: float | None
    odd: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Skill(MappingDocument):
    """The TrueSkill rating of a method: μ with its 95 % interval, and its rank.

    `shuffled` is the mean of μ over shuffled orders of the games and `spread` its standard deviation: TrueSkill gives
    later games more weight, so its result depends on an arbitrary order.
    """

    method: str
    mu: float
    sigma: float
    low: float
    high: float
    rank: int
    shuffled: float | None
    spread: float | None
    shuffled_rank: int


@dataclass(frozen=True)
class RequiredPeople(Document):
    """How many people are needed to detect a difference: the `smallest` observed one, or the one `asked` for."""

    what: str
    difference: float
    items: int
    people: int | None
    more: int | None
    limit: str


@dataclass(frozen=True)
class Power(Document):
    """A power analysis. If it is not possible, `rows` is empty and `reason` says why."""

    rows: tuple[RequiredPeople, ...] = ()
    power: float = 0.8
    groups: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class PeopleAgreement(Document):
    """Agreement between people by measure, without unknown values."""

    values: tuple[tuple[str, float], ...]
    reason: str

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> "PeopleAgreement":
        titles = {
            "kendall_w_items": "Kendall's W, mean over items",
            "kendall_w_people": "Kendall's W of people's mean ranks",
            "alpha": f"Krippendorff's α, {document.get('alpha_metric')}",
            "alpha_ordinal": "Krippendorff's α, ordinal",
        }
        stored = [(title, number(document.get(name))) for name, title in titles.items()]
        cohorts = document.get("by_cohort")
        if isinstance(cohorts, Mapping):
            stored += [(f"α within {name}", number(value)) for name, value in cohorts.items()]
        values = tuple((title, value) for title, value in stored if value is not None)
        return cls(values, str(document.get("reason") or ""))


@dataclass(frozen=True)
class StudyCounts(Document):
    """The size of the study, and who did not finish, looks suspicious or is left out."""

    people: int
    synthetic: int
    finished: int
    dropouts: tuple[str, ...]
    odd: tuple[str, ...]
    left_out: tuple[str, ...]
    items: int
    items_planned: int
    answers: int
    methods: int
    median_seconds: float | None = None


@dataclass(frozen=True, eq=False)
class StudyAnalysis(Document):
    """An analysed study. `document` is the stored JSON, including values that no table shows."""

    kind: str
    title: str
    question: str
    headline: str
    notes: tuple[str, ...]
    level: float
    methods: tuple[MethodEstimate, ...]
    pairs: tuple[TestedPair, ...]
    counts: StudyCounts
    people: tuple[Participant, ...]
    agreement: PeopleAgreement
    power: Power
    skills: tuple[Skill, ...]
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, metadata=NOT_STORED)
    folder: Path = field(default=Path(), metadata=NOT_STORED)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "StudyAnalysis":
        """Read a stored document. Raises LookupError, TypeError or ValueError if it is damaged."""
        if document["kind"] not in KINDS:
            raise ValueError(f"unknown kind of study {document['kind']!r}")
        skills = list(dict(document.get("trueskill") or {}).get("rows", ()))
        return replace(super().from_document({**document, "skills": skills}), document=document)

    @classmethod
    def load(cls, folder: Path | str) -> "StudyAnalysis":
        """Read the analysis in the folder of a study. Raises OptionError if it is missing."""
        folder, advice = Path(folder), f"Run `didact study analyze {folder}`."
        if not folder.is_dir():
            raise OptionError(f"There is no folder {folder}. Name the folder of a study that was analysed.")
        missing = f"{folder} has no {FILE}: the study is not analysed yet. {advice}"
        analysis = load_document(folder / FILE, VERSION, cls.from_document, advice=advice, missing=missing)
        return replace(analysis, folder=folder)

    def save(self, folder: Path) -> None:
        """Write the analysis to the folder of a study."""
        save_document(folder / FILE, self.document, VERSION, indent=1)

    def to_document(self) -> dict[str, object]:
        """The content of `analysis.json`."""
        return dict(self.document)

    @property
    def measure(self) -> str:
        return {"ranking": "log-worth", "simulation": "foreseen", "rating": "mean rating"}[self.kind]

    @property
    def format(self) -> NumberFormat:
        """The format of estimates: percent for a simulation."""
        return NumberFormat(100.0, 0, " %") if self.kind == "simulation" else NumberFormat()

    def power_for(self, difference: float) -> str:
        """A sentence that says how many people are needed to detect `difference`, or why the number is unknown."""
        difference_text = f"{100 * difference:.1f} %" if self.kind == "simulation" else f"{difference:.2f}"
        needed = next((row for row in self.power.rows if row.what == "asked"), None)
        if needed is None:
            reason = self.power.reason or "not analysed"
            return f"The number of people needed to detect a difference of {difference_text} is unknown: {reason}."
        start = f"To detect a difference of {difference_text} with a power of {100 * self.power.power:.0f} %"
        if needed.people is None:
            return f"{start}, no number of people is enough, even with {needed.items} items."
        each = " in each cohort" if self.power.groups == 2 else ""
        more = f"{needed.more} more than now" if needed.more else "no more than now"
        limit = f" {needed.limit.capitalize()}." if needed.limit else ""
        return f"{start}, ask {needed.people} people{each} ({more}) about {needed.items} items.{limit}"
