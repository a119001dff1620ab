"""The paired difference of two arms over crossed seeds and rows, with its standard error in closed form.

Every interval and every p-value of a comparison comes from a `Contrast`; `claims.py` decides what may be claimed.
docs/decisions/028-one-rule.md gives the reasons.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from didact.errors import ShapeError
from didact.results.contrast import Contrast

# By arm, for each seed one value per row.
Arms = Mapping[str, Mapping[int, Float[np.ndarray, " row"]]]
_ROUNDING: Final = 1e-12  # of the largest value; a smaller difference or standard error is 0


@dataclass(frozen=True, eq=False)
class Effects:
    """A table of seeds × rows as its mean, and how far seeds, rows and single cells deviate from it."""

    mean: float
    by_seed: Float[np.ndarray, " seed"]
    by_row: Float[np.ndarray, " row"]
    residuals: Float[np.ndarray, "seed row"]

    @classmethod
    def of(cls, values: Float[np.ndarray, "seed row"]) -> "Effects":
        center = values.mean()
        by_seed, by_row = values.mean(1) - center, values.mean(0) - center
        return cls(float(center), by_seed, by_row, values - center - by_seed[:, None] - by_row)

    def covariance(self, other: "Effects") -> tuple[float, float, float]:
        """The covariance of two means over the same seeds and rows, from seeds, from rows and from single cells.

        Unbiased, as mean squares are. The first two contain the third, so the covariance is seed + row − cell. With
        itself, it is the variance of the mean. One seed has no variance: its sums are 0.
        """
        seeds, rows = self.residuals.shape
        per_seed, per_row = 1 / max(seeds - 1, 1), 1 / (rows - 1)
        return (
            float((self.by_seed * other.by_seed).sum()) / seeds * per_seed,
            float((self.by_row * other.by_row).sum()) / rows * per_row,
            float((self.residuals * other.residuals).sum()) / self.residuals.size * per_seed * per_row,
        )


def crossed_contrast(
    first: Float[np.ndarray, "seed row"],
    second: Float[np.ndarray, "_ _"],
    *,
    strata: Int[np.ndarray, " _"] | None = None,
) -> Contrast:
    """First minus second, for a measure that is a mean over rows. Both arms have the same seeds and rows in order.

    The variance is the unbiased one of a mean over two crossed samples, the degrees of freedom are Satterthwaite's.
    With `strata` (a number per row), differences between strata are fixed and add no variance: the right error for a
    mean of class recalls, if the arms hold agreements times class weights. For Pearson's r pass `pearson_terms` of each
    arm.
    """
    _check(first, second)
    differences = first - second
    difference = float(differences.mean())
    if strata is not None:
        differences = remove_strata_effects(differences, strata)
    effects = Effects.of(differences)
    seed, row, cell = effects.covariance(effects)
    seeds, rows = differences.shape
    total, df = crossed_variance(seed, row, cell, seeds=seeds, rows=rows)
    # Otherwise two students that always predict one class each would differ by 1e-17, with a standard error of 0.
    rounding = _ROUNDING * max(float(np.abs(first).max()), float(np.abs(second).max()))
    difference, se = (value if abs(value) > rounding else 0.0 for value in (difference, float(np.sqrt(total))))
    return Contrast(difference, se, df, seeds, rows, seed, row, cell)


def crossed_variance(seed: float, row: float, cell: float, *, seeds: int, rows: int) -> tuple[float, float]:
    """The variance of a mean over crossed seeds and rows from its components, and Satterthwaite's df."""
    per_seed, per_row = 1 / max(seeds - 1, 1), 1 / (rows - 1)
    total = max(seed + row - cell, seed, row)
    denominator = seed**2 * per_seed + row**2 * per_row + cell**2 * per_seed * per_row
    return total, total**2 / denominator if denominator > 0 else 1.0


def pairwise_contrasts(
    arms: Arms, *, strata: Int[np.ndarray, " _"] | None = None
) -> Iterator[tuple[str, str, Contrast]]:
    """Contrasts of all pairs of arms, over the seeds that both have. Pairs without a shared seed are skipped."""
    for (first, first_arm), (second, second_arm) in combinations(arms.items(), 2):
        seeds = sorted(first_arm.keys() & second_arm.keys())
        if seeds:
            stacked = [np.stack([by_seed[seed] for seed in seeds]) for by_seed in (first_arm, second_arm)]
            yield first, second, crossed_contrast(*stacked, strata=strata)


def pearson_terms(
    outputs: Float[np.ndarray, "seed row"], reference: Float[np.ndarray, " _"]
) -> Float[np.ndarray, "seed row"]:
    """Values whose mean over rows is a seed's r with `reference`, and whose deviations are each row's influence on r.

    r of a constant arm is undefined and counts as 0: a student with constant answers predicts nothing.
    """
    if reference.shape != outputs.shape[1:]:
        raise ShapeError(f"The reference has {len(reference)} rows, the students answered {outputs.shape[1]}.")
    if not (np.isfinite(reference).all() and np.isfinite(outputs).all()):
        raise ShapeError("Outputs or reference have NaN or infinite values; leave those rows out of both.")
    outputs, reference = _standardise(outputs), _standardise(reference)
    products = outputs * reference
    r = products.mean(1, keepdims=True)
    return np.asarray(products - r * ((outputs**2 + reference**2) / 2 - 1))


def row_contrasts(values: Float[np.ndarray, "series row"]) -> list[Contrast | None]:
    """The mean of each series over its rows (NaN: missing), as a contrast with 0 over rows alone.

    None for a series with fewer than two rows.
    """
    contrasts: list[Contrast | None] = []
    for series in values:
        present = series[np.isfinite(series)][None]
        contrasts.append(crossed_contrast(present, np.zeros_like(present)) if present.size > 1 else None)
    return contrasts


def _standardise(values: Float[np.ndarray, "*seed row"]) -> Float[np.ndarray, "*seed row"]:
    """Mean 0 and variance 1 over rows, which does not change r; 0 where constant."""
    centered = values - values.mean(-1, keepdims=True)
    varies = np.ptp(values, axis=-1, keepdims=True) > 0
    scale = np.sqrt((centered**2).mean(-1, keepdims=True))
    return np.divide(centered, scale, out=np.zeros_like(centered), where=varies & (scale > 0))


def remove_strata_effects(
    values: Float[np.ndarray, "seed row"], strata: Int[np.ndarray, " _"]
) -> Float[np.ndarray, "seed row"]:
    """The values with the mean of every stratum moved to the overall mean."""
    centered = values.copy()
    for stratum in np.unique(strata):
        members = strata == stratum
        centered[:, members] += values.mean() - values[:, members].mean()
    return centered


def _check(first: Float[np.ndarray, "_ _"], second: Float[np.ndarray, "_ _"]) -> None:
    if first.shape != second.shape:
        raise ShapeError(
            f"Two arms are paired, but have {first.shape} and {second.shape} seeds and rows. "
            "Give both the same seeds and test rows, in the same order."
        )
    if first.shape[0] < 1 or first.shape[1] < 2:
        raise ShapeError(f"A contrast needs at least 1 seed and 2 rows, got {first.shape[0]} and {first.shape[1]}.")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ShapeError("One of the arms has NaN or infinite values; leave those rows out of both.")
