"""Reductions and normalisation over the rows of ragged arrays, in NumPy. For padded tensors see `core.normalise`."""

import numpy as np
from jaxtyping import Float, Int


def reduce_rows(
    function: np.ufunc, values: Float[np.ndarray, " unit"], bounds: Int[np.ndarray, " bound"], *, empty: float
) -> Float[np.ndarray, " row"]:
    """Reduce the values of each row with `function` (np.add, np.maximum); rows without values become `empty`.

    Row i has the values from `bounds[i]` to `bounds[i + 1]`. `reduceat` alone gives an empty row the value of its
    neighbour and fails if the last row is empty.
    """
    reduced = np.full(len(bounds) - 1, empty, dtype=np.float64)
    has_units = np.diff(bounds) > 0
    if has_units.any():
        reduced[has_units] = function.reduceat(values, bounds[:-1][has_units])
    return reduced


def bounds_of(counts: Int[np.ndarray, " row"]) -> Int[np.ndarray, " bound"]:
    """The bounds of rows with these numbers of values."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def row_of_units(bounds: Int[np.ndarray, " bound"]) -> Int[np.ndarray, " unit"]:
    """The row index of each unit."""
    return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))


def softmax_rows(logits: Float[np.ndarray, " unit"], bounds: Int[np.ndarray, " bound"]) -> Float[np.ndarray, " unit"]:
    """The softmax of each row."""
    rows = row_of_units(bounds)
    mass = np.exp(logits - reduce_rows(np.maximum, logits, bounds, empty=0.0)[rows])
    return np.asarray(mass / reduce_rows(np.add, mass, bounds, empty=1.0)[rows])


def log_softmax_rows(
    logits: Float[np.ndarray, " unit"], bounds: Int[np.ndarray, " bound"]
) -> Float[np.ndarray, " unit"]:
    """The log-softmax of each row."""
    rows = row_of_units(bounds)
    logits = logits - reduce_rows(np.maximum, logits, bounds, empty=0.0)[rows]
    return np.asarray(logits - np.log(reduce_rows(np.add, np.exp(logits), bounds, empty=1.0))[rows])


def normalise_rows(mass: Float[np.ndarray, " unit"], bounds: Int[np.ndarray, " bound"]) -> Float[np.ndarray, " unit"]:
    """Each row divided by its sum. A row whose sum is 0 becomes uniform."""
    total = reduce_rows(np.add, mass, bounds, empty=1.0)
    uniform = 1.0 / np.maximum(np.diff(bounds), 1)
    rows = row_of_units(bounds)
    return np.where(total[rows] > 0, mass / np.where(total > 0, total, 1.0)[rows], uniform[rows])
