"""What a student is sent by an explainer that is being learned: its parts weighed, on the student's positions."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from didact.core.batch import Batch
from didact.core.explanation import Explanation
from didact.explainers.attention import softmax_over
from didact.explainers.mix import Mix
from didact.records.parts import Parts
from didact.students.crossing import crossing
from didact.students.lesson import Lesson


class MixedLessons:
    """What `mass_of` would make of the explainer's maps, with a graph to the explainer's parameters.

    The parts are scores of the teacher's units; where they go on the student's positions is worked out once.
    """

    def __init__(self, parts: Parts, batch: Batch, *, temperature: float, device: torch.device) -> None:
        bounds = parts.maps.bounds
        counts = np.diff(bounds)
        self.units: Bool[Tensor, "row unit"] = torch.from_numpy(np.arange(counts.max()) < counts[:, None]).to(device)
        values = torch.zeros(*self.units.shape, len(parts.names), dtype=torch.get_default_dtype(), device=device)
        values[self.units] = torch.from_numpy(parts.values).to(values)
        self.values: Float[Tensor, "row part unit"] = values.transpose(1, 2).contiguous()
        found = crossing(parts.maps, batch)
        self.lost_rows = int(found.lost.sum())
        self.bounds = torch.from_numpy(found.bounds)
        self.target_units = batch.units.to(device)
        self.entry_units = torch.from_numpy(found.units).to(device)
        self.entry_pieces = torch.from_numpy(found.pieces).to(device)
        self.entry_shares = torch.from_numpy(found.shares).to(values)
        self.temperature = temperature

    def __call__(self, explainer: Mix, chosen: Int[Tensor, " chosen"], length: int) -> Lesson:
        """The lesson of these rows, cut to the length of their batch."""
        chosen = chosen.cpu()
        device = self.values.device
        most = int(self.units[chosen.to(device)].sum(-1).max())
        rows = chosen.to(device)
        units = self.units[rows, :most]
        # p^(1/τ), renormalised; in logits, so that nothing underflows.
        mass = softmax_over(explainer.logits(self.values[rows, :, :most]) / self.temperature, units)
        counts = self.bounds[chosen + 1] - self.bounds[chosen]
        inside = torch.arange(int(counts.sum())) - (counts.cumsum(0) - counts).repeat_interleave(counts)
        entries = (self.bounds[chosen].repeat_interleave(counts) + inside).to(device)
        owner = torch.arange(len(chosen)).repeat_interleave(counts).to(device)
        pieces = self.entry_pieces[entries]
        flat = mass.new_zeros(len(chosen) * length)
        sent = mass[owner, self.entry_units[entries]] * self.entry_shares[entries]
        arrived = flat.index_add(0, owner * length + pieces, sent).reshape(len(chosen), length)
        here = self.target_units[rows, :length]
        return Lesson(mass=Explanation(arrived, here, here, "distribution").as_distribution())
