"""Which positions are taken away together: single tokens, or all pieces of a word."""

from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from didact.core.batch import Batch
from didact.errors import OptionError

LEVELS: Final = ("token", "word")


def feature_groups(batch: Batch, *, level: str = "token") -> Int[Tensor, "batch token"]:
    """For each position the number of its player, in reading order from 0; -1 where there is none.

    A piece that belongs to no word (white space) is a player of its own. Words are keyed by (segment, word), so that
    the words of two texts never merge.
    """
    if level not in LEVELS:
        raise OptionError(f"Option 'level' is 'token' or 'word', not {level!r}.")
    starts = batch.units.clone()
    if level == "word":
        is_same_word = (batch.words[:, 1:] == batch.words[:, :-1]) & (batch.segments[:, 1:] == batch.segments[:, :-1])
        starts[:, 1:] &= ~(is_same_word & (batch.words[:, 1:] >= 0) & batch.units[:, :-1])
    return torch.where(batch.units, starts.long().cumsum(-1) - 1, -1)


def to_first_positions(
    scores: Float[Tensor, "batch player"], groups: Int[Tensor, "batch token"]
) -> Float[Tensor, "batch token"]:
    """Each player's score on its first position, 0 elsewhere: sums over words stay what they are."""
    if not scores.shape[1]:
        return torch.zeros_like(groups, dtype=scores.dtype)
    return scores.gather(1, groups.clamp_min(0)) * first_positions(groups)


def share_among_positions(
    mass: Float[Tensor, "batch token"], groups: Int[Tensor, "batch token"]
) -> Float[Tensor, "batch token"]:
    """Each player's mass shared evenly among its positions: sums over words stay what they are."""
    index, is_member = groups.clamp_min(0), (groups >= 0).to(mass.dtype)
    total = torch.zeros_like(mass).scatter_add(1, index, mass * is_member)
    count = torch.zeros_like(mass).scatter_add(1, index, is_member)
    return total.gather(1, index) / count.gather(1, index).clamp_min(1) * is_member


def first_positions(groups: Int[Tensor, "batch token"]) -> Bool[Tensor, "batch token"]:
    """Where each player begins."""
    is_first = groups >= 0
    is_first[:, 1:] &= groups[:, 1:] != groups[:, :-1]
    return is_first
