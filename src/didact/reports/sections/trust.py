"""How far to trust the verdict: what audits say about its students, and whether another kind of student agrees."""

from typing import Final

from didact.reports.section import Block, Heading, Notes, Section, lead, missing
from didact.results.audit_summary import MAX_EQUAL_DIFFER, MAX_MOVE, MIN_DROP, MIN_STEPS_RIGHT
from didact.results.comparison import Comparison
from didact.results.number_format import UNKNOWN, NumberFormat, join_names
from didact.results.student_agreement import StudentAgreement
from didact.results.trust import Trust
from didact.results.validation import Validation
from didact.viz.tables import Cell, Table

_GOAL: Final = NumberFormat(100.0, 0, " %")
_SHARE: Final = NumberFormat(100.0, 1, " %")
_POINTS: Final = NumberFormat(100.0, 1)
_TAU: Final = NumberFormat(1.0, 2)
_MEANING: Final = (
    "Equal explanations say the same at another sharpness. A step of damage counts if it costs at "
    f"least {MIN_DROP:g} in true AUC. An explanation is ahead, and two differ, if the paired 95 % interval excludes 0. "
    "Intervals of τ are 95 %, over the audits. Your model and data are others than those of the audits."
)
# What an audit asks of a student, and the goal.
_QUESTIONS: Final = (
    ("The less damaged explanation is ahead", f"{_GOAL.plain(MIN_STEPS_RIGHT)} or more"),
    ("Equal explanations differ", f"{_GOAL.plain(MAX_EQUAL_DIFFER)} or less"),
    ("Their distance, in points", f"{_POINTS.plain(MAX_MOVE)} or less"),
    ("Lost information is ahead", "never"),
    ("A leak of the answer is ahead", "never"),
    ("τ with the true ranking of methods", ""),
    ("Its lead over the best faithfulness metric", "above 0"),
)


def section(run: Comparison) -> Section | None:
    """The section, or None if there is no verdict."""
    trust = Trust.of(run)
    if not trust.has_verdict:
        return None
    blocks = _audited(trust)
    if trust.is_ranking:
        blocks.append(Heading("Do other kinds of student agree?"))
        if trust.agreement is None:
            added = f" Add another: {trust.advice}" if trust.advice else ""
            blocks.append(missing(f"Not checked: a single kind of student ranked the methods.{added}"))
        else:
            blocks.append(lead(_agreement_text(run, trust.agreement)))
    return Section("trust", "How far to trust this verdict", blocks)


def badges(run: Comparison) -> list[str]:
    """Warnings for the header."""
    trust = Trust.of(run)
    if not trust.has_verdict:
        return []
    badges = ["ranking not validated"] if trust.unknown else []
    badges += ["students miss goals of their audit"] if trust.failing else []
    return badges + (["one kind of student"] if trust.is_ranking and trust.agreement is None else [])


def _audited(trust: Trust) -> list[Block]:
    """Whether the ranking is validated, and the figures of audits if there are any."""
    blocks: list[Block] = []
    if trust.passing:
        names = join_names(trust.passing)
        blocks.append(lead(f"Validated: in audits with known truth, {names} reached all goals."))
    for student, record in trust.failing.items():
        text = f"Audited, with faults: in audits with known truth, {student} missed {record.missed_text}."
        blocks.append(missing(text))
    if trust.unknown:
        about = trust.comparison.about
        blocks.append(
            missing(
                f"Not validated: no audit has checked the rankings of {join_names(trust.unknown)} as in this run (task "
                f"{about.task}, target normalisation {about.target_normalisation}), and intervals do not cover this. "
                "didact audit checks them on data with known truth."
            )
        )
    if trust.passing or trust.failing:
        blocks += [_table(trust), Notes([*_origin_texts(trust), _MEANING])]
    return blocks


def _origin_texts(trust: Trust) -> list[str]:
    """On what students were audited."""
    students: dict[str, list[str]] = {}
    for student, record in trust.validations.items():
        if record is not None:
            origin = f"{record.teachers} teachers on {join_names(record.data)}, {record.seeds} seeds"
            students.setdefault(f"{origin}, {record.methods} methods", []).append(student)
    return [f"{join_names(names)}: audited with {origin}." for origin, names in students.items()]


def _table(trust: Trust) -> Table:
    """A line for each question, a column for each student."""
    answers = [_answers(record) for record in trust.validations.values()]
    rows: list[list[Cell | str]] = [
        [Cell(question, aside=goal and f"goal: {goal}"), *cells]
        for (question, goal), *cells in zip(_QUESTIONS, *answers, strict=True)
    ]
    data = [
        {"student": student, "audited": record is not None, **(dict(record) if record is not None else {})}
        for student, record in trust.validations.items()
    ]
    return Table("trust", "Answers to explanations whose order is known", ["", *trust.validations], rows, data=data)


def _answers(record: Validation | None) -> list[Cell]:
    """The answers of a student to `_QUESTIONS`, with those that miss a goal marked."""
    if record is None:
        return [Cell("not audited"), *[Cell(UNKNOWN)] * (len(_QUESTIONS) - 1)]
    constructed = f"+{record.by_construction} by construction" if record.by_construction else ""
    no_leak_ahead = record.leaks > 0 and record.leaks_ahead == 0
    answers = [
        (f"{_SHARE.plain(record.right_share)} of {record.steps}", "", "steps"),
        (f"{_SHARE.plain(record.differ_share)} of {record.equal}", constructed, "equal"),
        (_POINTS.plain(record.move), "", "move"),
        (f"{record.lost_info_ahead} of {record.lost_info}", "", "leaks" if record.lost_info_ahead else ""),
        (f"{record.leaks_ahead} of {record.leaks}", "", "" if no_leak_ahead else "leaks"),
        (_TAU.plain(record.tau), _interval(_TAU.plain(record.tau_low), _TAU.plain(record.tau_high)), ""),
        (_TAU.signed(record.tau_lead), _interval(_TAU.signed(record.tau_lead_low), _TAU.signed(record.tau_lead_high)),
         "tau"),
    ]  # fmt: skip
    return [
        Cell(text, aside=", ".join(filter(None, [aside, "missed" if goal in record.missed else ""])))
        for text, aside, goal in answers
    ]


def _interval(low: str, high: str) -> str:
    return "" if UNKNOWN in (low, high) else f"[{low}, {high}]"


def _agreement_text(run: Comparison, agreement: StudentAgreement) -> str:
    """Leaders, τ and the lead of the first method over the second, with each kind of student."""
    leaders = (
        f"All kinds of student have the same leader, “{agreement.leaders[0]}”."
        if agreement.is_same_leader
        else f"The leader depends on the student: {agreement.leaders_text()}."
    )
    tau = agreement.tau_text()
    taus = f"τ between their rankings of the {len(agreement.methods)} methods is {tau} (1: the same)." if tau else ""
    leads, sign = agreement.leads_text(run.format), ""
    if agreement.is_same_sign is not None:
        sign = ": the same sign" if agreement.is_same_sign else ": the sign differs"
    pair = f"“{agreement.leader}” minus “{agreement.runner_up}”, with 95 % intervals"
    return " ".join(filter(None, [leaders, taus, f"{pair}: {leads}{sign}." if leads else run.why_no_contrasts]))
