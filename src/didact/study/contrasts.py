"""Methods side by side: how far each is from each, how sure that is, and the order that can be told from it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.stats.crossed import (
    Cells,
    Intervals,
    Variances,
    crossed_intervals,
    crossed_variances,
    together,
)
from didact.stats.power import Components


@dataclass(frozen=True, eq=False)
class Estimates:
    """One number for each method, its replicates, and what each answer adds to it. `covariance` is a floor."""

    names: Sequence[str]
    values: Float[np.ndarray, " method"]
    replicates: Float[np.ndarray, "replicate method"]
    influence: Float[np.ndarray, "cell method"]
    cells: Cells
    covariance: Float[np.ndarray, "method method"] | None = None

    @property
    def is_sampled(self) -> bool:
        """Whether there is anything to vary: one answer of one person about one item says nothing of others."""
        return self.cells.people > 1 or self.cells.items > 1


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Intervals of methods, of pairs, of all pairs at once (`sure`), and of all if people stay the same (`here`)."""

    names: Sequence[str]
    values: Float[np.ndarray, " method"]
    own: Intervals
    pairs: Sequence[tuple[int, int]]
    differences: Float[np.ndarray, " pair"]
    each: Intervals
    sure: Intervals
    here: Intervals
    variances: Variances
    cells: Cells
    unconfirmed: frozenset[int] = frozenset()  # pairs that a test does not confirm: never `sure`

    def beats(self, *, here: bool = False) -> list[list[bool]]:
        """Which method (row) is surely better than which (column)."""
        found = [[False] * len(self.names) for _ in self.names]
        ends = self.here if here else self.sure
        for place, (first, second) in enumerate(self.pairs):
            if place in self.unconfirmed and not here:
                continue
            found[first][second] = bool(ends.low[place] > 0)
            found[second][first] = bool(ends.high[place] < 0)
        return found

    def ranks(self, *, here: bool = False) -> list[int]:
        """1 + the number of methods that are surely better."""
        return [1 + sum(column) for column in zip(*self.beats(here=here), strict=True)]

    def component(self) -> Components:
        """Of a difference between two methods, as the mean over all pairs: a single pair says too little of people."""
        found = [Components.of(self.variances, self.cells, place) for place in range(len(self.pairs))]
        person, item, cell = np.mean([(one.person, one.item, one.cell) for one in found], axis=0).tolist()
        return Components(person, item, cell, groups=min(2, found[0].groups))

    def pair_rows(self) -> list[dict[str, Any]]:
        """Every pair, the better one first, from the largest difference to the smallest."""
        rows = []
        for place, (first, second) in enumerate(self.pairs):
            sign = -1.0 if self.differences[place] < 0 else 1.0
            names = (self.names[first], self.names[second])
            row: dict[str, Any] = dict(zip(("better", "worse"), names if sign > 0 else names[::-1], strict=True))
            row["difference"] = sign * float(self.differences[place])
            for label, ends in (("", self.each), ("sure_", self.sure), ("here_", self.here)):
                low, high = sorted((sign * float(ends.low[place]), sign * float(ends.high[place])))
                row |= {f"{label}low": low, f"{label}high": high}
            is_sure = row["sure_low"] > 0 and place not in self.unconfirmed
            row |= {"is_sure": is_sure, "is_sure_here": row["here_low"] > 0}
            rows.append(row)
        return sorted(rows, key=lambda row: (-row["difference"], row["better"], row["worse"]))

    def order(self, *, here: bool = False) -> list[dict[str, Any]]:
        """From best to worst: rank, who is surely beaten, and who cannot be told apart."""
        beats, ranks = self.beats(here=here), self.ranks(here=here)
        rows: list[dict[str, Any]] = []
        for place in sorted(range(len(self.names)), key=lambda one: (-self.values[one], self.names[one])):
            others = [one for one in range(len(self.names)) if one != place]
            rows.append(
                {
                    "method": self.names[place],
                    "rank": ranks[place],
                    "beats": [self.names[one] for one in others if beats[place][one]],
                    "alike": [self.names[one] for one in others if not beats[place][one] and not beats[one][place]],
                }
            )
        return rows


def contrasts(found: Estimates, *, level: float) -> Contrasts:
    """Compare every method with every other."""
    count = len(found.names)
    pairs = list(combinations(range(count), 2))
    design = np.zeros((len(pairs), count))
    for place, (first, second) in enumerate(pairs):
        design[place, first], design[place, second] = 1, -1
    floor = None if found.covariance is None else np.diag(found.covariance)
    own = _variances(found, np.eye(count), floor)
    each_floor = None if found.covariance is None else np.einsum("pa,ab,pb->p", design, found.covariance, design)
    variances = _variances(found, design, each_floor)
    differences, replicates = design @ found.values, found.replicates @ design.T
    critical = together(replicates, level=level) if pairs else None
    groups = len(found.cells.members())
    wide = (
        variances.moderated(freedoms=min(2.0, (count if groups > 1 else count - 1) / min(groups, 2)))
        if pairs
        else variances
    )
    each = crossed_intervals(differences, replicates, variances, level=level)
    return Contrasts(
        names=found.names,
        values=found.values,
        own=crossed_intervals(found.values, found.replicates, own, level=level),
        pairs=pairs,
        differences=differences,
        each=each,
        sure=_around(crossed_intervals(differences, replicates, wide, level=level, critical=critical), each),
        here=crossed_intervals(differences, replicates, variances.of_these_people(), level=level, critical=critical),
        variances=variances,
        cells=found.cells,
    )


def _around(wide: Intervals, narrow: Intervals) -> Intervals:
    """What holds of all at once holds of each: no interval of all is shorter than its own."""
    return replace(wide, low=np.minimum(wide.low, narrow.low), high=np.maximum(wide.high, narrow.high))


def _variances(
    found: Estimates, design: Float[np.ndarray, "quantity method"], floor: Float[np.ndarray, " quantity"] | None
) -> Variances:
    influence = found.influence if found.is_sampled else np.zeros_like(found.influence)
    return crossed_variances(influence @ design.T, found.cells, least=floor if found.is_sampled else None)
