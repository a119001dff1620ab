"""LIME: a linear model of the teacher around a row."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float

from didact.core.perturb import DEFAULT
from didact.core.seeds import numpy_generator
from didact.errors import OptionError
from didact.explainers.perturbation import Perturbation, Questions, RowValues

Presence: TypeAlias = Bool[np.ndarray, "row sample unit"]
Samples: TypeAlias = Float[np.ndarray, "row sample"]
_NUMBERS: Final = 2**20  # in one set of regressions: 8 MB, however many samples there are


class Lime(Perturbation):
    """Weights of a ridge regression of the target on which units are present (Ribeiro et al. 2016).

    A sample takes away a random number of random units; the first takes away none. Samples weigh
    exp(−d² / (2 · width²)) with d the cosine distance to the whole row; `kernel_width` 0.25 is the width 25 of the
    authors' package, which measures d in hundredths. The intercept is not shrunk. Solved in closed form, all rows
    at once.
    """

    version = 2  # 1 replaced units by zeros

    def __init__(
        self,
        *,
        samples: int = 500,
        kernel_width: float = 0.25,
        ridge: float = 1.0,
        replace: str = DEFAULT,
        level: str = "token",
        seed: int = 0,
        batch_size: int = 64,
    ) -> None:
        super().__init__(replace=replace, level=level, seed=seed, batch_size=batch_size)
        if samples < 2 or kernel_width <= 0 or ridge <= 0:
            raise OptionError(
                f"lime needs samples ≥ 2, kernel_width > 0 and ridge > 0, not {samples}, {kernel_width} and {ridge}."
            )
        self.samples, self.kernel_width, self.ridge = samples, kernel_width, ridge

    def ask(self, row: str, units: int) -> Questions:
        kept = self.draw(row, units)
        return Questions(kept, self.closeness(kept))

    def understand(self, asked: Sequence[Questions], answers: Sequence[RowValues]) -> list[RowValues]:
        found: list[RowValues] = []
        size = max(1, _NUMBERS // max(one.kept.size for one in asked))
        for some in (slice(start, start + size) for start in range(0, len(asked), size)):
            weights = np.stack([one.extra for one in asked[some]])
            presence = _padded([one.kept for one in asked[some]])
            found += list(weighted_ridge(presence, np.stack(answers[some]), weights, self.ridge))
        return found

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


def _padded(kept: Sequence[Bool[np.ndarray, "sample _"]]) -> Presence:
    presence = np.zeros((len(kept), len(kept[0]), max(one.shape[1] for one in kept)), dtype=bool)
    for row, one in enumerate(kept):
        presence[row, :, : one.shape[1]] = one
    return presence


def weighted_ridge(inputs: Presence, values: Samples, weights: Samples, ridge: float) -> Float[np.ndarray, "row unit"]:
    """Coefficients of a ridge regression with a free intercept. A column of zeros, as padding has, gets 0."""
    share = torch.from_numpy(weights / weights.sum(1, keepdims=True))
    plain, goal = torch.from_numpy(inputs).double(), torch.from_numpy(values)
    centred = plain - (share[:, None] @ plain)
    goal = goal - (share * goal).sum(1, keepdim=True)
    weighed = centred * torch.from_numpy(weights)[..., None]
    system = weighed.transpose(1, 2) @ centred + ridge * torch.eye(plain.shape[2], dtype=torch.float64)
    return torch.linalg.solve(system, (weighed.transpose(1, 2) @ goal[..., None]))[..., 0].numpy()
