"""Feature groups: positions that a perturbation removes together, either single tokens or all pieces of a word."""

from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from didact.core.batch import Batch
from didact.errors import OptionError

LEVELS: Final = ("token", "word")


def feature_groups(batch: Batch, *, level: str = "token") -> Int[Tensor, "batch token"]:
    """The number of the feature group of each position, in reading order from 0; -1 outside the units.

    A token that belongs to no word, such as white space, is a group of its own. Words of different texts never merge.
    """
    if level not in LEVELS:
        raise OptionError(f"Option 'level' must be 'token' or 'word', got {level!r}.")
    starts = batch.units.clone()
    if level == "word":
        is_same_word = (batch.words[:, 1:] == batch.words[:, :-1]) & (batch.segments[:, 1:] == batch.segments[:, :-1])
        starts[:, 1:] &= ~(is_same_word & (batch.words[:, 1:] >= 0) & batch.units[:, :-1])
    return torch.where(batch.units, starts.long().cumsum(-1) - 1, -1)


def to_first_positions(
    scores: Float[Tensor, "batch player"], groups: Int[Tensor, "batch token"]
) -> Float[Tensor, "batch token"]:
    """The score of each group at its first position, 0 at its others, so that sums over words do not change."""
    if not scores.shape[1]:
        return torch.zeros_like(groups, dtype=scores.dtype)
    return scores.gather(1, groups.clamp_min(0)) * first_positions(groups)


def share_among_positions(
    mass: Float[Tensor, "batch token"], groups: Int[Tensor, "batch token"]
) -> Float[Tensor, "batch token"]:
    """The mass of each group divided evenly among its positions, so that sums over words do not change."""
    index, is_member = groups.clamp_min(0), (groups >= 0).to(mass.dtype)
    total = torch.zeros_like(mass).scatter_add(1, index, mass * is_member)
    count = torch.zeros_like(mass).scatter_add(1, index, is_member)
    return total.gather(1, index) / count.gather(1, index).clamp_min(1) * is_member


def first_positions(groups: Int[Tensor, "batch token"]) -> Bool[Tensor, "batch token"]:
    """Whether each position is the first of its group."""
    is_first = groups >= 0
    is_first[:, 1:] &= groups[:, 1:] != groups[:, :-1]
    return is_first
