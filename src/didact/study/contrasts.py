"""Pairwise differences of methods with intervals, and the order of methods that they support."""

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
    """One estimate per method, its bootstrap replicates, and the influence of each cell.

    `covariance` is a lower bound of the variances.
    """

    names: Sequence[str]
    values: Float[np.ndarray, " method"]
    replicates: Float[np.ndarray, "replicate method"]
    influence: Float[np.ndarray, "cell method"]
    cells: CrossedAnswers
    covariance: Float[np.ndarray, "method method"] | None = None

    @property
    def is_sampled(self) -> bool:
        """True if people or items vary. One person's answer about one item says nothing about others."""
        return self.cells.people > 1 or self.cells.items > 1


@dataclass(frozen=True)
class OrderRow:
    """A method's rank, the methods that it surely beats, and those that cannot be distinguished from it."""

    method: str
    rank: int
    beats: Sequence[str]
    alike: Sequence[str]


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Estimates and pairwise differences of methods, with intervals.

    `simultaneous_intervals` hold for all pairs at once; `fixed_people_intervals` too, but for these people only.
    """

    names: Sequence[str]
    values: Float[np.ndarray, " method"]
    method_intervals: Intervals
    pairs: Sequence[tuple[int, int]]
    differences: Float[np.ndarray, " pair"]
    pair_intervals: Intervals
    simultaneous_intervals: Intervals
    fixed_people_intervals: Intervals
    variances: Variances
    cells: CrossedAnswers
    unconfirmed: frozenset[int] = frozenset()  # pairs that a test does not confirm: never claimed

    def beats(self, *, fixed_people: bool = False) -> list[list[bool]]:
        """A matrix: true if the method of the row is surely better than that of the column."""
        is_better = [[False] * len(self.names) for _ in self.names]
        intervals = self.fixed_people_intervals if fixed_people else self.simultaneous_intervals
        for pair_index, (first, second) in enumerate(self.pairs):
            if pair_index in self.unconfirmed and not fixed_people:
                continue
            is_better[first][second] = bool(intervals.low[pair_index] > 0)
            is_better[second][first] = bool(intervals.high[pair_index] < 0)
        return is_better

    def ranks(self, *, fixed_people: bool = False) -> list[int]:
        """1 + the number of methods that are surely better."""
        return [1 + sum(column) for column in zip(*self.beats(fixed_people=fixed_people), strict=True)]

    def mean_components(self) -> VarianceComponents:
        """Variance components of a difference, as means over all pairs. One pair estimates them too poorly."""
        components = [
            VarianceComponents.of(self.variances, self.cells, pair_index) for pair_index in range(len(self.pairs))
        ]
        person, item, cell = np.mean([(entry.person, entry.item, entry.cell) for entry in components], axis=0).tolist()
        return VarianceComponents(person, item, cell, groups=min(2, components[0].groups))

    def method_fields(self, index: int) -> dict[str, Any]:
        """The fields of `MethodEstimate` that all kinds of study share."""
        return {
            "method": self.names[index],
            "estimate": float(self.values[index]),
            "low": float(self.method_intervals.low[index]),
            "high": float(self.method_intervals.high[index]),
            "rank": self.ranks()[index],
            "rank_here": self.ranks(fixed_people=True)[index],
        }

    def pair_rows(self) -> list[PairwiseDifference]:
        """Every pair, its better method first, from the largest difference to the smallest."""
        rows = []
        for pair_index, (first, second) in enumerate(self.pairs):
            sign = -1.0 if self.differences[pair_index] < 0 else 1.0
            better, worse = (first, second) if sign > 0 else (second, first)
            ends: dict[str, float] = {}
            for label, interval in (
                ("", self.pair_intervals),
                ("sure_", self.simultaneous_intervals),
                ("here_", self.fixed_people_intervals),
            ):
                low, high = sorted((sign * float(interval.low[pair_index]), sign * float(interval.high[pair_index])))
                ends |= {f"{label}low": low, f"{label}high": high}
            rows.append(
                PairwiseDifference(
                    self.names[better], self.names[worse], sign * float(self.differences[pair_index]), **ends,
                    is_sure=ends["sure_low"] > 0 and pair_index not in self.unconfirmed,
                    is_sure_here=ends["here_low"] > 0,
                )
            )  # fmt: skip
        return sorted(rows, key=lambda pair: (-pair.difference, pair.better, pair.worse))

    def order(self, *, fixed_people: bool = False) -> list[OrderRow]:
        """The methods from best to worst, with the methods that each surely beats or cannot be distinguished from."""
        beats, ranks, names = self.beats(fixed_people=fixed_people), self.ranks(fixed_people=fixed_people), self.names
        rows = []
        for position in sorted(range(len(names)), key=lambda index: (-self.values[index], names[index])):
            others = [index for index in range(len(names)) if index != position]
            beaten = [names[index] for index in others if beats[position][index]]
            alike = [names[index] for index in others if not beats[position][index] and not beats[index][position]]
            rows.append(OrderRow(names[position], ranks[position], beaten, alike))
        return rows


def contrasts(estimates: Estimates, *, level: float) -> Contrasts:
    """Compare every method with every other, with intervals at `level`."""
    count = len(estimates.names)
    pairs = list(combinations(range(count), 2))
    design = np.zeros((len(pairs), count))
    for pair_index, (first, second) in enumerate(pairs):
        design[pair_index, first], design[pair_index, second] = 1, -1
    method_variances, variances = _variances(estimates, np.eye(count)), _variances(estimates, design)
    differences, replicates = design @ estimates.values, estimates.replicates @ design.T
    critical = simultaneous_quantile(replicates, level=level) if pairs else None
    groups = len(estimates.cells.members())
    wide = (
        variances.moderated(df_factor=min(2.0, (count if groups > 1 else count - 1) / min(groups, 2)))
        if pairs
        else variances
    )
    pair_intervals = crossed_intervals(differences, replicates, variances, level=level)
    return Contrasts(
        names=estimates.names,
        values=estimates.values,
        method_intervals=crossed_intervals(estimates.values, estimates.replicates, method_variances, level=level),
        pairs=pairs,
        differences=differences,
        pair_intervals=pair_intervals,
        simultaneous_intervals=_widened(
            crossed_intervals(differences, replicates, wide, level=level, critical=critical), pair_intervals
        ),
        fixed_people_intervals=crossed_intervals(
            differences, replicates, variances.for_same_people(), level=level, critical=critical
        ),
        variances=variances,
        cells=estimates.cells,
    )


def _widened(wide: Intervals, narrow: Intervals) -> Intervals:
    """The wide intervals, extended to cover the narrow ones. A simultaneous interval must cover the pair's own."""
    return replace(wide, low=np.minimum(wide.low, narrow.low), high=np.maximum(wide.high, narrow.high))


def _variances(estimates: Estimates, design: Float[np.ndarray, "quantity method"]) -> Variances:
    """Variances of linear combinations of the estimates. Each row of `design` has the weights of one."""
    if not estimates.is_sampled:
        return crossed_variances(np.zeros_like(estimates.influence) @ design.T, estimates.cells)
    floor = None if estimates.covariance is None else np.einsum("pa,ab,pb->p", design, estimates.covariance, design)
    return crossed_variances(estimates.influence @ design.T, estimates.cells, floor=floor)
