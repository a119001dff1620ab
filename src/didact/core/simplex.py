"""Maps from real numbers to weights that sum to 1, some of them exactly 0.

Written in plain operations, with the support held constant. The package entmax gives the same values, but has no
forward-mode derivative, and second derivatives of its entmax are NaN if a weight is exactly 0.
"""

from collections.abc import Callable, Mapping
from typing import Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def sparsemax(scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The nearest point of the simplex (Martins and Astudillo 2016)."""
    ordered = scores.detach().sort(descending=True).values
    count = _ranks(ordered)
    support = _largest(1 + count * ordered > ordered.cumsum(0), scores)
    threshold = (scores[support].sum() - 1) / support.sum()
    return torch.where(support, scores - threshold, torch.zeros_like(scores))


def entmax15(scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """1.5-entmax, between softmax and sparsemax (Peters, Niculae and Martins 2019)."""
    scores = scores / 2
    ordered = scores.detach().sort(descending=True).values
    count = _ranks(ordered)
    mean = ordered.cumsum(0) / count
    deviation = (ordered**2).cumsum(0) - count * mean**2
    threshold = mean - ((1 - deviation) / count).clamp_min(0).sqrt()
    support = _largest(threshold <= ordered, scores)
    supported = scores[support]
    centre = supported.mean()
    threshold = centre - ((1 - ((supported - centre) ** 2).sum()) / len(supported)).sqrt()
    return torch.where(support, (scores - threshold) ** 2, torch.zeros_like(scores))


def identity(scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """No normalisation: weights may be negative and have any sum."""
    return scores


NORMALISERS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "sparsemax": sparsemax,
    "softmax": lambda scores: scores.softmax(0),
    "entmax15": entmax15,
    "none": identity,
}


def _ranks(ordered: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    return torch.arange(1, len(ordered) + 1, dtype=ordered.dtype, device=ordered.device)


def _largest(condition: Bool[Tensor, " n"], scores: Float[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """A mask of the largest scores, as many as the condition is true."""
    indices = scores.detach().argsort(descending=True)[: int(condition.sum())]
    return torch.zeros_like(condition).index_fill(0, indices, True)
