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
    begins = batch.units.clone()
    if level == "word":
        same = (batch.words[:, 1:] == batch.words[:, :-1]) & (batch.segments[:, 1:] == batch.segments[:, :-1])
        begins[:, 1:] &= ~(same & (batch.words[:, 1:] >= 0) & batch.units[:, :-1])
    return torch.where(batch.units, begins.long().cumsum(-1) - 1, -1)


def to_first_positions(
    scores: Float[Tensor, "batch player"], players: Int[Tensor, "batch token"]
) -> Float[Tensor, "batch token"]:
    """Each player's score on its first position, 0 elsewhere: sums over words stay what they are."""
    if not scores.shape[1]:
        return torch.zeros_like(players, dtype=scores.dtype)
    return scores.gather(1, players.clamp_min(0)) * first_positions(players)


def share_among_positions(
    mass: Float[Tensor, "batch token"], players: Int[Tensor, "batch token"]
) -> Float[Tensor, "batch token"]:
    """Each player's mass shared evenly among its positions: sums over words stay what they are."""
    index, here = players.clamp_min(0), (players >= 0).to(mass.dtype)
    total = torch.zeros_like(mass).scatter_add(1, index, mass * here)
    count = torch.zeros_like(mass).scatter_add(1, index, here)
    return total.gather(1, index) / count.gather(1, index).clamp_min(1) * here


def first_positions(players: Int[Tensor, "batch token"]) -> Bool[Tensor, "batch token"]:
    """Where each player begins."""
    first = players >= 0
    first[:, 1:] &= players[:, 1:] != players[:, :-1]
    return first
