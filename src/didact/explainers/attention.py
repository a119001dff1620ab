"""Attention as explanation: from the pooling position, averaged over layers, or times its gradient."""

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.model import Model, TokenScores, eval_mode, require_model
from didact.core.normalise import softmax_over
from didact.errors import OptionError, UnsupportedError
from didact.explainers.autograd import frozen


class Attention(Explainer):
    """The attention weights with which a model pools its tokens (Bahdanau et al. 2015).

    Only for models whose single attention is that of the pooling. Self-attention has one distribution per token; the
    methods named in the error each choose which to read.
    """

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:  # noqa: ARG002
        model = require_model(teacher, "attention")
        with eval_mode(model), torch.no_grad():
            attention = _pooling_attention(model, batch)
            if attention.shape[1:3] != (1, 1) or _has_self_attention(model, batch):
                raise UnsupportedError(
                    f"Method 'attention' reads the attention that a model pools with, and model {model.name!r} has "
                    "self-attention. Choose attention_cls (from where the model answers), attention_last, "
                    "attention_all, attention_rollout or attention_flow."
                )
        return _distribution(softmax_over(attention[:, 0, 0], batch.units), batch)


class AttentionCls(Explainer):
    """Attention of the last layer from the pooling position, averaged over heads (Pruthi et al. 2022)."""

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:  # noqa: ARG002
        model = require_model(teacher, "attention_cls")
        with eval_mode(model), torch.no_grad():
            heads = _pooling_attention(model, batch)[:, -1]
        # Sum the heads in log space: renormalising is a softmax, and small weights do not underflow.
        return _distribution(softmax_over(heads.logsumexp(1), batch.units), batch)


class AttentionAll(Explainer):
    """Attention logits of every layer and head, averaged over queries, then softmax (Fernandes et al. 2022)."""

    method, layers = "attention_all", slice(None)

    def __init__(self, *, temperature: float = 1.0) -> None:
        super().__init__()
        self.temperature = check_temperature(temperature)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:  # noqa: ARG002
        logits = mean_attention_logits(require_model(teacher, self.method), batch)[:, self.layers].mean((1, 2))
        return _distribution(softmax_over(logits / self.temperature, batch.units), batch)


class AttentionLast(AttentionAll):
    """`AttentionAll` of the last layer alone (Fernandes et al. 2022)."""

    method, layers = "attention_last", slice(-1, None)


class AttentionGradient(Explainer):
    """Attention probability times its gradient, summed over heads and queries (Serrano and Smith 2019).

    `layers` is "last", or "all" for the mean over layers.
    """

    def __init__(self, *, layers: str = "last") -> None:
        super().__init__()
        if layers not in ("last", "all"):
            raise OptionError(f"Option 'layers' of attention_gradient must be 'last' or 'all', got {layers!r}.")
        self.layers = layers

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "attention_gradient")
        with frozen(model):
            # Parameters are frozen, so autograd builds a graph only if the embeddings require a gradient.
            point = model.embed(batch).detach().requires_grad_()
            trace = model.run(point, batch, listen=["weights"])
            assert trace.weights is not None
            weights = trace.weights[-1:] if self.layers == "last" else trace.weights
            gradients = torch.autograd.grad(target.of(trace.logits).sum(), weights)
        terms = [(weight.detach() * gradient).sum((1, 2)) for weight, gradient in zip(weights, gradients, strict=True)]
        scores = torch.stack([term.to(batch.device) for term in terms]).mean(0)
        return Explanation(scores * batch.units, batch.mask, batch.units, "signed")


def _distribution(scores: TokenScores, batch: Batch) -> Explanation:
    return Explanation(scores, batch.mask, batch.units, "distribution")


def _pooling_attention(model: Model, batch: Batch) -> Float[Tensor, "batch layer head token"]:
    reading = model(batch, listen=["reading"]).reading
    assert reading is not None
    return reading


def mean_attention_logits(model: Model, batch: Batch) -> Float[Tensor, "batch layer head token"]:
    """Attention logits of every head, averaged for each key over the queries that may attend to it."""
    with eval_mode(model), torch.no_grad():
        mean = model(batch, listen=["mean"]).mean
    assert mean is not None
    return mean


def _has_self_attention(model: Model, batch: Batch) -> bool:
    """Whether the model has attention between tokens: only then can it record all attention logits."""
    try:
        model(batch.select([0]), listen=["full"])
    except UnsupportedError:
        return False
    return True


def check_temperature(temperature: float) -> float:
    """The temperature. Raises `OptionError` unless it is above 0."""
    if not temperature > 0:
        raise OptionError(f"temperature must be above 0, got {temperature}.")
    return temperature
