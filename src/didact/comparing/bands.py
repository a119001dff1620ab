"""Bands: the arms of a method at several temperatures, joined to one row of the table.

Each temperature is an arm with its own students. Rows, contrasts and claims are computed for arms first. Then every
method gets one row: that of the temperature with the highest gain, with the numbers of all of them in `band`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from didact.comparing.setup import Setup
from didact.results.contrast import Column, Contrast, ContrastTable
from didact.results.gains import BandPoint, GainRow


@dataclass(frozen=True)
class Bands:
    """By label of an arm, its method and its temperature. Empty without `target_normalisation=band`."""

    arms: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, setup: Setup) -> "Bands":
        return cls(
            {
                arm.label: (method, arm.temperature)
                for method, arms in setup.all_arms.items()
                for arm in arms.values()
                if arm.temperature is not None
            }
        )

    def method_of(self, arm: str) -> str:
        """The method of an arm; the label itself if it belongs to no band."""
        return self.arms[arm][0] if arm in self.arms else arm

    def families(self, arms: Sequence[str]) -> list[list[str]]:
        """The arms by method, in order."""
        groups: dict[str, list[str]] = {}
        for arm in arms:
            groups.setdefault(self.method_of(arm), []).append(arm)
        return list(groups.values())

    def joined(self, rows: Sequence[GainRow]) -> list[GainRow]:
        """One row per method of a column: its arm with the highest gain, or mean where there is no gain."""
        by_arm = {row.explainer: row for row in rows}
        joined = []
        for arms in self.families(list(by_arm)):
            if not any(arm in self.arms for arm in arms):
                joined += [by_arm[arm] for arm in arms]
                continue
            points = {arm: _point(by_arm[arm], self.arms[arm][1]) for arm in self._from_flat_to_sharp(arms)}
            best = max(points, key=lambda arm: points[arm].order)
            joined.append(
                replace(
                    by_arm[best],
                    explainer=self.method_of(best),
                    band=tuple(points.values()),
                    low_seeds=max(by_arm[arm].low_seeds for arm in arms),
                )
            )
        return joined

    def _from_flat_to_sharp(self, arms: Sequence[str]) -> list[str]:
        return sorted(arms, key=lambda arm: -self.arms[arm][1])

    def best_arms(self, rows: Sequence[GainRow]) -> dict[tuple[str, Column], str]:
        """By method and column of rows that `joined` returned, the label of the arm that the row shows."""
        labels = {(method, temperature): arm for arm, (method, temperature) in self.arms.items()}
        return {
            (row.explainer, row.column): labels[row.explainer, row.best_point.temperature]
            for row in rows
            if row.best_point is not None
        }

    def select(self, contrasts: ContrastTable, best_arms: Mapping[tuple[str, Column], str]) -> ContrastTable:
        """The contrasts that a comparison stores: of methods at the best temperature of each, and of arms that share a
        temperature, by their labels.
        """
        if not self.arms:
            return contrasts
        entries: dict[tuple[str, str, Column], Contrast] = {}
        for (first, second, column), contrast in contrasts.entries.items():
            names = [self.method_of(arm) for arm in (first, second)]
            if all(
                best_arms.get((name, column), name) == arm for name, arm in zip(names, (first, second), strict=True)
            ):
                entries[names[0], names[1], column] = contrast
            temperatures = {self.arms[arm][1] for arm in (first, second) if arm in self.arms}
            if len(temperatures) == 1:
                entries[first, second, column] = contrast
        return ContrastTable(entries)


def _point(row: GainRow, temperature: float) -> BandPoint:
    return BandPoint(temperature, row.seeds, row.mean, row.gain, row.low, row.high, row.p, row.claimed)
