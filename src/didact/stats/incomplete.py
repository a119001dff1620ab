"""The paired difference of two arms if seeds have different rows, as students that are tested on edits of their rows.

Seeds and rows are crossed, but most cells are empty. `CellDesign` says which seed and row each value belongs to;
`contrast` is the mean difference with a two-way cluster-robust variance (Cameron, Gelbach & Miller 2011; Owen 2007):
the sums of squares over seeds plus those over rows minus those over cells. Each sum is scaled such that the variance is
unbiased for effects of seeds, rows and cells of any size. With complete crossing this is `contrast.crossed_contrast`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from didact.errors import ShapeError
from didact.results.contrast import Contrast

_ROUNDING: Final = 1e-12  # of the largest value; a smaller difference or standard error is 0


@dataclass(frozen=True, eq=False)
class CellDesign:
    """Seed, row and stratum of each value, as numbers from 0. Several values may share a cell (a seed and a row).

    All strata have the same weight, within a stratum all seeds, and within a seed all values. Differences between
    strata are fixed and add no variance.
    """

    seed: Int[np.ndarray, " value"]
    row: Int[np.ndarray, " value"]
    stratum: Int[np.ndarray, " value"]

    @classmethod
    def of(
        cls,
        seeds: Sequence[int] | Int[np.ndarray, " value"],
        rows: Sequence[int] | Int[np.ndarray, " value"],
        strata: Sequence[int] | Int[np.ndarray, " value"] | None = None,
    ) -> "CellDesign":
        """The design of values with these seeds, rows and strata (default: one stratum), as any numbers.

        Raises:
            ShapeError: the lengths differ, or there are fewer than two rows.
        """
        strata = np.zeros(len(seeds), dtype=np.int64) if strata is None else strata
        if not len(seeds) == len(rows) == len(strata):
            raise ShapeError(f"There are {len(seeds)} seeds, {len(rows)} rows and {len(strata)} strata of values.")
        if len(np.unique(rows)) < 2:
            raise ShapeError("A contrast needs at least 1 seed and 2 rows.")
        return cls(*(_number(values) for values in (seeds, rows, strata)))

    @property
    def seeds(self) -> int:
        return int(self.seed.max()) + 1

    @property
    def rows(self) -> int:
        return int(self.row.max()) + 1

    @cached_property
    def weights(self) -> Float[np.ndarray, " value"]:
        """The weight of each value in the mean."""
        strata = int(self.stratum.max()) + 1
        groups = self.seed * strata + self.stratum
        values = np.bincount(groups, minlength=self.seeds * strata)
        seeds = (values.reshape(-1, strata) > 0).sum(0)
        return 1 / (strata * seeds[self.stratum] * values[groups])

    @cached_property
    def _clusters(self) -> tuple[Int[np.ndarray, " value"], ...]:
        """The cluster of each value at the three levels: its seed, its row and its cell."""
        return self.seed, self.row, _number(self.seed * self.rows + self.row)

    @cached_property
    def _sums(self) -> list[Float[np.ndarray, "cluster stratum"]]:
        """At each level, the weight of each cluster in each stratum."""
        strata = int(self.stratum.max()) + 1
        return [
            np.bincount(
                cluster * strata + self.stratum, self.weights, minlength=(int(cluster.max()) + 1) * strata
            ).reshape(-1, strata)
            for cluster in self._clusters
        ]

    @cached_property
    def _levels(self) -> list[int]:
        """The levels whose variances are identified: seeds, rows and cells, unless some of them coincide."""
        cells = len(self._sums[2])
        has_seeds = self.seeds > 1
        return [*([0] if has_seeds else []), 1, *([2] if has_seeds and cells > self.rows else [])]

    @cached_property
    def expectations(self) -> Float[np.ndarray, "3 3"]:
        """The expected sum of squares at level k (row) if the effects at level j (column) have variance 1.

        A sum of squares is |Zₖᵀ D y|² for the indicators Zₖ of the clusters and D = diag(weights) (I − P), where P
        gives the mean of each stratum. Its expectation is |Zₖᵀ D Zⱼ|², in Frobenius norm.
        """
        return np.array([[self._expectation(k, j) for j in range(3)] for k in range(3)])

    def _expectation(self, k: int, j: int) -> float:
        weights, shares = self._sums[k], self._sums[j] * self._sums[j].shape[1]  # a stratum has weight 1 / strata
        if k == j:
            first = second = np.arange(len(weights))
            common = weights.sum(1)
        else:  # clusters of different levels share at most one cell
            cells = self._clusters[2]
            members = np.zeros(len(self._sums[2]), dtype=np.int64)
            members[cells] = np.arange(len(cells))
            first, second = self._clusters[k][members], self._clusters[j][members]
            common = self._sums[2].sum(1)
        mixed = common @ (weights[first] * shares[second]).sum(1)
        return float(common @ common - 2 * mixed + ((weights.T @ weights) * (shares.T @ shares)).sum())

    def contrast(self, first: Float[np.ndarray, " value"], second: Float[np.ndarray, " value"]) -> Contrast:
        """First minus second. The degrees of freedom are Satterthwaite's, with one less than there are seeds for seeds.

        Raises:
            ShapeError: the arms do not have one finite value for each value of the design.
        """
        if not len(first) == len(second) == len(self.seed):
            raise ShapeError(f"The arms have {len(first)} and {len(second)} values, the design has {len(self.seed)}.")
        if not (np.isfinite(first).all() and np.isfinite(second).all()):
            raise ShapeError("One of the arms has NaN or infinite values; leave those out of both.")
        differences = first - second
        means = np.bincount(self.stratum, self.weights * differences) / np.bincount(self.stratum, self.weights)
        residuals = self.weights * (differences - means[self.stratum])
        squares = np.array([(np.bincount(cluster, residuals) ** 2).sum() for cluster in self._clusters])
        scales = np.array([(weights.sum(1) ** 2).sum() for weights in self._sums])  # variance of the mean, per level
        levels = self._levels
        variances = np.linalg.lstsq(self.expectations[np.ix_(levels, levels)], squares[levels])[0]
        unbiased = float(scales[levels] @ variances)
        alone = squares * scales / np.where(np.diag(self.expectations) > 0, np.diag(self.expectations), np.inf)
        seed, row = (float(alone[level]) if level in levels else 0.0 for level in (0, 1))
        cell = seed + row - unbiased
        total = max(unbiased, seed, row)
        cells_df = max(len(self._sums[2]) - self.seeds - self.rows + 1, self.rows - 1)
        denominator = seed**2 / max(self.seeds - 1, 1) + row**2 / (self.rows - 1) + cell**2 / cells_df
        df = total**2 / denominator if denominator > 0 else 1.0
        rounding = _ROUNDING * max(float(np.abs(first).max()), float(np.abs(second).max()))
        difference, se = float(means.mean()), float(np.sqrt(total))
        difference, se = (value if abs(value) > rounding else 0.0 for value in (difference, se))
        return Contrast(difference, se, df, self.seeds, self.rows, seed, row, cell)


def _number(values: Sequence[int] | Int[np.ndarray, " value"]) -> Int[np.ndarray, " value"]:
    """The values as numbers from 0, in their order."""
    return np.unique(np.asarray(values), return_inverse=True)[1].astype(np.int64)
