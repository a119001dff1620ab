"""Synthetic annotators with known preferences, for planning the size of a study and testing its analysis."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from didact.errors import OptionError
from didact.study.answers import Answer
from didact.study.design import CONTROL, Design, person_name
from didact.study.schedule import Step, steps_of

_SECONDS: Final = {"ranking": 25.0, "learning": 18.0, "test": 12.0, "rating": 10.0}  # median seconds per page
_DEFAULT_GAP: Final = 0.5
_DEFAULT_ACCURACY: Final = 0.65


@dataclass(frozen=True, eq=False)
class _Population:
    """Parameters of the answers: a value per method (log-worth, logit of accuracy, mean), ties and random effects."""

    design: Design
    values: Mapping[str, float]
    ties: float
    spread: float
    item_effects: Mapping[str, Mapping[str, float]]


def simulate_answers(
    design: Design,
    *,
    people: int,
    worths: Mapping[str, float] | None = None,
    accuracies: Mapping[str, float] | None = None,
    means: Mapping[str, float] | None = None,
    ties: float = 0.2,
    spread: float = 0.0,
    item_spread: float = 0.0,
    first: int = 1,
    seed: int = 0,
) -> list[Answer]:
    """Simulated answers of `people` people, numbered from `first`, to all their steps.

    Args:
        design: The design of the study.
        people: Number of people.
        worths: Ranking: log-worths by method. Ranks are drawn from the Davidson-Luce model.
        accuracies: Simulation: probability of a right answer by cohort, `none` included. Wrong answers are uniform.
        means: Rating: mean by method. Ratings have noise with standard deviation 1 and are rounded and clipped.
        ties: Ranking: δ of the Davidson-Luce model, for ties of two.
        spread: Standard deviation between people of each method's value (of accuracies: of their logit).
        item_spread: The same between items.
        first: Number of the first person.
        seed: Seed of all draws. A person's answers do not depend on the number of people.

    A method without a value gets 0, 0.65 or the middle of the scale. Without any values, methods are 0.5 apart, the
    first the best; in a simulation, all are equal.
    """
    if people < 1 or first < 1:
        raise OptionError(f"people and first must be at least 1, got {people} and {first}.")
    if min(ties, spread, item_spread) < 0 or not np.isfinite([ties, spread, item_spread]).all():
        raise OptionError("ties, spread and item_spread must be finite and at least 0.")
    values = _values(design, {"ranking": worths, "simulation": accuracies, "rating": means})
    rng = np.random.default_rng([seed, 0])
    item_effects = {
        item.id: dict(zip(values, item_spread * rng.standard_normal(len(values)), strict=True)) for item in design.items
    }
    population = _Population(design, values, ties, spread, item_effects)
    return [answer for number in range(first, first + people) for answer in _person(population, number, seed)]


def _values(design: Design, values_by_kind: Mapping[str, Mapping[str, float] | None]) -> dict[str, float]:
    values_set = values_by_kind[design.kind]
    wrong = [kind for kind, values in values_by_kind.items() if values is not None and kind != design.kind]
    names = {"ranking": "worths", "simulation": "accuracies", "rating": "means"}
    if wrong:
        raise OptionError(
            f"A {design.kind} study takes {names[design.kind]}, not {' and '.join(names[kind] for kind in wrong)}."
        )
    methods = [cohort for cohort in design.cohorts if cohort] or list(design.methods)
    unknown = sorted(set(values_set or {}) - set(methods))
    if unknown:
        raise OptionError(f"This study has no {', '.join(unknown)}. Its methods are {', '.join(methods)}.")
    middle = {"ranking": 0.0, "simulation": _DEFAULT_ACCURACY, "rating": (design.points + 1) / 2}[design.kind]
    if values_set is None and design.kind != "simulation":
        method_values = {
            method: middle + _DEFAULT_GAP * ((len(methods) - 1) / 2 - index) for index, method in enumerate(methods)
        }
    else:
        method_values = {method: float((values_set or {}).get(method, middle)) for method in methods}
    if not np.isfinite(list(method_values.values())).all():
        raise OptionError(f"{names[design.kind]} must be finite numbers.")
    if design.kind == "simulation":
        if any(not 0 < accuracy < 1 for accuracy in method_values.values()):
            raise OptionError("An accuracy must be between 0 and 1.")
        return {name: float(np.log(share / (1 - share))) for name, share in method_values.items()}
    return method_values


def _person(population: _Population, number: int, seed: int) -> list[Answer]:
    rng = np.random.default_rng([seed, number])
    person_effects = dict(
        zip(population.values, population.spread * rng.standard_normal(len(population.values)), strict=True)
    )
    pace = float(np.exp(0.3 * rng.standard_normal()))
    cohort = population.design.cohort_of(number)
    return [
        _answer(population, step, number, cohort, person_effects, pace, rng)
        for step in steps_of(population.design, number)
    ]


def _answer(
    population: _Population,
    step: Step,
    number: int,
    cohort: str,
    person_effects: Mapping[str, float],
    pace: float,
    rng: np.random.Generator,
) -> Answer:
    item_effects = population.item_effects[step.item.id]
    utilities = {
        name: population.values[name] + person_effects[name] + item_effects[name] for name in population.values
    }
    ranks, choice, rating = None, None, None
    if step.phase == "ranking":
        ranks = _ranks({name: utilities[name] for name in step.shown}, population.ties, rng)
    elif step.phase == "rating":
        latent = utilities[step.shown[0]] + rng.standard_normal()
        rating = int(np.clip(np.rint(latent), 1, population.design.points))
    else:
        is_right = rng.random() < 1 / (1 + np.exp(-utilities[cohort or CONTROL]))
        other_classes = [label for label in population.design.classes if label != step.item.prediction]
        choice = (
            step.item.prediction
            if is_right or not other_classes
            else other_classes[int(rng.integers(len(other_classes)))]
        )
    seconds = _SECONDS[step.phase] * pace * float(np.exp(0.5 * rng.standard_normal()))
    return Answer(
        person=person_name(number), cohort=cohort, step=step.number, phase=step.phase, item=step.item.id,
        shown=step.shown, ranks=ranks, choice=choice, rating=rating, seconds=seconds, is_synthetic=True,
    )  # fmt: skip


def _ranks(utilities: Mapping[str, float], ties: float, rng: np.random.Generator) -> dict[str, int]:
    """Ranks from the Davidson-Luce model: repeatedly, one method or a tie of two is ranked before all that remain."""
    ranks: dict[str, int] = {}
    remaining, rank = list(utilities), 1
    while remaining:
        sets: list[tuple[str, ...]] = [(method,) for method in remaining]
        log_weights = [utilities[method] for method in remaining]
        if ties > 0:
            sets += combinations(remaining, 2)
            log_weights += [
                np.log(ties) + (utilities[method] + utilities[other]) / 2
                for method, other in combinations(remaining, 2)
            ]
        # Gumbel-max trick: the largest noisy log-weight is a draw in proportion to the weights.
        first = sets[int(np.argmax(np.array(log_weights) + rng.gumbel(size=len(sets))))]
        ranks |= dict.fromkeys(first, rank)
        rank += len(first)
        remaining = [method for method in remaining if method not in first]
    return {name: ranks[name] for name in utilities}
