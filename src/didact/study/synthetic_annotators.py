"""People who are not: answers drawn from known preferences, to plan the size of a study and to test its analysis."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from didact.errors import OptionError
from didact.study.answers import Answer
from didact.study.design import CONTROL, Design, person_name
from didact.study.schedule import Step, steps_of

_SECONDS: Final = {"ranking": 25.0, "learning": 18.0, "test": 12.0, "rating": 10.0}  # medians; spread as people have
_GAP: Final = 0.5
_CHANCE: Final = 0.65


@dataclass(frozen=True, eq=False)
class _Crowd:
    """What drives answers: a value of each method (log-worth, logit of accuracy, mean), and how people differ."""

    design: Design
    values: Mapping[str, float]
    ties: float
    spread: float
    by_item: Mapping[str, Mapping[str, float]]


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
    """Answers of people number `first` and on, who go through all their steps.

    ranking: places are drawn from the Davidson-Luce model with the log-worths `worths` and δ = `ties` for ties of two;
    simulation: a person is right with the chance `accuracies` of the cohort (`none` too), and else picks another class
    at random; rating: `means` on the scale of points, plus noise of 1, rounded and cut to the scale. `spread` is the
    standard deviation between people, of each method's value for each person (of accuracies: of their logit);
    `item_spread` the same between items. Methods that are not named have 0, 0.65 or the middle of the scale; with no
    preferences at all, methods are 0.5 apart (in a simulation: all are alike), the first the best.
    """
    if people < 1 or first < 1:
        raise OptionError(f"At least 1 person, counted from 1, can be simulated, not {people} from {first}.")
    if min(ties, spread, item_spread) < 0 or not np.isfinite([ties, spread, item_spread]).all():
        raise OptionError("Ties and spreads are at least 0.")
    values = _values(design, {"ranking": worths, "simulation": accuracies, "rating": means})
    dice = np.random.default_rng([seed, 0])
    by_item = {
        item.id: dict(zip(values, item_spread * dice.standard_normal(len(values)), strict=True))
        for item in design.items
    }
    crowd = _Crowd(design, values, ties, spread, by_item)
    return [answer for number in range(first, first + people) for answer in _person(crowd, number, seed)]


def _values(design: Design, given: Mapping[str, Mapping[str, float] | None]) -> dict[str, float]:
    asked = given[design.kind]
    wrong = [kind for kind, one in given.items() if one is not None and kind != design.kind]
    names = {"ranking": "worths", "simulation": "accuracies", "rating": "means"}
    if wrong:
        raise OptionError(
            f"This study is a {design.kind}, whose people are driven by {names[design.kind]}; given were "
            f"{' and '.join(names[kind] for kind in wrong)}."
        )
    known = [one for one in design.cohorts if one] or list(design.methods)
    unknown = sorted(set(asked or {}) - set(known))
    if unknown:
        raise OptionError(f"This study has no {', '.join(unknown)}. Its methods are {', '.join(known)}.")
    middle = {"ranking": 0.0, "simulation": _CHANCE, "rating": (design.points + 1) / 2}[design.kind]
    if asked is None and design.kind != "simulation":
        found = {one: middle + _GAP * ((len(known) - 1) / 2 - place) for place, one in enumerate(known)}
    else:
        found = {one: float((asked or {}).get(one, middle)) for one in known}
    if not np.isfinite(list(found.values())).all():
        raise OptionError(f"The {names[design.kind]} are numbers.")
    if design.kind == "simulation":
        if any(not 0 < one < 1 for one in found.values()):
            raise OptionError("An accuracy lies between 0 and 1.")
        return {name: float(np.log(one / (1 - one))) for name, one in found.items()}
    return found


def _person(crowd: _Crowd, number: int, seed: int) -> list[Answer]:
    dice = np.random.default_rng([seed, number])
    own = dict(zip(crowd.values, crowd.spread * dice.standard_normal(len(crowd.values)), strict=True))
    pace = float(np.exp(0.3 * dice.standard_normal()))
    cohort = crowd.design.cohort_of(number)
    return [_answer(crowd, step, number, cohort, own, pace, dice) for step in steps_of(crowd.design, number)]


def _answer(
    crowd: _Crowd,
    step: Step,
    number: int,
    cohort: str,
    own: Mapping[str, float],
    pace: float,
    dice: np.random.Generator,
) -> Answer:
    by_item = crowd.by_item[step.item.id]
    felt = {name: crowd.values[name] + own[name] + by_item[name] for name in crowd.values}
    ranks, choice, rating = None, None, None
    if step.phase == "ranking":
        ranks = _ranks({name: felt[name] for name in step.shown}, crowd.ties, dice)
    elif step.phase == "rating":
        drawn = felt[step.shown[0]] + dice.standard_normal()
        rating = int(np.clip(np.rint(drawn), 1, crowd.design.points))
    else:
        is_right = dice.random() < 1 / (1 + np.exp(-felt[cohort or CONTROL]))
        others = [one for one in crowd.design.classes if one != step.item.prediction]
        choice = step.item.prediction if is_right or not others else others[int(dice.integers(len(others)))]
    seconds = _SECONDS[step.phase] * pace * float(np.exp(0.5 * dice.standard_normal()))
    return Answer(
        person=person_name(number), cohort=cohort, step=step.number, phase=step.phase, item=step.item.id,
        shown=step.shown, ranks=ranks, choice=choice, rating=rating, seconds=seconds, is_synthetic=True,
    )  # fmt: skip


def _ranks(felt: Mapping[str, float], ties: float, dice: np.random.Generator) -> dict[str, int]:
    """A draw of the Davidson-Luce model: again and again one method, or a tie of two, is put before all that remain."""
    found: dict[str, int] = {}
    rest, place = list(felt), 1
    while rest:
        sets: list[tuple[str, ...]] = [(one,) for one in rest]
        heights = [felt[one] for one in rest]
        if ties > 0:
            sets += combinations(rest, 2)
            heights += [np.log(ties) + (felt[one] + felt[other]) / 2 for one, other in combinations(rest, 2)]
        # Gumbel noise on the logarithms of weights: the largest is a draw in proportion to them.
        first = sets[int(np.argmax(np.array(heights) + dice.gumbel(size=len(sets))))]
        found |= dict.fromkeys(first, place)
        place += len(first)
        rest = [one for one in rest if one not in first]
    return {name: found[name] for name in felt}
