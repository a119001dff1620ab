"""One transformer layer of several seeds at once, with its derivative written out.

The tensors of a small model are so small that a graph of its operations costs as much as they do. Here a layer is one
operation: a handful of products, all of them into memory of one seed's size, and no copies that could be spared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

_EPS = 1e-5


@dataclass(frozen=True)
class Piece:
    """Where one seed's positions and rows lie. `bias` keeps padding from being attended; None where there is none.

    `queries` weigh a row's queries for their mean, `answers` for what the model answers from.
    """

    start: int
    top: int
    rows: int
    length: int
    real: Float[Tensor, "row token"]
    bias: Float[Tensor, "row token"] | None
    queries: Float[Tensor, "row token"]
    answers: Float[Tensor, "row token"]

    @classmethod
    def of(
        cls,
        start: int,
        top: int,
        rows: int,
        length: int,
        real: Bool[Tensor, " token"],
        share: Float[Tensor, " token"],
        reading: str,
    ) -> "Piece":
        real, share = real.view(rows, length), share.view(rows, length)
        bias = None if bool(real.all()) else torch.zeros_like(share).masked_fill_(~real, -torch.inf)
        answers = share
        if reading == "first":
            answers = torch.zeros_like(share)
            answers[:, 0] = 1.0
        return cls(start, top, rows, length, real.to(share.dtype), bias, share, answers)

    @property
    def end(self) -> int:
        return self.start + self.rows * self.length


def run_layer(
    states: Float[Tensor, "token dim"],
    pieces: Sequence[Piece],
    weights: Mapping[str, Tensor],
    *,
    heads: int,
    scale: float | None,
    listen: frozenset[str],
    length: int,
    rows: int,
    noise: tuple[tuple[Tensor, ...], Tensor, Tensor] | None,
) -> tuple[Float[Tensor, "token dim"], Tensor | None, Tensor | None]:
    """The layer's states, and of every row, head and key the mean logit and the chance to be answered from."""
    facts = _Facts(tuple(pieces), heads, scale, frozenset(listen), length, rows, noise)
    found: tuple[Tensor, Tensor | None, Tensor | None] = _Layer.apply(states, facts, *weights.values())
    return found


@dataclass(frozen=True)
class _Facts:
    pieces: tuple[Piece, ...]
    heads: int
    scale: float | None
    listen: frozenset[str]
    length: int
    rows: int
    noise: tuple[tuple[Tensor, ...], Tensor, Tensor] | None


class _Layer(torch.autograd.Function):
    """`Layer` of `transformer`, for stacked weights."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, facts: _Facts, *weights: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        scale1, shift1, scale2, shift2, into, into_bias, out, out_bias, up, up_bias, down, down_bias = weights
        pieces, noise = facts.pieces, facts.noise
        width = states.shape[1]
        normed1, _, spread1 = torch.native_layer_norm(states, (width,), None, None, _EPS)
        folded1 = into * scale1[:, None]
        gates = _products(normed1, folded1, into_bias + (into @ shift1[..., None])[..., 0], pieces)
        attended, kept, mean, reading = _attend(gates, facts)
        mixed = _products(attended, out, out_bias, pieces)
        if noise is not None:
            mixed *= noise[1]
        middle = mixed.add_(states)
        normed2, _, spread2 = torch.native_layer_norm(middle, (width,), None, None, _EPS)
        folded2 = up * scale2[:, None]
        raised = _products(normed2, folded2, up_bias + (up @ shift2[..., None])[..., 0], pieces)
        fed = torch.nn.functional.gelu(raised)
        found = _products(fed, down, down_bias, pieces)
        if noise is not None:
            found *= noise[2]
        found += middle
        if any(ctx.needs_input_grad):
            ctx.facts, ctx.kept = facts, kept
            ctx.save_for_backward(normed1, spread1, attended, normed2, spread2, raised, fed, *weights)
        return found, mean, reading

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        slope, mean_slope, reading_slope = grads
        assert slope is not None
        facts: _Facts = ctx.facts
        pieces, noise = facts.pieces, facts.noise
        normed1, spread1, attended, normed2, spread2, raised, fed, *weights = ctx.saved_tensors
        scale1, shift1, scale2, shift2, into, _, out, _, up, _, down, _ = weights
        folded1, folded2 = into * scale1[:, None], up * scale2[:, None]

        here = slope if noise is None else slope * noise[2]
        d_down, d_down_bias = _weight_slopes(here, fed, pieces)
        d_raised = torch.ops.aten.gelu_backward(_input_slopes(here, down, pieces), raised)
        d_folded2, d_up_bias = _weight_slopes(d_raised, normed2, pieces)
        middle = _norm_slope(_input_slopes(d_raised, folded2, pieces), normed2, spread2).add_(slope)
        d_up, d_scale2, d_shift2 = _unfolded(d_folded2, d_up_bias, up, scale2, shift2)

        here = middle if noise is None else middle * noise[1]
        d_out, d_out_bias = _weight_slopes(here, attended, pieces)
        d_gates = _attend_back(_input_slopes(here, out, pieces), ctx.kept, facts, mean_slope, reading_slope)
        d_folded1, d_into_bias = _weight_slopes(d_gates, normed1, pieces)
        d_states = _norm_slope(_input_slopes(d_gates, folded1, pieces), normed1, spread1).add_(middle)
        d_into, d_scale1, d_shift1 = _unfolded(d_folded1, d_into_bias, into, scale1, shift1)
        return (
            d_states, None, d_scale1, d_shift1, d_scale2, d_shift2, d_into, d_into_bias, d_out, d_out_bias, d_up,
            d_up_bias, d_down, d_down_bias,
        )  # fmt: skip


def _products(values: Tensor, weight: Tensor, bias: Tensor, pieces: Sequence[Piece]) -> Tensor:
    """values · weightᵀ + bias, each seed's positions with its own."""
    found = values.new_empty(len(values), weight.shape[1])
    for seed, piece in enumerate(pieces):
        torch.addmm(bias[seed], values[piece.start : piece.end], weight[seed].t(), out=found[piece.start : piece.end])
    return found


def _input_slopes(slopes: Tensor, weight: Tensor, pieces: Sequence[Piece]) -> Tensor:
    found = slopes.new_empty(len(slopes), weight.shape[2])
    for seed, piece in enumerate(pieces):
        torch.mm(slopes[piece.start : piece.end], weight[seed], out=found[piece.start : piece.end])
    return found


def _weight_slopes(slopes: Tensor, values: Tensor, pieces: Sequence[Piece]) -> tuple[Tensor, Tensor]:
    found = slopes.new_empty(len(pieces), slopes.shape[1], values.shape[1])
    bias = slopes.new_empty(len(pieces), slopes.shape[1])
    for seed, piece in enumerate(pieces):
        own = slopes[piece.start : piece.end]
        torch.mm(own.t(), values[piece.start : piece.end], out=found[seed])
        torch.sum(own, 0, out=bias[seed])
    return found, bias


def _unfolded(slope: Tensor, bias: Tensor, weight: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor, ...]:
    """Slopes of weight, scale and shift, of those of `weight * scale` and `bias + weight @ shift`."""
    d_scale = (slope * weight).sum(1)
    d_shift = (bias[:, None] @ weight)[:, 0]
    return (slope * scale[:, None]).add_(bias[..., None] * shift[:, None]), d_scale, d_shift


def _norm_slope(slope: Tensor, normed: Tensor, spread: Tensor) -> Tensor:
    """The slope before normalising, of the one after; `spread` is one over the deviation."""
    width = normed.shape[1]
    # native_layer_norm_backward wants the input and its mean: the normed values are as good, with mean 0 and spread 1.
    zeros, ones = torch.zeros_like(spread), torch.ones_like(spread)
    found = torch.ops.aten.native_layer_norm_backward(
        slope, normed, (width,), zeros, ones, None, None, (True, False, False)
    )[0]
    return found.mul_(spread)


def _attend(gates: Tensor, facts: _Facts) -> tuple[Tensor, list[Any], Tensor | None, Tensor | None]:
    """Self-attention of every row; what the way back needs; and what was listened for."""
    width = gates.shape[1] // 3
    part = width // facts.heads
    factor = part**-0.5 if facts.scale is None else facts.scale
    found = gates.new_empty(len(gates), width)
    mean = gates.new_zeros(facts.rows, facts.heads, facts.length) if "mean" in facts.listen else None
    reading = gates.new_zeros(facts.rows, facts.heads, facts.length) if "reading" in facts.listen else None
    kept = []
    for seed, piece in enumerate(facts.pieces):
        rows, length, heads = piece.rows, piece.length, facts.heads
        own = gates[piece.start : piece.end].view(rows, length, 3, heads, part).permute(2, 0, 3, 1, 4).contiguous()
        query, key, value = own.flatten(1, 2)
        turned = key.transpose(1, 2)
        if piece.bias is None:
            logits = torch.bmm(query, turned).mul_(factor)
        else:
            bias = _headed(piece.bias, heads)
            logits = torch.baddbmm(bias, query, turned, alpha=factor)
        chances = torch.softmax(logits, -1)
        used = chances if facts.noise is None else chances * facts.noise[0][seed]
        mixed = torch.bmm(used, value)
        found[piece.start : piece.end].view(rows, length, heads, part).copy_(
            mixed.view(rows, heads, length, part).transpose(1, 2)
        )
        centre = None
        span = slice(piece.top, piece.top + rows)
        if mean is not None:
            centre = torch.bmm(_headed(piece.queries, heads), query)
            logit = torch.bmm(centre, turned).view(rows, heads, length)
            mean[span, :, :length] = logit.mul_(factor).mul_(piece.real[:, None])
        if reading is not None:
            heard = torch.bmm(_headed(piece.answers, heads), chances).view(rows, heads, length)
            reading[span, :, :length] = heard
        kept.append((query, key, value, chances, used, centre))
    return found, kept, mean, reading


def _attend_back(
    slope: Tensor, kept: list[Any], facts: _Facts, mean_slope: Tensor | None, reading_slope: Tensor | None
) -> Tensor:
    """The slope of the gates."""
    width = slope.shape[1]
    part, heads = width // facts.heads, facts.heads
    factor = part**-0.5 if facts.scale is None else facts.scale
    found = slope.new_empty(len(slope), 3 * width)
    for seed, (piece, (query, key, value, chances, used, centre)) in enumerate(zip(facts.pieces, kept, strict=True)):
        rows, length = piece.rows, piece.length
        span = slice(piece.top, piece.top + rows)
        own = slope[piece.start : piece.end].view(rows, length, heads, part).transpose(1, 2).reshape(-1, length, part)
        slopes = slope.new_empty(3, rows * heads, length, part)
        d_used = torch.bmm(own, value.transpose(1, 2))
        torch.bmm(used.transpose(1, 2), own, out=slopes[2])
        if facts.noise is not None:
            d_used *= facts.noise[0][seed]
        if reading_slope is not None:
            heard = reading_slope[span, :, :length].reshape(-1, 1, length)
            d_used.baddbmm_(_headed(piece.answers, heads).transpose(1, 2), heard)
        d_logits = torch.ops.aten._softmax_backward_data(d_used, chances, -1, chances.dtype)
        d_logits.mul_(factor)
        torch.bmm(d_logits, key, out=slopes[0])
        torch.bmm(d_logits.transpose(1, 2), query, out=slopes[1])
        if mean_slope is not None:
            assert centre is not None
            heard = (mean_slope[span, :, :length] * piece.real[:, None]).mul_(factor).reshape(-1, 1, length)
            d_centre = torch.bmm(heard, key)
            slopes[1].baddbmm_(heard.transpose(1, 2), centre)
            slopes[0].baddbmm_(_headed(piece.queries, heads).transpose(1, 2), d_centre)
        found[piece.start : piece.end].view(rows, length, 3, heads, part).copy_(
            slopes.view(3, rows, heads, length, part).permute(1, 3, 0, 2, 4)
        )
    return found


def _headed(values: Tensor, heads: int) -> Tensor:
    """A vector per row as one per row and head."""
    return values.repeat_interleave(heads, 0)[:, None]
