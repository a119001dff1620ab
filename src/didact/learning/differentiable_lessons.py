"""Lessons from a learned explainer, with a graph to its parameters."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from didact.core.batch import Batch
from didact.core.normalise import share_over, softmax_over
from didact.core.padded import PositionMap, pad_ragged, row_mask
from didact.explainers.mix import ComponentMix
from didact.results.component_scores import ComponentScores
from didact.students.lesson import Lesson


class DifferentiableLessons:
    """Turns component scores into lessons: weighs components, normalises, and maps units to the student's positions.

    The values equal those of `distribution_lesson` for the explainer's explanations, but with a graph to its
    parameters. The components are scores of the teacher's units; their map to the student's positions is computed once.
    """

    def __init__(self, components: ComponentScores, batch: Batch, *, temperature: float, device: torch.device) -> None:
        dtype, bounds = torch.get_default_dtype(), components.maps.bounds
        self.units: Bool[Tensor, "row unit"] = row_mask(bounds).to(device)
        self.counts = torch.from_numpy(np.diff(bounds))
        values = pad_ragged(components.values, bounds).to(device, dtype)
        self.values: Float[Tensor, "row component unit"] = values.transpose(1, 2).contiguous()
        self.crossing = PositionMap.of(components.maps, batch).to(device, dtype)
        self.lost_rows = int(self.crossing.uncovered.any(-1).sum())
        self.target_units = batch.units.to(device)
        self.temperature = temperature

    def __call__(self, explainer: ComponentMix, chosen: Int[Tensor, " chosen"], length: int) -> Lesson:
        """The lesson of the chosen rows, for a batch of this length."""
        row_index, width = chosen.to(self.values.device), int(self.counts[chosen].max())
        # p^(1/τ), renormalised. In logits nothing underflows.
        logits = explainer.logits(self.values[row_index, :, :width]) / self.temperature
        mass = softmax_over(logits, self.units[row_index, :width])
        arrived = self.crossing.select(chosen).apply(mass, length)
        is_unit = self.target_units[row_index, :length]
        return Lesson(mass=share_over(arrived, is_unit, fill_empty=True))
