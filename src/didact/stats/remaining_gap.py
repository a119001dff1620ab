"""The share of the remaining gap that a method closes: gain / (1 − measure without explanations).

This is the normalised simulatability gain (NSG) of arXiv 2602.02639, for a measure that is a mean over rows, at most 1.
The interval is Fieller's: it has every share s at which a t-test does not reject that the mean of `gain − s · gap` is
0, with the standard error and df of `crossed_contrast`. At s = 0 this is the test of the gain itself, so at one level
the interval excludes 0 exactly if the gain's interval does. The delta method has no such property, and is too narrow
where students without explanations are near the ceiling.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from didact.stats.contrast import Effects, crossed_variance, remove_strata_effects

_CEILING: Final = 1e-12  # a smaller gap counts as 0
_FARTHEST: Final = 1e4  # distance from the share beyond which an interval has no end


@dataclass(frozen=True)
class ClosedGap:
    """The share of the gap that is closed; below 0 if the gap grew. `low` and `high` are None if undefined."""

    share: float
    low: float | None = None
    high: float | None = None


def closed_gap(
    method: Float[np.ndarray, "seed row"],
    none: Float[np.ndarray, "_ _"],
    *,
    level: float | None = None,
    strata: Int[np.ndarray, " _"] | None = None,
) -> ClosedGap | None:
    """The share of the gap between `none` and 1 that `method` closes, with its interval at `level`.

    Both arms have the same seeds and rows in order, and their mean is the measure (see `crossed_contrast` for
    `strata`). None if `none` is at the ceiling. Without a level, or if the gap is not significantly above 0 at this
    level, there is no interval.
    """
    gain, gap = method - none, 1 - none
    if gap.mean() <= _CEILING:
        return None
    share = float(gain.mean() / gap.mean())
    if level is None or gain.shape[0] < 1 or gain.shape[1] < 2:
        return ClosedGap(share)
    excess = _excess(gain, gap, level, strata)
    low = _end(excess, share, -1.0)
    high = 1.0 if excess(1.0) <= 0 else _end(excess, share, 1.0)
    return ClosedGap(share) if low is None or high is None else ClosedGap(share, low, high)


def _excess(
    gain: Float[np.ndarray, "seed row"],
    gap: Float[np.ndarray, "seed row"],
    level: float,
    strata: Int[np.ndarray, " row"] | None,
) -> Callable[[float], float]:
    """A function of a share s: by how much |mean of gain − s · gap| exceeds t standard errors. Positive: rejected."""
    from scipy.special import stdtrit

    means = float(gain.mean()), float(gap.mean())
    if strata is not None:
        gain, gap = remove_strata_effects(gain, strata), remove_strata_effects(gap, strata)
    first, second = Effects.of(gain), Effects.of(gap)
    components = list(
        zip(first.covariance(first), first.covariance(second), second.covariance(second), strict=True)
    )  # of seeds, of rows, of cells
    seeds, rows = gain.shape

    def excess(share: float) -> float:
        parts = (of_gain - 2 * share * both + share**2 * of_gap for of_gain, both, of_gap in components)
        variance, df = crossed_variance(*parts, seeds=seeds, rows=rows)
        margin = float(-stdtrit(df, (1 - level) / 2)) * float(np.sqrt(max(variance, 0.0)))
        return abs(means[0] - share * means[1]) - margin

    return excess


def _end(excess: Callable[[float], float], share: float, direction: float) -> float | None:
    """The nearest share in this direction that the test rejects; None if it rejects none of them."""
    from scipy.optimize import brentq

    inside, step = share, 0.01
    while step < _FARTHEST:
        outside = share + direction * step
        if excess(outside) > 0:
            return share if excess(inside) >= 0 else float(brentq(excess, inside, outside))
        inside, step = outside, 2 * step
    return None
