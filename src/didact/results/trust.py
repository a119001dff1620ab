"""How far to trust the verdict of a comparison: audits of its students, and whether another kind of student agrees."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from didact.results.number_format import join_names
from didact.results.student_agreement import StudentAgreement, ranked_methods, second_student, student_agreement
from didact.results.validation import Validation, validations

if TYPE_CHECKING:
    from didact.results.comparison import Comparison


@dataclass(frozen=True, eq=False)
class Trust:
    """What is known about the evaluators of a comparison: a record of audits, or None, for each judged student.

    `agreement` is None unless two kinds of student rank at least two methods.
    """

    comparison: "Comparison"
    validations: dict[str, Validation | None]
    agreement: StudentAgreement | None

    @classmethod
    def of(cls, comparison: "Comparison", records: Sequence[Validation] | None = None) -> "Trust":
        """Look up the students of a comparison among `records`, by default those that are part of didact."""
        return cls(comparison, validations(comparison, records), student_agreement(comparison))

    @property
    def has_verdict(self) -> bool:
        """Whether a method has a gain in a judged column."""
        return bool(ranked_methods(self.comparison))

    @property
    def unknown(self) -> list[str]:
        """Students without a record."""
        return [student for student, record in self.validations.items() if record is None]

    @property
    def passing(self) -> list[str]:
        """Students that reach all goals."""
        return [student for student, record in self.validations.items() if record is not None and record.passes]

    @property
    def failing(self) -> dict[str, Validation]:
        """Students that miss a goal, with their record."""
        return {
            student: record for student, record in self.validations.items() if record is not None and not record.passes
        }

    @property
    def is_ranking(self) -> bool:
        """Whether there are methods to rank, so that another kind of student could rank them otherwise."""
        return len(ranked_methods(self.comparison)) > 1

    @property
    def advice(self) -> str:
        """The option that adds a second kind of student; empty if none is known."""
        added = second_student(self.comparison)
        return f'--students "{",".join([*self.comparison.students, added])}"' if added else ""

    def to_document(self) -> dict[str, object]:
        """The judged columns, each with its record or None, and the agreement of students, as JSON data."""
        records = {name: None if record is None else record.to_document() for name, record in self.validations.items()}
        columns = [
            {"student": student, "size": size, "audited": records[student]} for student, size in self.comparison.judged
        ]
        agreement = None if self.agreement is None else self.agreement.to_document()
        return {"columns": columns, "student_agreement": agreement}

    def remark(self) -> str:
        """One line for terminals. Empty without a verdict."""
        return " ".join(self._remarks()) if self.has_verdict else ""

    def _remarks(self) -> list[str]:
        about = self.comparison.about
        texts = []
        if self.passing:
            texts.append(f"Validated: {join_names(self.passing)} ({_teachers(self.validations, self.passing)}).")
        for student, record in self.failing.items():
            teachers = _teachers(self.validations, [student])
            texts.append(f"Audited, with faults: {student} misses {record.missed_text} ({teachers}).")
        if self.unknown:
            texts.append(
                f"Not validated: no audit has checked rankings by {join_names(self.unknown)} as in this run "
                f"({about.task}, {about.target_normalisation}; see didact audit)."
            )
        if self.agreement is not None:
            texts.append(self._agreement_remark(self.agreement))
        elif self.is_ranking:
            texts.append(f"Another kind of student: not checked{f' (add one: {self.advice})' if self.advice else ''}.")
        return texts

    def _agreement_remark(self, agreement: StudentAgreement) -> str:
        tau, number = agreement.tau_text(ascii_minus=True), replace(self.comparison.format, ascii_minus=True)
        leader = "the same leader" if agreement.is_same_leader else f"different leaders ({agreement.leaders_text()})"
        texts = [leader, f"τ {tau}" if tau else "", self._lead(agreement, agreement.leads_text(number))]
        return f"Kinds of student: {'; '.join(filter(None, texts))}."

    @staticmethod
    def _lead(agreement: StudentAgreement, leads: str) -> str:
        return f"{agreement.leader} over {agreement.runner_up} {leads}" if leads else ""


def _teachers(records: dict[str, Validation | None], students: Sequence[str]) -> str:
    counts = sorted({record.teachers for name in students if (record := records[name]) is not None})
    return f"audited with {' or '.join(map(str, counts))} teacher{'s' * (counts != [1])}"
