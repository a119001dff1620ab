"""`Target`: the number of the output that is explained."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from didact.core.tasks.base import Activation, Task
from didact.errors import ShapeError

Scale = Literal["logit", "probability", "log_probability"]


@dataclass(frozen=True)
class Target:
    """One number of the output per row: a class, a class minus another, the score, or start plus end of a span.

    `first` is the class or the start token, `second` the other class or the end token. `activation` turns logits into
    probabilities: softmax over all classes, or a sigmoid per class.
    """

    kind: Literal["label", "contrast", "value", "span"]
    first: Int[Tensor, " batch"] | None = None
    second: Int[Tensor, " batch"] | None = None
    scale: Scale = "logit"
    activation: Activation = "softmax"

    @classmethod
    def label(
        cls, labels: Int[Tensor, " batch"], *, scale: Scale = "logit", activation: Activation = "softmax"
    ) -> "Target":
        return cls("label", labels, scale=scale, activation=activation)

    @classmethod
    def contrast(
        cls,
        labels: Int[Tensor, " batch"],
        others: Int[Tensor, " batch"],
        *,
        scale: Scale = "logit",
        activation: Activation = "softmax",
    ) -> "Target":
        return cls("contrast", labels, others, scale, activation)

    @classmethod
    def value(cls) -> "Target":
        return cls("value")

    @classmethod
    def span(cls, starts: Int[Tensor, " batch"], ends: Int[Tensor, " batch"], *, scale: Scale = "logit") -> "Target":
        return cls("span", starts, ends, scale=scale)

    @classmethod
    def predicted(cls, task: Task, logits: Float[Tensor, "batch *output"], *, scale: Scale = "logit") -> "Target":
        """The default target: the logit of the predicted class, the score, or start plus end of the predicted span."""
        return task.predicted_target(logits, scale=scale)

    def select(self, indices: Int[Tensor, " chosen"]) -> "Target":
        first = None if self.first is None else self.first[indices]
        second = None if self.second is None else self.second[indices]
        return replace(self, first=first, second=second)

    def to(self, device: torch.device) -> "Target":
        first, second = (None if index is None else index.to(device) for index in (self.first, self.second))
        return replace(self, first=first, second=second)

    def of(self, logits: Float[Tensor, "batch *output"]) -> Float[Tensor, " batch"]:
        """The value of the target for each row, a function of the logits."""
        if self.kind == "value":
            return logits[:, 0]
        if self.scale == "probability":
            logits = activated(logits, self.activation)
        elif self.scale == "log_probability":
            logits = logits.log_softmax(-1) if self.activation == "softmax" else logsigmoid(logits)
        if self.first is None or (self.kind != "label" and self.second is None):
            raise ShapeError(
                f"A target of kind {self.kind!r} needs {'a class' if self.kind == 'label' else 'two numbers'} per row."
            )
        rows = torch.arange(len(logits), device=logits.device)
        if self.kind == "span":
            return logits[rows, 0, self.first] + logits[rows, 1, self.second]
        values = logits[rows, self.first]
        return values if self.second is None else values - logits[rows, self.second]


def activated(logits: Float[Tensor, "batch *output"], activation: Activation) -> Float[Tensor, "batch *output"]:
    """The logits as probabilities."""
    return logits.softmax(-1) if activation == "softmax" else logits.sigmoid()


def best_span(
    logits: Float[Tensor, "batch 2 token"], *, longest: int = 30
) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
    """First and last token of the span with the largest sum of logits, of at most `longest` tokens."""
    length = logits.shape[-1]
    sums = logits[:, 0, :, None] + logits[:, 1, None, :]
    allowed = torch.ones(length, length, dtype=torch.bool, device=logits.device).triu().tril(longest - 1)
    index = sums.masked_fill(~allowed, -torch.inf).flatten(1).argmax(-1)
    return index // length, index % length
