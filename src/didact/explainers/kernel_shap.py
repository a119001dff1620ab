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
from didact.explainers.perturbation import Perturbation, Questions, RowValues, nothing_and_all

AUTO_SAMPLES: Final = 500  # what `auto` is for rows of up to 125 units


class KernelShap(Perturbation):
    """Lundberg and Lee 2017, theorem 2. Exact where the subsets of a row are no more than `samples`.

    By default (`auto`) a row of n units has the larger of 500 and 4n samples. n units need n pairs of samples, 2n, or
    the fit is not determined; twice that averages out what is not additive.

    Otherwise the sizes with most weight (one unit present or gone, then two …) are enumerated as far as the budget
    goes, and the rest is drawn without replacement, each subset with its complement (Covert and Lee 2021), each size
    in proportion to its weight. Scores sum to f(x) − f(x') by construction.
    """

    version = 3  # 2 replaced units by zeros
    adds_up = True

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
            raise OptionError(
                f"Option 'samples' of 'kernel_shap' is a whole number from 4, or 'auto', not {samples!r}."
            )
        self.samples = samples

    def samples_for(self, units: int) -> int:
        """How many samples a row of so many units gets at most."""
        return self.samples if isinstance(self.samples, int) else max(AUTO_SAMPLES, 4 * units)

    def ask(self, row: str, units: int) -> Questions:
        kept, weights = self.draw(row, units)
        return Questions(np.concatenate([nothing_and_all(units), kept]), weights)

    def understand(self, asked: Sequence[Questions], answers: Sequence[RowValues]) -> list[RowValues]:
        return [
            constrained_fit(one.kept[2:], values[2:] - values[0], one.extra, float(values[1] - values[0]))
            for one, values in zip(asked, answers, strict=True)
        ]

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        found = super().forward(teacher, batch, target)
        longest = int(feature_groups(batch, level=self.level).max()) + 1
        samples = self.samples_for(longest)
        if samples >= min(2 * longest, 2**longest):
            return found
        caution = (
            f"{samples} samples do not determine the scores of rows with more than {samples // 2} units, though their "
            "sum is right. Use samples=auto."
        )
        return replace(found, cautions=(caution,))

    def draw(self, row: str, units: int) -> tuple[Bool[np.ndarray, "sample unit"], Float[np.ndarray, " sample"]]:
        """The subsets to ask about (neither none nor all), and their weights."""
        room = self.samples_for(units) - 2
        generator = numpy_generator(self.seed, "kernel_shap", row)
        # Sizes in pairs (s, n − s): a subset and its complement go together.
        sizes = list(range(1, units // 2 + 1))
        mass = {size: (2 if 2 * size < units else 1) / (size * (units - size)) for size in sizes}
        count = {size: math.comb(units, size) * (2 if 2 * size < units else 1) for size in sizes}
        found: list[Bool[np.ndarray, "_ unit"]] = []
        weights: list[RowValues] = []
        while sizes:
            size, left = sizes[0], sum(mass[size] for size in sizes)
            if count[size] > room * mass[size] / left and sum(count[size] for size in sizes) > room:
                break
            sizes.pop(0)
            subsets = _all_of(units, size)
            subsets = subsets if 2 * size == units else np.concatenate([subsets, ~subsets])
            found.append(subsets)
            weights.append(np.full(len(subsets), mass[size] / len(subsets)))
            room -= len(subsets)
        if sizes and room >= 2:
            drawn = _drawn(generator, units, sizes, [mass[size] for size in sizes], room // 2)
            # What a size weighs is shared by those of its subsets that were drawn, and all of it is spent.
            size = np.minimum(drawn.sum(1), units - drawn.sum(1))
            share = np.array([mass[one] for one in size]) / np.bincount(size)[size]
            share *= sum(mass[one] for one in sizes) / share.sum()
            found += [drawn, ~drawn]
            weights += [share / 2] * 2
        if not found:
            return np.zeros((0, units), dtype=bool), np.zeros(0)
        return np.concatenate(found), np.concatenate(weights)


def _all_of(units: int, size: int) -> Bool[np.ndarray, "_ unit"]:
    chosen = np.array(list(combinations(range(units), size)), dtype=np.int64).reshape(-1, size)
    subsets = np.zeros((len(chosen), units), dtype=bool)
    np.put_along_axis(subsets, chosen, True, axis=1)
    return subsets


def _drawn(
    generator: np.random.Generator, units: int, sizes: list[int], mass: list[float], pairs: int
) -> Bool[np.ndarray, "pair unit"]:
    """Different subsets, none the complement of another, sizes in proportion to their weight."""
    shares = np.array(mass) / sum(mass)
    seen: set[bytes] = set()
    found: list[Bool[np.ndarray, " unit"]] = []
    for _ in range(20):  # a few rounds replace what came twice; more would mean there is little left to draw
        missing = pairs - len(found)
        if missing <= 0:
            break
        size = np.array(sizes)[_systematic(generator, shares, missing)]
        rank = generator.random((missing, units)).argsort(1).argsort(1)
        for subset in rank < size[:, None]:
            half = subset if subset[0] else ~subset
            key = np.packbits(half).tobytes()
            if key not in seen:
                seen.add(key)
                found.append(subset)
    return np.array(found, dtype=bool).reshape(-1, units)


def _systematic(generator: np.random.Generator, shares: Float[np.ndarray, " size"], count: int) -> np.ndarray:
    """`count` indices, each as often as its share says, up to one."""
    places = (np.arange(count) + generator.random()) / count
    return np.searchsorted(np.cumsum(shares), places, side="right").clip(max=len(shares) - 1)


def constrained_fit(
    kept: Bool[np.ndarray, "sample unit"],
    gains: Float[np.ndarray, " sample"],
    weights: Float[np.ndarray, " sample"],
    total: float,
) -> Float[np.ndarray, " unit"]:
    """Weighted least squares of the gains on the units, with coefficients that sum to `total`."""
    units = kept.shape[1]
    if units <= 1 or not len(kept):
        return np.full(units, total / max(units, 1))
    # What exceeds an even share sums to 0. A design whose rows sum to 0 gives the solution of smallest norm such a sum,
    # so no unit is set apart from the others, and too few samples stay near the even share.
    even = total / units
    design = kept - kept.mean(1, keepdims=True)
    goal = gains - even * kept.sum(1)
    root = np.sqrt(weights)
    found = np.linalg.lstsq(design * root[:, None], goal * root, rcond=None)[0]
    return even + found - found.mean()
