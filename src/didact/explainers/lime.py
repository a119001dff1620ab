"""LIME: a linear model of the teacher around a row."""

import numpy as np
import torch
from jaxtyping import Bool, Float

from didact.core.batch import Batch
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.core.players import on_positions
from didact.core.removal import Removal
from didact.core.seeds import numpy_generator
from didact.core.target import Target
from didact.core.teacher import Teacher
from didact.errors import OptionError


class Lime(Explainer):
    """Weights of a ridge regression of the target on which units are present (Ribeiro et al. 2016).

    A sample takes away a random number of random units; the first takes away none. Samples weigh
    exp(−d² / (2 · width²)) with d the cosine distance to the whole row; `kernel_width` 0.25 is the width 25 of the
    authors' package, which measures d in hundredths. The intercept is not shrunk. Solved in closed form, all rows
    at once.
    """

    def __init__(
        self,
        *,
        samples: int = 500,
        kernel_width: float = 0.25,
        ridge: float = 1.0,
        baseline: str = "zero",
        level: str = "token",
        seed: int = 0,
        batch_size: int = 64,
    ) -> None:
        super().__init__()
        if samples < 2 or kernel_width <= 0 or ridge <= 0:
            raise OptionError(
                f"lime needs samples ≥ 2, kernel_width > 0 and ridge > 0, not {samples}, {kernel_width} and {ridge}."
            )
        self.samples, self.kernel_width, self.ridge = samples, kernel_width, ridge
        self.baseline, self.level, self.seed, self.batch_size = baseline, level, seed, batch_size

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        removal = Removal(teacher, batch, target, baseline=self.baseline, level=self.level, batch_size=self.batch_size)
        kept = [self.draw(row, n) for row, n in zip(batch.ids, removal.counts, strict=True)]
        values = np.stack(removal.values(kept))
        widest = max(removal.counts)
        presence = np.stack([np.pad(one, ((0, 0), (0, widest - one.shape[1]))) for one in kept])
        weights = np.stack([self.closeness(one) for one in kept])
        scores = removal.scores(list(weighted_ridge(presence, values, weights, self.ridge)))
        return Explanation(on_positions(scores, removal.players), batch.mask, batch.units, "signed")

    def draw(self, row: str, units: int) -> Bool[np.ndarray, "sample unit"]:
        """Which units each sample keeps: as many gone as a draw from 1 to all says, each as likely as the other."""
        generator = numpy_generator(self.seed, "lime", row)
        gone = generator.integers(1, units + 1, size=self.samples)
        gone[0] = 0
        rank = generator.random((self.samples, units)).argsort(1).argsort(1)
        return rank >= gone[:, None]

    def closeness(self, kept: Bool[np.ndarray, "sample unit"]) -> Float[np.ndarray, " sample"]:
        """The weight of each sample: cosine with the whole row is the root of the share that is kept."""
        distance = 1 - np.sqrt(kept.mean(1))
        return np.exp(-(distance**2) / (2 * self.kernel_width**2))


def weighted_ridge(
    inputs: Bool[np.ndarray, "row sample unit"],
    values: Float[np.ndarray, "row sample"],
    weights: Float[np.ndarray, "row sample"],
    ridge: float,
) -> Float[np.ndarray, "row unit"]:
    """Coefficients of a ridge regression with a free intercept. A column of zeros, as padding has, gets 0."""
    share = torch.from_numpy(weights / weights.sum(1, keepdims=True))
    plain, goal = torch.from_numpy(inputs).double(), torch.from_numpy(values)
    centred = plain - (share[:, None] @ plain)
    goal = goal - (share * goal).sum(1, keepdim=True)
    weighed = centred * torch.from_numpy(weights)[..., None]
    system = weighed.transpose(1, 2) @ centred + ridge * torch.eye(plain.shape[2], dtype=torch.float64)
    return torch.linalg.solve(system, (weighed.transpose(1, 2) @ goal[..., None]))[..., 0].numpy()
