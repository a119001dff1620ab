"""Gradients of a target with respect to embeddings: of one batch, or at many points per row in bounded memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from didact.core.batching import length_buckets
from didact.core.model import Batch, InputLevel, Model, TokenVectors, eval_mode
from didact.core.target import Target
from didact.errors import OptionError


def check_at(at: str) -> InputLevel:
    """The level of the embeddings. Raises `OptionError` for other values."""
    if at not in ("word", "embedding"):
        raise OptionError(f"Option 'at' must be 'word' or 'embedding', got {at!r}.")
    return at  # type: ignore[return-value]


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, with gradients disabled for all parameters; both are restored afterwards."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with eval_mode(model), torch.enable_grad():
        for parameter in trainable:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in trainable:
                parameter.requires_grad_(True)


def input_gradient(
    model: Model, embeddings: TokenVectors, batch: Batch, target: Target, *, at: InputLevel
) -> TokenVectors:
    """The gradient of each row's target with respect to its embeddings. Call inside `frozen`."""
    point = embeddings.detach().requires_grad_()
    return torch.autograd.grad(target.of(model.run(point, batch, at=at).logits).sum(), point)[0]


def point_batches(rows: Int[Tensor, " point"], batch: Batch, batch_size: int) -> Iterator[Int[Tensor, " chunk"]]:
    """Indices of the points that run in one batch: at most `batch_size`, of similar length."""
    for bucket in length_buckets(batch.lengths[rows], batch_size):
        yield torch.from_numpy(bucket).to(rows.device)


EmbeddingsAt = Callable[[Int[Tensor, " chunk"], int], Float[Tensor, "chunk token dim"]]


def target_values(
    model: Model,
    rows: Int[Tensor, " point"],
    embeddings_at: EmbeddingsAt,
    batch: Batch,
    target: Target,
    *,
    at: InputLevel,
    batch_size: int,
) -> Float[Tensor, " point"]:
    """The target at many points. `embeddings_at(chosen, length)` returns the embeddings of the chosen points."""
    values: Tensor | None = None
    with torch.no_grad():
        for chosen in point_batches(rows, batch, batch_size):
            chunk = batch.select(rows[chosen])
            embeddings = embeddings_at(chosen, chunk.tokens.shape[1])
            value = target.select(rows[chosen]).of(model.run(embeddings, chunk, at=at).logits)
            values = value.new_zeros(len(rows)) if values is None else values
            values[chosen] = value
    assert values is not None
    return values
