"""Whether kinds of student agree on the ranking of methods: the check that a verdict holds beyond one student."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from didact.errors import OptionError
from didact.registry import Spec, parse_spec
from didact.results.documents import Document
from didact.results.number_format import NumberFormat, join_names

if TYPE_CHECKING:
    from didact.results.comparison import Comparison

_MIN_METHODS: Final = 3  # fewer have no ranking worth a τ
# Students to add, of two kinds, by task: the first that the run does not have.
_SECOND_STUDENTS: Final[Mapping[str, Sequence[str]]] = {
    "reading": ("native/attention", "bilstm/multitask"),
    "image": ("native/attention", "native/gradient"),
}
_OF_TEXT: Final = ("pool/attention", "pool(pool=mean, layers=1)/gradient")


@dataclass(frozen=True, eq=False)
class Lead(Document):
    """The paired difference of leader and runner-up in one column, with its 95 % interval, uncorrected."""

    student: str
    size: int
    difference: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class StudentTau(Document):
    """Kendall's τ between the rankings of the methods by two kinds of student; None where it is undefined."""

    first: str
    second: str
    tau: float | None


@dataclass(frozen=True, eq=False)
class StudentAgreement(Document):
    """Whether two or more kinds of student agree on the ranking of methods, without controls.

    A student ranks methods by their mean rank over its judged columns. `leaders` has the first method of each student,
    in the order of `students`. `leader` and `runner_up` are the first two methods over all columns.
    """

    students: tuple[str, ...]
    methods: tuple[str, ...]
    leaders: tuple[str, ...]
    leader: str
    runner_up: str
    taus: tuple[StudentTau, ...]
    leads: tuple[Lead, ...]

    @property
    def is_same_leader(self) -> bool:
        return len(set(self.leaders)) == 1

    @cached_property
    def is_same_sign(self) -> bool | None:
        """Whether the leader is ahead of the runner-up in every column; None unless two students compare them."""
        if len({lead.student for lead in self.leads}) < 2:
            return None
        return len({lead.difference > 0 for lead in self.leads}) == 1

    def tau_text(self, *, ascii_minus: bool = False) -> str:
        """τ, or its range over pairs of students. Empty if it is undefined."""
        number = NumberFormat(1.0, 2, ascii_minus=ascii_minus)
        taus = [pair.tau for pair in self.taus if pair.tau is not None]
        return " to ".join(dict.fromkeys(number.plain(end) for end in (min(taus), max(taus)))) if taus else ""

    def leads_text(self, number: NumberFormat) -> str:
        """The lead with each student: its difference and interval, or in how many sizes it is above 0."""
        texts = []
        for student, group in itertools.groupby(self.leads, key=lambda lead: lead.student):
            leads = list(group)
            if len(leads) == 1:
                text = f"{number.signed(leads[0].difference)} {number.brackets(leads[0].low, leads[0].high)}"
            else:
                text = f"above 0 at {sum(lead.difference > 0 for lead in leads)} of {len(leads)} sizes"
            texts.append(f"{text} with {student}")
        return join_names(texts) if texts else ""

    def leaders_text(self) -> str:
        """The method that leads with each student."""
        return join_names([f"{name} with {student}" for name, student in zip(self.leaders, self.students, strict=True)])


def student_agreement(comparison: "Comparison") -> StudentAgreement | None:
    """The agreement of the students that learned something; None with one student or fewer than two methods."""
    methods = ranked_methods(comparison)
    ranks = {student: _ranks(comparison, student, methods) for student, _ in comparison.judged}
    ranks = {student: by_method for student, by_method in ranks.items() if by_method}
    if len(ranks) < 2 or len(methods) < 2:
        return None
    leader, runner_up = methods[:2]
    return StudentAgreement(
        students=tuple(ranks),
        methods=tuple(methods),
        leaders=tuple(min(by_method, key=lambda name: by_method[name]) for by_method in ranks.values()),
        leader=leader,
        runner_up=runner_up,
        taus=tuple(
            StudentTau(first, second, _kendall(ranks[first], ranks[second]))
            for first, second in itertools.combinations(ranks, 2)
        ),
        leads=tuple(
            Lead(*column, contrast.difference, contrast.low, contrast.high)
            for column in sorted(comparison.judged, key=lambda column: list(ranks).index(column[0]))
            if (contrast := comparison.contrasts.get(leader, runner_up, column)) is not None
        ),
    )


def ranked_methods(comparison: "Comparison") -> list[str]:
    """The methods of a verdict from best to worst: those with a gain, without controls."""
    return [
        name
        for name in comparison.ranked
        if name not in comparison.controls and comparison.gain(name) is not None and comparison.rank(name) is not None
    ]


def second_student(comparison: "Comparison") -> str:
    """A student of another kind that suits the run: another strategy, or another architecture.

    It has frozen word embeddings if a student of the run has them, or starts from a pretrained base. Empty if the run
    has both students that would be named.
    """
    students = [_parsed(student) for student in comparison.students]
    kinds = {(architecture.name, strategy) for architecture, strategy in students}
    candidates = _SECOND_STUDENTS.get(comparison.about.task, _OF_TEXT)
    text = next((text for text in candidates if _kind(text) not in kinds), "")
    embeddings = next((spec.options["embeddings"] for spec, _ in students if "embeddings" in spec.options), None)
    if embeddings is None and comparison.about.starts.get("same", "random") != "random":
        embeddings = "base"
    architecture, _, strategy = text.rpartition("/")
    if embeddings is None or not architecture.startswith("pool"):
        return text
    options = f"{architecture[:-1]}, " if architecture.endswith(")") else f"{architecture}("
    return f"{options}embeddings={embeddings})/{strategy}"


def _ranks(comparison: "Comparison", student: str, methods: Sequence[str]) -> dict[str, float]:
    """The mean rank of each method over the judged columns of a student, from best to worst over all columns."""
    ranks: dict[str, float] = {}
    for name in methods:
        rows = [row for row in comparison.judged_rows(name) if row.student == student and row.rank is not None]
        if rows:
            ranks[name] = sum(row.rank or 0.0 for row in rows) / len(rows)
    return ranks


def _kendall(first: Mapping[str, float], second: Mapping[str, float]) -> float | None:
    """Kendall's τ-b over the methods that both rank."""
    from scipy.stats import kendalltau

    shared = [name for name in first if name in second]
    if len(shared) < _MIN_METHODS:
        return None
    tau = float(kendalltau([first[name] for name in shared], [second[name] for name in shared]).statistic)
    return None if tau != tau else tau


def _kind(student: str) -> tuple[str, str]:
    architecture, strategy = _parsed(student)
    return architecture.name, strategy


def _parsed(student: str) -> tuple[Spec, str]:
    """The architecture, and the name of the strategy."""
    architecture, _, strategy = student.rpartition("/")
    strategy = strategy.partition("(")[0].partition("@")[0]
    try:
        return parse_spec(architecture), strategy
    except OptionError:  # a name of the user's own
        return Spec(architecture), strategy
