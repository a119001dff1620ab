"""Metrics that remove units, as their papers define them: one row, one version of it after the other.

`chance(present)` is the probability of the explained class with only these units in the row.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

Chance = Callable[[list[int]], float]


def symmetric_relevance_gain(scores: Sequence[float], chance: Chance, steps: int = 20) -> float:
    """SRG (Blücher et al. 2024): the area with the least influential units removed first, minus that with the most."""
    most_first = sorted(range(len(scores)), key=lambda unit: -scores[unit])
    return _area(list(reversed(most_first)), chance, steps) - _area(most_first, chance, steps)


def _area(order: list[int], chance: Chance, steps: int) -> float:
    """The area under the probability while units are removed in this order, by trapezoids between the shares."""
    units = len(order)
    counts = sorted({math.ceil(step / steps * units - 1e-9) for step in range(steps + 1)})
    area, last_count, last_height = 0.0, 0, chance(sorted(order))
    for count in counts[1:]:
        gone = order[:count]
        height = chance([unit for unit in range(units) if unit not in gone])
        area += (count - last_count) / units * (height + last_height) / 2
        last_count, last_height = count, height
    return area


def expected_fidelity(
    scores: Sequence[float], chance: Chance, *, alpha: float, beta: float, sizes: Sequence[float]
) -> tuple[float, float]:
    """FFid+ and FFid− (Zheng et al. 2025) without sampling: the mean over every way to remove the units.

    Of the highest (lowest) `size` units, the share `alpha` goes, but at most the share `beta` of all units.
    """
    highest_first = sorted(range(len(scores)), key=lambda unit: -scores[unit])
    whole = chance(list(range(len(scores))))
    falls = []
    for order in (highest_first, highest_first[::-1]):
        means = []
        for size in sizes:
            part = order[: _rounded_up(size * len(order))]
            count = min(_rounded_up(alpha * len(part)), _rounded_up(beta * len(order)))
            answers = [
                chance([unit for unit in range(len(order)) if unit not in gone]) for gone in combinations(part, count)
            ]
            means.append(sum(answers) / len(answers))
        falls.append(whole - sum(means) / len(means))
    return falls[0], falls[1]


def _rounded_up(share: float) -> int:
    return max(1, math.ceil(share - 1e-9))
