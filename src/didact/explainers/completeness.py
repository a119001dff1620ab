"""Completeness error: how far scores are from the sum that they promise (captum: convergence delta)."""

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.target import Target


def relative_residual(
    missing: Float[Tensor, " batch"],
    explained: Float[Tensor, " batch"],
    scores: Float[Tensor, "batch token"],
    scale: Float[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """What is missing, relative to the explained amount, or to 1 % of the sum of |scores| if that is larger.

    `scale` is the magnitude of the outputs. Amounts below √ε · scale are rounding, so the denominator is at least that.
    """
    floor = torch.finfo(scores.dtype).eps ** 0.5 * scale + torch.finfo(scores.dtype).tiny
    return missing.abs() / torch.stack([explained.abs(), 0.01 * scores.abs().sum(-1), floor]).amax(0)


def completeness_error(
    scores: Float[Tensor, "batch token"], ends: Float[Tensor, "batch 2"], target: Target
) -> Float[Tensor, " batch"]:
    """The error of scores that promise to sum to the target's change from the first end to the second."""
    change = ends[:, 1] - ends[:, 0]
    return relative_residual(scores.sum(-1) - change, change, scores, output_scale(ends, target).amax(-1))


def output_scale(output: Float[Tensor, "*some"], target: Target) -> Float[Tensor, "*some"]:
    """The magnitude of outputs; at least 1 for probabilities and their logarithms, which may be 0."""
    return output.abs() if target.scale == "logit" else output.abs().clamp_min(1.0)
