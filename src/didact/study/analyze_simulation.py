"""What a simulation amounts to: how well each cohort foresees the model, and whether explanations made a difference."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.errors import OptionError
from didact.stats.concordance import krippendorff_alpha
from didact.stats.crossed import Cells, crossed_weights
from didact.stats.holm import holm
from didact.stats.permutation import Test, permutation_test
from didact.study.answers import Answer
from didact.study.contrasts import Contrasts, Estimates, contrasts
from didact.study.design import CONTROL, Design
from didact.study.summary_text import few_notes, listed, power_of


def analyzed(
    design: Design,
    answers: Sequence[Answer],
    *,
    replicates: int,
    level: float,
    seed: int,
    difference: float | None,
) -> dict[str, Any]:
    """The parts of the document that are about simulations. A person is right who says what the model says."""
    tests = [one for one in answers if one.phase == "test"]
    if not tests:
        raise OptionError(
            "Nobody has come to the test phase yet, so there is nothing to analyse: wait until somebody is through."
        )
    said = {item.id: item.prediction for item in design.items}
    names = [cohort for cohort in design.cohorts if any(one.cohort == cohort for one in tests)]
    right = np.array([float(one.choice == said[one.item]) for one in tests])
    member = np.array([[float(one.cohort == name) for name in names] for one in tests])
    cells = Cells.of([one.person for one in tests], [one.item for one in tests], [one.cohort for one in tests])
    counts = member.sum(0)
    values = (right @ member) / counts
    influence = member * (right[:, None] - values) / counts
    weights = crossed_weights(cells, replicates=replicates, seed=seed)
    drawn = weights @ member
    draws = np.where(drawn > 0, (weights * right) @ member / np.where(drawn > 0, drawn, 1), values)
    found = contrasts(Estimates(names, values, draws, influence, cells), level=level)
    p_values = _tests(tests, right, names, alpha=1 - level, seed=seed)
    found = replace(found, unconfirmed=_unconfirmed(found, p_values, alpha=1 - level))
    table = [row | p_values[frozenset((row["better"], row["worse"]))] for row in found.pair_rows()]
    rows = [_cohort(design, answers, tests, right, found, place, said) for place in range(len(names))]
    notes = [*few_notes(cells), *_notes(design, names, tests, right), *_contradictions(table, alpha=1 - level)]
    return {
        "measure": "share of the model's answers that people foresee",
        "headline": _headline(found, table, cells),
        "methods": sorted(rows, key=lambda row: (-row["estimate"], row["method"])),
        "pairs": table,
        "order": found.order(),
        "order_here": found.order(here=True),
        "agreement": _agreement(tests, names),
        "power": power_of(found, difference=difference, level=level),
        "notes": notes,
    }


def _cohort(
    design: Design,
    answers: Sequence[Answer],
    tests: Sequence[Answer],
    right: Float[np.ndarray, " answer"],
    found: Contrasts,
    place: int,
    said: dict[str, str],
) -> dict[str, Any]:
    name = found.names[place]
    errors = {item.id: item.is_error for item in design.items}
    own = [(one, is_right) for one, is_right in zip(tests, right, strict=True) if one.cohort == name]
    learned = [one.choice == said[one.item] for one in answers if one.cohort == name and one.phase == "learning"]
    return {
        "method": name, "is_control": name == CONTROL, "estimate": float(found.values[place]),
        "low": _bounded(found.own.low[place]), "high": _bounded(found.own.high[place]),
        "rank": found.ranks()[place], "rank_here": found.ranks(here=True)[place],
        "people": len({one.person for one, _ in own}), "answers": len(own),
        "where_right": _mean([value for one, value in own if errors[one.item] is False]),
        "where_wrong": _mean([value for one, value in own if errors[one.item] is True]),
        "learning": _mean([float(one) for one in learned]),
        "by_person": {
            person: _mean([value for one, value in own if one.person == person])
            for person in sorted({one.person for one, _ in own})
        },
    }  # fmt: skip


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
        for pair, test, p in zip(family, results, holm([one.p for one in results]), strict=True):
            found[frozenset(pair)] = {
                "p": test.p, "p_holm": p, "p_reason": test.reason, "with_control": is_control
            }  # fmt: skip
    return found


def _unconfirmed(
    found: Contrasts, p_values: Mapping[frozenset[str], Mapping[str, Any]], *, alpha: float
) -> frozenset[int]:
    """The pairs that the test does not confirm. A claim needs both: the interval of all pairs at once, and the test."""
    return frozenset(
        place
        for place, (first, second) in enumerate(found.pairs)
        if not _is_small(p_values[frozenset((found.names[first], found.names[second]))]["p_holm"], alpha)
    )


def _is_small(p: float | None, alpha: float) -> bool:
    return p is not None and p < alpha


def _contradictions(table: Sequence[Mapping[str, Any]], *, alpha: float) -> list[str]:
    """A note where interval and test disagree, so that nobody reads a claim into one of the two."""
    pairs = [
        f"{row['better']} and {row['worse']}"
        for row in table
        if (row["sure_low"] > 0) is not _is_small(row["p_holm"], alpha)
    ]
    if not pairs:
        return []
    return [f"Interval and test do not agree about {listed(pairs)}; a difference is claimed only where both show it."]


def _test(
    tests: Sequence[Answer],
    right: Float[np.ndarray, " answer"],
    first: str,
    second: str,
    *,
    level: float,
    seed: int,
) -> Test:
    people = sorted({(one.person, one.cohort) for one in tests if one.cohort in (first, second)})
    own = [np.array([one.person == person for one in tests]) for person, _ in people]
    return permutation_test(
        np.array([right[mask].sum() for mask in own]),
        np.array([float(mask.sum()) for mask in own]),
        np.array([float(cohort == first) for _, cohort in people]),
        level=level,
        seed=seed,
    )


def _headline(found: Contrasts, table: Sequence[dict[str, Any]], cells: Cells) -> str:
    """What is claimed against the control: the interval of all pairs at once excludes 0, and the test confirms it."""
    cohorts = f"{len(found.names)} {'cohort' if len(found.names) == 1 else 'cohorts'}"
    who = f"{cells.people} {'person' if cells.people == 1 else 'people'} in {cohorts}"
    control = [row for row in table if row["with_control"]]
    if not control:
        missing = "but the control" if CONTROL in found.names else "of the control"
        return f"{who}: nobody {missing} answered, so it cannot be told what explanations add."
    told = [row for row in control if row["is_sure"]]
    helped = [f"{row['better']} ({100 * row['difference']:+.0f} points)" for row in told if row["worse"] == CONTROL]
    harmed = [f"{row['worse']} ({-100 * row['difference']:+.0f} points)" for row in told if row["better"] == CONTROL]
    parts = []
    if helped:
        parts.append(f"people who saw {listed(helped)} foresee the model better than people who saw none")
    if harmed:
        parts.append(f"people who saw {listed(harmed)} foresee it worse")
    if not parts:
        parts.append("explanations are not shown to help people foresee the model")
    return f"{who}: {'; '.join(parts)}."


def _agreement(tests: Sequence[Answer], names: Sequence[str]) -> dict[str, Any]:
    people = sorted({(one.person, one.cohort) for one in tests})
    items, classes = sorted({one.item for one in tests}), sorted({str(one.choice) for one in tests})
    table = np.full((len(people), len(items)), np.nan)
    for one in tests:
        place = people.index((one.person, one.cohort)), items.index(one.item)
        table[place] = float(classes.index(str(one.choice)))
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


def _bounded(value: float) -> float:
    return float(np.clip(value, 0, 1))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
