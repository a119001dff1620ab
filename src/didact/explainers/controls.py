"""What every method is held against: chance, a code for the label, and people."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.batch import Batch
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.core.seeds import numpy_generator
from didact.core.target import Target
from didact.core.teacher import Teacher
from didact.errors import OptionError, UnsupportedError


class Random(Explainer):
    """Scores drawn evenly between 0 and 1. A row's draw depends on its id and the seed alone."""

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__()
        self.seed = seed

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:  # noqa: ARG002
        scores = _zeros(batch)
        for row, name in enumerate(batch.ids):
            units = batch.units[row]
            drawn = numpy_generator(self.seed, "random", name).random(int(units.sum()))
            scores[row, units] = torch.from_numpy(drawn).to(scores)
        return Explanation(scores, batch.mask, batch.units, "magnitude")


class Trivial(Explainer):
    """Tells the label and nothing else: the units are cut into blocks, and the target's class marks its block.

    A share `k` of the units per block, as many blocks as fit; classes beyond them share blocks. Pruthi et al. 2022.
    """

    def __init__(self, *, k: float = 0.1) -> None:
        super().__init__()
        if not 0 < k <= 1:
            raise OptionError(f"Option 'k' of 'trivial' is a share of the units, above 0 and at most 1, not {k}.")
        self.k = k

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        if target.kind not in ("label", "contrast") or target.first is None or teacher.classes is None:
            raise UnsupportedError(
                f"The control 'trivial' gives away a class, and task {teacher.task} has none. Choose 'random'."
            )
        scores = _zeros(batch)
        for row, label in enumerate(target.first.tolist()):
            units = batch.units[row].nonzero()[:, 0]
            size = max(1, math.ceil(self.k * len(units)))
            blocks = max(1, min(len(teacher.classes), len(units) // size))
            start = label % blocks * size
            scores[row, units[start : start + size]] = 1.0
        return Explanation(scores, batch.mask, batch.units, "binary")


class Human(Explainer):
    """What people marked, or what is known to decide the label. Rows nobody marked are refused."""

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:  # noqa: ARG002
        if batch.rationale is None:
            raise UnsupportedError(
                "The explainer 'human' needs rationales, and these rows have none. Choose a data set that has them "
                "(`didact data list`), or another method."
            )
        scores = (batch.rationale & batch.units).to(_zeros(batch).dtype)
        return Explanation(scores, batch.mask, batch.units, "binary")


def _zeros(batch: Batch) -> Float[Tensor, "batch token"]:
    return torch.zeros(batch.tokens.shape, device=batch.device)
