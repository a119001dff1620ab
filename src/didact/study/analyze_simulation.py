"""Analysis of simulation studies: how well each cohort predicts the model, and whether explanations help."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.errors import OptionError
from didact.results.number_format import join_names
from didact.results.study_analysis import MethodEstimate, TestedPair
from didact.stats.claims import holm
from didact.stats.concordance import krippendorff_alpha
from didact.stats.crossed import CrossedAnswers, crossed_weights
from didact.stats.permutation import PermutationResult, permutation_test
from didact.study.answers import Answer
from didact.study.contrasts import Contrasts, Estimates, contrasts
from didact.study.design import CONTROL, Design
from didact.study.findings import Findings, Settings
from didact.study.summary_text import count_text


def compute_findings(design: Design, answers: Sequence[Answer], settings: Settings) -> Findings:
    """The findings of a simulation study. A person is right if their answer is the model's answer."""
    tests = [answer for answer in answers if answer.phase == "test"]
    if not tests:
        raise OptionError(
            "No one has reached the test phase yet, so there is nothing to analyse. Wait until someone has finished."
        )
    names = [cohort for cohort in design.cohorts if any(answer.cohort == cohort for answer in tests)]
    is_correct, alpha = _correct(design, tests), 1 - settings.level
    comparison = _compare_cohorts(tests, is_correct, names, settings)
    p_values = _test_pairs(tests, is_correct, names, alpha=alpha, seed=settings.seed)
    is_confirmed = {pair: _is_significant(test["p_holm"], alpha) for pair, test in p_values.items()}
    # A claim needs both the simultaneous interval and the test.
    unconfirmed = [
        pair_index
        for pair_index, (first, second) in enumerate(comparison.pairs)
        if not is_confirmed[frozenset((comparison.names[first], comparison.names[second]))]
    ]
    comparison = replace(comparison, unconfirmed=frozenset(unconfirmed))
    pairs = [TestedPair(**pair, **p_values[frozenset((pair.better, pair.worse))]) for pair in comparison.pair_rows()]
    rows = [_cohort(design, answers, comparison, index) for index in range(len(names))]
    return Findings(
        measure="share of the model's answers that people predict",
        headline=_headline(comparison, pairs, comparison.cells),
        methods=rows,
        contrasts=comparison,
        pairs=pairs,
        agreement=_agreement(tests, names),
        notes=[*_notes(design, names, tests, is_correct), *_disagreement_notes(pairs, alpha=alpha)],
    )


def _correct(design: Design, answers: Sequence[Answer]) -> Float[np.ndarray, " answer"]:
    """1 if a person's answer is the model's answer, else 0."""
    predictions = {item.id: item.prediction for item in design.items}
    return np.array([float(answer.choice == predictions[answer.item]) for answer in answers])


def _compare_cohorts(
    tests: Sequence[Answer], is_correct: Float[np.ndarray, " answer"], names: Sequence[str], settings: Settings
) -> Contrasts:
    """The share of right answers of each cohort, and their differences with intervals."""
    cells = CrossedAnswers.of(*([getattr(answer, name) for answer in tests] for name in ("person", "item", "cohort")))
    is_member = np.array([[float(answer.cohort == name) for name in names] for answer in tests])
    counts = is_member.sum(0)
    values = (is_correct @ is_member) / counts
    influence = is_member * (is_correct[:, None] - values) / counts
    weights = crossed_weights(cells, replicates=settings.replicates, seed=settings.seed)
    weight_sums = weights @ is_member
    draws = np.where(
        weight_sums > 0, (weights * is_correct) @ is_member / np.where(weight_sums > 0, weight_sums, 1), values
    )
    return contrasts(Estimates(names, values, draws, influence, cells), level=settings.level)


def _cohort(design: Design, answers: Sequence[Answer], comparison: Contrasts, index: int) -> MethodEstimate:
    name = comparison.names[index]
    members = [answer for answer in answers if answer.cohort == name]
    graded = list(zip(members, _correct(design, members).tolist(), strict=True))
    tests = [(answer, is_right) for answer, is_right in graded if answer.phase == "test"]
    errors = {item.id: item.is_error for item in design.items}
    people = sorted({answer.person for answer, _ in tests})
    shares = {person: _mean([right for answer, right in tests if answer.person == person]) for person in people}
    row = comparison.method_fields(index)
    return MethodEstimate(
        **row | {"low": float(np.clip(row["low"], 0, 1)), "high": float(np.clip(row["high"], 0, 1))},
        is_control=name == CONTROL,
        people=len(people),
        answers=len(tests),
        where_right=_mean([right for answer, right in tests if errors[answer.item] is False]),
        where_wrong=_mean([right for answer, right in tests if errors[answer.item] is True]),
        learning=_mean([right for answer, right in graded if answer.phase == "learning"]),
        by_person=shares,
    )


def _test_pairs(
    tests: Sequence[Answer], is_correct: Float[np.ndarray, " answer"], names: Sequence[str], *, alpha: float, seed: int
) -> dict[frozenset[str], dict[str, Any]]:
    """A permutation test for every pair of cohorts.

    Pairs with the control and pairs of methods are separate families for Holm's correction.
    """
    results_by_pair: dict[frozenset[str], dict[str, Any]] = {}
    pairs = list(combinations(names, 2))
    for is_control in (True, False):
        family = [pair for pair in pairs if (CONTROL in pair) is is_control]
        results = [_test(tests, is_correct, *pair, level=alpha, seed=seed) for pair in family]
        for pair, test, p in zip(family, results, holm([result.p for result in results]), strict=True):
            results_by_pair[frozenset(pair)] = {
                "p": test.p,
                "p_holm": p,
                "p_reason": test.reason,
                "with_control": is_control,
            }
    return results_by_pair


def _is_significant(p: float | None, alpha: float) -> bool:
    return p is not None and p < alpha


def _disagreement_notes(pairs: Sequence[TestedPair], *, alpha: float) -> list[str]:
    """A note on pairs where interval and test disagree, so that readers do not take one of them for a claim."""
    contradictory = [pair for pair in pairs if ((pair.sure_low or 0.0) > 0) is not _is_significant(pair.p_holm, alpha)]
    names = [f"{pair.better} and {pair.worse}" for pair in contradictory]
    if not names:
        return []
    return [f"Interval and test disagree about {join_names(names)}; a difference is claimed only if both show it."]


def _test(
    tests: Sequence[Answer],
    is_correct: Float[np.ndarray, " answer"],
    first: str,
    second: str,
    *,
    level: float,
    seed: int,
) -> PermutationResult:
    people = sorted({(answer.person, answer.cohort) for answer in tests if answer.cohort in (first, second)})
    masks = [np.array([answer.person == person for answer in tests]) for person, _ in people]
    return permutation_test(
        np.array([is_correct[mask].sum() for mask in masks]),
        np.array([float(mask.sum()) for mask in masks]),
        np.array([float(cohort == first) for _, cohort in people]),
        level=level,
        seed=seed,
    )


def _headline(comparison: Contrasts, pairs: Sequence[TestedPair], cells: CrossedAnswers) -> str:
    """Claims against the control: the simultaneous interval excludes 0 and the test confirms it."""
    cohorts = count_text(len(comparison.names), "cohort", "cohorts")
    who = f"{count_text(cells.people, 'person', 'people')} in {cohorts}"
    control = [pair for pair in pairs if pair.with_control]
    if not control:
        missing = "but the control" if CONTROL in comparison.names else "of the control"
        return f"{who}: no one {missing} answered, so the effect of explanations is unknown."
    claimed = [pair for pair in control if pair.is_sure]
    helped = [f"{pair.better} ({100 * pair.difference:+.0f} points)" for pair in claimed if pair.worse == CONTROL]
    harmed = [f"{pair.worse} ({-100 * pair.difference:+.0f} points)" for pair in claimed if pair.better == CONTROL]
    claims = []
    if helped:
        claims.append(f"people who saw {join_names(helped)} predict the model better than people who saw none")
    if harmed:
        claims.append(f"people who saw {join_names(harmed)} predict it worse")
    return f"{who}: {'; '.join(claims) or 'explanations are not shown to help people predict the model'}."


def _agreement(tests: Sequence[Answer], names: Sequence[str]) -> dict[str, Any]:
    people = sorted({(answer.person, answer.cohort) for answer in tests})
    items, classes = sorted({answer.item for answer in tests}), sorted({str(answer.choice) for answer in tests})
    table = np.full((len(people), len(items)), np.nan)
    for answer in tests:
        cell = people.index((answer.person, answer.cohort)), items.index(answer.item)
        table[cell] = float(classes.index(str(answer.choice)))
    by_cohort = {
        name: krippendorff_alpha(table[[cohort == name for _, cohort in people]], metric="nominal") for name in names
    }
    return {
        "alpha": krippendorff_alpha(table, metric="nominal"), "alpha_metric": "nominal", "by_cohort": by_cohort,
        "reason": "" if len(people) > 1 else "agreement needs at least two people",
    }  # fmt: skip


def _notes(
    design: Design, names: Sequence[str], tests: Sequence[Answer], is_correct: Float[np.ndarray, " answer"]
) -> list[str]:
    notes = []
    missing = [name for name in design.cohorts if name not in names]
    if missing:
        notes.append(f"No one of {', '.join(missing)} has reached the test phase yet.")
    if is_correct.min() == is_correct.max():
        notes.append("All answers are right or all are wrong: there are no intervals.")
    unknown = {item.id for item in design.items if item.is_error is None}
    if any(answer.item in unknown for answer in tests):
        notes.append("Some items have no known right answer. They count, except in the split by the model's errors.")
    return notes


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
