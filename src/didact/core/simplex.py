"""From any numbers to weights that sum to one, some of them exactly zero.

Of plain operations, with the support taken as given: the package entmax has the same values, but no forward-mode
derivative, and its second derivatives of entmax are NaN once a weight is exactly zero.
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
    """Half way between softmax and sparsemax (Peters, Niculae and Martins 2019)."""
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
    """No normalisation: weights may be negative, and sum to anything."""
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
    """The largest scores, as many as there are places where the condition holds."""
    indices = scores.detach().argsort(descending=True)[: int(condition.sum())]
    return torch.zeros_like(condition).index_fill(0, indices, True)
