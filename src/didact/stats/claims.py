"""The one rule for claims: a family of contrasts, corrected by Holm, each shown with the interval of its step.

A difference is claimed if its Holm-adjusted p is below `ALPHA`. That is so exactly where the interval shown excludes 0.
All marks and statements about differences in tables and reports come from here. docs/compare.md states the rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from didact.errors import OptionError
from didact.results.contrast import Contrast

ALPHA: Final = 0.05
ONE_SEED: Final = "one seed says nothing about other seeds"


@dataclass(frozen=True)
class Claim:
    """A contrast of a family: Holm-adjusted p, the interval at `level`, and whether the difference is `claimed`.

    p and interval are None where nothing can be claimed; `reason` then says why.
    """

    contrast: Contrast
    p: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    claimed: bool = False
    reason: str = ""

    @property
    def is_above(self) -> bool:
        """Claimed, and the first arm is ahead."""
        return self.claimed and self.contrast.difference > 0

    @property
    def is_below(self) -> bool:
        return self.claimed and self.contrast.difference < 0


def claims(family: Sequence[Contrast], *, alpha: float = ALPHA, over_seeds: bool = True) -> list[Claim]:
    """Test a family of contrasts together. Returns one claim per contrast, in the same order.

    The interval of a contrast is at the level of its step in Holm's procedure; after the first step that fails, at the
    level of that step. A contrast of one seed is not tested unless the claims are about rows alone
    (`over_seeds=False`).
    """
    if not 0 < alpha < 1:
        raise OptionError(f"alpha must be between 0 and 1, got {alpha}.")
    p_values = [contrast.p if contrast.seeds > 1 or not over_seeds else None for contrast in family]
    adjusted = holm(p_values)
    order = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    results = [Claim(contrast, reason=ONE_SEED) for contrast in family]
    step = 0
    for _, index in order:
        contrast, p = family[index], adjusted[index]
        assert p is not None
        level = 1 - alpha / (len(order) - step)
        low, high = contrast.interval(level)
        results[index] = Claim(contrast, p, low, high, level, p < alpha)
        step += p < alpha  # all that follow a failed step fail too, and keep its level
    return results


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjusted p-values, in the same order. None stays None and does not count as a test."""
    present = [(p, index) for index, p in enumerate(values) if p is not None]
    if any(not 0 <= p <= 1 for p, _ in present):
        raise OptionError(f"p-values must be between 0 and 1, got {', '.join(str(p) for p, _ in present)}.")
    adjusted: list[float | None] = [None] * len(values)
    floor = 0.0
    for step, (p, index) in enumerate(sorted(present)):
        floor = max(floor, min(1.0, (len(present) - step) * p))
        adjusted[index] = floor
    return adjusted
