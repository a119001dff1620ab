"""Layer-wise relevance propagation with rules for attention, in the form gradient × input."""

from typing import Final, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.model import Model, TokenScores, require_model
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
from didact.explainers.rules import Call, MaxWithIndices, Rules, fused_activations

_CONSTANTS_TOLERANCE: Final = 1e-3  # a residual above this may come from constants that were counted for another row


class Relevance(NamedTuple):
    """What the units were given of the target, what others were (biases, positions, special tokens), and the target."""

    scores: TokenScores
    absorbed: Float[Tensor, " batch"]
    output: Float[Tensor, " batch"]


class Lrp(Explainer):
    """Relevance of each unit by AttnLRP (Achtibat et al. 2024), with ε → 0.

    Scores and the share of everything that is constant sum to the target. That share is counted operation by
    operation on the way down, so `residual` tells whether a rule loses anything.
    """

    remedy = "The model computes something that has no rule yet: choose integrated_gradients or deeplift."

    def __init__(self, *, at: str = "word") -> None:
        super().__init__()
        self.at = check_at(at)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        relevance = self.relevance(require_model(teacher, "lrp"), batch, target)
        return Explanation(relevance.scores, batch.mask, batch.units, "signed", _completeness_error(relevance, target))

    def relevance(self, model: Model, batch: Batch, target: Target) -> Relevance:
        """Relevance of the batch. Rows whose constants were counted wrongly pass once more, each alone.

        That happens in models that do not keep their rows first: sequence first, or tokens regrouped by expert.
        """
        relevance, rows_are_known = self._relevance(model, batch, target)
        if len(batch) == 1:
            return relevance
        inexact = _completeness_error(relevance, target) > _CONSTANTS_TOLERANCE
        for row in range(len(batch)):
            if inexact[row] or not rows_are_known:
                alone = torch.tensor([row], device=batch.device)
                row_relevance, _ = self._relevance(model, batch.select(alone), target.select(alone))
                relevance.absorbed[row] = row_relevance.absorbed[0]
        return relevance

    def _relevance(self, model: Model, batch: Batch, target: Target) -> tuple[Relevance, bool]:
        """Also whether the rows of all constants are known."""
        with frozen(model):
            inputs = model.embed(batch, at=self.at).detach().requires_grad_()
            with model.decomposed(), fused_activations(model), AttnLRPRules(len(batch)) as rules:
                output = target.of(model.run(inputs, batch, at=self.at).logits)
            if not output.requires_grad:  # every way from the input ended in a constant
                return Relevance(inputs.new_zeros(batch.mask.shape), output, output), True
            (gradient,) = torch.autograd.grad(output.sum(), inputs)
        products = (inputs * gradient).sum(-1).detach()
        absorbed = rules.absorbed_by_row(gradient) + (products * ~batch.units).sum(-1)
        return Relevance(products * batch.units, absorbed, output.detach()), rules.rows_are_known


def _completeness_error(relevance: Relevance, target: Target) -> Float[Tensor, " batch"]:
    """The residual: what of the output neither the units nor the constants were given."""
    scores, absorbed, output = relevance
    return relative_residual(output - scores.sum(-1) - absorbed, output, scores, output_scale(output, target))


class AttnLRPRules(Rules):
    """What an operation says of its output, shared among its inputs; what nobody is given is added up row by row.

    - A function that is 0 at 0 gives all to its argument: f(x)/x.
    - Other functions, and softmax, are straight lines at x (Taylor); the line's height at 0 is nobody's.
    - Factors share alike. A sigmoid that multiplies is a gate: the other factor has it all (Arras et al. 2017).
    - Divisors, square roots and their like are norms, and constants.
    - Biases, positions and whatever else is added are nobody's.

    Which row a constant belongs to is read from the first dimension, where most models keep their rows. Only the count
    of what nobody is given depends on it, never a score. For a row alone it is always right.
    """

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.rows_are_known = True  # false once a constant's rows are not known
        self._absorbed: list[Tensor] = []
        self._gates: dict[int, Tensor] = {}

    def absorbed_by_row(self, like: Tensor) -> Tensor:
        """What nobody was given, of each row."""
        return torch.stack([like.new_zeros(self.rows), *(constant.to(like.device) for constant in self._absorbed)]).sum(
            0
        )

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
        intercept = result - gradient * x.masked_fill(gradient == 0, 0.0)  # 0 · ∞ where something is masked
        output = self._count_constant(with_gradient_of(result, values, gradient), intercept)
        if name == "sigmoid":  # held, so that no other tensor gets its id
            self._gates[id(output)] = output
        return output

    def product(self, call: Call) -> Tensor:
        args = call.args
        gates = [tensor for tensor in tensors_in(args) if id(tensor) in self._gates]
        count = sum(map(depends_on_input, tensors_in(args))) - len(gates)
        if gates and count:
            args = map_dependent(args, lambda tensor: tensor.detach() if id(tensor) in self._gates else tensor)
        else:
            count += len(gates)
        result: Tensor = call.func(*args, **call.options)
        if count > 1:
            result.register_hook(lambda gradient: gradient / count)
        return result

    def division(self, numerator: Tensor | float, denominator: Tensor) -> Tensor:
        return numerator / denominator.detach()

    def softmax(self, values: Tensor, dim: int) -> Tensor:
        result = values.softmax(dim)
        x, weights = values.detach(), result.detach()
        x = x.masked_fill(weights == 0, 0.0)  # masked
        return self._count_constant(result, weights * (1 - x + (weights * x).sum(dim, keepdim=True)))

    def logsumexp(self, values: Tensor, dims: tuple[int, ...]) -> Tensor:
        result = values.logsumexp(dims, keepdim=True)
        x = values.detach()
        weights = (x - result.detach()).exp()
        x = x.masked_fill(weights == 0, 0.0)  # masked
        return self._count_constant(result, result.detach() - (weights * x).sum(dims, keepdim=True))

    def maximum(self, name: str, values: Tensor, max_with_indices: MaxWithIndices) -> Tensor:  # noqa: ARG002
        return values.gather(-1, max_with_indices(values.detach())[1])

    def linear(self, values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        result = super().linear(values, weight, bias)
        return result if bias is None else self._count_constant(result, bias)

    def sum(self, call: Call) -> Tensor:
        result: Tensor = call.result()
        inputs = list(tensors_in((*call.args, *call.options.values())))
        if sum(map(depends_on_input, inputs)) == (len(inputs) if call.name in ("cat", "concat", "stack") else 2):
            return result
        with torch.no_grad():  # what comes out where the input is nothing
            options = dict(zip(call.options, map_dependent(call.options.values(), torch.zeros_like), strict=True))
            constant = call.func(*map_dependent(call.args, torch.zeros_like), **options)
        return self._count_constant(result, constant)

    def _count_constant(self, result: Tensor, constant: Tensor) -> Tensor:
        """The result, of which `constant` came from nobody. Heads or positions may be folded in behind the rows."""
        if self.rows > 1 and (result.dim() == 0 or result.shape[0] % self.rows):
            self.rows_are_known = False
            return result

        def add_absorbed(gradient: Tensor) -> None:
            # A masked number is infinite, and counts nothing.
            absorbed = (gradient * constant).masked_fill(gradient == 0, 0.0)
            self._absorbed.append(absorbed.reshape(self.rows, -1).sum(-1))

        result.register_hook(add_absorbed)
        return result
