"""Native transformers of one shape and several seeds as one model: weights stacked, positions side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from didact.core.batch import Batch
from didact.core.model import Model
from didact.core.task import READING
from didact.models.native import UNIFORM
from didact.models.stacked_layer import Piece, run_layer
from didact.models.transformer import TransformerModel

# From this width on a CPU computes longer than it takes to be told, and one seed at a time stays in its near memory.
_WIDE: Final = 32


def why_not_stacked(model: Model) -> str | None:
    """What keeps models like this one from being stacked; None if nothing does."""
    if type(model) is not TransformerModel:
        return "only the architecture 'native' trains together"
    if not isinstance(model.words, nn.Embedding):
        return "images and frozen embeddings of a base do not train together"
    return None


@dataclass(frozen=True)
class Shelf:
    """Rows of one batch or of several, each padded to one length: what stacked models read from, by row number."""

    tokens: Int[Tensor, "row token"]
    segments: Int[Tensor, "row token"]
    mask: Bool[Tensor, "row token"]
    units: Bool[Tensor, "row token"]
    lengths: Int[np.ndarray, " row"]

    @classmethod
    def of(cls, batches: Sequence[Batch], device: torch.device) -> "Shelf":
        """The rows of the batches, one after another."""
        longest = max(batch.mask.shape[1] for batch in batches)

        def table(name: str, fill: int) -> Tensor:
            found = [F.pad(one, (0, longest - one.shape[1]), value=fill) for one in (getattr(b, name) for b in batches)]
            return torch.cat(found).to(device)

        lengths = np.concatenate([batch.lengths.numpy() for batch in batches])
        return cls(table("tokens", 0), table("segments", -1), table("mask", False), table("units", False), lengths)


@dataclass(frozen=True)
class Packed:
    """Rows of every seed, for one pass. Each piece of seeds is padded to its longest row.

    `pieces` say where the seeds' positions lie. Of each seed, `counts` are its rows and `own` is the longest of them.
    `token_seed`, `token_row` and `place` are of every position. Of every row there is the seed, where it starts and its
    share in the mean of its seed (`worth`). `padded` is where a position lies in a table of all rows, `length` wide.
    """

    rows: Int[Tensor, " row"]
    pieces: tuple[Piece, ...]
    counts: tuple[int, ...]
    own: tuple[int, ...]
    index: Int[Tensor, " token"]
    place: Int[Tensor, " token"]
    token_seed: Int[Tensor, " token"]
    token_row: Int[Tensor, " token"]
    row_seed: Int[Tensor, " row"]
    starts: Int[Tensor, " row"]
    worth: Float[Tensor, " row"]
    share: Float[Tensor, " token"]
    length: int

    @property
    def padded(self) -> Int[Tensor, " token"]:
        return self.token_row * self.length + self.place


def pack(
    shelf: Shelf,
    chosen: Sequence[Int[np.ndarray, " _"]],
    dtype: torch.dtype,
    *,
    heads: int,
    reading: str = "mean",
    at_once: bool = False,
) -> Packed:
    """The chosen rows of each seed, as numbers of rows of the shelf.

    `at_once` makes one piece of all seeds: a seed with fewer rows repeats its first one, which then counts nothing.
    """
    device, wide = shelf.tokens.device, shelf.tokens.shape[1]
    counts, own = [len(rows) for rows in chosen], [int(shelf.lengths[rows].max()) for rows in chosen]
    counted = np.concatenate([np.arange(max(counts) if at_once else count) < count for count in counts])
    lengths = own
    if at_once:
        lengths = [max(own)] * len(own)
        chosen = [np.pad(rows, (0, max(counts) - len(rows)), constant_values=rows[0]) for rows in chosen]
    parts: dict[str, list[np.ndarray]] = {name: [] for name in ("index", "place", "seed", "row", "start")}
    places, position, first = [], 0, 0
    for seed, (rows, length) in enumerate(zip(chosen, lengths, strict=True)):
        columns = np.arange(length)
        parts["index"].append((rows[:, None] * wide + columns).ravel())
        parts["place"].append(np.tile(columns, len(rows)))
        parts["seed"].append(np.full(len(rows) * length, seed))
        parts["row"].append(np.repeat(np.arange(first, first + len(rows)), length))
        parts["start"].append(position + length * np.arange(len(rows)))
        places.append((seed, 1, position, first, len(rows), length))
        position, first = position + len(rows) * length, first + len(rows)
    if at_once:
        places = [(0, len(chosen), 0, 0, first, max(own))]

    def joined(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate(parts[name])).to(device)

    every = np.concatenate(chosen)
    numbers, index, token_row = torch.from_numpy(every).to(device), joined("index"), joined("row")
    real = shelf.mask.flatten()[index]
    share = real.to(dtype) / torch.from_numpy(shelf.lengths).to(device)[numbers][token_row]
    pieces = []
    for place in places:
        start, top, count, length = place[2:]
        here = slice(start, start + count * length)
        is_padded = bool((shelf.lengths[every[top : top + count]] < length).any())
        pieces.append(Piece.of(place, real[here], share[here], heads=heads, reading=reading, is_padded=is_padded))
    row_seed = np.repeat(np.arange(len(chosen)), [len(rows) for rows in chosen])
    worth = torch.from_numpy(counted / np.array(counts)[row_seed])
    return Packed(
        numbers, tuple(pieces), tuple(counts), tuple(own), index, joined("place"), joined("seed"), token_row,
        torch.from_numpy(row_seed).to(device), joined("start"), worth.to(dtype).to(device), share, max(own),
    )  # fmt: skip


@dataclass(frozen=True)
class Heard:
    """Answers of all rows, and what was listened for: attention logits (mean) and chances (reading) by layer."""

    logits: Float[Tensor, "row *output"]
    mean: Float[Tensor, "row layer head token"] | None
    reading: Float[Tensor, "row layer head token"] | None


class Stack:
    """Several native transformers as one. `flat` holds all their weights, a row per seed; `weights` are views of it.

    It answers as each of them alone would, but for rounding: LayerNorm's scale and shift go into the products that
    follow, and the mean attention logit is that of the mean query.
    """

    def __init__(self, models: Sequence[TransformerModel], *, at_once: bool | None = None) -> None:
        """`at_once`: all seeds in each operation, else seed after seed; unless said, by device and width."""
        self.models = list(models)
        first = self.first = self.models[0]
        self.names = {name: one.shape for name, one in first.named_parameters()}
        rows = [torch.cat([one.detach().flatten() for one in model.parameters()]) for model in models]
        self.flat = torch.stack(rows)
        self.weights: dict[str, Tensor] = {}
        at = 0
        for name, shape in self.names.items():
            view = self.flat[:, at : at + shape.numel()].unflatten(1, shape) if shape else self.flat[:, at]
            self.weights[name] = view.detach().requires_grad_()
            at += shape.numel()
        self.heads: int = first.options["heads"]
        is_told_slowly = self.flat.device.type != "cpu" or first.options["width"] < _WIDE
        self.at_once = is_told_slowly if at_once is None else at_once
        self.is_uniform = first.options.get("attention") == UNIFORM

    def __len__(self) -> int:
        return len(self.models)

    def pack(self, shelf: Shelf, chosen: Sequence[Int[np.ndarray, " _"]]) -> Packed:
        return pack(shelf, chosen, self.flat.dtype, heads=self.heads, reading=self.first.reading, at_once=self.at_once)

    def give_back(self) -> None:
        """Copy the weights into the models they came from."""
        with torch.no_grad():
            for seed, model in enumerate(self.models):
                for name, one in model.named_parameters():
                    one.copy_(self.weights[name][seed])

    def __call__(
        self, shelf: Shelf, packed: Packed, *, listen: frozenset[str] = frozenset(), noise: "Noise | None" = None
    ) -> Heard:
        """One pass over the packed rows. `noise` are the seeds' own draws of dropout; None is evaluation."""
        weights = self.weights
        states = [_dropped(self._placed(shelf, packed), None if noise is None else noise.placed)]
        means: list[Tensor] = []
        readings: list[Tensor] = []
        for number in range(len(self.first.layers)):
            own = {name: weights[f"layers.{number}.{name}"] for name in _LAYER}
            state, mean, reading = run_layer(
                states[-1], packed.pieces, own, heads=self.heads, scale=0.0 if self.is_uniform else None,
                listen=listen, length=packed.length, rows=len(packed.rows),
                noise=None if noise is None else noise.layers[number],
            )  # fmt: skip
            states.append(state)
            means += [] if mean is None else [mean]
            readings += [] if reading is None else [reading]
        top = self._mixed(states, packed)
        logits = self._answer(top, shelf, packed, None if noise is None else noise.pooled)
        return Heard(
            logits,
            torch.stack(means, 1) if means else None,
            torch.stack(readings, 1) if readings else None,
        )

    def _placed(self, shelf: Shelf, packed: Packed) -> Float[Tensor, "token dim"]:
        tokens, segments = shelf.tokens.flatten()[packed.index], shelf.segments.flatten()[packed.index] + 1
        words, kinds = self.weights["words.weight"], self.weights["segments.weight"]
        places = self.weights["positions.weight"][:, : packed.length]
        found = F.embedding(tokens + packed.token_seed * words.shape[1], words.flatten(0, 1))
        found = found + F.embedding(packed.place + packed.token_seed * places.shape[1], places.flatten(0, 1))
        return found + F.embedding(segments + packed.token_seed * kinds.shape[1], kinds.flatten(0, 1))

    def _mixed(self, states: list[Tensor], packed: Packed) -> Float[Tensor, "token dim"]:
        if self.first.mix is None:
            return states[-1]
        shares = self.weights["mix.coefficients"].softmax(-1) * self.weights["mix.scale"][:, None]
        return torch.einsum("ns,snd->nd", shares[packed.token_seed], torch.stack(states))

    def _answer(
        self, top: Float[Tensor, "token dim"], shelf: Shelf, packed: Packed, noise: Tensor | None
    ) -> Float[Tensor, "row *output"]:
        width, eps = top.shape[1], self.first.norm.eps
        scale, shift = self.weights["norm.weight"], self.weights["norm.bias"]
        head, bias = self.weights["head.weight"], self.weights["head.bias"]
        states = F.layer_norm(top, (width,), eps=eps)
        if self.first.task is READING:
            seeds = packed.token_seed
            found = torch.einsum("nd,nod->no", states * scale[seeds] + shift[seeds], head[seeds]) + bias[seeds]
            wide = found.new_zeros(len(packed.rows) * packed.length, 2).index_put((packed.padded,), found)
            outside = ~(shelf.units & (shelf.segments == 1))[packed.rows, : packed.length]
            return wide.unflatten(0, (-1, packed.length)).transpose(1, 2).masked_fill(outside[:, None], -torch.inf)
        if self.first.reading == "mean":
            pooled = top.new_zeros(len(packed.rows), width).index_add(
                0, packed.token_row, states * packed.share[:, None]
            )
        else:
            pooled = states[packed.starts]
        seeds = packed.row_seed
        pooled = _dropped(pooled * scale[seeds] + shift[seeds], noise)
        return torch.einsum("rd,rod->ro", pooled, head[seeds]) + bias[seeds]


_LAYER = (
    "before_attention.weight", "before_attention.bias", "before_feed.weight", "before_feed.bias",
    "query_key_value.weight", "query_key_value.bias", "out.weight", "out.bias", "up.weight", "up.bias", "down.weight",
    "down.bias",
)  # fmt: skip


@dataclass(frozen=True)
class Noise:
    """What dropout multiplies with in one pass: what each model alone would draw, from its own generator, in order.

    Of every layer: on the attention weights of each piece, on what was attended, on what was fed forward.
    """

    placed: Float[Tensor, "token dim"]
    layers: tuple[tuple[tuple[Tensor, ...], Tensor, Tensor], ...]
    pooled: Float[Tensor, "row dim"] | None

    @classmethod
    def drawn(cls, stack: Stack, packed: Packed, generators: Sequence[torch.Generator]) -> "Noise | None":
        """None if there is no dropout: then nothing is drawn."""
        chance = stack.first.dropout.p
        if not chance:
            return None
        wide = stack.names["norm.weight"][0]
        pools = stack.first.task is not READING
        keep = 1 - chance
        seeds: list[list[Tensor]] = []
        most = max(packed.counts)
        for generator, rows, length in zip(generators, packed.counts, packed.own, strict=True):
            # Nobody draws for what is there for another seed's sake.
            more, longer = (most - rows, packed.length - length) if stack.at_once else (0, 0)
            flat, square = (0, 0, 0, longer, 0, more), (0, longer, 0, longer, 0, 0, 0, more)
            draws: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((rows, length, wide), flat)]
            for _ in stack.first.layers:
                draws += [((rows, stack.heads, length, length), square), *[((rows, length, wide), flat)] * 2]
            draws += [((rows, wide), (0, 0, 0, more))] if pools else []
            seeds.append(
                [
                    F.pad(stack.flat.new_empty(shape).bernoulli_(keep, generator=generator).div_(keep), spare)
                    for shape, spare in draws
                ]
            )

        def joined(number: int) -> Tensor:
            return torch.cat([one[number].reshape(-1, wide) for one in seeds])

        def by_piece(number: int) -> tuple[Tensor, ...]:
            found = tuple(one[number].flatten(0, 1) for one in seeds)
            return (torch.cat(found),) if stack.at_once else found

        layers = tuple(
            (by_piece(at), joined(at + 1), joined(at + 2)) for at in range(1, 1 + 3 * len(stack.first.layers), 3)
        )
        return cls(joined(0), layers, joined(-1) if pools else None)


def _dropped(values: Tensor, noise: Tensor | None) -> Tensor:
    return values if noise is None else values * noise
