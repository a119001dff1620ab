"""The difference of two arms for teachers in general, from the students of several teachers.

Teachers are a sample, and each has students of its own. What the differences D_t of T teachers show of their own
scatter is their variance S² / T, with T − 1 degrees of freedom. It holds everything that differs between teachers:
their seeds and their test rows, too. It does not hold what they share. Teachers that are tested on the same rows profit
from the same easy rows, and with the same data, students of one seed learn from the same rows. Then the D_t covary, and
the mean covariance of two teachers is added, estimated as in `contrast.py` for crossed seeds and rows:

    variance of the mean = S² / T + (seed + row − cell of two teachers)

With the same rows and averages over seeds this is `crossed_contrast` of teachers × rows. The degrees of freedom are
Satterthwaite's; if nothing is shared, the test is Student's t over teachers. Coverage: docs/combine.md.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from didact.errors import ShapeError
from didact.results.contrast import Contrast, TeacherContrast
from didact.stats.contrast import Effects, crossed_contrast, remove_strata_effects

_ROUNDING: Final = 1e-12


@dataclass(frozen=True, eq=False)
class TeacherTable:
    """The paired differences of one teacher's students, per seed and test row.

    `row_keys` and `seed_keys` name rows and seeds: equal names in the tables of two teachers are the same row, or
    seeds whose students learn from the same rows. None: nothing is shared. `strata` are as for `crossed_contrast`.
    """

    differences: Float[np.ndarray, "seed row"]
    row_keys: Sequence[Hashable] | None = None
    seed_keys: Sequence[Hashable] | None = None
    strata: Int[np.ndarray, " row"] | None = None

    def __post_init__(self) -> None:
        seeds, rows = self.differences.shape
        for name, keys, count in (("row", self.row_keys, rows), ("seed", self.seed_keys, seeds)):
            if keys is not None and (len(keys) != count or len(set(keys)) != count):
                raise ShapeError(f"A teacher's table has {count} {name}s; each needs a different key.")

    @cached_property
    def contrast(self) -> Contrast:
        """The contrast for this teacher only."""
        return crossed_contrast(self.differences, np.zeros_like(self.differences), strata=self.strata)

    @cached_property
    def effects(self) -> Effects:
        """Seed, row and cell effects, without differences between strata."""
        differences = self.differences
        return Effects.of(differences if self.strata is None else remove_strata_effects(differences, self.strata))


def teacher_contrast(tables: Sequence[TeacherTable]) -> TeacherContrast:
    """The mean difference over teachers, each with the same weight. With one teacher, its own contrast."""
    if not tables:
        raise ShapeError("A contrast over teachers needs at least one teacher.")
    contrasts = [table.contrast for table in tables]
    differences = np.array([contrast.difference for contrast in contrasts])
    by_teacher = tuple(differences.tolist())
    seeds, rows = (min(getattr(contrast, name) for contrast in contrasts) for name in ("seeds", "rows"))
    if len(tables) == 1:
        alone = contrasts[0]
        parts = alone.seed_variance, alone.row_variance, alone.cell_variance
        return TeacherContrast(alone.difference, alone.se, alone.df, seeds, rows, *parts, 0.0, None, by_teacher)
    spread = float(differences.var(ddof=1))
    seed, row, cell = _mean_covariance(tables)
    shared = max(seed + row - cell, 0.0)
    within = float(np.mean([contrast.se**2 for contrast in contrasts]))
    teacher = spread / len(tables)
    if spread <= _ROUNDING * within:  # teachers that are equal by chance: few rows allow few values
        teacher = max(within / len(tables) - shared, 0.0)
    total = teacher + shared
    df = _degrees_of_freedom(total, [(teacher, len(tables) - 1), (seed, max(seeds - 1, 1)), (row, rows - 1)])
    teacher_sd = float(np.sqrt(max(spread - within + shared, 0.0)))
    return TeacherContrast(
        float(differences.mean()), float(np.sqrt(total)), df, seeds, rows, seed, row, cell, teacher, teacher_sd,
        by_teacher,
    )  # fmt: skip


def _degrees_of_freedom(total: float, parts: Sequence[tuple[float, int]]) -> float:
    """Satterthwaite's df of a sum of variances, each with its df; at least the smallest df of those above 0."""
    positive = [(variance, df) for variance, df in parts if variance > 0]
    if not positive:
        return 1.0
    return max(total**2 / sum(variance**2 / df for variance, df in positive), float(min(df for _, df in positive)))


def _mean_covariance(tables: Sequence[TeacherTable]) -> tuple[float, float, float]:
    """The mean covariance of two teachers from the seeds, the rows and the cells that both have."""
    parts = [_covariance(first, second) for first, second in combinations(tables, 2)]
    seed, row, cell = np.mean(parts, axis=0).tolist()
    return seed, row, cell


def _covariance(first: TeacherTable, second: TeacherTable) -> tuple[float, float, float]:
    """As `Effects.covariance`, over the seeds and rows that both have: the others do not covary."""
    first_rows, second_rows = _matches(first.row_keys, second.row_keys)
    first_seeds, second_seeds = _matches(first.seed_keys, second.seed_keys)
    effects, others = first.effects, second.effects
    per_row = _per_unit(len(effects.by_row), len(others.by_row))
    per_seed = _per_unit(len(effects.by_seed), len(others.by_seed))
    row = float((effects.by_row[first_rows] * others.by_row[second_rows]).sum()) * per_row
    seed = float((effects.by_seed[first_seeds] * others.by_seed[second_seeds]).sum()) * per_seed
    first_cells = effects.residuals[np.ix_(first_seeds, first_rows)]
    second_cells = others.residuals[np.ix_(second_seeds, second_rows)]
    cell = float((first_cells * second_cells).sum()) * per_row * per_seed
    return seed, row, cell


def _per_unit(first: int, second: int) -> float:
    """The weight of one shared unit in a covariance of means over this number of units; one seed has no variance."""
    return 1 / float(np.sqrt(first * max(first - 1, 1) * second * max(second - 1, 1)))


def _matches(
    first: Sequence[Hashable] | None, second: Sequence[Hashable] | None
) -> tuple[Int[np.ndarray, " shared"], Int[np.ndarray, " shared"]]:
    """The indices of the keys that both have, in the same order."""
    if first is None or second is None:
        pairs = []
    elif first == second:
        pairs = [(index, index) for index in range(len(first))]
    else:
        index_of = {key: index for index, key in enumerate(second)}
        pairs = [(index, index_of[key]) for index, key in enumerate(first) if key in index_of]
    indices = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return indices[:, 0], indices[:, 1]
