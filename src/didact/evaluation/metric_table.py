"""The table of an evaluation: means over rows with their intervals, and tests between the methods."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from jaxtyping import Float

from didact.results.evaluation import MetricRow, MetricTest
from didact.stats.claims import claims
from didact.stats.contrast import row_contrasts


def metric_rows(
    metric: str,
    methods: Sequence[str],
    values: Float[np.ndarray, "method row"],
    *,
    better: str,
    bounds: tuple[float, float],
    how: str = "",
) -> Iterator[MetricRow]:
    """One line per method: the mean over rows with its 95 % interval, rows measured and skipped."""
    for method, own, contrast in zip(methods, values, row_contrasts(values), strict=True):
        # An interval for few rows may reach beyond what the metric can be.
        ends = (np.nan, np.nan) if contrast is None else contrast.interval()
        low, high = np.clip(ends, *bounds).tolist()
        finite = own[np.isfinite(own)]
        mean = float(finite.mean()) if len(finite) else np.nan
        yield MetricRow(method, metric, mean, low, high, len(finite), len(own) - len(finite), better, how)


def metric_tests(metric: str, methods: Sequence[str], values: Float[np.ndarray, "method row"]) -> Iterator[MetricTest]:
    """Each two methods on the rows both have: the mean difference, its interval and p.

    The pairs of a metric are one family of claims (docs/compare.md states the rule), here about rows alone.
    """
    pairs = list(combinations(range(len(methods)), 2))
    if not pairs:
        return
    # Equal but for rounding is equal.
    gaps = np.round(np.stack([values[first] - values[second] for first, second in pairs]), 12)
    contrasts = row_contrasts(gaps)
    family = iter(claims([contrast for contrast in contrasts if contrast is not None], over_seeds=False))
    for (first, second), gap, contrast in zip(pairs, gaps, contrasts, strict=True):
        finite = gap[np.isfinite(gap)]
        test = MetricTest(
            metric, methods[first], methods[second], float(finite.mean()) if len(finite) else np.nan, np.nan, np.nan,
            len(finite),
        )  # fmt: skip
        if contrast is not None:
            claim = next(family)
            test = replace(test, low=claim.low, high=claim.high, p=claim.p, claimed=claim.claimed)
        yield test
