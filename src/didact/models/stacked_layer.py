"""One transformer layer of several seeds at once, with its derivative written out.

The tensors of a small model are so small that a graph of its operations costs as much as they do. Here a layer is one
operation: a handful of products and no copies that could be spared, piece by piece. A piece is one seed, whose memory
stays near a CPU, or all of them, where it takes longer to tell a device what to do than to do it.
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
    """Where the positions and rows of one seed lie, or of several seeds that are padded to one length.

    Seeds from `first` on, each with as many rows; `rows` are those of all. `bias` keeps padding from being attended;
    None where there is none. `queries` weigh a row's queries for their mean, `answers` for what the model answers from;
    all three have one for every row and head.
    """

    first: int
    seeds: int
    start: int
    top: int
    rows: int
    length: int
    real: Float[Tensor, "row 1 token"]
    bias: Float[Tensor, "one 1 token"] | None
    queries: Float[Tensor, "one 1 token"]
    answers: Float[Tensor, "one 1 token"]

    @classmethod
    def of(
        cls,
        place: tuple[int, int, int, int, int, int],
        real: Bool[Tensor, " token"],
        share: Float[Tensor, " token"],
        *,
        heads: int,
        reading: str,
        is_padded: bool,
    ) -> "Piece":
        """`place` are the first six fields; `share` is one over the length of a row, 0 on padding."""
        rows, length = place[-2:]
        real, share = real.view(rows, length), share.view(rows, length)
        bias = torch.zeros_like(share).masked_fill_(~real, -torch.inf) if is_padded else None
        answers = share
        if reading == "first":
            answers = torch.zeros_like(share)
            answers[:, 0] = 1.0

        def headed(values: Tensor) -> Tensor:
            return values.repeat_interleave(heads, 0)[:, None]

        return cls(
            *place, real.to(share.dtype)[:, None], None if bias is None else headed(bias), headed(share),
            headed(answers),
        )  # fmt: skip

    @property
    def end(self) -> int:
        return self.start + self.rows * self.length

    def states(self, every: Float[Tensor, "token dim"]) -> Float[Tensor, "seed position dim"]:
        """Those of its seeds, a view."""
        return every[self.start : self.end].unflatten(0, (self.seeds, -1))

    def weights(self, every: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(one[self.first : self.first + self.seeds] for one in every)


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
    """`Layer` of `transformer`, for stacked weights, piece after piece."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, facts: _Facts, *weights: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        shape = (facts.rows, facts.heads, facts.length)
        mean = states.new_zeros(shape) if "mean" in facts.listen else None
        reading = states.new_zeros(shape) if "reading" in facts.listen else None
        found = torch.empty_like(states)
        is_taught = any(ctx.needs_input_grad)
        kept = []
        for number, piece in enumerate(facts.pieces):
            own, into = piece.weights(weights), piece.states(found)
            kept.append(_forth(piece.states(states), into, piece, facts, number, own, mean, reading, is_taught))
        if is_taught:
            ctx.facts, ctx.kept = facts, kept
            ctx.save_for_backward(*weights)
        return found, mean, reading

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        slope, mean_slope, reading_slope = grads
        assert slope is not None
        facts: _Facts = ctx.facts
        weights = ctx.saved_tensors
        slope, found = slope.contiguous(), torch.empty_like(slope)
        slopes = [one.new_empty(one.shape) for one in weights]
        for number, (piece, kept) in enumerate(zip(facts.pieces, ctx.kept, strict=True)):
            own, into, span = piece.weights(weights), piece.weights(slopes), slice(piece.top, piece.top + piece.rows)
            heard = tuple(None if one is None else one[span, :, : piece.length] for one in (mean_slope, reading_slope))
            _back(piece.states(slope), piece.states(found), piece, facts, number, own, into, kept, heard)
        ctx.kept = None
        return found, None, *slopes


def _forth(
    states: Float[Tensor, "seed position dim"],
    found: Float[Tensor, "seed position dim"],
    piece: Piece,
    facts: _Facts,
    number: int,
    weights: tuple[Tensor, ...],
    mean: Tensor | None,
    reading: Tensor | None,
    is_taught: bool,
) -> tuple[Tensor, ...] | None:
    """A piece's states into `found`, what was listened for into its rows; gives what the way back needs.

    LayerNorm's scale and shift are folded into the product after it.
    """
    scale1, shift1, scale2, shift2, into, into_bias, out, out_bias, up, up_bias, down, down_bias = weights
    noise, width = facts.noise, states.shape[-1]
    rows, length, heads, part = piece.rows, piece.length, facts.heads, width // facts.heads
    factor = part**-0.5 if facts.scale is None else facts.scale

    normed1, _, spread1 = torch.native_layer_norm(states, (width,), None, None, _EPS)
    gates = _product(normed1, into * scale1[:, None], _product(shift1[:, None], into, into_bias[:, None]))
    query, key, value = gates.view(rows, length, 3, heads, part).permute(2, 0, 3, 1, 4).contiguous().flatten(1, 2)
    turned = key.transpose(1, 2)
    if piece.bias is None:
        chances = torch.bmm(query, turned).mul_(factor)
    else:
        chances = torch.baddbmm(piece.bias, query, turned, alpha=factor)
    torch.softmax(chances, -1, out=chances)
    used = chances if noise is None else chances * noise[0][number]
    mixed = torch.bmm(used, value)
    attended = mixed.view(rows, heads, length, part).transpose(1, 2).reshape(states.shape)
    span = slice(piece.top, piece.top + rows)
    centre = query
    if mean is not None:
        # The mean over queries of their logits is the logit of their mean.
        centre = torch.bmm(piece.queries, query)
        logits = torch.bmm(centre, turned).view(rows, heads, length)
        torch.mul(logits, piece.real * factor, out=mean[span, :, :length])
    if reading is not None:
        reading[span, :, :length] = torch.bmm(piece.answers, chances).view(rows, heads, length)

    middle = _product(attended, out, out_bias[:, None])
    if noise is not None:
        middle *= piece.states(noise[1])
    middle += states
    normed2, _, spread2 = torch.native_layer_norm(middle, (width,), None, None, _EPS)
    raised = _product(normed2, up * scale2[:, None], _product(shift2[:, None], up, up_bias[:, None]))
    fed = torch.nn.functional.gelu(raised)
    torch.baddbmm(down_bias[:, None], fed, down.transpose(1, 2), out=found)
    if noise is not None:
        found *= piece.states(noise[2])
    found += middle
    if not is_taught:
        return None
    return normed1, spread1, query, key, value, chances, used, centre, attended, normed2, spread2, raised, fed


def _back(
    slope: Float[Tensor, "seed position dim"],
    found: Float[Tensor, "seed position dim"],
    piece: Piece,
    facts: _Facts,
    number: int,
    weights: tuple[Tensor, ...],
    slopes: tuple[Tensor, ...],
    kept: tuple[Tensor, ...],
    heard: tuple[Tensor | None, ...],
) -> None:
    """The slopes of a piece's states into `found`, of its weights into `slopes`."""
    scale1, shift1, scale2, shift2, into, _, out, _, up, _, down, _ = weights
    (
        d_scale1,
        d_shift1,
        d_scale2,
        d_shift2,
        d_into,
        d_into_bias,
        d_out,
        d_out_bias,
        d_up,
        d_up_bias,
        d_down,
        d_down_bias,
    ) = slopes
    normed1, spread1, query, key, value, chances, used, centre, attended, normed2, spread2, raised, fed = kept
    noise, width = facts.noise, slope.shape[-1]
    rows, length, heads, part = piece.rows, piece.length, facts.heads, width // facts.heads
    factor = part**-0.5 if facts.scale is None else facts.scale

    here = slope if noise is None else slope * piece.states(noise[2])
    torch.bmm(here.transpose(1, 2), fed, out=d_down)
    torch.sum(here, 1, out=d_down_bias)
    d_raised = torch.bmm(here, down)
    torch.ops.aten.gelu_backward(d_raised, raised, grad_input=d_raised)
    torch.bmm(d_raised.transpose(1, 2), normed2, out=d_up)
    torch.sum(d_raised, 1, out=d_up_bias)
    middle = _norm_slope(torch.bmm(d_raised, up * scale2[:, None]), normed2, spread2).add_(slope)
    _unfold(d_up, d_up_bias, d_scale2, d_shift2, up, scale2, shift2)

    here = middle if noise is None else middle * piece.states(noise[1])
    torch.bmm(here.transpose(1, 2), attended, out=d_out)
    torch.sum(here, 1, out=d_out_bias)
    own = torch.bmm(here, out).view(rows, length, heads, part).transpose(1, 2).reshape(-1, length, part)
    gates = slope.new_empty(3, rows * heads, length, part)
    torch.bmm(used.transpose(1, 2), own, out=gates[2])
    d_chances = torch.bmm(own, value.transpose(1, 2))
    if noise is not None:
        d_chances *= noise[0][number]
    mean_slope, reading_slope = heard
    if reading_slope is not None:
        d_chances.baddbmm_(piece.answers.transpose(1, 2), reading_slope.reshape(-1, 1, length))
    d_logits = torch.ops.aten._softmax_backward_data(d_chances, chances, -1, chances.dtype).mul_(factor)
    torch.bmm(d_logits, key, out=gates[0])
    torch.bmm(d_logits.transpose(1, 2), query, out=gates[1])
    if mean_slope is not None:
        own = (mean_slope * (piece.real * factor)).view(-1, 1, length)
        gates[1].addcmul_(own.transpose(1, 2), centre)
        gates[0].addcmul_(piece.queries.transpose(1, 2), torch.bmm(own, key))
    d_gates = gates.view(3, rows, heads, length, part).permute(1, 3, 0, 2, 4).reshape(piece.seeds, -1, 3 * width)
    torch.bmm(d_gates.transpose(1, 2), normed1, out=d_into)
    torch.sum(d_gates, 1, out=d_into_bias)
    torch.add(_norm_slope(torch.bmm(d_gates, into * scale1[:, None]), normed1, spread1), middle, out=found)
    _unfold(d_into, d_into_bias, d_scale1, d_shift1, into, scale1, shift1)


def _product(
    values: Float[Tensor, "seed position in"],
    weight: Float[Tensor, "seed out in"],
    bias: Float[Tensor, "seed 1 out"],
) -> Float[Tensor, "seed position out"]:
    return torch.baddbmm(bias, values, weight.transpose(1, 2))


def _unfold(
    slope: Tensor, bias: Tensor, d_scale: Tensor, d_shift: Tensor, weight: Tensor, scale: Tensor, shift: Tensor
) -> None:
    """From the slopes of `weight * scale` and `bias + weight @ shift` to those of their parts; `slope` in place."""
    torch.sum(slope * weight, 1, out=d_scale)
    torch.bmm(bias[:, None], weight, out=d_shift[:, None])
    slope.mul_(scale[:, None]).addcmul_(bias[:, :, None], shift[:, None])


def _norm_slope(slope: Tensor, normed: Tensor, spread: Tensor) -> Tensor:
    """The slope before normalising, of the one after; `spread` is one over the deviation."""
    # The function wants the input and its mean: normed values are as good, with mean 0 and spread 1.
    found: Tensor = torch.ops.aten.native_layer_norm_backward(
        slope, normed, (normed.shape[-1],), torch.zeros_like(spread), torch.ones_like(spread), None, None,
        (True, False, False),
    )[0]  # fmt: skip
    return found.mul_(spread)
