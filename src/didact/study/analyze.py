"""The analysis of a study: which methods people prefer or learn from, how sure that is, and whose answers look odd."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from didact.errors import DataError, OptionError
from didact.results.documents import plain
from didact.results.study_analysis import VERSION, Participant, StudyAnalysis, StudyCounts
from didact.study import analyze_ranking, analyze_rating, analyze_simulation
from didact.study.answers import Answer, median_seconds
from didact.study.database import open_answers
from didact.study.design import Design, read_design
from didact.study.findings import Settings
from didact.study.quality_checks import quality_flags
from didact.study.summary_text import power_analysis, sample_size_notes

_PHASES: Final = {"ranking": ("ranking",), "simulation": ("learning", "test"), "rating": ("rating",)}


def analyze(
    design: Design,
    answers: Sequence[Answer],
    *,
    replicates: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    difference: float | None = None,
    leave_out: Sequence[str] = (),
) -> StudyAnalysis:
    """Analyse the answers of a study of any kind. Their order does not matter.

    Args:
        design: The design of the study.
        answers: The answers of all people.
        replicates: Bootstrap samples, of people and of items.
        level: Confidence level of the intervals, which hold for other people and other items like these.
        seed: Seed of the bootstrap and of TrueSkill.
        difference: A difference that the study should detect. The analysis estimates how many people that takes, for
            this difference and for the smallest measured one.
        leave_out: Codes of people to exclude (p03). The analysis flags people whose answers look odd, but counts them.

    Raises:
        OptionError: An option is out of range, `leave_out` has an unknown code, or there are no answers.
        DataError: The answers do not fit the design.
    """
    if replicates < 1 or not 0 < level < 1:
        raise OptionError(f"replicates must be at least 1 and level between 0 and 1, got {replicates} and {level}.")
    if difference is not None and not 0 < difference < math.inf:
        raise OptionError(f"difference must be above 0, got {difference:g}.")
    counted = _counted(design, answers, leave_out)
    analysis_module = {"ranking": analyze_ranking, "simulation": analyze_simulation, "rating": analyze_rating}[
        design.kind
    ]
    findings = analysis_module.compute_findings(design, counted, Settings(replicates, level, seed))
    people = _people(design, counted, findings.taus)
    counts = _counts(design, counted, people, leave_out)
    contrasts = findings.contrasts
    prefix = f"{counts.synthetic} of {counts.people} people are synthetic. " if counts.synthetic else ""
    document = {
        "version": VERSION, "kind": design.kind, "title": design.title, "question": design.question,
        "level": level, "replicates": replicates, "seed": seed, "counts": counts,
        "people": people, **findings.to_document(),
        "headline": f"{prefix}{findings.headline}",
        "power": power_analysis(contrasts, difference=difference, level=level),
        "notes": [*_people_notes(counts, people), *sample_size_notes(contrasts.cells), *findings.notes],
    }  # fmt: skip
    return StudyAnalysis.from_document(plain(document))


def analyze_study(
    folder: Path | str,
    *,
    replicates: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    difference: float | None = None,
    leave_out: Sequence[str] = (),
    database: str | None = None,
) -> StudyAnalysis:
    """Analyse the answers of a study, and save the analysis as `analysis.json` in its folder.

    Args:
        folder: The folder of the study.
        replicates: Bootstrap samples of people and items.
        level: Confidence level of intervals.
        seed: Seed of the bootstrap.
        difference: A difference that the study should detect. The analysis says how many people that takes.
        leave_out: People to leave out. The result says so. By default all are counted.
        database: SQLAlchemy URL of the answers, if they are not in the folder.

    Returns:
        A `StudyAnalysis`. `didact.report(run, studies=[folder])` shows it.

    Examples:
        ```python
        analysis = didact.analyze_study("runs/study")  # once people have answered
        print(analysis.headline)
        ```
    """
    folder = Path(folder)
    design = read_design(folder)
    with closing(open_answers(folder, design, database)) as store:
        answers = store.read()
    analysis = analyze(
        design, answers, replicates=replicates, level=level, seed=seed, difference=difference, leave_out=leave_out
    )
    analysis.save(folder)
    return analysis


def _counted(design: Design, answers: Sequence[Answer], leave_out: Sequence[str]) -> list[Answer]:
    """The answers to analyse, sorted by item, then by person."""
    faults = _faults(design, answers)
    if faults:
        raise DataError("The answers do not fit the study. Was its design changed after people had started?", faults)
    names = {answer.person for answer in answers}
    unknown = sorted(set(leave_out) - names)
    if unknown:
        raise OptionError(
            f"No one called {', '.join(unknown)} answered, so they cannot be left out. "
            f"There are {', '.join(sorted(names)[:20]) or 'no answers yet'}."
        )
    item_order = {item.id: index for index, item in enumerate(design.items)}
    counted = [answer for answer in answers if answer.person not in leave_out]
    if not counted and leave_out:
        raise OptionError("Without these people there are no answers to analyse.")
    if not counted:
        raise OptionError(
            "There are no answers to analyse yet. Send people their links, or try the analysis with didact study "
            "simulate."
        )
    return sorted(counted, key=lambda answer: (item_order[answer.item], answer.person, answer.phase))


def _faults(design: Design, answers: Sequence[Answer]) -> list[str]:
    items, methods = {item.id for item in design.items}, set(design.methods)
    faults = []
    for answer in answers:
        who = f"{answer.person}, step {answer.step}"
        if answer.phase not in _PHASES[design.kind]:
            faults.append(f"{who}: an answer of phase {answer.phase} in a {design.kind} study")
        elif answer.item not in items:
            faults.append(f"{who}: the item {answer.item!r} is not part of the study")
        elif not {*answer.shown, *(answer.ranks or {})} <= methods or answer.cohort not in design.cohorts:
            faults.append(f"{who}: a method that is not part of the study")
        elif answer.phase == "ranking" and not answer.ranks:
            faults.append(f"{who}: no ranks")
        elif answer.phase == "rating" and (answer.rating is None or len(answer.shown) != 1):
            faults.append(f"{who}: no rating of one method")
        elif answer.phase in ("learning", "test") and answer.choice is None:
            faults.append(f"{who}: no choice")
    repeats = Counter((entry.person, entry.item, entry.phase) for entry in answers)
    faults += [
        f"{person}: {item!r} was answered {count} times" for (person, item, _), count in repeats.items() if count > 1
    ]
    return faults


def _people(design: Design, answers: Sequence[Answer], taus: Mapping[str, float]) -> list[Participant]:
    flags = quality_flags(answers)
    steps = sum(design.kind != "simulation" or item.phase in ("learning", "test") for item in design.items)
    rows = []
    for person in sorted({answer.person for answer in answers}):
        person_answers = [answer for answer in answers if answer.person == person]
        tau = taus.get(person, math.nan)
        reasons = list(flags.get(person, []))
        if tau < 0 and len(taus) > 2:  # if two people disagree, neither is the odd one
            reasons.append(f"disagrees with the others: mean Kendall's τ with their mean ranks {tau:.2f}")
        rows.append(
            Participant(
                person=person,
                cohort=person_answers[0].cohort,
                answers=len(person_answers),
                steps=steps,
                is_finished=len(person_answers) >= steps,
                is_synthetic=any(answer.is_synthetic for answer in person_answers),
                median_seconds=median_seconds(person_answers),
                tau=tau,
                odd=tuple(reasons),
            )
        )
    return rows


def _counts(
    design: Design, answers: Sequence[Answer], people: Sequence[Participant], leave_out: Sequence[str]
) -> StudyCounts:
    return StudyCounts(
        people=len(people),
        synthetic=sum(row.is_synthetic for row in people),
        finished=sum(row.is_finished for row in people),
        dropouts=tuple(row.person for row in people if not row.is_finished),
        odd=tuple(row.person for row in people if row.odd),
        left_out=tuple(sorted(set(leave_out))),
        items=len({answer.item for answer in answers}),
        items_planned=len(design.items),
        answers=len(answers),
        methods=len(design.methods),
        median_seconds=median_seconds(answers),
    )


def _people_notes(counts: StudyCounts, people: Sequence[Participant]) -> Iterator[str]:
    if counts.synthetic:
        yield f"{counts.synthetic} of {counts.people} people are synthetic: didact study simulate made their answers."
    if counts.left_out:
        yield f"Left out on request: {', '.join(counts.left_out)}. This analysis uses none of their answers."
    if counts.dropouts:
        yield (
            f"{len(counts.dropouts)} of {counts.people} people started but did not finish; their answers count: "
            f"{', '.join(counts.dropouts)}."
        )
    for row in people:
        if row.odd:
            yield f"{row.person} looks odd ({'; '.join(row.odd)}), but is included."
