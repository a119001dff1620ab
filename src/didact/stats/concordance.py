"""How far people agree: Kendall's W between rankings, Krippendorff's α between any answers."""

from typing import Final

import numpy as np
from jaxtyping import Float

from didact.errors import OptionError, ShapeError

METRICS: Final = ("nominal", "ordinal", "interval")


def kendall_w(ranks: Float[np.ndarray, "person method"]) -> float:
    """1 where all rank alike, near 0 where nobody agrees. Ties share their mean rank and are corrected for.

    With S the sum of squared deviations of the sums of ranks, m people and n methods: 12 S / (m² (n³ − n) − m T), where
    T sums t³ − t over the ties of everybody (Kendall and Gibbons, 1990). NaN with fewer than two people or methods, and
    where everybody ties everything.
    """
    from scipy import stats

    if np.isnan(ranks).any():
        raise ShapeError("Kendall's W is of people who all ranked the same methods; leave out those who did not.")
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
    """1 − observed ÷ expected disagreement; 0 is what chance gives, 1 agreement. NaN: the person did not answer.

    Krippendorff (2011), by values in the units that at least two people answered. `nominal`: values differ or do not;
    `interval`: by their squared difference; `ordinal`: by the square of how many answers lie between them. NaN where no
    unit has two answers, or where all answers are the same: then there is nothing to disagree about.
    """
    if metric not in METRICS:
        raise OptionError(f"Option 'metric' is {', '.join(METRICS)}, not {metric!r}.")
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
