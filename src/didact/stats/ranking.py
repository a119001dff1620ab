"""Ranks, and how far two rankings agree."""

import numpy as np
from jaxtyping import Float

from didact.errors import ShapeError


def ranks(values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
    """Ranks with 1 for the highest value. Equal values share their mean rank; NaNs come last and are equal."""
    from scipy import stats

    missing = np.isnan(values)
    count = len(values) - missing.sum()
    ranked = np.full(len(values), (count + 1 + len(values)) / 2)
    ranked[~missing] = stats.rankdata(-values[~missing])
    return ranked


def kendall(first: Float[np.ndarray, " row"], second: Float[np.ndarray, " _"]) -> float:
    """Kendall's τ-b over the entries that both have. NaN where one side is constant or fewer than two are left."""
    from scipy import stats

    if first.shape != second.shape:
        raise ShapeError(f"Two rankings must have the same length, got {len(first)} and {len(second)}.")
    both = ~(np.isnan(first) | np.isnan(second))
    first, second = first[both], second[both]
    if len(first) < 2 or (first == first[0]).all() or (second == second[0]).all():
        return float("nan")
    return float(stats.kendalltau(first, second).statistic)


def kendall_matrix(columns: Float[np.ndarray, "column row"]) -> Float[np.ndarray, "column column"]:
    """τ-b of every column with every column."""
    size = len(columns)
    return np.array([[kendall(first, second) for second in columns] for first in columns]).reshape(size, size)
