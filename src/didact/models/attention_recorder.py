"""The recorder of one forward pass: reduces each layer's attention to the requested fields of a `Trace`."""

from collections.abc import Collection, Sequence
from typing import Any, Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from didact.core.model import Batch, PoolingPosition, TokenMask, TokenScores, TraceField
from didact.errors import UnsupportedError

ATTENTION_FIELDS: Final = frozenset({"mean", "reading", "full", "weights"})


class AttentionRecorder:
    """Collects the attention of one forward pass, in the order in which the layers are called.

    - `listen`: the fields of `Trace` to keep (`mean`, `reading`, `full`, `weights`); the others cost nothing.
    - `batch`: its mask says which positions are real tokens.
    - `pooling`: the position that the head reads, or a weight per position; needed for `reading`.
    - `zero_values_at`: positions whose value vectors are set to zero.
    """

    def __init__(
        self,
        listen: Collection[TraceField],
        batch: Batch,
        pooling: "PoolingPosition | Float[Tensor, 'batch token']",
        zero_values_at: TokenMask | None = None,
    ) -> None:
        self.listen = frozenset(listen)
        self.mask = batch.mask
        self.pooling = pooling
        self.zero_values_at = zero_values_at
        self._recorded: dict[str, list[Tensor]] = {"mean": [], "reading": [], "full": []}
        self._weights: list[Tensor] = []
        self.layer_count = 0
        self.unsupported_shape: tuple[int, ...] | None = None  # shape of logits that are not one per pair of tokens

    @property
    def records_attention(self) -> bool:
        """True if any field of attention is requested."""
        return bool(self.listen & ATTENTION_FIELDS)

    def record_logits(
        self,
        logits: Float[Tensor, "batch head token token"],
        allowed: Bool[Tensor, "#batch #head token token"] | None,
    ) -> None:
        """Record one layer's scaled logits before the mask, and the pairs of positions that the mask allows."""
        self.layer_count += 1
        if logits.shape[-2:] != (self.mask.shape[1],) * 2 or len(logits) != len(self.mask):
            self.unsupported_shape = tuple(logits.shape)
        if self.unsupported_shape or not self._recorded.keys() & self.listen:
            return
        device = self.mask.device
        logits = logits.to(device)  # a layer of a dispatched model may be on another device
        allowed = None if allowed is None else allowed.to(device)
        real = self.mask[:, None, :, None] & self.mask[:, None, None, :]
        visible = real if allowed is None else real & allowed
        if "mean" in self.listen:
            # The mean of a key is over the queries that can attend to it; without any (padding) it is 0.
            weights = visible.to(logits.dtype)
            self._recorded["mean"].append((logits * weights).sum(2) / weights.sum(2).clamp_min(1))
        if "full" in self.listen:
            self._recorded["full"].append(logits.masked_fill(~visible, -torch.inf))
        if "reading" in self.listen:
            self._recorded["reading"].append(self._pooling_attention(logits, visible))

    def record_weights(self, weights: Float[Tensor, "batch head token token"]) -> None:
        """Record one layer's attention probabilities, the very tensor that is multiplied by the values."""
        if "weights" in self.listen:
            self._weights.append(weights)

    def zero_values(self, values: Float[Tensor, "batch head token part"]) -> Float[Tensor, "batch head token part"]:
        """The value vectors, with zeros at the positions `zero_values_at`."""
        return (
            values if self.zero_values_at is None else values * ~self.zero_values_at.to(values.device)[:, None, :, None]
        )

    def trace_fields(self) -> dict[str, Any]:
        """The recorded fields as arguments of `Trace`: logits stacked over layers, probabilities as a tuple."""
        fields: dict[str, object] = {
            name: torch.stack(layers, 1) if layers else None for name, layers in self._recorded.items()
        }
        return fields | {"weights": tuple(self._weights) or None}

    def _pooling_attention(
        self, logits: Float[Tensor, "batch head token token"], visible: Bool[Tensor, "batch #head token token"]
    ) -> Float[Tensor, "batch head token"]:
        """The log-probabilities with which the pooling position attends to each key."""
        if isinstance(self.pooling, Tensor) or self.pooling == "mean":
            # A padding query can attend to no key, and its softmax would be NaN: it keeps its raw row, at weight 0.
            padding = ~self.mask[:, None, :, None]
            probabilities = logits.masked_fill(~visible & ~padding, -torch.inf).softmax(-1)
            averaged = torch.einsum("bq,bhqk->bhk", self._pooling_weights(logits.dtype), probabilities)
            # The logarithm of 0 would make gradients NaN: it is computed only where the average is positive.
            has_mass = self.mask[:, None] & (averaged > 0)
            return averaged.masked_fill(~has_mass, 1.0).log().masked_fill(~has_mass, -torch.inf)
        rows = torch.arange(len(logits), device=logits.device)
        positions = torch.zeros_like(rows) if self.pooling == "first" else self.mask.sum(-1) - 1
        visible_keys = visible.expand_as(logits)[rows, :, positions]
        return logits[rows, :, positions].masked_fill(~visible_keys, -torch.inf).log_softmax(-1)

    def _pooling_weights(self, dtype: torch.dtype) -> TokenScores:
        if isinstance(self.pooling, Tensor):
            return self.pooling.to(self.mask.device, dtype)
        return self.mask.to(dtype) / self.mask.sum(-1, keepdim=True)


def record_probabilities(recorder: AttentionRecorder, attentions: Sequence[Tensor], name: str) -> None:
    """Record the attention probabilities that a model returns (`output_attentions=True`), as their logarithms.

    They equal the logits up to a constant per query. In the mean over queries these constants cancel after a softmax
    over keys, if every query attends to every key. In causal models each key has its own set of queries, so `mean` is
    refused with an `UnsupportedError`.
    """
    for weights in attentions:
        probabilities = weights.to(torch.promote_types(weights.dtype, torch.float32))
        visible = (probabilities > 0).any(1, keepdim=True)
        mask = recorder.mask.to(weights.device)
        invisible = mask[:, None, :, None] & mask[:, None, None, :] & ~visible
        if "mean" in recorder.listen and bool(invisible.any()):
            raise UnsupportedError(
                f"Model {name!r} returns attention only after the softmax, and not every token attends to every other "
                "(a causal model): mean logits cannot be computed from that. Choose a method that reads attention "
                "probabilities (attention_cls, attention_rollout), gradients or predictions."
            )
        recorder.record_logits(probabilities.clamp_min(torch.finfo(torch.float32).tiny).log(), visible)
        recorder.record_weights(weights)
