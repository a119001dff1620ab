"""What one forward pass leaves for explainers and students to read."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from jaxtyping import Float
from torch import Tensor

# What a model is asked to keep beside its logits. A full matrix of 512 x 512 exists only when it is asked for.
TraceField: TypeAlias = Literal["mean", "reading", "full", "weights", "hidden"]


@dataclass(frozen=True)
class Trace:
    """Logits, and what was listened for.

    `logits` are one per class, one score, or for reading a start and an end logit per token (minus infinity where no
    answer can lie). Layers are numbered in the order they are called.

    - `mean`: attention logits before softmax, each key's averaged over the queries that may see it.
    - `reading`: log-probabilities with which the position that the model answers from attends to each token.
    - `full`: attention logits of every query and key, minus infinity where the model does not look.
    - `weights`: one tensor per layer, the very attention weights the model goes on with: a gradient can be taken there.
    - `hidden`: the input of the first layer and the output of each layer, again the very tensors.
    """

    logits: Float[Tensor, "batch *output"]
    mean: Float[Tensor, "batch layer head token"] | None = None
    reading: Float[Tensor, "batch layer head token"] | None = None
    full: Float[Tensor, "batch layer head token token"] | None = None
    weights: tuple[Float[Tensor, "batch head query token"], ...] | None = None
    hidden: tuple[Float[Tensor, "batch token dim"], ...] | None = None
