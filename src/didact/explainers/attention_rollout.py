"""Attention rollout: the product of all layers' attention, each mixed with the residual connection."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from didact.core.batching import area_batches
from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.model import Model, TokenScores, eval_mode, require_model
from didact.core.normalise import positive, share_over, softmax_over

# Pairs of tokens in one pass. Every layer and head stores them: 512 tokens in 12 layers of 12 heads are 150 MB.
_MAX_TOKEN_PAIRS = 512 * 512


class AttentionRollout(Explainer):
    """How much of each input token reaches the pooling position (Abnar and Zuidema 2020).

    Each layer is half attention (mean of heads) and half identity for the residual connection. Only the row of the
    pooling position is computed, with one vector-matrix product per layer.
    """

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "attention_rollout")
        start = start_distribution(model, batch, target)
        mass = torch.zeros_like(start)
        for rows, matrices in residual_attention(model, batch):
            length = matrices.shape[-1]
            mass[rows, :length] = rollout(start[rows, :length].to(matrices.dtype), matrices).to(mass.dtype)
        return Explanation(share_over(mass, batch.units), batch.mask, batch.units, "distribution")


def start_distribution(model: Model, batch: Batch, target: Target) -> TokenScores:
    """Where the target is read at the top layer, as weights that sum to 1 per row.

    Half at the start and half at the end of a span; otherwise the model's pooling weights.
    """
    if target.kind != "span":
        return model.pooling_weights(batch)
    assert target.first is not None
    assert target.second is not None
    rows = torch.arange(len(batch), device=batch.device)
    start = torch.zeros(batch.mask.shape, dtype=next(model.parameters()).dtype, device=batch.device)
    start[rows, target.first] += 0.5
    start[rows, target.second] += 0.5
    return start


def residual_attention(
    model: Model, batch: Batch
) -> Iterator[tuple[Int[Tensor, " chosen"], Float[Tensor, "chosen layer token token"]]]:
    """Half attention (mean of heads), half identity, for a few rows at a time, cut to the longest of them.

    Rows of a matrix sum to 1. Those of padding are 0, and no token attends to padding.
    """
    for indices in area_batches(batch.lengths, _MAX_TOKEN_PAIRS):
        rows = torch.from_numpy(indices).to(batch.device)
        chunk = batch.select(rows)
        with eval_mode(model), torch.no_grad():
            logits = model(chunk, listen=["full"]).full
        assert logits is not None
        # Padding queries attend to no key, and a plain softmax over no key is NaN.
        attention = softmax_over(logits, logits > -torch.inf).mean(2)
        identity = torch.diag_embed(chunk.mask.to(attention.dtype))[:, None]
        mixed = 0.5 * attention + 0.5 * identity
        yield rows, mixed / positive(mixed.sum(-1, keepdim=True))


def rollout(start: TokenScores, matrices: Float[Tensor, "batch layer token token"]) -> TokenScores:
    """The start distribution multiplied through all layers, from the top to the input."""
    for matrix in matrices.flip(1).unbind(1):
        start = torch.einsum("bq,bqk->bk", start, matrix)
    return start
