"""Values over seeds in three numbers."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from didact.errors import ShapeError


@dataclass(frozen=True)
class Summary:
    """Median and quartiles, interpolated linearly between neighbours. All are NaN if a value is."""

    median: float
    q25: float
    q75: float

    @classmethod
    def of(cls, values: Float[np.ndarray, " seed"]) -> "Summary":
        if not len(values):
            raise ShapeError("No values to sum up: a summary needs at least one seed.")
        q25, median, q75 = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
        return cls(median, q25, q75)
