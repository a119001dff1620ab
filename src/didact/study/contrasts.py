"""Methods side by side: how far each is from each, how sure that is, and the order that can be told from it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.results.study_analysis import PairwiseDifference
from didact.stats.crossed import (
    CrossedAnswers,
    Intervals,
    Variances,
    crossed_intervals,
    crossed_variances,
    simultaneous_quantile,
)
from didact.stats.power import VarianceComponents


@dataclass(frozen=True, eq=False)
class Estimates:
    """One number for each method, its replicates, and what each answer adds to it. `covariance` is a floor."""

    names: Sequence[str]
    values: Float[np.ndarray, " method"]
    replicates: Float[np.ndarray, "replicate method"]
    influence: Float[np.ndarray, "cell method"]
    cells: CrossedAnswers
    covariance: Float[np.ndarray, "method method"] | None = None

    @property
    def is_sampled(self) -> bool:
        """Whether there is anything to vary: one answer of one person about one item says nothing of others."""
        return self.cells.people > 1 or self.cells.items > 1


@dataclass(frozen=True)
class OrderRow:
    """A method's rank, the methods it surely beats, and those it cannot be told from."""

    method: str
    rank: int
    beats: Sequence[str]
    alike: Sequence[str]


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
    cells: CrossedAnswers
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

    def component(self) -> VarianceComponents:
        """Of a difference between two methods, as the mean over all pairs: a single pair says too little of people."""
        found = [VarianceComponents.of(self.variances, self.cells, place) for place in range(len(self.pairs))]
        person, item, cell = np.mean([(one.person, one.item, one.cell) for one in found], axis=0).tolist()
        return VarianceComponents(person, item, cell, groups=min(2, found[0].groups))

    def method(self, index: int) -> dict[str, Any]:
        """The fields of a `MethodEstimate` that all kinds of study have."""
        return {
            "method": self.names[index], "estimate": float(self.values[index]), "low": float(self.own.low[index]),
            "high": float(self.own.high[index]), "rank": self.ranks()[index],
            "rank_here": self.ranks(here=True)[index],
        }  # fmt: skip

    def pair_rows(self) -> list[PairwiseDifference]:
        """Every pair, the better one first, from the largest difference to the smallest."""
        rows = []
        for place, (first, second) in enumerate(self.pairs):
            sign = -1.0 if self.differences[place] < 0 else 1.0
            better, worse = (first, second) if sign > 0 else (second, first)
            ends: dict[str, float] = {}
            for label, interval in (("", self.each), ("sure_", self.sure), ("here_", self.here)):
                low, high = sorted((sign * float(interval.low[place]), sign * float(interval.high[place])))
                ends |= {f"{label}low": low, f"{label}high": high}
            rows.append(
                PairwiseDifference(
                    self.names[better], self.names[worse], sign * float(self.differences[place]), **ends,
                    is_sure=ends["sure_low"] > 0 and place not in self.unconfirmed, is_sure_here=ends["here_low"] > 0,
                )
            )  # fmt: skip
        return sorted(rows, key=lambda pair: (-pair.difference, pair.better, pair.worse))

    def order(self, *, here: bool = False) -> list[OrderRow]:
        """From best to worst: rank, who is surely beaten, and who cannot be told apart."""
        beats, ranks, names = self.beats(here=here), self.ranks(here=here), self.names
        rows = []
        for place in sorted(range(len(names)), key=lambda index: (-self.values[index], names[index])):
            others = [index for index in range(len(names)) if index != place]
            beaten = [names[index] for index in others if beats[place][index]]
            alike = [names[index] for index in others if not beats[place][index] and not beats[index][place]]
            rows.append(OrderRow(names[place], ranks[place], beaten, alike))
        return rows


def contrasts(found: Estimates, *, level: float) -> Contrasts:
    """Compare every method with every other."""
    count = len(found.names)
    pairs = list(combinations(range(count), 2))
    design = np.zeros((len(pairs), count))
    for place, (first, second) in enumerate(pairs):
        design[place, first], design[place, second] = 1, -1
    own, variances = _variances(found, np.eye(count)), _variances(found, design)
    differences, replicates = design @ found.values, found.replicates @ design.T
    critical = simultaneous_quantile(replicates, level=level) if pairs else None
    groups = len(found.cells.members())
    wide = (
        variances.moderated(df_factor=min(2.0, (count if groups > 1 else count - 1) / min(groups, 2)))
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
        here=crossed_intervals(differences, replicates, variances.for_same_people(), level=level, critical=critical),
        variances=variances,
        cells=found.cells,
    )


def _around(wide: Intervals, narrow: Intervals) -> Intervals:
    """What holds of all at once holds of each: no interval of all is shorter than its own."""
    return replace(wide, low=np.minimum(wide.low, narrow.low), high=np.maximum(wide.high, narrow.high))


def _variances(found: Estimates, design: Float[np.ndarray, "quantity method"]) -> Variances:
    """Of sums of methods' values, as the rows of `design` say."""
    if not found.is_sampled:
        return crossed_variances(np.zeros_like(found.influence) @ design.T, found.cells)
    floor = None if found.covariance is None else np.einsum("pa,ab,pb->p", design, found.covariance, design)
    return crossed_variances(found.influence @ design.T, found.cells, floor=floor)
