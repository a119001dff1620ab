"""Shapley values by permutations: the mean marginal contribution of each unit in random orders."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from didact.core.perturb import DEFAULT
from didact.core.seeds import numpy_generator
from didact.errors import OptionError
from didact.explainers.perturbation import MaskSet, PerturbationExplainer, RowValues, empty_and_full


class ShapleySampling(PerturbationExplainer):
    """Castro et al. 2009; Štrumbelj and Kononenko 2014. Every permutation is paired with its reverse.

    The contributions of one permutation sum to f(x) − f(no unit), so the scores do, too.
    """

    version = 2  # 1 replaced units by zeros
    is_complete = True

    def __init__(
        self,
        *,
        permutations: int = 20,
        replace: str = DEFAULT,
        level: str = "token",
        seed: int = 0,
        batch_size: int = 64,
    ) -> None:
        super().__init__(replace=replace, level=level, seed=seed, batch_size=batch_size)
        if permutations < 2:
            raise OptionError(f"Option 'permutations' of 'shapley_sampling' must be at least 2, got {permutations}.")
        self.permutations = permutations

    def sample_masks(self, row: str, units: int) -> MaskSet:
        orders = self.draw(row, units)
        present = orders.argsort(1)[:, None] < np.arange(units + 1)[:, None]
        return MaskSet(np.concatenate([empty_and_full(units), present.reshape(-1, units)]), orders)

    def to_scores(self, mask_sets: Sequence[MaskSet], outputs: Sequence[RowValues]) -> list[RowValues]:
        scores = []
        for mask_set, values in zip(mask_sets, outputs, strict=True):
            contributions = np.zeros(mask_set.extra.shape)
            np.put_along_axis(
                contributions, mask_set.extra, np.diff(values[2:].reshape(len(contributions), -1), axis=1), axis=1
            )
            scores.append(contributions.mean(0))
        return scores

    def draw(self, row: str, units: int) -> Int[np.ndarray, "permutation unit"]:
        """Orders in which units are added: the first half random, the second half their reverses."""
        generator = numpy_generator(self.seed, "shapley_sampling", row)
        orders = generator.random((-(-self.permutations // 2), units)).argsort(1)
        return np.concatenate([orders, orders[:, ::-1]])[: self.permutations]
