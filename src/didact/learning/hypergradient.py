"""The hypergradient: derivative of the outer loss after a training step with respect to the explainer's parameters φ.

φ enters the student's step only through the explanation loss: g(φ) = ∇θ [L_sim(θ) + L_expl(θ, φ)]. The optimiser steps
to θ' = θ − Δ(g). With v = ∇L_sim(θ') on other rows and u = (∂Δ/∂g)ᵀ v, the hypergradient is dL_sim/dφ = −⟨∂g/∂φ, u⟩.
Three routes compute it:

- `double`: a second backward pass through g.
- `forward`: the directional derivative of ∂L_expl/∂φ along u, by forward-mode differentiation.
- `difference`: the same, by a finite difference. It needs no second derivatives of the student and no second graph.

docs/decisions/013-smat.md compares them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import torch
import torch.autograd.forward_ad as forward_mode
from jaxtyping import Float
from torch import Tensor

from didact.errors import OptionError

Weights: TypeAlias = Mapping[str, Tensor]
Route = Literal["double", "forward", "difference"]
ROUTES: Final = get_args(Route)
_HAVE_DOUBLE: Final = ("cpu", "cuda")  # devices with double precision; for others the CPU computes it
# Length of the finite difference in the space of all weights. Shorter ones are more exact until rounding dominates. The
# remaining error is 0.1 to 2 % in single precision (measured on three kinds of students), and 1e-6 in double.
_STRIDE: Final = {torch.float64: 1e-6}
_SINGLE: Final = 2e-2
_ROUNDING: Final = 1e-6  # what torch.nn.utils.clip_grad_norm_ adds to the norm
_NEGLIGIBLE: Final = 1e-6  # gradients this much smaller than the typical one
_CHUNK: Final = 1 << 17  # weights that are processed together


@dataclass(frozen=True)
class Step:
    """The weights after one optimiser step, and the derivative of the step with respect to its gradient.

    `vjp` is the vector-Jacobian product v ↦ (∂Δ/∂g)ᵀ v, for a gradient v at the new weights. It may overwrite v.
    """

    weights: dict[str, Tensor]
    vjp: Callable[[list[Tensor]], list[Tensor]]


def preview(optimiser: torch.optim.Optimizer, weights: Weights, gradients: Sequence[Tensor], *, clip: float) -> Step:
    """The step that `optimiser` would take from these gradients, with clipping. Changes neither weights nor state.

    `weights` are the optimiser's parameters by name, in one group.
    """
    norm = torch.nn.utils.get_total_norm(list(gradients))
    scale = clip / (norm + _ROUNDING)
    is_clipped = bool(scale < 1)
    clipped = list(torch._foreach_mul(list(gradients), scale)) if is_clipped else list(gradients)
    rule_class = _Sgd if isinstance(optimiser, torch.optim.SGD) else _Adam
    update = rule_class(optimiser, list(weights.values()), clipped, norm * scale if is_clipped else norm)

    def vjp(vector: list[Tensor]) -> list[Tensor]:
        vector = update.times_derivative(vector)
        if not is_clipped:
            return vector
        # The derivative of clipping, c g with c = clip / (|g| + ε), is symmetric: c (v − g ⟨g, v⟩ / (|g| (|g| + ε))).
        dot = torch.stack([(v * g).sum() for v, g in zip(vector, gradients, strict=True)]).sum()
        projection = dot / (norm * (norm + _ROUNDING))
        return [scale * (v - g * projection) for v, g in zip(vector, gradients, strict=True)]

    return Step(dict(zip(weights, update.new_weights(), strict=True)), vjp)


class _Sgd:
    """SGD with momentum and weight decay."""

    def __init__(
        self, optimiser: torch.optim.Optimizer, weights: Sequence[Tensor], gradients: Sequence[Tensor], _: Tensor
    ) -> None:
        self.group = optimiser.param_groups[0]
        self.weights, self.gradients = [weight.detach() for weight in weights], list(gradients)
        self.momentum_buffers = [optimiser.state.get(weight, {}).get("momentum_buffer") for weight in weights]

    def new_weights(self) -> list[Tensor]:
        """The new weights."""
        change = torch._foreach_add(self.gradients, self.weights, alpha=self.group["weight_decay"])
        if self.group["momentum"] and self.momentum_buffers[0] is not None:
            torch._foreach_add_(change, self.momentum_buffers, alpha=self.group["momentum"])
        return list(torch._foreach_add(self.weights, change, alpha=-self.group["lr"]))

    def times_derivative(self, vector: list[Tensor]) -> list[Tensor]:
        """The vector times the derivative of the step with respect to the gradient.

        This is the learning rate, whatever the momentum.
        """
        return list(torch._foreach_mul(vector, self.group["lr"]))


class _Adam:
    """Adam and AdamW, in chunks of weights: they fit into the CPU's cache, and need no large temporary tensors.

    Small tensors are joined first, so that there are few chunks.
    """

    def __init__(
        self, optimiser: torch.optim.Optimizer, weights: Sequence[Tensor], gradients: Sequence[Tensor], norm: Tensor
    ) -> None:
        self.group, self.norm = optimiser.param_groups[0], norm
        self.is_decoupled = isinstance(optimiser, torch.optim.AdamW)
        self.moment_states = [optimiser.state.get(weight, {}) for weight in weights]
        self.step = float(self.moment_states[0]["step"]) + 1 if self.moment_states[0] else 1.0
        self.shapes = [weight.shape for weight in weights]
        self.gradients = list(gradients)
        small = [index for index, weight in enumerate(weights) if weight.numel() < _CHUNK]
        large_groups = [[index] for index, weight in enumerate(weights) if weight.numel() >= _CHUNK]
        self.index_groups = [small, *large_groups] if small else large_groups
        moments = [
            [state[name] for state in self.moment_states] for name in ("exp_avg", "exp_avg_sq") if self.moment_states[0]
        ]
        tensors_by_kind = [[weight.detach() for weight in weights], self.gradients, *moments]
        self.flat_groups = [
            [_flattened(tensors, indices) for tensors in tensors_by_kind] for indices in self.index_groups
        ]

    def new_weights(self) -> list[Tensor]:
        """The new weights."""
        new = [torch.empty_like(flat[1]) for flat in self.flat_groups]
        for chunk, target in self._chunks(new):
            mean, root, _, weight = self._moments(*chunk)
            target.copy_(torch.addcdiv(weight.to(mean), mean, root.add_(self.epsilon), value=-self.step_size))
        return self._unflattened(new)

    def times_derivative(self, vector: list[Tensor]) -> list[Tensor]:
        """The vector times the derivative of each weight's step with respect to its gradient.

        Adam makes full steps even from gradients at rounding level (a bias under a softmax), where its derivative is
        huge. These weights contribute next to nothing to the exact product, but would dominate a finite difference, so
        their derivative is set to 0. A weight that never had a gradient (a word that has not occurred) does not move:
        0 / 0 counts as 0.
        """
        first, second = self.group["betas"]
        floor = _NEGLIGIBLE * self._rms_gradient() * (1 - second**self.step) ** 0.5
        products = [_flattened(vector, indices).contiguous() for indices in self.index_groups]
        for chunk, factor in self._chunks(products):
            if not torch.linalg.vector_norm(factor):  # for example words that the outer rows lack
                continue
            mean, root, gradient, _ = self._moments(*chunk)
            torch.threshold_(root, floor, torch.inf)  # a derivative of 0 where the root is negligible
            denominator = root + self.epsilon
            derivative = mean.mul_(gradient).mul_((second - 1) * self.step_size).div_(root).div_(denominator)
            derivative = derivative.add_((1 - first) * self.step_size).div_(denominator)
            factor.copy_(derivative.mul_(factor.to(derivative)))
        return self._unflattened(products)

    @property
    def step_size(self) -> float:
        """The factor of mean / (root + epsilon), including the bias corrections of both moments."""
        first, second = self.group["betas"]
        return float(self.group["lr"] * (1 - second**self.step) ** 0.5 / (1 - first**self.step))

    @property
    def epsilon(self) -> float:
        """Adam's ε, rescaled for the root of the moment without bias correction."""
        return float(self.group["eps"] * (1 - self.group["betas"][1] ** self.step) ** 0.5)

    def _chunks(self, companions: Sequence[Tensor]) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """Chunks of weights with their gradients and moments, each with the same chunk of its companion."""
        for flat, companion in zip(self.flat_groups, companions, strict=True):
            yield from zip(
                zip(*(tensor.split(_CHUNK) for tensor in flat), strict=True), companion.split(_CHUNK), strict=True
            )

    def _unflattened(self, flat: Sequence[Tensor]) -> list[Tensor]:
        """Flat tensors in the shapes of the weights."""
        tensors: list[Tensor] = [torch.empty(0)] * len(self.shapes)
        for indices, joined in zip(self.index_groups, flat, strict=True):
            sizes = [self.shapes[index].numel() for index in indices]
            for index, values in zip(indices, joined.split(sizes), strict=True):
                tensors[index] = values.view(self.shapes[index])
        return tensors

    def _moments(self, weight: Tensor, gradient: Tensor, *moments: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Mean and root mean square after the step, without bias correction; gradient and weight after weight decay."""
        decay, (first, second) = self.group["weight_decay"], self.group["betas"]
        if decay and self.is_decoupled:
            weight = weight * (1 - self.group["lr"] * decay)
        elif decay:
            gradient = gradient.add(weight, alpha=decay)
        if not moments:  # the first step is the sign of the gradient: its derivative cancels to rounding
            gradient = gradient.double() if gradient.device.type in _HAVE_DOUBLE else gradient.cpu().double()
            mean, square = (1 - first) * gradient, (1 - second) * gradient * gradient
        else:
            mean = torch.lerp(moments[0], gradient, 1 - first)
            square = moments[1].mul(second).addcmul_(gradient, gradient, value=1 - second)
        return mean, square.sqrt_(), gradient, weight

    def _rms_gradient(self) -> float:
        """The root mean square of all gradients, from Adam's second moments."""
        second = self.group["betas"][1]
        total = (1 - second) * self.norm.cpu().double() ** 2
        if self.moment_states[0]:
            sums = torch._foreach_norm([state["exp_avg_sq"] for state in self.moment_states], 1)
            total = total + second * torch.stack(list(sums)).cpu().double().sum()
        count = sum(gradient.numel() for gradient in self.gradients)
        return float(total / (1 - second**self.step) / count) ** 0.5


@dataclass(frozen=True)
class Hypergradient:
    """Gradients of the explainer, losses on outer and inner rows, and gradients of the student's own step."""

    explainer_gradients: list[Tensor]
    outer_loss: Tensor
    inner_loss: Tensor
    student_gradients: list[Tensor]


def hypergradient(
    weights: Weights,
    learned: Sequence[Tensor],
    *,
    inner_losses: Callable[[Weights, bool], tuple[Tensor, Tensor]],
    outer_loss: Callable[[Weights], Tensor],
    step: Callable[[Sequence[Tensor]], Step],
    route: Route,
) -> Hypergradient:
    """The hypergradient dL_sim/dφ after one step.

    - `weights`: the student's weights by name.
    - `learned`: the tensors φ.
    - `inner_losses(weights, detach_student)`: simulation loss and explanation loss of the student, computed again in
      each call. With `detach_student` the graph leads only to `learned`.
    - `outer_loss(weights)`: simulation loss on the outer rows.
    - `step(gradients)`: the step of the inner optimiser, as from `preview`.

    The losses must use the same dropout in each call.
    """
    parameters = list(weights.values())
    loss = torch.stack(inner_losses(weights, False)).sum()
    if route == "double":
        graph = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
        gradients = [gradient.detach() for gradient in graph]
    else:
        all_gradients = torch.autograd.grad(loss, [*parameters, *learned], materialize_grads=True)
        gradients, gradients_here = list(all_gradients[: len(parameters)]), all_gradients[len(parameters) :]
    next_step = step(gradients)
    new_weights = {name: weight.detach().requires_grad_() for name, weight in next_step.weights.items()}
    next_step.weights.clear()
    outer_value = outer_loss(new_weights)
    direction = next_step.vjp(
        list(torch.autograd.grad(outer_value, list(new_weights.values()), materialize_grads=True))
    )
    del new_weights
    if route == "double":
        products = torch.autograd.grad(graph, learned, grad_outputs=direction, materialize_grads=True)
    elif route == "forward":
        derivative = _directional_derivative(weights, direction, lambda dual: inner_losses(dual, True)[1])
        products = torch.autograd.grad(derivative, learned, materialize_grads=True)
    else:
        length = float(torch.nn.utils.get_total_norm(direction))
        stride = 1.0 if length == 0 else _STRIDE.get(direction[0].dtype, _SINGLE) / length
        moved = torch._foreach_add([weight.detach() for weight in parameters], direction, alpha=stride)
        explanation_loss = inner_losses(dict(zip(weights, moved, strict=True)), True)[1]
        gradients_there = torch.autograd.grad(explanation_loss, learned, materialize_grads=True)
        products = tuple((there - here) / stride for there, here in zip(gradients_there, gradients_here, strict=True))
    return Hypergradient([-product for product in products], outer_value.detach(), loss.detach(), gradients)


def _directional_derivative(
    weights: Weights, direction: Sequence[Tensor], loss: Callable[[Weights], Tensor]
) -> Float[Tensor, ""]:
    """The derivative of a loss along a direction of the weights, in forward mode, with a graph to its other inputs."""
    with forward_mode.dual_level():
        dual_weights = {
            name: forward_mode.make_dual(weight.detach(), change)
            for (name, weight), change in zip(weights.items(), direction, strict=True)
        }
        derivative = forward_mode.unpack_dual(loss(dual_weights)).tangent
        return torch.zeros((), device=direction[0].device) if derivative is None else derivative


def _flattened(tensors: Sequence[Tensor], indices: Sequence[int]) -> Tensor:
    """The tensors with these indices as one flat tensor. A single one is not copied."""
    flat = [tensors[index].reshape(-1) for index in indices]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


def check_route_name(route: str) -> None:
    """Raise an `OptionError` for an unknown route."""
    if route not in (*ROUTES, "auto"):
        raise OptionError(f"Option 'route' must be 'auto' or one of {', '.join(map(repr, ROUTES))}, got {route!r}.")
