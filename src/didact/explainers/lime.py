"""LIME: a local linear model of the teacher around a row."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float

from didact.core.perturb import DEFAULT
from didact.core.seeds import numpy_generator
from didact.errors import OptionError
from didact.explainers.perturbation import MaskSet, PerturbationExplainer, RowValues

Presence: TypeAlias = Bool[np.ndarray, "row sample unit"]
Samples: TypeAlias = Float[np.ndarray, "row sample"]
_CHUNK_NUMBERS: Final = 2**20  # in one batch of regressions: 8 MB, whatever the number of samples


class Lime(PerturbationExplainer):
    """Coefficients of a ridge regression of the target on which units are present (Ribeiro et al. 2016).

    A sample removes a random number of random units; the first sample removes none. The weight of a sample is
    exp(−d² / (2 · width²)), with d the cosine distance to the full row; `kernel_width` 0.25 is the width 25 of the
    authors' package, which measures d in hundredths. The intercept is not penalised. Solved in closed form, many rows
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
                f"lime needs samples ≥ 2, kernel_width > 0 and ridge > 0, got {samples}, {kernel_width} and {ridge}."
            )
        self.samples, self.kernel_width, self.ridge = samples, kernel_width, ridge

    def sample_masks(self, row: str, units: int) -> MaskSet:
        present = self.draw(row, units)
        return MaskSet(present, self.proximity(present))

    def to_scores(self, mask_sets: Sequence[MaskSet], outputs: Sequence[RowValues]) -> list[RowValues]:
        scores: list[RowValues] = []
        size = max(1, _CHUNK_NUMBERS // max(mask_set.present.size for mask_set in mask_sets))
        for chunk in (slice(start, start + size) for start in range(0, len(mask_sets), size)):
            weights = np.stack([mask_set.extra for mask_set in mask_sets[chunk]])
            presence = _padded([mask_set.present for mask_set in mask_sets[chunk]])
            scores += list(weighted_ridge(presence, np.stack(outputs[chunk]), weights, self.ridge))
        return scores

    def draw(self, row: str, units: int) -> Bool[np.ndarray, "sample unit"]:
        """Which units each sample keeps. The number of removed units is uniform from 1 to all."""
        generator = numpy_generator(self.seed, "lime", row)
        removed = generator.integers(1, units + 1, size=self.samples)
        removed[0] = 0
        rank = generator.random((self.samples, units)).argsort(1).argsort(1)
        return rank >= removed[:, None]

    def proximity(self, present: Bool[np.ndarray, "sample unit"]) -> Float[np.ndarray, " sample"]:
        """The weight of each sample. Its cosine with the full row is the root of the share of units present."""
        distance = 1 - np.sqrt(present.mean(1))
        return np.exp(-(distance**2) / (2 * self.kernel_width**2))


def _padded(masks: Sequence[Bool[np.ndarray, "sample _"]]) -> Presence:
    presence = np.zeros((len(masks), len(masks[0]), max(mask.shape[1] for mask in masks)), dtype=bool)
    for row, mask in enumerate(masks):
        presence[row, :, : mask.shape[1]] = mask
    return presence


def weighted_ridge(inputs: Presence, values: Samples, weights: Samples, ridge: float) -> Float[np.ndarray, "row unit"]:
    """Coefficients of ridge regressions with an unpenalised intercept. A column of zeros, as of padding, gets 0."""
    share = torch.from_numpy(weights / weights.sum(1, keepdims=True))
    features, response = torch.from_numpy(inputs).double(), torch.from_numpy(values)
    centred = features - (share[:, None] @ features)
    response = response - (share * response).sum(1, keepdim=True)
    weighed = centred * torch.from_numpy(weights)[..., None]
    system = weighed.transpose(1, 2) @ centred + ridge * torch.eye(features.shape[2], dtype=torch.float64)
    return torch.linalg.solve(system, (weighed.transpose(1, 2) @ response[..., None]))[..., 0].numpy()
