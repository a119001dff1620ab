"""Layer-wise relevance propagation with the AttnLRP rules, computed as gradient × input.

The model runs inside `AttnLRPRules`, which replaces the derivative of each operation by its propagation rule. One
ordinary backward pass then gives modified gradients at the embeddings, and gradient × input is the relevance.
"""

from typing import Final, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.model import Model, TokenScores, require_model
from didact.explainers.activations import fused_activations
from didact.explainers.autograd import check_at, frozen
from didact.explainers.completeness import output_scale, relative_residual
from didact.explainers.derivatives import (
    Elementwise,
    depends_on_input,
    derivative,
    map_dependent,
    tensors_in,
    with_gradient_of,
)
from didact.explainers.rules import Call, MaxWithIndices, Rules

_CONSTANTS_TOLERANCE: Final = 1e-3  # a larger error may come from constants that were assigned to the wrong row


class Relevance(NamedTuple):
    """Relevance of the units, relevance absorbed by everything else, and the target, to which the two sum per row.

    `absorbed` holds the relevance of biases, position embeddings and special tokens.
    """

    scores: TokenScores
    absorbed: Float[Tensor, " batch"]
    output: Float[Tensor, " batch"]


class Lrp(Explainer):
    """Relevance of each unit by AttnLRP (Achtibat et al. 2024), with the stabiliser ε of LRP-ε at its limit 0.

    Scores and the relevance absorbed by constants sum to the target. The absorbed part is counted at every operation
    of the backward pass, so `Explanation.residual` shows relevance that a rule loses. Cost: one forward and one
    backward pass.
    """

    remedy = "The model uses an operation without an LRP rule: choose integrated_gradients or deeplift."

    def __init__(self, *, at: str = "word") -> None:
        super().__init__()
        self.at = check_at(at)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        relevance = self.relevance(require_model(teacher, "lrp"), batch, target)
        return Explanation(relevance.scores, batch.mask, batch.units, "signed", _completeness_error(relevance, target))

    def relevance(self, model: Model, batch: Batch, target: Target) -> Relevance:
        """The relevance of the batch. Rows whose constants were assigned to the wrong row run again, alone.

        Constants are assigned wrongly in models whose first dimension is not the batch: sequence first, or tokens
        regrouped by expert. Only `absorbed` is replaced; the scores are right in any layout.
        """
        relevance, all_constants_assigned = self._relevance_in_one_pass(model, batch, target)
        if len(batch) == 1:
            return relevance
        inexact = _completeness_error(relevance, target) > _CONSTANTS_TOLERANCE
        for row in range(len(batch)):
            if inexact[row] or not all_constants_assigned:
                alone = torch.tensor([row], device=batch.device)
                row_relevance, _ = self._relevance_in_one_pass(model, batch.select(alone), target.select(alone))
                relevance.absorbed[row] = row_relevance.absorbed[0]
        return relevance

    def _relevance_in_one_pass(self, model: Model, batch: Batch, target: Target) -> tuple[Relevance, bool]:
        """One pass. The second value is false if some constants could not be assigned to rows."""
        with frozen(model):
            inputs = model.embed(batch, at=self.at).detach().requires_grad_()
            # First split composite layers, then rejoin activations that transformers writes out in several operations.
            with model.decomposed(), fused_activations(model), AttnLRPRules(len(batch)) as rules:
                output = target.of(model.run(inputs, batch, at=self.at).logits)
            if not output.requires_grad:  # no path from the input to the target
                return Relevance(inputs.new_zeros(batch.mask.shape), output, output), True
            (gradient,) = torch.autograd.grad(output.sum(), inputs)
        products = (inputs * gradient).sum(-1).detach()
        absorbed = rules.absorbed_by_row(gradient) + (products * ~batch.units).sum(-1)
        return Relevance(products * batch.units, absorbed, output.detach()), rules.all_constants_assigned


def _completeness_error(relevance: Relevance, target: Target) -> Float[Tensor, " batch"]:
    """The share of the target that neither units nor constants received."""
    scores, absorbed, output = relevance
    return relative_residual(output - scores.sum(-1) - absorbed, output, scores, output_scale(output, target))


class AttnLRPRules(Rules):
    """AttnLRP backward rules. Relevance absorbed by biases and constants is accumulated per row.

    A rule gives each operation a gradient such that gradient × input is the relevance of its input:

    - Elementwise f with f(0) = 0 (ReLU, GELU, SiLU, tanh): the input receives all relevance; the gradient is f(x)/x.
    - Other elementwise functions, softmax (AttnLRP, proposition 3.1) and logsumexp: first-order Taylor expansion at x.
      The intercept is absorbed.
    - Products: each of n dependent factors receives 1/n (proposition 3.3). A factor that is a sigmoid is a gate and
      receives nothing; the other factors receive all (Arras et al. 2017). If all factors are gates, they share like
      other factors.
    - Denominators, square roots and reciprocals are constants: no relevance flows through the norm of a LayerNorm.
    - Biases, position embeddings and other added constants absorb their share.

    A constant is assigned to rows by its first dimension, which is the batch in most models. Only `absorbed_by_row`
    depends on this, never a score. For a single row it is always exact.
    """

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.all_constants_assigned = True  # false once a constant could not be assigned to rows
        self._absorbed: list[Tensor] = []
        self._gates: dict[int, Tensor] = {}

    def absorbed_by_row(self, like: Tensor) -> Tensor:
        """The relevance that constants absorbed, per row. `like` gives dtype and device."""
        constants = [constant.to(like.device) for constant in self._absorbed]
        return torch.stack([like.new_zeros(self.batch_size), *constants]).sum(0)

    def elementwise(self, name: str, function: Elementwise, values: Tensor) -> Tensor:
        x = values.detach()
        result = function(x)
        if name in ("sqrt", "rsqrt", "reciprocal"):
            return result
        if function(x.new_zeros(1)).item() == 0:
            zero = x == 0
            factor = result / x.masked_fill(zero, 1.0)
            if zero.any():
                factor[zero] = derivative(function, x[zero])
            return with_gradient_of(result, values, factor)
        gradient = derivative(function, x)
        intercept = result - gradient * x.masked_fill(gradient == 0, 0.0)  # avoids 0 · ∞ at masked elements
        output = self._absorb_constant(with_gradient_of(result, values, gradient), intercept)
        if name == "sigmoid":
            self._gates[id(output)] = output  # the reference in the dict keeps the id from being reused
        return output

    def product(self, call: Call) -> Tensor:
        args = call.args
        gates = [tensor for tensor in tensors_in(args) if id(tensor) in self._gates]
        factors = sum(map(depends_on_input, tensors_in(args))) - len(gates)
        if gates and factors:  # gates are constants
            args = map_dependent(args, lambda tensor: tensor.detach() if id(tensor) in self._gates else tensor)
        else:  # a product of gates alone is an ordinary product
            factors += len(gates)
        result: Tensor = call.func(*args, **call.options)
        if factors > 1:
            result.register_hook(lambda gradient: gradient / factors)
        return result

    def division(self, numerator: Tensor | float, denominator: Tensor) -> Tensor:
        return numerator / denominator.detach()

    def softmax(self, values: Tensor, dim: int) -> Tensor:
        result = values.softmax(dim)
        x, weights = values.detach(), result.detach()
        x = x.masked_fill(weights == 0, 0.0)  # −∞ · 0 would be NaN
        # The derivative stays; only the intercept of the Taylor expansion is absorbed.
        return self._absorb_constant(result, weights * (1 - x + (weights * x).sum(dim, keepdim=True)))

    def logsumexp(self, values: Tensor, dims: tuple[int, ...]) -> Tensor:
        result = values.logsumexp(dims, keepdim=True)
        x = values.detach()
        weights = (x - result.detach()).exp()
        x = x.masked_fill(weights == 0, 0.0)  # −∞ · 0 would be NaN
        # The derivative stays; only the intercept of the Taylor expansion is absorbed.
        return self._absorb_constant(result, result.detach() - (weights * x).sum(dims, keepdim=True))

    def maximum(self, name: str, values: Tensor, max_with_indices: MaxWithIndices) -> Tensor:  # noqa: ARG002
        return values.gather(-1, max_with_indices(values.detach())[1])

    def linear(self, values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        result = super().linear(values, weight, bias)
        return result if bias is None else self._absorb_constant(result, bias)

    def sum(self, call: Call) -> Tensor:
        result: Tensor = call.result()
        inputs = list(tensors_in((*call.args, *call.options.values())))
        addends = len(inputs) if call.name in ("cat", "concat", "stack") else 2
        if sum(map(depends_on_input, inputs)) == addends:  # no constant among them
            return result
        with torch.no_grad():  # the output for inputs of zeros
            options = dict(zip(call.options, map_dependent(call.options.values(), torch.zeros_like), strict=True))
            constant = call.func(*map_dependent(call.args, torch.zeros_like), **options)
        return self._absorb_constant(result, constant)

    def _absorb_constant(self, result: Tensor, constant: Tensor) -> Tensor:
        """Record the relevance of `constant`, an additive part of `result`, as absorbed. Returns `result`.

        The first dimension must be the rows, or the rows with heads or positions folded in after them.
        """
        if self.batch_size > 1 and (result.dim() == 0 or result.shape[0] % self.batch_size):
            self.all_constants_assigned = False
            return result

        def add_absorbed(gradient: Tensor) -> None:
            # A masked element is infinite with gradient 0: its product is NaN and must count 0.
            absorbed = (gradient * constant).masked_fill(gradient == 0, 0.0)
            self._absorbed.append(absorbed.reshape(self.batch_size, -1).sum(-1))

        result.register_hook(add_absorbed)
        return result
