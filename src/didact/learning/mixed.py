"""What a student is sent by an explainer that is being learned: its parts weighed, on the student's positions."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from didact.core.batch import Batch
from didact.core.explanation import Explanation
from didact.core.normalise import softmax_over
from didact.explainers.mix import Mix
from didact.results.component_scores import ComponentScores
from didact.students.crossing import crossing
from didact.students.lesson import Lesson


class MixedLessons:
    """What `mass_of` would make of the explainer's maps, with a graph to the explainer's parameters.

    The parts are scores of the teacher's units; where they go on the student's positions is worked out once.
    """

    def __init__(self, parts: ComponentScores, batch: Batch, *, temperature: float, device: torch.device) -> None:
        bounds = parts.maps.bounds
        counts = np.diff(bounds)
        self.units: Bool[Tensor, "row unit"] = torch.from_numpy(np.arange(counts.max()) < counts[:, None]).to(device)
        values = torch.zeros(*self.units.shape, len(parts.names), dtype=torch.get_default_dtype(), device=device)
        values[self.units] = torch.from_numpy(parts.values).to(values)
        self.values: Float[Tensor, "row part unit"] = values.transpose(1, 2).contiguous()
        self.most = torch.from_numpy(counts)
        found = crossing(parts.maps, batch)
        self.lost_rows = int(found.lost.sum())
        self.target_units = batch.units.to(device)
        self.crossings = torch.from_numpy(np.diff(found.bounds))
        there = torch.arange(int(self.crossings.max())) < self.crossings[:, None]
        self.from_units, self.to_pieces = (
            torch.zeros(there.shape, dtype=torch.long).masked_scatter_(there, torch.from_numpy(one).long()).to(device)
            for one in (found.units, found.pieces)
        )
        shares = torch.from_numpy(found.shares).to(values.dtype)
        self.shares = torch.zeros(there.shape, dtype=values.dtype).masked_scatter_(there, shares).to(device)
        self.temperature = temperature

    def __call__(self, explainer: Mix, chosen: Int[Tensor, " chosen"], length: int) -> Lesson:
        """The lesson of these rows, cut to the length of their batch."""
        rows = chosen.to(self.values.device)
        most, width = int(self.most[chosen].max()), int(self.crossings[chosen].max())
        # p^(1/τ), renormalised; in logits, so that nothing underflows.
        logits = explainer.logits(self.values[rows, :, :most]) / self.temperature
        mass = softmax_over(logits, self.units[rows, :most])
        sent = mass.gather(1, self.from_units[rows, :width]) * self.shares[rows, :width]
        arrived = mass.new_zeros(len(chosen), length).scatter_add(1, self.to_pieces[rows, :width], sent)
        here = self.target_units[rows, :length]
        return Lesson(mass=Explanation(arrived, here, here, "distribution").as_distribution())
