"""The losses of L2E (Situ et al. 2021): ranking, labelling and regression, between a network and an explainer."""

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
_EQUAL_TOLERANCE = 1e-6  # relative; weights that differ only by rounding are equal
_MAX_PAIRS = 1 << 22  # pairs that are computed together


def ranking_loss(scores: UnitWeights, weights: UnitWeights, real: UnitMask) -> RowLosses:
    """Pairwise logistic ranking loss per row: the mean of −log P(i before j) over all pairs of units with w_i > w_j.

    P = σ(score_i − score_j). A tie counts as half a win for each. `real` marks units. Forward and backward pass work on
    blocks of units, so that long rows need no more memory than short ones. Rows with fewer than two units have loss 0.
    """
    loss: Tensor = _Ranking.apply(scores, weights, real)
    return loss


class _Ranking(torch.autograd.Function):
    """The loss with its gradient in closed form, Σ_j σ(v_i − v_j) − t_ij. The graph of all pairs is never stored."""

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
            # log(1 + e^d) − t d with t = (order + 1) / 2, for pairs of two different units
            is_pair = real[:, block, None] & real[:, None, :]
            is_pair[:, torch.arange(is_pair.shape[1]), torch.arange(start, start + is_pair.shape[1])] = False
            term = F.softplus(difference) - (order + 1) / 2 * difference
            loss += (term * is_pair).sum((1, 2)) / 2  # every pair occurs twice
            gradient[:, block] = ((difference.sigmoid() - (order + 1) / 2) * is_pair).sum(2)
        ctx.save_for_backward(gradient / pairs[:, None])
        return loss / pairs

    @staticmethod
    def backward(ctx: Any, output_gradient: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return output_gradient[:, None] * gradient, None, None


def unit_labels(weights: UnitWeights, real: UnitMask, *, is_signed: bool) -> UnitLabels:
    """The label of each unit (Situ et al. 2021, section 3); -1 at positions without a unit.

    0 high negative, 1 low negative, 2 neutral (weight 0), 3 low positive, 4 high positive. High means beyond the mean
    of the row's positive (negative) weights; the mean itself is low. Without signs: 0 neutral, 1 low, 2 high.
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
    """The score that each label stands for: the mean size of all low (high) units, with the sign of the label.

    Sizes are relative to the largest of their row, because labels do not depend on the scale of a row. Positive and
    negative labels share them, because a label ranks a unit only among those of its own sign.
    """
    size = scale_to_unit_max(weights, labels >= 0).abs().double()
    levels = (labels - 2).abs() if is_signed else labels  # 0 neutral, 1 low, 2 high
    low, high = (float(size[(levels == level) & (labels >= 0)].mean().nan_to_num()) for level in (1, 2))
    values = [-high, -low, 0.0, low, high] if is_signed else [0.0, low, high]
    return torch.tensor(values, dtype=torch.double)


def labelling_loss(logits: Float[Tensor, "row unit label"], labels: UnitLabels) -> RowLosses:
    """Cross-entropy per row: the mean of −log P(label) over its units."""
    terms = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1, reduction="none")
    return terms.view(labels.shape).sum(-1) / (labels >= 0).sum(-1).clamp_min(1)


def regression_loss(scores: UnitWeights, weights: UnitWeights, real: UnitMask) -> RowLosses:
    """Mean squared error per row, relative to weights whose largest size in the row is 1."""
    return ((scores - scale_to_unit_max(weights, real).to(scores)) ** 2 * real).sum(-1) / real.sum(-1).clamp_min(1)


def scale_to_unit_max(weights: UnitWeights, real: UnitMask) -> UnitWeights:
    """Weights rescaled so that the largest size in each row is 1; 0 outside units."""
    weights = weights * real
    return weights / positive(weights.abs().amax(-1, keepdim=True))


def mean_ranks(weights: Float[np.ndarray, "unit imitated"]) -> Float[np.ndarray, " unit"]:
    """The mean of several explanations by rank: the rank of |w| with the sign of w, from 1 (largest) to 0 (w = 0)."""
    size = np.abs(weights)
    ranks = rankdata(size, axis=0) / len(size)
    mean: np.ndarray = (np.where(size > 0, ranks, 0.0) * np.sign(weights)).mean(1)
    return mean
