"""Shapley values by permutations: what each unit adds to those that came before it, on average."""

import numpy as np
import torch
from jaxtyping import Int

from didact.core.batch import Batch
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.core.players import on_positions
from didact.core.removal import Removal
from didact.core.seeds import numpy_generator
from didact.core.target import Target
from didact.core.teacher import Teacher
from didact.errors import OptionError
from didact.explainers.completeness import left_over


class ShapleySampling(Explainer):
    """Castro et al. 2009; Štrumbelj and Kononenko 2014. Every permutation goes with its reverse.

    The gains of one permutation sum to f(x) − f(x'), so scores do too.
    """

    def __init__(
        self,
        *,
        permutations: int = 20,
        baseline: str = "zero",
        level: str = "token",
        seed: int = 0,
        batch_size: int = 64,
    ) -> None:
        super().__init__()
        if permutations < 2:
            raise OptionError(f"Option 'permutations' of 'shapley_sampling' is at least 2, not {permutations}.")
        self.permutations = permutations
        self.baseline, self.level, self.seed, self.batch_size = baseline, level, seed, batch_size

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        removal = Removal(teacher, batch, target, baseline=self.baseline, level=self.level, batch_size=self.batch_size)
        orders = [self.draw(row, n) for row, n in zip(batch.ids, removal.counts, strict=True)]
        kept = []
        for order in orders:
            rank = order.argsort(1)
            kept.append((rank[:, None] < np.arange(order.shape[1] + 1)[:, None]).reshape(-1, order.shape[1]))
        means, ends = [], []
        for order, values in zip(orders, removal.values(kept), strict=True):
            steps = values.reshape(len(order), -1)
            gains = np.zeros(order.shape)
            np.put_along_axis(gains, order, np.diff(steps, axis=1), axis=1)
            means.append(gains.mean(0))
            ends.append(steps[0, [0, -1]])
        scores = on_positions(removal.scores(means), removal.players)
        both = torch.from_numpy(np.stack(ends)).to(scores)
        return Explanation(scores, batch.mask, batch.units, "signed", left_over(scores, both, target))

    def draw(self, row: str, units: int) -> Int[np.ndarray, "permutation unit"]:
        """Orders in which the units arrive: the first half drawn, the second half their reverses."""
        generator = numpy_generator(self.seed, "shapley_sampling", row)
        drawn = generator.random((-(-self.permutations // 2), units)).argsort(1)
        return np.concatenate([drawn, drawn[:, ::-1]])[: self.permutations]
