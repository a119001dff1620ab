"""What a simulation amounts to: how well each cohort foresees the model, and whether explanations made a difference."""

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
    """What a simulation says. A person is right who says what the model says."""
    tests = [answer for answer in answers if answer.phase == "test"]
    if not tests:
        raise OptionError(
            "Nobody has come to the test phase yet, so there is nothing to analyse: wait until somebody is through."
        )
    names = [cohort for cohort in design.cohorts if any(answer.cohort == cohort for answer in tests)]
    right, alpha = _rights(design, tests), 1 - settings.level
    found = _compared(tests, right, names, settings)
    p_values = _tests(tests, right, names, alpha=alpha, seed=settings.seed)
    is_confirmed = {pair: _is_small(test["p_holm"], alpha) for pair, test in p_values.items()}
    # A claim needs both: the interval of all pairs at once, and the test.
    unconfirmed = [
        place
        for place, (first, second) in enumerate(found.pairs)
        if not is_confirmed[frozenset((found.names[first], found.names[second]))]
    ]
    found = replace(found, unconfirmed=frozenset(unconfirmed))
    pairs = [TestedPair(**pair, **p_values[frozenset((pair.better, pair.worse))]) for pair in found.pair_rows()]
    rows = [_cohort(design, answers, found, index) for index in range(len(names))]
    return Findings(
        measure="share of the model's answers that people foresee",
        headline=_headline(found, pairs, found.cells),
        methods=rows,
        contrasts=found,
        pairs=pairs,
        agreement=_agreement(tests, names),
        notes=[*_notes(design, names, tests, right), *_contradictions(pairs, alpha=alpha)],
    )


def _rights(design: Design, answers: Sequence[Answer]) -> Float[np.ndarray, " answer"]:
    """1 where a person says what the model says, else 0."""
    predictions = {item.id: item.prediction for item in design.items}
    return np.array([float(answer.choice == predictions[answer.item]) for answer in answers])


def _compared(
    tests: Sequence[Answer], right: Float[np.ndarray, " answer"], names: Sequence[str], settings: Settings
) -> Contrasts:
    """The share of right answers of each cohort, and how sure their differences are."""
    cells = CrossedAnswers.of(*([getattr(answer, name) for answer in tests] for name in ("person", "item", "cohort")))
    member = np.array([[float(answer.cohort == name) for name in names] for answer in tests])
    counts = member.sum(0)
    values = (right @ member) / counts
    influence = member * (right[:, None] - values) / counts
    weights = crossed_weights(cells, replicates=settings.replicates, seed=settings.seed)
    drawn = weights @ member
    draws = np.where(drawn > 0, (weights * right) @ member / np.where(drawn > 0, drawn, 1), values)
    return contrasts(Estimates(names, values, draws, influence, cells), level=settings.level)


def _cohort(design: Design, answers: Sequence[Answer], found: Contrasts, index: int) -> MethodEstimate:
    name = found.names[index]
    members = [answer for answer in answers if answer.cohort == name]
    rights = list(zip(members, _rights(design, members).tolist(), strict=True))
    tests = [(answer, is_right) for answer, is_right in rights if answer.phase == "test"]
    errors = {item.id: item.is_error for item in design.items}
    people = sorted({answer.person for answer, _ in tests})
    shares = {person: _mean([right for answer, right in tests if answer.person == person]) for person in people}
    row = found.method(index)
    return MethodEstimate(
        **row | {"low": float(np.clip(row["low"], 0, 1)), "high": float(np.clip(row["high"], 0, 1))},
        is_control=name == CONTROL,
        people=len(people),
        answers=len(tests),
        where_right=_mean([right for answer, right in tests if errors[answer.item] is False]),
        where_wrong=_mean([right for answer, right in tests if errors[answer.item] is True]),
        learning=_mean([right for answer, right in rights if answer.phase == "learning"]),
        by_person=shares,
    )


def _tests(
    tests: Sequence[Answer], right: Float[np.ndarray, " answer"], names: Sequence[str], *, alpha: float, seed: int
) -> dict[frozenset[str], dict[str, Any]]:
    """A permutation test of every pair of cohorts. Holm's correction is over cohorts against the control, and apart
    from these over pairs of methods."""
    found: dict[frozenset[str], dict[str, Any]] = {}
    pairs = list(combinations(names, 2))
    for is_control in (True, False):
        family = [pair for pair in pairs if (CONTROL in pair) is is_control]
        results = [_test(tests, right, *pair, level=alpha, seed=seed) for pair in family]
        for pair, test, p in zip(family, results, holm([result.p for result in results]), strict=True):
            found[frozenset(pair)] = {"p": test.p, "p_holm": p, "p_reason": test.reason, "with_control": is_control}
    return found


def _is_small(p: float | None, alpha: float) -> bool:
    return p is not None and p < alpha


def _contradictions(pairs: Sequence[TestedPair], *, alpha: float) -> list[str]:
    """A note where interval and test disagree, so that nobody reads a claim into one of the two."""
    split = [pair for pair in pairs if ((pair.sure_low or 0.0) > 0) is not _is_small(pair.p_holm, alpha)]
    names = [f"{pair.better} and {pair.worse}" for pair in split]
    if not names:
        return []
    return [
        f"Interval and test do not agree about {join_names(names)}; a difference is claimed only where both show it."
    ]


def _test(
    tests: Sequence[Answer], right: Float[np.ndarray, " answer"], first: str, second: str, *, level: float, seed: int
) -> PermutationResult:
    people = sorted({(answer.person, answer.cohort) for answer in tests if answer.cohort in (first, second)})
    masks = [np.array([answer.person == person for answer in tests]) for person, _ in people]
    return permutation_test(
        np.array([right[mask].sum() for mask in masks]),
        np.array([float(mask.sum()) for mask in masks]),
        np.array([float(cohort == first) for _, cohort in people]),
        level=level,
        seed=seed,
    )


def _headline(found: Contrasts, pairs: Sequence[TestedPair], cells: CrossedAnswers) -> str:
    """What is claimed against the control: the interval of all pairs at once excludes 0, and the test confirms it."""
    cohorts = count_text(len(found.names), "cohort", "cohorts")
    who = f"{count_text(cells.people, 'person', 'people')} in {cohorts}"
    control = [pair for pair in pairs if pair.with_control]
    if not control:
        missing = "but the control" if CONTROL in found.names else "of the control"
        return f"{who}: nobody {missing} answered, so it cannot be told what explanations add."
    sure = [pair for pair in control if pair.is_sure]
    helped = [f"{pair.better} ({100 * pair.difference:+.0f} points)" for pair in sure if pair.worse == CONTROL]
    harmed = [f"{pair.worse} ({-100 * pair.difference:+.0f} points)" for pair in sure if pair.better == CONTROL]
    claims = []
    if helped:
        claims.append(f"people who saw {join_names(helped)} foresee the model better than people who saw none")
    if harmed:
        claims.append(f"people who saw {join_names(harmed)} foresee it worse")
    return f"{who}: {'; '.join(claims) or 'explanations are not shown to help people foresee the model'}."


def _agreement(tests: Sequence[Answer], names: Sequence[str]) -> dict[str, Any]:
    people = sorted({(answer.person, answer.cohort) for answer in tests})
    items, classes = sorted({answer.item for answer in tests}), sorted({str(answer.choice) for answer in tests})
    table = np.full((len(people), len(items)), np.nan)
    for answer in tests:
        place = people.index((answer.person, answer.cohort)), items.index(answer.item)
        table[place] = float(classes.index(str(answer.choice)))
    by_cohort = {
        name: krippendorff_alpha(table[[cohort == name for _, cohort in people]], metric="nominal") for name in names
    }
    return {
        "alpha": krippendorff_alpha(table, metric="nominal"), "alpha_metric": "nominal", "by_cohort": by_cohort,
        "reason": "" if len(people) > 1 else "one person alone agrees with nobody",
    }  # fmt: skip


def _notes(
    design: Design, names: Sequence[str], tests: Sequence[Answer], right: Float[np.ndarray, " answer"]
) -> list[str]:
    said = []
    missing = [name for name in design.cohorts if name not in names]
    if missing:
        said.append(f"Nobody of {', '.join(missing)} has come to the test phase yet.")
    if right.min() == right.max():
        said.append("All answers are right or all are wrong: there are no intervals.")
    unknown = {item.id for item in design.items if item.is_error is None}
    if any(one.item in unknown for one in tests):
        said.append(
            "Of some items the right answer is not known; they count, but not in the split by the model's errors."
        )
    return said


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
