"""How an explanation should change so that a student, one step later, answers better. Two exact ways to find out.

The explainer's parameters φ enter a student's step only through what is sent: g(φ) = ∇θ [L_sim(θ) + L_expl(θ, φ)]. With
θ' = θ − Δ(g) and v = ∇L_sim(θ') on other rows, dL_sim/dφ = −⟨∂g/∂φ, u⟩ with u = (∂Δ/∂g)ᵀ v. `double` takes the gradient
of g by a second backward pass. `forward` and `difference` take the slope of L_expl along u instead, by one
forward-mode pass or two plain ones, and go back through the explainer alone: no second graph, and no second
derivatives of the student (docs/decisions/013-smat.md).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import torch
import torch.autograd.forward_ad as forward_mode
from jaxtyping import Float
from torch import Tensor

from didact.errors import OptionError

Weights: TypeAlias = Mapping[str, Tensor]
Route = Literal["double", "forward", "difference"]
ROUTES: Final = get_args(Route)
# How far a central difference goes, as a length in the space of all weights. Errors fall with its square until
# rounding takes over: in single precision about 1e-4 of the result is left.
_STRIDE: Final = {torch.float64: 1e-4}
_SINGLE: Final = 3e-3
_ROUNDING: Final = 1e-6  # what torch.nn.utils.clip_grad_norm_ adds to the norm


@dataclass(frozen=True)
class Step:
    """Where one step of an optimiser leads, and how that depends on the gradient it was given.

    `pull` takes a gradient at the new weights back to the step's gradient: v ↦ (∂Δ/∂g)ᵀ v.
    """

    weights: dict[str, Tensor]
    pull: Callable[[Sequence[Tensor]], list[Tensor]]


def preview(optimiser: torch.optim.Optimizer, weights: Weights, gradients: Sequence[Tensor], *, clip: float) -> Step:
    """The step that `optimiser` would take, which it does not. `weights` are its parameters, by name."""
    norm = torch.sqrt(sum(((one.double()) ** 2).sum() for one in gradients))  # type: ignore[arg-type]
    scale = clip / (norm + _ROUNDING)
    is_clipped = bool(scale < 1)
    groups = {id(one): group for group in optimiser.param_groups for one in group["params"]}
    rule = _sgd if isinstance(optimiser, torch.optim.SGD) else _adam
    new, slopes = {}, []
    for (name, weight), gradient in zip(weights.items(), gradients, strict=True):
        clipped = gradient * scale.to(gradient) if is_clipped else gradient
        new[name], slope = rule(weight.detach(), clipped, groups[id(weight)], optimiser.state.get(weight, {}))
        slopes.append(slope)

    def pull(vector: Sequence[Tensor]) -> list[Tensor]:
        found = [slope * one for slope, one in zip(slopes, vector, strict=True)]
        if not is_clipped:
            return found
        # d(c g) with c = clip / (|g| + tiny) is symmetric: c (v − g ⟨g, v⟩ / (|g| (|g| + tiny))).
        along = sum((one.double() * g.double()).sum() for one, g in zip(found, gradients, strict=True))
        share = along / (norm * (norm + _ROUNDING))
        return [(scale * (one - g * share)).to(one) for one, g in zip(found, gradients, strict=True)]

    return Step(new, pull)


def _sgd(
    weight: Tensor, gradient: Tensor, group: Mapping[str, Any], state: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor]:
    change = gradient + group["weight_decay"] * weight
    before = state.get("momentum_buffer")
    if group["momentum"] and before is not None:
        change = change + group["momentum"] * before
    return weight - group["lr"] * change, torch.full_like(gradient, group["lr"])


def _adam(
    weight: Tensor, gradient: Tensor, group: Mapping[str, Any], state: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor]:
    rate, decay, tiny = group["lr"], group["weight_decay"], group["eps"]
    first, second = group["betas"]
    if group.get("decoupled_weight_decay", False):
        weight = weight * (1 - rate * decay)
    else:
        gradient = gradient + decay * weight
    step = float(state["step"]) + 1 if "step" in state else 1.0
    mean = (1 - first) * gradient + (first * state["exp_avg"] if "exp_avg" in state else 0)
    square = (1 - second) * gradient**2 + (second * state["exp_avg_sq"] if "exp_avg_sq" in state else 0)
    mean = mean / (1 - first**step)
    root = (square / (1 - second**step)).sqrt()
    below = root + tiny
    # A weight that never had a gradient (a word not yet seen) stays where it is: 0 / 0 is 0 here.
    own = (1 - first) / (1 - first**step) / below
    through = mean * (1 - second) / (1 - second**step) * gradient / (torch.where(root > 0, root, 1.0) * below**2)
    slope = rate * torch.where(root > 0, own - through, 0.0)
    return weight - rate * mean / below, slope


@dataclass(frozen=True)
class Hypergradient:
    """The gradient for what is learned, the loss on the outer rows, and the student's own gradient."""

    of: list[Tensor]
    outer_loss: Tensor
    inner_loss: Tensor
    inner: list[Tensor]


def hypergradient(
    weights: Weights,
    learned: Sequence[Tensor],
    *,
    taught: Callable[[Weights, bool], tuple[Tensor, Tensor]],
    outer: Callable[[Weights], Tensor],
    step: Callable[[Sequence[Tensor]], Step],
    route: Route,
) -> Hypergradient:
    """dL_sim/dφ after one step.

    `taught(weights, blind)` gives the student's simulation loss and its explanation loss, the latter a function of
    `learned` too; when blind, the graph goes to `learned` alone. `outer` is the simulation loss on the outer rows,
    `step` what the inner optimiser makes of a gradient. All must draw the same dropout each time.
    """
    own = list(weights.values())
    loss = torch.stack(taught(weights, False)).sum()
    if route == "double":
        graph = torch.autograd.grad(loss, own, create_graph=True, materialize_grads=True)
        gradients = [one.detach() for one in graph]
    else:
        gradients = list(torch.autograd.grad(loss, own, materialize_grads=True))
    taken = step(gradients)
    there = {name: one.detach().requires_grad_() for name, one in taken.weights.items()}
    after = outer(there)
    along = taken.pull(torch.autograd.grad(after, list(there.values()), materialize_grads=True))
    if route == "double":
        found = torch.autograd.grad(graph, learned, grad_outputs=along, allow_unused=True)
    else:
        slope = _slope_along(weights, along, lambda here: taught(here, True)[1], route)
        found = torch.autograd.grad(slope, learned, allow_unused=True)
    minus = [torch.zeros_like(one) if part is None else -part for one, part in zip(learned, found, strict=True)]
    return Hypergradient(minus, after.detach(), loss.detach(), gradients)


def _slope_along(
    weights: Weights, along: Sequence[Tensor], loss: Callable[[Weights], Tensor], route: Route
) -> Float[Tensor, ""]:
    """The slope of a loss along a direction, with a graph to whatever else the loss depends on."""
    if route == "forward":
        with forward_mode.dual_level():
            here = {
                name: forward_mode.make_dual(one.detach(), change)
                for (name, one), change in zip(weights.items(), along, strict=True)
            }
            slope = forward_mode.unpack_dual(loss(here)).tangent
            return torch.zeros((), device=along[0].device) if slope is None else slope
    length = torch.sqrt(sum(((one.double()) ** 2).sum() for one in along))  # type: ignore[arg-type]
    stride = 1.0 if length == 0 else _STRIDE.get(along[0].dtype, _SINGLE) / float(length)

    def shifted(by: float) -> Tensor:
        return loss(
            {name: (one + by * change).detach() for (name, one), change in zip(weights.items(), along, strict=True)}
        )

    return (shifted(stride) - shifted(-stride)) / (2 * stride)


def check_route(route: str) -> None:
    if route not in (*ROUTES, "auto"):
        raise OptionError(f"Option 'route' is 'auto' or one of {', '.join(map(repr, ROUTES))}, not {route!r}.")
