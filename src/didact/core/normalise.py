"""Normalisation of padded scores. All padded tensors are normalised here.

`results.ragged` does the same for ragged arrays, without torch. Stored results depend on its last digits.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def softmax_over(
    logits: Float[Tensor, "*shape"], units: Bool[Tensor, "*#shape"], dim: int = -1
) -> Float[Tensor, "*shape"]:
    """Softmax over the units, zero elsewhere. All zeros if no unit has a logit above minus infinity."""
    logits = logits.masked_fill(~units, -torch.inf)
    is_empty = logits.amax(dim, keepdim=True) == -torch.inf
    return logits.masked_fill(is_empty, 0.0).softmax(dim).masked_fill(is_empty, 0.0)


def share_over(
    scores: Float[Tensor, "*batch token"], units: Bool[Tensor, "*#batch token"], *, fill_empty: bool = False
) -> Float[Tensor, "*batch token"]:
    """|s| / Σ|s| over the units, zero elsewhere.

    A row whose units all score 0 becomes all zeros, or uniform over its units with `fill_empty`.
    """
    mass = scores.abs().masked_fill(~units, 0.0)
    if fill_empty:
        mass = torch.where(mass.sum(-1, keepdim=True) > 0, mass, units.to(mass.dtype))
    return mass / positive(mass.sum(-1, keepdim=True))


def positive(divisor: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The divisor, with 1 instead of 0."""
    return torch.where(divisor > 0, divisor, torch.ones_like(divisor))
