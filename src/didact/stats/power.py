"""The number of people that a study needs, from the variances of people, items and single answers in another one."""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

import numpy as np

from didact.errors import OptionError
from didact.stats.crossed import CrossedAnswers, Variances

MAX_PEOPLE: Final = 1_000_000  # an upper bound for the search


@dataclass(frozen=True)
class VarianceComponents:
    """Variances of one difference between methods: between people, between items, and of single answers.

    `groups` is 2 if different people judge the two methods; numbers of people are then per group.
    """

    person: float
    item: float
    cell: float
    groups: int = 1

    @classmethod
    def of(cls, variances: Variances, cells: CrossedAnswers, quantity: int) -> "VarianceComponents":
        """The components behind the variances of an estimate. Negative ones are set to 0."""
        members = cells.members()
        people, answers = (
            np.mean([len(people_of_group) for people_of_group in members]),
            len(cells.person) / len(members),
        )
        person, item, cell = (float(effect[quantity]) for effect in (variances.person, variances.item, variances.cell))
        return cls(
            person=max(0.0, person - cell) * float(people),
            item=max(0.0, item - cell) * cells.items,
            cell=cell * answers,
            groups=len(members),
        )


@dataclass(frozen=True)
class SampleSize:
    """The number of `people` (per group) and `items` that detect a `difference`. None: no number of people suffices.

    `limit` is the obstacle if more people do not help.
    """

    difference: float
    people: int | None
    items: int
    limit: str = ""


def variance(components: VarianceComponents, *, people: int, items: int) -> float:
    """The variance of the difference in a study of that size."""
    return components.person / people + components.item / items + components.cell / (people * items)


def detectable_difference(
    components: VarianceComponents, *, people: int, items: int, power: float = 0.8, level: float = 0.05
) -> float:
    """The smallest difference that a two-sided t-test in a study of that size detects with that power."""
    from scipy.special import stdtrit

    if people < 2:
        raise OptionError(f"people must be at least 2 for statements about people, got {people}.")
    single = components.cell / (people * items)
    from_person, from_item = components.person / people + single, components.item / items + single
    df_people = components.groups * (people - 1)
    denominator = from_person**2 / df_people + (from_item**2 + single**2 / df_people) / max(items - 1, 1)
    total = from_person + from_item - single
    df = min(total**2 / denominator, 1e6) if denominator > 0 else 1e6
    return float((stdtrit(df, 1 - level / 2) + stdtrit(df, power)) * np.sqrt(total))


def people_needed(
    components: VarianceComponents, *, difference: float, items: int, power: float = 0.8, level: float = 0.05
) -> SampleSize:
    """The fewest people that detect `difference` with that power. If the items are too few, also more items.

    The larger number of items is chosen such that half of the allowed variance is left to people.
    """
    from scipy.special import ndtri

    if not difference > 0 or not np.isfinite(difference):
        raise OptionError(f"difference must be finite and above 0, got {difference:g}.")
    people = _smallest_sample(components, difference, items, power, level)
    if people is not None:
        return SampleSize(difference, people, items)
    allowed = (difference / float(ndtri(1 - level / 2) + ndtri(power))) ** 2
    more = max(items + 1, int(np.ceil(2 * components.item / allowed)))
    limit = f"{items} items are too few for any number of people"
    return SampleSize(difference, _smallest_sample(components, difference, more, power, level), more, limit)


def _smallest_sample(
    components: VarianceComponents, difference: float, items: int, power: float, level: float
) -> int | None:
    def is_enough(people: int) -> bool:
        return detectable_difference(components, people=people, items=items, power=power, level=level) <= difference

    candidates = range(2, MAX_PEOPLE + 1)
    index = bisect_left(candidates, True, key=is_enough)
    return candidates[index] if index < len(candidates) else None
