"""How evaluators did where the truth is known: the figures of audits that stand beside the verdict of a comparison."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from didact.errors import OptionError
from didact.registry import split_list
from didact.results.documents import MappingDocument, load_document, require_list, save_document

if TYPE_CHECKING:
    from didact.results.audit_summary import AuditSummary, EvaluatorScore
    from didact.results.comparison import Comparison

# Written by evidence/write_validation.py.
FILE: Final = Path(__file__).with_name("validation.json")
VERSION: Final = 1
NEW: Final = "new"  # the test set of a verdict
# The goals of an evaluator (`EvaluatorScore.goals`) as readers know them.
GOALS: Final[Mapping[str, str]] = {
    "steps": "steps of damage",
    "equal": "equal explanations",
    "move": "their distance",
    "leaks": "leaks or lost information",
    "tau": "τ",
}
_DIGITS: Final = 6  # significant digits of stored numbers
_OPTIONS = re.compile(r"(?P<name>[^()]*)\((?P<options>.*)\)(?P<end>[^()]*)", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Validation(MappingDocument):
    """How one evaluator did in the audits of one kind of task. `audit_summary.EvaluatorScore` describes the counts.

    `description` is what the student and its first weights were; empty if they were not the same in all audits. `tau`
    is Kendall's τ with the true AUC, `tau_lead` its lead over the best faithfulness metric, both with 95 % intervals
    over the audits. `missed` names the goals that the evaluator misses.
    """

    task: str
    evaluator: str
    student: str
    normalisation: str
    test_set: str
    description: str = ""
    data: tuple[str, ...] = ()
    teachers: int = 0
    audits: int = 0
    seeds: int = 0
    methods: int = 0
    steps: int = 0
    steps_right: int = 0
    equal: int = 0
    equal_differ: int = 0
    by_construction: int = 0
    move: float | None = None
    leaks: int = 0
    leaks_ahead: int = 0
    lost_info: int = 0
    lost_info_ahead: int = 0
    tau: float | None = None
    tau_low: float | None = None
    tau_high: float | None = None
    tau_lead: float | None = None
    tau_lead_low: float | None = None
    tau_lead_high: float | None = None
    missed: tuple[str, ...] = ()

    @classmethod
    def of(cls, score: "EvaluatorScore", summary: "AuditSummary", *, description: str = "") -> "Validation":
        """The record of an evaluator that took part in all audits of a summary. They must have one kind of task."""
        (task,) = summary.tasks
        means: dict[str, float | None] = {"move": None if score.move is None else _rounded(score.move.value)}
        for name, mean in (("tau", score.tau), ("tau_lead", score.tau_lead)):
            if mean is not None:
                ends = {name: mean.value, f"{name}_low": mean.low, f"{name}_high": mean.high}
                means |= {key: None if value is None else _rounded(value) for key, value in ends.items()}
        return cls(
            task=task,
            evaluator=score.name,
            student=score.student,
            normalisation=score.normalisation,
            test_set=score.test_set,
            description=description,
            data=summary.data,
            teachers=summary.teachers,
            audits=score.audits,
            seeds=summary.seeds,
            methods=score.methods,
            steps=score.steps,
            steps_right=score.steps_right,
            equal=score.equal,
            equal_differ=score.equal_differ,
            by_construction=score.by_construction,
            leaks=score.leaks,
            leaks_ahead=score.leaks_win,
            lost_info=score.less,
            lost_info_ahead=score.less_win,
            missed=score.missed,
            **means,
        )

    @property
    def passes(self) -> bool:
        """Whether the evaluator reaches all goals."""
        return not self.missed

    @property
    def missed_text(self) -> str:
        """How many goals are missed, and which."""
        return f"{len(self.missed)} of {len(GOALS)} goals ({', '.join(GOALS.get(goal, goal) for goal in self.missed)})"

    @property
    def right_share(self) -> float | None:
        """The share of steps of damage in the right order."""
        return self.steps_right / self.steps if self.steps else None

    @property
    def differ_share(self) -> float | None:
        """The share of equal pairs that differ."""
        return self.equal_differ / self.equal if self.equal else None


def save_validations(records: Sequence[Validation], path: Path = FILE) -> None:
    """Write records. The same records make the same bytes."""
    save_document(path, {"records": [record.to_document() for record in records]}, VERSION, indent=1)


def load_validations(path: Path = FILE) -> tuple[Validation, ...]:
    """Read records, by default those that are part of didact. Raises RecordError if the file is damaged."""

    def read(document: Mapping[str, object]) -> tuple[Validation, ...]:
        return tuple(map(Validation.from_document, require_list(document["records"])))

    return load_document(path, VERSION, read, advice="Install didact again.")


@cache
def package_validations() -> tuple[Validation, ...]:
    """The records that are part of didact."""
    return load_validations()


def validations(comparison: "Comparison", records: Sequence[Validation] | None = None) -> dict[str, Validation | None]:
    """The record for each student whose columns are judged, or None. `records` are by default those of didact."""
    records = package_validations() if records is None else records
    students = dict.fromkeys(student for student, _ in comparison.judged)
    return {student: find_validation(comparison, student, records) for student in students}


def find_validation(comparison: "Comparison", student: str, records: Sequence[Validation]) -> Validation | None:
    """The record of the evaluator that ranks methods in the columns of this student, or None.

    Task, target normalisation, student and its first weights must be those of the audits. Names of students may differ
    in white space and in the order of options, and in nothing else: an option that is spelled out with its default
    value has no record. Tuned students have none.
    """
    about = comparison.about
    if about.tune:
        return None
    description = str(about.students.get(student) or "")
    for record in records:
        is_same_start = not (description and record.description) or description == record.description
        if (
            (record.task, record.normalisation, record.test_set) == (about.task, about.target_normalisation, NEW)
            and canonical_student(record.student) == canonical_student(student)
            and is_same_start
        ):
            return record
    return None


def canonical_student(text: str) -> str:
    """The name of a student without needless white space, its options sorted."""
    try:
        return "/".join(map(_sorted_options, split_list(text, "/")))
    except OptionError:  # brackets that do not match: a name that only its author can read
        return text


def _sorted_options(text: str) -> str:
    match = _OPTIONS.fullmatch(text)
    if match is None:
        return text.strip()
    options = ["=".join(map(str.strip, option.split("=", 1))) for option in split_list(match["options"])]
    return f"{match['name'].strip()}({', '.join(sorted(options))}){match['end'].strip()}"


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
