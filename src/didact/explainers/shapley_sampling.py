"""Shapley values by permutations: what each unit adds to those that came before it, on average."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from didact.core.perturb import DEFAULT
from didact.core.seeds import numpy_generator
from didact.errors import OptionError
from didact.explainers.perturbation import Perturbation, Questions, RowValues, nothing_and_all


class ShapleySampling(Perturbation):
    """Castro et al. 2009; Štrumbelj and Kononenko 2014. Every permutation goes with its reverse.

    The gains of one permutation sum to f(x) − f(x'), so scores do too.
    """

    version = 2  # 1 replaced units by zeros
    adds_up = True

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
            raise OptionError(f"Option 'permutations' of 'shapley_sampling' is at least 2, not {permutations}.")
        self.permutations = permutations

    def ask(self, row: str, units: int) -> Questions:
        order = self.draw(row, units)
        arrived = order.argsort(1)[:, None] < np.arange(units + 1)[:, None]
        return Questions(np.concatenate([nothing_and_all(units), arrived.reshape(-1, units)]), order)

    def understand(self, asked: Sequence[Questions], answers: Sequence[RowValues]) -> list[RowValues]:
        found = []
        for one, values in zip(asked, answers, strict=True):
            gains = np.zeros(one.extra.shape)
            np.put_along_axis(gains, one.extra, np.diff(values[2:].reshape(len(gains), -1), axis=1), axis=1)
            found.append(gains.mean(0))
        return found

    def draw(self, row: str, units: int) -> Int[np.ndarray, "permutation unit"]:
        """Orders in which the units arrive: the first half drawn, the second half their reverses."""
        generator = numpy_generator(self.seed, "shapley_sampling", row)
        drawn = generator.random((-(-self.permutations // 2), units)).argsort(1)
        return np.concatenate([drawn, drawn[:, ::-1]])[: self.permutations]
