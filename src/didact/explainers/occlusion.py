"""Occlusion: how much the target drops when one unit is removed."""

from collections.abc import Sequence

import numpy as np

from didact.core.perturb import DEFAULT
from didact.explainers.perturbation import MaskSet, PerturbationExplainer, RowValues


class Occlusion(PerturbationExplainer):
    """f(x) − f(x without the unit), unit by unit (Zeiler and Fergus 2014; leave-one-out, Li et al. 2016)."""

    version = 2  # 1 replaced units by zeros

    def __init__(self, *, replace: str = DEFAULT, level: str = "token", batch_size: int = 64) -> None:
        super().__init__(replace=replace, level=level, batch_size=batch_size)

    def sample_masks(self, row: str, units: int) -> MaskSet:  # noqa: ARG002
        return MaskSet(np.concatenate([np.ones((1, units), dtype=bool), ~np.eye(units, dtype=bool)]))

    def to_scores(
        self,
        mask_sets: Sequence[MaskSet],  # noqa: ARG002
        outputs: Sequence[RowValues],
    ) -> list[RowValues]:
        return [values[0] - values[1:] for values in outputs]
