"""`Trace`: logits, attention and hidden states of one forward pass."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from jaxtyping import Float
from torch import Tensor

# The fields of `Trace` that a model records on request. Full attention matrices (512 × 512) exist only then.
TraceField: TypeAlias = Literal["mean", "reading", "full", "weights", "hidden"]


@dataclass(frozen=True)
class Trace:
    """The logits of a batch, and the fields that `listen` requested.

    `logits` are one per class, one score, or for reading a start and an end logit per token (minus infinity outside the
    passage). Layers are in the order in which they are called.

    - `mean`: attention logits (before the softmax) of each key, averaged over the queries that may attend to it.
    - `reading`: log attention probabilities from the pooling position to each token.
    - `full`: attention logits of every query and key, minus infinity where attention is masked.
    - `weights`: the attention probabilities of each layer. The model computes with these tensors, so gradients flow.
    - `hidden`: the input of the first layer and the output of each layer, also the tensors of the model itself.
    """

    logits: Float[Tensor, "batch *output"]
    mean: Float[Tensor, "batch layer head token"] | None = None
    reading: Float[Tensor, "batch layer head token"] | None = None
    full: Float[Tensor, "batch layer head token token"] | None = None
    weights: tuple[Float[Tensor, "batch head query token"], ...] | None = None
    hidden: tuple[Float[Tensor, "batch token dim"], ...] | None = None
