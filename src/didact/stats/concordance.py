"""How far people agree: Kendall's W between rankings, Krippendorff's α between any answers."""

from typing import Final

import numpy as np
from jaxtyping import Float

from didact.errors import OptionError, ShapeError

METRICS: Final = ("nominal", "ordinal", "interval")


def kendall_w(ranks: Float[np.ndarray, "person method"]) -> float:
    """Kendall's W: 1 if all people rank alike, near 0 if they do not agree. Ties share their mean rank; W is corrected.

    With S the sum of squared deviations of the rank sums, m people and n methods: 12 S / (m² (n³ − n) − m T), where T
    sums t³ − t over the ties of all people (Kendall and Gibbons, 1990). NaN with fewer than two people or methods, and
    if all people tie all methods.
    """
    from scipy import stats

    if np.isnan(ranks).any():
        raise ShapeError("Kendall's W needs people who all ranked the same methods; leave out those who did not.")
    people, methods = ranks.shape
    if people < 2 or methods < 2:
        return float("nan")
    row_ranks = stats.rankdata(ranks, axis=1)
    sums = row_ranks.sum(0)
    ties = sum(
        float((sizes**3 - sizes).sum()) for row in row_ranks for sizes in [np.unique(row, return_counts=True)[1]]
    )
    maximum = people**2 * (methods**3 - methods) - people * ties
    return float(12 * ((sums - sums.mean()) ** 2).sum() / maximum) if maximum > 0 else float("nan")


def krippendorff_alpha(values: Float[np.ndarray, "person unit"], *, metric: str) -> float:
    """Krippendorff's α: 1 − observed / expected disagreement. 0 is chance level, 1 full agreement.

    Krippendorff (2011), over the units that at least two people answered; NaN in `values` is a missing answer. The
    distance of two values is `nominal` (0 or 1), `interval` (squared difference) or `ordinal` (square of the number of
    answers between them). NaN if no unit has two answers, or if all answers are the same.
    """
    if metric not in METRICS:
        raise OptionError(f"Option 'metric' must be {', '.join(METRICS)}, got {metric!r}.")
    values = values[:, (~np.isnan(values)).sum(0) > 1]
    answers = values[~np.isnan(values)]
    scale, codes = np.unique(answers, return_inverse=True)
    if len(scale) < 2:
        return float("nan")
    _, units = np.nonzero(~np.isnan(values))
    table = np.zeros((values.shape[1], len(scale)))  # how often each value was given to each unit
    np.add.at(table, (units, codes), 1)
    # Pairs of answers to the same unit; each unit counts as often as it was answered.
    pairs = (table.T / (table.sum(1) - 1)) @ table
    pairs[np.diag_indices(len(scale))] -= (table / (table.sum(1, keepdims=True) - 1)).sum(0)
    totals = pairs.sum(1)
    distance = _distances(scale, totals, metric)
    expected = (np.outer(totals, totals) - np.diag(totals)) / (totals.sum() - 1)
    return float(1 - (pairs * distance).sum() / (expected * distance).sum())


def _distances(scale: np.ndarray, totals: np.ndarray, metric: str) -> np.ndarray:
    if metric == "nominal":
        return np.asarray(1 - np.eye(len(scale)))
    if metric == "interval":
        return np.asarray((scale[:, None] - scale[None, :]) ** 2)
    middle = np.cumsum(totals) - totals / 2  # answers below a value, and half of its own
    return np.asarray((middle[:, None] - middle[None, :]) ** 2)
