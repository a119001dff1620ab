"""Students as evaluators: the contrasts of a comparison, per student and test set, and of the mean of all students."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Final

import numpy as np
from jaxtyping import Float

from didact.auditing.evaluator_answers import EvaluatorAnswers
from didact.auditing.trained import trained_students
from didact.comparing.config_values import EDITED, NEW
from didact.results.audit import AuditedEvaluator
from didact.results.comparison import Comparison
from didact.results.contrast import Column, Contrast, ContrastTable
from didact.results.edited import EDITED as ALL_EDITED
from didact.results.gains import NONE
from didact.stats.contrast import crossed_contrast

MEAN: Final = "mean of students"
AgreementBySeed = Mapping[int, Float[np.ndarray, " row"]]


def student_evaluators(
    comparison: Comparison, normalisation: str, explainers: Sequence[str]
) -> Iterator[EvaluatorAnswers]:
    """The evaluators of a comparison under this target normalisation."""
    seconds = _seconds(comparison, explainers)
    for column in comparison.columns:
        student, size = column
        none = comparison.find(NONE, column)
        evaluator = AuditedEvaluator(
            name=evaluator_name(student, normalisation, NEW),
            student=student,
            size=size,
            normalisation=normalisation,
            test_set=NEW,
            reference=None if none is None else none.mean,
            seconds=seconds.get(student),
            learned=column not in comparison.unlearned,
        )
        yield _answers(evaluator, comparison.contrasts, column, partial(_by_seed, comparison, column))
        if comparison.edited is not None:
            subset = comparison.edited.subsets[ALL_EDITED]
            edited_none = next((row for row in subset.rows if (row.explainer, row.column) == (NONE, column)), None)
            evaluator = AuditedEvaluator(
                **{
                    **evaluator,
                    "name": evaluator_name(student, normalisation, EDITED),
                    "test_set": EDITED,
                    "reference": None if edited_none is None else edited_none.mean,
                }
            )
            yield _answers(evaluator, subset.contrasts, column)
    columns = comparison.judged
    if len(columns) > 1 and not (comparison.is_balanced or comparison.is_correlation):
        yield _mean_of_students(comparison, normalisation, columns, seconds)


def evaluator_name(student: str, normalisation: str, test_set: str) -> str:
    """The name of an evaluator: the same in all audits with this student, whatever the data."""
    return f"{student}, {normalisation}, {test_set} rows"


def _answers(
    evaluator: AuditedEvaluator,
    contrasts: ContrastTable,
    column: Column,
    by_seed: Callable[[str], tuple[float, ...]] = lambda _: (),
) -> EvaluatorAnswers:
    return EvaluatorAnswers(evaluator, NONE, partial(_stored_contrast, contrasts, column), by_seed)


def _stored_contrast(contrasts: ContrastTable, column: Column, first: str, second: str) -> Contrast | None:
    return contrasts.get(first, second, column)


def _by_seed(comparison: Comparison, column: Column, explainer: str) -> tuple[float, ...]:
    """The gain with each seed; empty if the measure is not a plain mean over rows."""
    if comparison.is_balanced or comparison.is_correlation:
        return ()
    return _gains(*(comparison.scores.get((name, *column), {}) for name in (explainer, NONE)))


def _gains(taught: AgreementBySeed, untaught: AgreementBySeed) -> tuple[float, ...]:
    """The gain with each seed that both have."""
    return tuple(float((taught[seed] - untaught[seed]).mean()) for seed in sorted(taught.keys() & untaught.keys()))


def _mean_of_students(
    comparison: Comparison, normalisation: str, columns: Sequence[Column], seconds: Mapping[str, float]
) -> EvaluatorAnswers:
    """The evaluator that averages the answers of all students that learned something, seed by seed and row by row."""

    def arm(explainer: str) -> dict[int, np.ndarray]:
        arms = [comparison.scores.get((explainer, *column), {}) for column in columns]
        seeds = set.intersection(*(set(by_seed) for by_seed in arms))
        return {seed: np.mean([by_seed[seed] for by_seed in arms], axis=0) for seed in seeds}

    def contrast(first: str, second: str) -> Contrast | None:
        arms = arm(first), arm(second)
        seeds = sorted(arms[0].keys() & arms[1].keys())
        return crossed_contrast(*(np.stack([by_seed[seed] for seed in seeds]) for by_seed in arms)) if seeds else None

    def by_seed(explainer: str) -> tuple[float, ...]:
        return _gains(arm(explainer), arm(NONE))

    none = arm(NONE)
    per_student = [seconds[student] for student, _ in columns if student in seconds]
    evaluator = AuditedEvaluator(
        name=evaluator_name(MEAN, normalisation, NEW),
        student=MEAN,
        size=columns[0][1],
        normalisation=normalisation,
        test_set=NEW,
        reference=fmean(float(row.mean()) for row in none.values()) if none else None,
        seconds=sum(per_student) if per_student else None,
    )
    return EvaluatorAnswers(evaluator, NONE, contrast, by_seed)


def _seconds(comparison: Comparison, explainers: Sequence[str]) -> dict[str, float]:
    """The mean time that a student took to train, per student, over the students that were sent explanations.

    Under `tuned` and `band` one explanation trains several students, whose times are added.
    """
    times: dict[str, dict[tuple[str, int], float]] = {}
    for trained in trained_students(comparison, explainers):
        by_arm = times.setdefault(trained.student, {})
        arm = trained.explainer, trained.seed
        by_arm[arm] = by_arm.get(arm, 0.0) + (trained.record.seconds or 0.0)
    return {student: fmean(by_arm.values()) for student, by_arm in times.items()}
