"""What a network is asked for when it learns to explain as another explainer does: an order, labels, or weights."""

from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata
from torch import Tensor

from didact.core.normalise import positive

UnitWeights: TypeAlias = Float[Tensor, "row unit"]
UnitMask: TypeAlias = Bool[Tensor, "row unit"]
UnitLabels: TypeAlias = Int[Tensor, "row unit"]
RowLosses: TypeAlias = Float[Tensor, " row"]
_EQUAL_TOLERANCE = 1e-6  # relative: weights that rounding alone sets apart are equal
_MAX_PAIRS = 1 << 22  # pairs at a time


def ranking_loss(scores: UnitWeights, weights: UnitWeights, real: UnitMask) -> RowLosses:
    """For each row the mean over all pairs of real units of −log P(the heavier wins), P = σ(its score − the other's).

    Equal weights are half a win each. Pairs are taken some units at a time, forwards and backwards, so that a row of
    512 units needs no more memory than short ones. A row with one unit or none has loss 0.
    """
    loss: Tensor = _Ranking.apply(scores, weights, real)
    return loss


class _Ranking(torch.autograd.Function):
    """The loss with its gradient, which is known in closed form: Σ_j σ(v_i − v_j) − t_ij."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, weights: Tensor, real: Tensor) -> Tensor:
        count = real.sum(-1).to(scores)
        pairs = (count * (count - 1) / 2).clamp_min(1)
        loss, gradient = torch.zeros_like(count), torch.zeros_like(scores)
        step = max(1, _MAX_PAIRS // max(1, scores.numel()))
        for start in range(0, scores.shape[1], step):
            block = slice(start, start + step)
            difference = scores[:, block, None] - scores[:, None, :]
            order = torch.sign(weights[:, block, None] - weights[:, None, :]).to(scores)
            # log(1 + e^d) − t d with t = (sign + 1) / 2, for pairs that are both real and not one unit twice
            is_pair = real[:, block, None] & real[:, None, :]
            is_pair[:, torch.arange(is_pair.shape[1]), torch.arange(start, start + is_pair.shape[1])] = False
            term = F.softplus(difference) - (order + 1) / 2 * difference
            loss += (term * is_pair).sum((1, 2)) / 2  # every pair is met twice
            gradient[:, block] = ((difference.sigmoid() - (order + 1) / 2) * is_pair).sum(2)
        ctx.save_for_backward(gradient / pairs[:, None])
        return loss / pairs

    @staticmethod
    def backward(ctx: Any, output_gradient: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return output_gradient[:, None] * gradient, None, None


def unit_labels(weights: UnitWeights, real: UnitMask, *, is_signed: bool) -> UnitLabels:
    """Each unit's label by its row's means (Situ et al. 2021, section 3).

    0 high negative, 1 low negative, 2 neutral (0), 3 low positive, 4 high positive: high is beyond the mean of the
    row's positive (negative) weights, the mean itself is low. Of explainers without signs 0 neutral, 1 low, 2 high.
    -1 where there is no unit.
    """
    device, real = real.device, real.cpu()
    weights = weights.cpu().double() * real  # some devices have no double precision
    labels = torch.full_like(weights, 2, dtype=torch.long)
    for sign, low, high in ((1.0, 3, 4), (-1.0, 1, 0)):
        size = (weights * sign).clamp_min(0)
        has_sign = size > 0
        mean = size.sum(-1, keepdim=True) / has_sign.sum(-1, keepdim=True).clamp_min(1)
        labels = torch.where(has_sign, torch.where(size > mean * (1 + _EQUAL_TOLERANCE), high, low), labels)
    return torch.where(real, labels if is_signed else (labels - 2).clamp_min(0), -1).to(device)


def label_values(weights: UnitWeights, labels: UnitLabels, *, is_signed: bool) -> Float[Tensor, " label"]:
    """What each label is worth: the mean size of the units that are low, and of those that are high, with their sign.

    Sizes are of weights whose largest in each row is 1, for labels do not know how large a row's weights are. Both
    signs share them: a label tells where a unit lies among those of its own sign, not how the two compare.
    """
    size = scale_to_unit_max(weights, labels >= 0).abs().double()
    levels = (labels - 2).abs() if is_signed else labels  # 0 neutral, 1 low, 2 high
    low, high = (float(size[(levels == level) & (labels >= 0)].mean().nan_to_num()) for level in (1, 2))
    values = [-high, -low, 0.0, low, high] if is_signed else [0.0, low, high]
    return torch.tensor(values, dtype=torch.double)


def labelling_loss(logits: Float[Tensor, "row unit label"], labels: UnitLabels) -> RowLosses:
    """For each row the mean over its units of −log P(label)."""
    terms = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1, reduction="none")
    return terms.view(labels.shape).sum(-1) / (labels >= 0).sum(-1).clamp_min(1)


def regression_loss(scores: UnitWeights, weights: UnitWeights, real: UnitMask) -> RowLosses:
    """For each row the mean squared error of its units, the row's largest weight being 1."""
    return ((scores - scale_to_unit_max(weights, real).to(scores)) ** 2 * real).sum(-1) / real.sum(-1).clamp_min(1)


def scale_to_unit_max(weights: UnitWeights, real: UnitMask) -> UnitWeights:
    """Weights with the largest size 1 in every row."""
    weights = weights * real
    return weights / positive(weights.abs().amax(-1, keepdim=True))


def mean_ranks(weights: Float[np.ndarray, "unit imitated"]) -> Float[np.ndarray, " unit"]:
    """Several explanations of a row as one: the mean of their ranks of |w|, signed as w; 1 is the heaviest, 0 none."""
    size = np.abs(weights)
    ranks = rankdata(size, axis=0) / len(size)
    mean: np.ndarray = (np.where(size > 0, ranks, 0.0) * np.sign(weights)).mean(1)
    return mean
