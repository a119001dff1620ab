"""Sparse weights by their definition: a threshold τ at which the weights sum to one, found by bisection."""

from collections.abc import Callable

import torch
from torch import Tensor


def sparsemax(scores: Tensor) -> Tensor:
    """max(z − τ, 0) with Σ = 1 (Martins and Astudillo 2016, equation 3)."""
    return _at_sum_one(scores, lambda above: above)


def entmax15(scores: Tensor) -> Tensor:
    """max(z / 2 − τ, 0)² with Σ = 1 (Peters, Niculae and Martins 2019, equation 9 at α = 1.5)."""
    return _at_sum_one(scores / 2, lambda above: above**2)


def _at_sum_one(scores: Tensor, power: Callable[[Tensor], Tensor]) -> Tensor:
    # At the largest score all weights are 0; one below it, that score alone weighs 1.
    low, high = scores.max() - 1, scores.max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if power((scores - middle).clamp_min(0)).sum() > 1 else (low, middle)
    return power((scores - low).clamp_min(0)).to(torch.float64)
