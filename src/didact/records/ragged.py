"""Reductions over the rows of ragged arrays. No torch."""

import numpy as np
from jaxtyping import Float, Int


def reduce_rows(
    function: np.ufunc, values: Float[np.ndarray, " unit"], bounds: Int[np.ndarray, " bound"], *, empty: float
) -> Float[np.ndarray, " row"]:
    """`function` (np.add, np.maximum) over the values of each row; `empty` for a row that has none.

    Row i has the values from `bounds[i]` to `bounds[i + 1]`. `reduceat` alone gives an empty row its neighbour's value,
    and fails where the last row is empty.
    """
    reduced = np.full(len(bounds) - 1, empty, dtype=np.float64)
    filled = np.diff(bounds) > 0
    if filled.any():
        reduced[filled] = function.reduceat(values, bounds[:-1][filled])
    return reduced


def row_of_units(bounds: Int[np.ndarray, " bound"]) -> Int[np.ndarray, " unit"]:
    """The number of the row that each unit belongs to."""
    return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
