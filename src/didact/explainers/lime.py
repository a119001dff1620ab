"""LIME: a linear model of the teacher around a row."""

from collections.abc import Sequence
from typing import Final

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

_NUMBERS: Final = 2**20  # in one set of regressions: 8 MB, however many samples there are


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
        values = removal.values(kept)
        found: list[Float[np.ndarray, " unit"]] = []
        size = max(1, _NUMBERS // (self.samples * max(removal.counts)))
        for some in (slice(start, start + size) for start in range(0, len(kept), size)):
            weights = np.stack([self.closeness(one) for one in kept[some]])
            found += list(weighted_ridge(_padded(kept[some]), np.stack(values[some]), weights, self.ridge))
        scores = removal.scores(found)
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


def _padded(kept: Sequence[Bool[np.ndarray, "sample _"]]) -> Bool[np.ndarray, "row sample unit"]:
    presence = np.zeros((len(kept), len(kept[0]), max(one.shape[1] for one in kept)), dtype=bool)
    for row, one in enumerate(kept):
        presence[row, :, : one.shape[1]] = one
    return presence


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
