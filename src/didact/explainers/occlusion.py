"""Occlusion: what the target loses when one unit is taken away."""

import numpy as np

from didact.core.batch import Batch
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.core.players import on_positions
from didact.core.removal import Removal
from didact.core.target import Target
from didact.core.teacher import Teacher


class Occlusion(Explainer):
    """f(x) − f(x without the unit), unit by unit (Zeiler and Fergus 2014; leave-one-out, Li et al. 2016)."""

    def __init__(self, *, baseline: str = "zero", level: str = "token", batch_size: int = 64) -> None:
        super().__init__()
        self.baseline, self.level, self.batch_size = baseline, level, batch_size

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        removal = Removal(teacher, batch, target, baseline=self.baseline, level=self.level, batch_size=self.batch_size)
        kept = [np.concatenate([np.ones((1, n), dtype=bool), ~np.eye(n, dtype=bool)]) for n in removal.counts]
        scores = removal.scores([values[0] - values[1:] for values in removal.values(kept)])
        return Explanation(on_positions(scores, removal.players), batch.mask, batch.units, "signed")
