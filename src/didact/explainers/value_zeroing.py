"""Value zeroing: how far each hidden state moves, layer by layer, when the value vector of a token is zero."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from didact.core.batching import longest_first
from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.model import Model, eval_mode, require_model
from didact.core.normalise import share_over
from didact.errors import OptionError
from didact.explainers.attention_rollout import rollout, start_distribution


class ValueZeroing(Explainer):
    """Cosine distance of every hidden state to the one with a token's value vector at zero (Mohebbi et al. 2023).

    The distances of a layer, with rows normalised to 1, are multiplied by rollout. No identity is added, since the
    distances include the token itself. A row runs as one copy per zeroed token. All copies enter each layer with the
    hidden states of the original, so that one pass serves every layer. `batch_size` bounds copies and originals.
    """

    def __init__(self, *, batch_size: int = 64) -> None:
        super().__init__()
        if batch_size < 2:
            raise OptionError(
                f"value_zeroing needs a batch_size of at least 2 (an original and a copy), got {batch_size}."
            )
        self.batch_size = batch_size

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "value_zeroing")
        start = start_distribution(model, batch, target)
        distances_by_row: dict[int, list[Tensor]] = {}
        with eval_mode(model), torch.no_grad():
            for chunk in _chunks(batch, self.batch_size):
                for row, distances in _distances(model, batch, chunk):
                    distances_by_row.setdefault(row, []).append(distances)
        mass = torch.zeros_like(start)
        for row, chunks in distances_by_row.items():
            matrices = _normalise_rows(torch.cat(chunks, -1))
            length = matrices.shape[-1]
            mass_of_row = rollout(start[row : row + 1, :length].to(matrices.dtype), matrices[None])
            mass[row, :length] = mass_of_row[0].to(mass.dtype)
        return Explanation(share_over(mass, batch.units), batch.mask, batch.units, "distribution")


# The index of a row, and the positions of it that are zeroed, one per copy.
_RowPiece = tuple[int, range]


def _chunks(batch: Batch, batch_size: int) -> Iterator[list[_RowPiece]]:
    """Lists of row pieces, longest rows first, with at most `batch_size` copies and originals."""
    chunk: list[_RowPiece] = []
    room = batch_size
    for row in longest_first(batch.lengths).tolist():
        begin, length = 0, int(batch.lengths[row])
        while begin < length:
            if room < 2:
                yield chunk
                chunk, room = [], batch_size
            end = min(length, begin + room - 1)
            chunk.append((row, range(begin, end)))
            room -= end - begin + 1
            begin = end
    if chunk:
        yield chunk


def _distances(
    model: Model, batch: Batch, chunk: list[_RowPiece]
) -> Iterator[tuple[int, Float[Tensor, "layer token copy"]]]:
    """For each piece, the distance of every position in every layer, for each copy."""
    rows: list[int] = []
    origins: list[int] = []
    zeroed: list[int] = []  # -1: the original, which comes before its copies
    for row, positions in chunk:
        origins += [len(rows)] * (len(positions) + 1)
        rows += [row] * (len(positions) + 1)
        zeroed += [-1, *positions]
    copies_batch = batch.select(rows)
    token_index = torch.arange(copies_batch.mask.shape[1], device=batch.device)
    zero_values_at = token_index == torch.tensor(zeroed, device=batch.device)[:, None]
    origin = torch.tensor(origins, device=batch.device)
    with _compare_to_originals(model, origin) as layers:
        model.run(model.embed(copies_batch), copies_batch, zero_values_at=zero_values_at)
    distances = torch.stack(layers)
    original = 0
    for row, positions in chunk:
        copies = slice(original + 1, original + 1 + len(positions))
        yield row, distances[:, copies, : int(batch.lengths[row])].transpose(1, 2)
        original += 1 + len(positions)


@contextmanager
def _compare_to_originals(model: Model, origin: Int[Tensor, " copy"]) -> Iterator[list[Float[Tensor, "copy token"]]]:
    """Context that records the distance of every layer's output to its original, and replaces it by the original's."""
    layers: list[Tensor] = []

    def compare(_: nn.Module, __: Any, output: Any) -> Any:
        hidden = output[0] if isinstance(output, tuple) else output
        # Half precision is too coarse for these distances.
        directions = nn.functional.normalize(hidden.to(torch.promote_types(hidden.dtype, torch.float32)), dim=-1)
        # Half the squared distance of unit vectors is 1 − cosine, without cancellation of small effects.
        layer_origin = origin.to(hidden.device)  # layers may be distributed over devices
        layers.append(((directions - directions[layer_origin]).square().sum(-1) / 2).to(origin.device))
        return (hidden[layer_origin], *output[1:]) if isinstance(output, tuple) else hidden[layer_origin]

    with ExitStack() as hooks:
        for layer in model.layers_in_order:
            hooks.enter_context(layer.register_forward_hook(compare))
        yield layers


def _normalise_rows(distances: Float[Tensor, "layer token token"]) -> Float[Tensor, "layer token token"]:
    """Rows normalised to 1. A position that no token moves, beyond rounding, gets the row of the identity."""
    total = distances.sum(-1, keepdim=True)
    unmoved = total <= (16 * torch.finfo(distances.dtype).eps) ** 2
    identity = torch.eye(distances.shape[-1], dtype=distances.dtype, device=distances.device)
    return torch.where(unmoved, identity, distances / total.masked_fill(unmoved, 1.0))
