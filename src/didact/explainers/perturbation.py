"""What perturbation methods share: they ask what a teacher answers without some units, and read scores from it."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.feature_groups import feature_groups, to_first_positions
from didact.core.perturb import MaskedForward, check_replace, on_all_positions
from didact.errors import UnsupportedError
from didact.explainers.completeness import left_over

RowValues: TypeAlias = Float[np.ndarray, " _"]
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

    def __init__(self, *, replace: str, level: str, batch_size: int, seed: int = 0) -> None:
        super().__init__()
        check_replace(replace)
        self.replace, self.level, self.seed, self.batch_size = replace, level, seed, batch_size

    @abstractmethod
    def ask(self, row: str, units: int) -> Questions: ...

    @abstractmethod
    def understand(self, asked: Sequence[Questions], answers: Sequence[RowValues]) -> list[RowValues]:
        """One score per unit of each row, from what was asked about it and answered."""

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        masked = MaskedForward(teacher, batch, replace=self.replace, batch_size=self.batch_size)
        if masked.replace == "delete" and target.kind == "span":
            raise UnsupportedError(
                "replace=delete moves the positions of a text, and a span is explained at its positions. "
                "Choose replace=mask, pad or zero."
            )
        players = feature_groups(batch, level=self.level)
        columns, counts = players.cpu().numpy(), (players.amax(-1) + 1).tolist()

        def read(logits: Tensor, rows: Int[Tensor, " question"]) -> Float[Tensor, " question"]:
            return target.select(rows).of(logits)

        found: list[RowValues] = []
        ends: list[Float[np.ndarray, " 2"]] = []
        asked: list[Questions] = []
        for row, (name, units) in enumerate(zip(batch.ids, counts, strict=True)):
            asked.append(self.ask(name, units))
            if row == len(batch) - 1 or sum(one.kept.size for one in asked) > _NUMBERS:
                rows = range(row + 1 - len(asked), row + 1)
                masks = [on_all_positions(one.kept, columns[index]) for index, one in zip(rows, asked, strict=True)]
                answers = masked(masks, rows=rows, read=read)
                found += self.understand(asked, answers)
                ends += [one[:2] for one in answers]
                asked = []
        scores = to_first_positions(_padded(found, counts, teacher, batch), players)
        left = None
        if self.adds_up:
            left = left_over(scores, torch.from_numpy(np.stack(ends)).to(scores), target)
        return Explanation(scores, batch.mask, batch.units, "signed", left)


def _padded(
    found: Sequence[RowValues], counts: Sequence[int], teacher: Teacher, batch: Batch
) -> Float[Tensor, "batch player"]:
    """One number per player of each row, padded with zeros, in the precision of the teacher."""
    widest = max(counts, default=0)
    padded = np.stack([np.pad(one[:count], (0, widest - count)) for one, count in zip(found, counts, strict=True)])
    return torch.from_numpy(padded).to(device=batch.device, dtype=teacher.dtype)


def nothing_and_all(units: int) -> Bool[np.ndarray, "2 unit"]:
    """The first two questions of a method that adds up."""
    return np.repeat([[False], [True]], units, axis=1)
