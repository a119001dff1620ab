"""Kernel SHAP: Shapley values as a weighted least squares fit over subsets of units."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from didact.core.batch import Batch
from didact.core.explanation import Explanation
from didact.core.feature_groups import feature_groups
from didact.core.perturb import DEFAULT
from didact.core.seeds import numpy_generator
from didact.core.target import Target
from didact.core.teacher import Teacher
from didact.errors import OptionError
from didact.explainers.perturbation import MaskSet, PerturbationExplainer, RowValues, empty_and_full

AUTO_SAMPLES: Final = 500  # `auto` for rows of up to 125 units


class KernelShap(PerturbationExplainer):
    """Lundberg and Lee 2017, theorem 2. Exact for rows with at most `samples` subsets.

    By default (`auto`), a row of n units gets the larger of 500 and 4n samples. The fit has a unique solution from 2n
    samples (n pairs) on; 4n average out interactions between units.

    If a row has more subsets, the sizes with the largest kernel weight (one unit present or removed, then two, …) are
    enumerated as far as the budget allows. The rest is sampled without replacement, each subset with its complement
    (Covert and Lee 2021), and each size in proportion to its weight. Scores sum to f(x) − f(no unit) by construction.
    """

    version = 3  # 2 replaced units by zeros
    is_complete = True

    def __init__(
        self,
        *,
        samples: int | str = "auto",
        replace: str = DEFAULT,
        level: str = "token",
        seed: int = 0,
        batch_size: int = 64,
    ) -> None:
        super().__init__(replace=replace, level=level, seed=seed, batch_size=batch_size)
        if samples != "auto" and not (isinstance(samples, int) and samples >= 4):
            raise OptionError(f"Option 'samples' of 'kernel_shap' must be an integer >= 4 or 'auto', got {samples!r}.")
        self.samples = samples

    def samples_for(self, units: int) -> int:
        """The largest number of samples for a row with this number of units."""
        return self.samples if isinstance(self.samples, int) else max(AUTO_SAMPLES, 4 * units)

    def sample_masks(self, row: str, units: int) -> MaskSet:
        present, weights = self.draw(row, units)
        return MaskSet(np.concatenate([empty_and_full(units), present]), weights)

    def to_scores(self, mask_sets: Sequence[MaskSet], outputs: Sequence[RowValues]) -> list[RowValues]:
        return [
            constrained_fit(mask_set.present[2:], values[2:] - values[0], mask_set.extra, float(values[1] - values[0]))
            for mask_set, values in zip(mask_sets, outputs, strict=True)
        ]

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        explanation = super().forward(teacher, batch, target)
        longest = int(feature_groups(batch, level=self.level).max()) + 1
        samples = self.samples_for(longest)
        if samples >= min(2 * longest, 2**longest):
            return explanation
        caution = (
            f"{samples} samples do not determine the scores of rows with more than {samples // 2} units, though their "
            "sum is right. Use samples=auto."
        )
        return replace(explanation, cautions=(caution,))

    def draw(self, row: str, units: int) -> tuple[Bool[np.ndarray, "sample unit"], Float[np.ndarray, " sample"]]:
        """The subsets to evaluate, without the empty and the full one, and their weights."""
        budget = self.samples_for(units) - 2
        generator = numpy_generator(self.seed, "kernel_shap", row)
        # Sizes come in pairs (s, n − s): a subset is evaluated with its complement.
        sizes = list(range(1, units // 2 + 1))
        mass = {size: (2 if 2 * size < units else 1) / (size * (units - size)) for size in sizes}
        count = {size: math.comb(units, size) * (2 if 2 * size < units else 1) for size in sizes}
        subset_blocks: list[Bool[np.ndarray, "_ unit"]] = []
        weights: list[RowValues] = []
        while sizes:
            size, remaining = sizes[0], sum(mass[size] for size in sizes)
            if count[size] > budget * mass[size] / remaining and sum(count[size] for size in sizes) > budget:
                break
            sizes.pop(0)
            subsets = _all_subsets(units, size)
            subsets = subsets if 2 * size == units else np.concatenate([subsets, ~subsets])
            subset_blocks.append(subsets)
            weights.append(np.full(len(subsets), mass[size] / len(subsets)))
            budget -= len(subsets)
        if sizes and budget >= 2:
            sampled = _sample_subsets(generator, units, sizes, [mass[size] for size in sizes], budget // 2)
            # The weight of a size is divided among its sampled subsets, and rescaled to the weight of all sizes.
            size = np.minimum(sampled.sum(1), units - sampled.sum(1))
            subset_weights = np.array([mass[subset_size] for subset_size in size]) / np.bincount(size)[size]
            subset_weights *= sum(mass[subset_size] for subset_size in sizes) / subset_weights.sum()
            subset_blocks += [sampled, ~sampled]
            weights += [subset_weights / 2] * 2
        if not subset_blocks:
            return np.zeros((0, units), dtype=bool), np.zeros(0)
        return np.concatenate(subset_blocks), np.concatenate(weights)


def _all_subsets(units: int, size: int) -> Bool[np.ndarray, "_ unit"]:
    members = np.array(list(combinations(range(units), size)), dtype=np.int64).reshape(-1, size)
    subsets = np.zeros((len(members), units), dtype=bool)
    np.put_along_axis(subsets, members, True, axis=1)
    return subsets


def _sample_subsets(
    generator: np.random.Generator, units: int, sizes: list[int], mass: list[float], pairs: int
) -> Bool[np.ndarray, "pair unit"]:
    """Distinct subsets, none the complement of another, with sizes in proportion to their weight."""
    shares = np.array(mass) / sum(mass)
    keys: set[bytes] = set()
    subsets: list[Bool[np.ndarray, " unit"]] = []
    for _ in range(20):  # a few rounds replace duplicates; more would mean that few subsets are left
        missing = pairs - len(subsets)
        if missing <= 0:
            break
        size = np.array(sizes)[_systematic_sample(generator, shares, missing)]
        rank = generator.random((missing, units)).argsort(1).argsort(1)
        for subset in rank < size[:, None]:
            half = subset if subset[0] else ~subset
            key = np.packbits(half).tobytes()
            if key not in keys:
                keys.add(key)
                subsets.append(subset)
    return np.array(subsets, dtype=bool).reshape(-1, units)


def _systematic_sample(generator: np.random.Generator, shares: Float[np.ndarray, " size"], count: int) -> np.ndarray:
    """`count` indices by systematic sampling: each occurs in proportion to its share, up to rounding."""
    positions = (np.arange(count) + generator.random()) / count
    return np.searchsorted(np.cumsum(shares), positions, side="right").clip(max=len(shares) - 1)


def constrained_fit(
    present: Bool[np.ndarray, "sample unit"],
    changes: Float[np.ndarray, " sample"],
    weights: Float[np.ndarray, " sample"],
    total: float,
) -> Float[np.ndarray, " unit"]:
    """Weighted least squares of the changes on the units, with coefficients that sum to `total`."""
    units = present.shape[1]
    if units <= 1 or not len(present):
        return np.full(units, total / max(units, 1))
    # Deviations from an even share sum to 0. With a row-centred design the minimum-norm solution sums to 0, too: no
    # unit is singled out, and with too few samples scores stay near the even share.
    even = total / units
    design = present - present.mean(1, keepdims=True)
    target = changes - even * present.sum(1)
    root_weights = np.sqrt(weights)
    deviations = np.linalg.lstsq(design * root_weights[:, None], target * root_weights, rcond=None)[0]
    return even + deviations - deviations.mean()
