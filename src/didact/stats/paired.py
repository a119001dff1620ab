"""Exact two-sided tests of whether paired differences over seeds centre on zero."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float

from didact.errors import OptionError, ShapeError

_ENUMERATED: Final = 20  # seeds up to which all 2^n flips are tried: 8 MB, some milliseconds
_FLIPS: Final = 100_000


@dataclass(frozen=True)
class Test:
    """A p-value. None where there can be none; `reason` then says why, and is otherwise empty or a remark."""

    p: float | None
    reason: str = ""


def paired_test(
    differences: Float[np.ndarray, " seed"], *, kind: str = "wilcoxon", level: float = 0.05, seed: int = 0
) -> Test:
    """Wilcoxon's signed-rank test (`wilcoxon`) or the permutation test of the mean (`sign_flip`), both exact.

    Under the null each difference is as likely with the other sign, and p is the share of all 2^n choices of signs
    that are at least as extreme. p is None where even differences of one sign, of that many seeds, would not reach
    `level`. Wilcoxon: ties share their mean rank, and zeros are ranked and then left out (Pratt, 1959). `sign_flip`
    with more than 20 seeds takes 100,000 random flips, drawn from `seed`, and the observed one (Phipson and Smyth,
    2010). Measures are fractions, so differences are compared to 12 decimals: what is beyond is rounding.
    """
    if kind not in ("wilcoxon", "sign_flip"):
        raise OptionError(f"Option 'kind' is wilcoxon or sign_flip, not {kind!r}.")
    if not np.isfinite(differences).all():
        raise ShapeError("Differences over seeds must be numbers; leave out the seeds that have none.")
    count = len(differences)
    if count < 2:
        return Test(None, f"a test needs at least 2 seeds, not {count}")
    smallest = 2.0 ** (1 - count)
    if smallest > level:
        return Test(None, f"{count} seeds cannot reach {level:g}: the smallest possible p is {smallest:g}")
    differences = np.round(differences, 12)
    if not differences.any():
        return Test(1.0)
    if kind == "wilcoxon":
        return Test(_wilcoxon(differences))
    if count <= _ENUMERATED:
        return Test(_all_flips(differences))
    return Test(_random_flips(differences, seed), f"{_FLIPS:,} random flips, as {count} seeds have too many to try all")


def _wilcoxon(differences: Float[np.ndarray, " seed"]) -> float:
    from scipy import stats

    # Mean ranks are halves; doubled they are integers, and the sums of random subsets can be counted exactly.
    doubled = np.rint(2 * stats.rankdata(np.abs(differences))).astype(int)
    up, used = doubled[differences > 0].sum(), doubled[differences != 0]
    chance = np.zeros(used.sum() + 1)  # of each sum of the ranks that are positive
    chance[0], reach = 1.0, 0
    for rank in used:
        shifted = chance[: reach + 1] / 2
        chance[: reach + 1] = shifted
        reach += rank
        chance[rank : reach + 1] += shifted
    return float(min(1.0, 2 * min(chance[: up + 1].sum(), chance[up:].sum())))


def _all_flips(differences: Float[np.ndarray, " seed"]) -> float:
    sums = differences[:1]  # the other half, with the first one flipped, is this half mirrored
    for difference in differences[1:]:
        sums = np.concatenate([sums + difference, sums - difference])
    return float(_as_extreme(sums, differences).mean())


def _random_flips(differences: Float[np.ndarray, " seed"], seed: int) -> float:
    dice = np.random.default_rng(seed)
    sums = np.zeros(_FLIPS)
    for difference in differences:
        sums += np.where(dice.random(_FLIPS) < 0.5, difference, -difference)
    return float((1 + _as_extreme(sums, differences).sum()) / (1 + _FLIPS))


def _as_extreme(sums: Float[np.ndarray, " flip"], differences: Float[np.ndarray, " seed"]) -> np.ndarray:
    """Which sums are at least as far from 0 as the observed one, give or take the rounding of a sum."""
    slack = 1e-13 * max(1.0, np.abs(differences).sum())
    return np.abs(sums) >= abs(differences.sum()) - slack
