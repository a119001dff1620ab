"""A learned mix of a model's layers (Peters et al., 2018)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """Softmax-weighted sum of all hidden states, times a learned scale. Initially their mean."""

    def __init__(self, states: int) -> None:
        super().__init__()
        self.coefficients = nn.Parameter(torch.zeros(states))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, hidden: Float[Tensor, "batch state token dim"]) -> Float[Tensor, "batch token dim"]:
        return self.scale * torch.einsum("s,bstd->btd", self.coefficients.softmax(0), hidden)
