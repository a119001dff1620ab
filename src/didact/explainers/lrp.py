"""Layer-wise relevance propagation with rules for attention, in the form gradient × input."""

from typing import Final, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.model import Model, TokenScores, require_model
from didact.explainers.autograd import check_at, frozen
from didact.explainers.completeness import residual, size_of
from didact.explainers.derivatives import Numbers, changed, depends, derivative, given, tensors
from didact.explainers.rules import Call, Choice, Rules, activations_whole

_COUNTED: Final = 1e-3  # a residual above this may come from constants that were counted for another row


class Relevance(NamedTuple):
    """What the units were given of the target, what others were (biases, positions, special tokens), and the target."""

    scores: TokenScores
    share: Float[Tensor, " batch"]
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
        found = self.relevance(require_model(teacher, "lrp"), batch, target)
        return Explanation(found.scores, batch.mask, batch.units, "signed", _missing(found, target))

    def relevance(self, model: Model, batch: Batch, target: Target) -> Relevance:
        """Relevance of the batch. Rows whose constants were counted wrongly pass once more, each alone.

        That happens in models that do not keep their rows first: sequence first, or tokens regrouped by expert.
        """
        found, is_sure = self._relevance(model, batch, target)
        if len(batch) == 1:
            return found
        missing = _missing(found, target) > _COUNTED
        for row in range(len(batch)):
            if missing[row] or not is_sure:
                alone = torch.tensor([row], device=batch.device)
                part, _ = self._relevance(model, batch.select(alone), target.select(alone))
                found.share[row] = part.share[0]
        return found

    def _relevance(self, model: Model, batch: Batch, target: Target) -> tuple[Relevance, bool]:
        """Also whether the rows of all constants are known."""
        with frozen(model):
            inputs = model.embed(batch, at=self.at).detach().requires_grad_()
            with model.decomposed(), activations_whole(model), Shares(len(batch)) as shares:
                output = target.of(model.run(inputs, batch, at=self.at).logits)
            if not output.requires_grad:  # every way from the input ended in a constant
                return Relevance(inputs.new_zeros(batch.mask.shape), output, output), True
            (found,) = torch.autograd.grad(output.sum(), inputs)
        relevance = (inputs * found).sum(-1).detach()
        share = shares.total(found) + (relevance * ~batch.units).sum(-1)
        return Relevance(relevance * batch.units, share, output.detach()), shares.is_sure


def _missing(found: Relevance, target: Target) -> Float[Tensor, " batch"]:
    """The residual: what of the output neither the units nor the constants were given."""
    scores, share, output = found
    return residual(output - scores.sum(-1) - share, output, scores, size_of(output, target))


class Shares(Rules):
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
        self.is_sure = True  # false once a constant's rows are not known
        self._nobodys: list[Tensor] = []
        self._gates: dict[int, Tensor] = {}

    def total(self, like: Tensor) -> Tensor:
        """What nobody was given, of each row."""
        return torch.stack([like.new_zeros(self.rows), *(one.to(like.device) for one in self._nobodys)]).sum(0)

    def numbers(self, name: str, function: Numbers, values: Tensor) -> Tensor:
        inside = values.detach()
        result = function(inside)
        if name in ("sqrt", "rsqrt", "reciprocal"):
            return result
        if function(inside.new_zeros(1)).item() == 0:
            zero = inside == 0
            factor = result / inside.masked_fill(zero, 1.0)
            if zero.any():
                factor[zero] = derivative(function, inside[zero])
            return given(result, values, factor)
        slope = derivative(function, inside)
        height = result - slope * inside.masked_fill(slope == 0, 0.0)  # 0 · ∞ where something is masked
        found = self._keeping(given(result, values, slope), height)
        if name == "sigmoid":  # held, so that no other tensor gets its id
            self._gates[id(found)] = found
        return found

    def product(self, call: Call) -> Tensor:
        args = call.args
        gates = [one for one in tensors(args) if id(one) in self._gates]
        factors = sum(map(depends, tensors(args))) - len(gates)
        if gates and factors:
            args = changed(args, lambda one: one.detach() if id(one) in self._gates else one)
        else:
            factors += len(gates)
        found: Tensor = call.func(*args, **call.options)
        if factors > 1:
            found.register_hook(lambda gradient: gradient / factors)
        return found

    def division(self, above: Tensor | float, below: Tensor) -> Tensor:
        return above / below.detach()

    def softmax(self, values: Tensor, dim: int) -> Tensor:
        result = values.softmax(dim)
        inside, weights = values.detach(), result.detach()
        inside = inside.masked_fill(weights == 0, 0.0)  # masked
        return self._keeping(result, weights * (1 - inside + (weights * inside).sum(dim, keepdim=True)))

    def logsumexp(self, values: Tensor, dims: tuple[int, ...]) -> Tensor:
        result = values.logsumexp(dims, keepdim=True)
        inside = values.detach()
        weights = (inside - result.detach()).exp()
        inside = inside.masked_fill(weights == 0, 0.0)  # masked
        return self._keeping(result, result.detach() - (weights * inside).sum(dims, keepdim=True))

    def largest(self, name: str, values: Tensor, choose: Choice) -> Tensor:  # noqa: ARG002
        return values.gather(-1, choose(values.detach())[1])

    def linear(self, values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        found = super().linear(values, weight, bias)
        return found if bias is None else self._keeping(found, bias)

    def sum(self, call: Call) -> Tensor:
        found: Tensor = call.result()
        parts = list(tensors((*call.args, *call.options.values())))
        if sum(map(depends, parts)) == (len(parts) if call.name in ("cat", "concat", "stack") else 2):
            return found
        with torch.no_grad():  # what comes out where the input is nothing
            named = dict(zip(call.options, changed(call.options.values(), torch.zeros_like), strict=True))
            constant = call.func(*changed(call.args, torch.zeros_like), **named)
        return self._keeping(found, constant)

    def _keeping(self, result: Tensor, constant: Tensor) -> Tensor:
        """The result, of which `constant` came from nobody. Heads or positions may be folded in behind the rows."""
        if self.rows > 1 and (result.dim() == 0 or result.shape[0] % self.rows):
            self.is_sure = False
            return result

        def keep(gradient: Tensor) -> None:
            # A masked number is infinite, and counts nothing.
            part = (gradient * constant).masked_fill(gradient == 0, 0.0)
            self._nobodys.append(part.reshape(self.rows, -1).sum(-1))

        result.register_hook(keep)
        return result
