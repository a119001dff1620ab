"""Base of perturbation methods: run the teacher without some of the units, and derive scores from the outputs."""

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
from didact.explainers.completeness import completeness_error

RowValues: TypeAlias = Float[np.ndarray, " _"]
_MAX_MASK_UNITS: Final = 2**21  # mask elements in memory at once, so that memory does not grow with samples × rows


class MaskSet(NamedTuple):
    """The masks of one row: which units each perturbation keeps, and what `to_scores` needs besides (`extra`)."""

    present: Bool[np.ndarray, "_ _"]
    extra: Any = None


class PerturbationExplainer(Explainer):
    """Runs each row without some of its units. The masks of a row depend only on its id and the seed.

    `level` is what is removed as a whole: a token or a word. A method with `is_complete` puts two masks first: without
    any unit, and with all units. Its scores sum to the difference of their outputs.
    """

    is_complete = False

    def __init__(self, *, replace: str, level: str, batch_size: int, seed: int = 0) -> None:
        super().__init__()
        check_replace(replace)
        self.replace, self.level, self.seed, self.batch_size = replace, level, seed, batch_size

    @abstractmethod
    def sample_masks(self, row: str, units: int) -> MaskSet: ...

    @abstractmethod
    def to_scores(self, mask_sets: Sequence[MaskSet], outputs: Sequence[RowValues]) -> list[RowValues]:
        """One score per unit of each row, from its masks and the outputs for them."""

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        masked = MaskedForward(teacher, batch, replace=self.replace, batch_size=self.batch_size)
        if masked.replace == "delete" and target.kind == "span":
            raise UnsupportedError(
                "replace=delete shifts the positions of a text, and a span is explained at fixed positions. "
                "Choose replace=mask, pad or zero."
            )
        groups = feature_groups(batch, level=self.level)
        group_numbers, counts = groups.cpu().numpy(), (groups.amax(-1) + 1).tolist()

        def read(logits: Tensor, rows: Int[Tensor, " mask"]) -> Float[Tensor, " mask"]:
            return target.select(rows).of(logits)

        scores_by_row: list[RowValues] = []
        ends: list[Float[np.ndarray, " 2"]] = []
        mask_sets: list[MaskSet] = []
        for row, (name, units) in enumerate(zip(batch.ids, counts, strict=True)):
            mask_sets.append(self.sample_masks(name, units))
            if row == len(batch) - 1 or sum(mask_set.present.size for mask_set in mask_sets) > _MAX_MASK_UNITS:
                rows = range(row + 1 - len(mask_sets), row + 1)
                masks = [
                    on_all_positions(mask_set.present, group_numbers[index])
                    for index, mask_set in zip(rows, mask_sets, strict=True)
                ]
                outputs = masked(masks, rows=rows, read=read)
                scores_by_row += self.to_scores(mask_sets, outputs)
                ends += [values[:2] for values in outputs]
                mask_sets = []
        scores = to_first_positions(_padded(scores_by_row, counts, teacher, batch), groups)
        errors = None
        if self.is_complete:
            errors = completeness_error(scores, torch.from_numpy(np.stack(ends)).to(scores), target)
        return Explanation(scores, batch.mask, batch.units, "signed", errors)


def _padded(
    scores_by_row: Sequence[RowValues], counts: Sequence[int], teacher: Teacher, batch: Batch
) -> Float[Tensor, "batch group"]:
    """One number per feature group of each row, padded with zeros, in the teacher's dtype."""
    width = max(counts, default=0)
    padded = np.stack(
        [np.pad(scores[:count], (0, width - count)) for scores, count in zip(scores_by_row, counts, strict=True)]
    )
    return torch.from_numpy(padded).to(device=batch.device, dtype=teacher.dtype)


def empty_and_full(units: int) -> Bool[np.ndarray, "2 unit"]:
    """The first two masks of a complete method: without any unit, and with all units."""
    return np.repeat([[False], [True]], units, axis=1)
