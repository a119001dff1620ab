"""What perturbation methods share: they ask what a teacher answers without some units, and read scores from it."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from didact.core.batch import Batch
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.core.players import on_positions
from didact.core.removal import Removal
from didact.core.target import Target
from didact.core.teacher import Teacher
from didact.explainers.completeness import left_over

_NUMBERS: Final = 2**21  # units of all questions that are held at once: memory does not grow with samples × rows


class Questions(NamedTuple):
    """Which units of a row each question keeps, and what its method needs to understand the answers."""

    kept: Bool[np.ndarray, "_ _"]
    extra: Any = None


class Perturbation(Explainer):
    """Asks about each row with some of its units gone. What a row is asked depends on its id and the seed alone.

    `level` says what is taken away as a whole: a piece, or a word. A method that `adds_up` asks first about nothing
    and then about everything.
    """

    adds_up = False

    def __init__(self, *, baseline: str, level: str, batch_size: int, seed: int = 0) -> None:
        super().__init__()
        self.baseline, self.level, self.seed, self.batch_size = baseline, level, seed, batch_size

    @abstractmethod
    def ask(self, row: str, units: int) -> Questions: ...

    @abstractmethod
    def understand(
        self, asked: Sequence[Questions], answers: Sequence[Float[np.ndarray, " _"]]
    ) -> list[Float[np.ndarray, " _"]]:
        """One score per unit of each row, from what was asked about it and answered."""

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        removal = Removal(teacher, batch, target, baseline=self.baseline, level=self.level, batch_size=self.batch_size)
        found: list[Float[np.ndarray, " _"]] = []
        ends: list[Float[np.ndarray, " 2"]] = []
        asked: list[Questions] = []
        for row, (name, units) in enumerate(zip(batch.ids, removal.counts, strict=True)):
            asked.append(self.ask(name, units))
            if row == len(batch) - 1 or sum(one.kept.size for one in asked) > _NUMBERS:
                rows = range(row + 1 - len(asked), row + 1)
                answers = removal.values([one.kept for one in asked], rows=rows)
                found += self.understand(asked, answers)
                ends += [one[:2] for one in answers]
                asked = []
        scores = on_positions(removal.scores(found), removal.players)
        left = None
        if self.adds_up:
            left = left_over(scores, torch.from_numpy(np.stack(ends)).to(scores), target)
        return Explanation(scores, batch.mask, batch.units, "signed", left)


def nothing_and_all(units: int) -> Bool[np.ndarray, "2 unit"]:
    """The first two questions of a method that adds up."""
    return np.repeat([[False], [True]], units, axis=1)
