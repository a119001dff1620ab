"""How far scores are from adding up to what they promise."""

import torch
from jaxtyping import Float
from torch import Tensor


def residual(scores: Float[Tensor, "batch token"], promised: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """|Σ scores − promised|, relative to the larger of |promised| and 1 % of Σ|scores|; 0 where all of it is 0."""
    scale = torch.maximum(promised.abs(), 0.01 * scores.abs().sum(-1))
    return (scores.sum(-1) - promised).abs() / torch.where(scale > 0, scale, torch.ones_like(scale))
