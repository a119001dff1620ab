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
# How far a central difference goes, as a length in the space of all weights. Its error falls with the square until
# rounding takes over: in single precision 1e-4 to 1e-3 of the result is left, tried on students of three kinds.
_STRIDE: Final = {torch.float64: 1e-4}
_SINGLE: Final = 2e-2
_ROUNDING: Final = 1e-6  # what torch.nn.utils.clip_grad_norm_ adds to the norm
_NEGLIGIBLE: Final = 1e-6  # gradients this much smaller than the typical one
_PIECE: Final = 1 << 15  # weights at a time


@dataclass(frozen=True)
class Step:
    """Where one step of an optimiser leads, and how that depends on the gradient it was given.

    `pull` takes a gradient at the new weights back to the step's gradient: v ↦ (∂Δ/∂g)ᵀ v.
    """

    weights: dict[str, Tensor]
    pull: Callable[[Sequence[Tensor]], list[Tensor]]


def preview(optimiser: torch.optim.Optimizer, weights: Weights, gradients: Sequence[Tensor], *, clip: float) -> Step:
    """The step that `optimiser` would take, which it does not. `weights` are its parameters, by name."""
    norm = torch.nn.utils.get_total_norm(list(gradients))
    scale = clip / (norm + _ROUNDING)
    is_clipped = bool(scale < 1)
    clipped = torch._foreach_mul(list(gradients), scale) if is_clipped else list(gradients)
    own = list(weights.values())
    rule = _sgd if isinstance(optimiser, torch.optim.SGD) else _adam
    new, slopes = rule(optimiser, own, clipped)

    def pull(vector: Sequence[Tensor]) -> list[Tensor]:
        found = list(torch._foreach_mul(list(vector), slopes))
        if not is_clipped:
            return found
        # d(c g) with c = clip / (|g| + tiny) is symmetric: c (v − g ⟨g, v⟩ / (|g| (|g| + tiny))).
        along = sum((one * g).sum() for one, g in zip(found, gradients, strict=True))
        share = along / (norm * (norm + _ROUNDING))
        return [scale * (one - g * share) for one, g in zip(found, gradients, strict=True)]

    return Step(dict(zip(weights, new, strict=True)), pull)


def _sgd(
    optimiser: torch.optim.Optimizer, weights: Sequence[Tensor], gradients: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor] | float]:
    """The new weights, and the step's slope by its gradient: the rate, whatever the momentum."""
    group = optimiser.param_groups[0]
    own = [one.detach() for one in weights]
    change = torch._foreach_add(list(gradients), own, alpha=group["weight_decay"])
    before = [optimiser.state.get(one, {}).get("momentum_buffer") for one in weights]
    if group["momentum"] and before[0] is not None:
        torch._foreach_add_(change, before, alpha=group["momentum"])
    return list(torch._foreach_add(own, change, alpha=-group["lr"])), group["lr"]


def _adam(
    optimiser: torch.optim.Optimizer, weights: Sequence[Tensor], gradients: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """The new weights, and each weight's slope by its gradient. A piece at a time: what fits into a cache is quick."""
    group = optimiser.param_groups[0]
    states = [optimiser.state.get(one, {}) for one in weights]
    step = float(states[0]["step"]) + 1 if states[0] else 1.0
    squares = torch._foreach_norm([one["exp_avg_sq"] for one in states], 1) if states[0] else [torch.zeros(())]
    second = group["betas"][1]
    total = second * torch.stack(list(squares)).sum() + (1 - second) * sum((one * one).sum() for one in gradients)
    # Adam makes full steps even of gradients that are rounding (a bias under a softmax): its slope there is huge. What
    # such weights add is as small as their gradients, but a difference along them would see nothing else.
    typical = (total / (1 - second**step) / sum(one.numel() for one in weights)).sqrt()
    least = _NEGLIGIBLE * float(typical)
    new = [torch.empty_like(one) for one in gradients]
    slopes = [torch.empty_like(one) for one in gradients]
    for weight, gradient, state, later, slope in zip(weights, gradients, states, new, slopes, strict=True):
        flat = (weight.detach(), gradient, *(state[name] for name in ("exp_avg", "exp_avg_sq") if state), later, slope)
        pieces = zip(*(one.reshape(-1).split(_PIECE) for one in flat[:-2]), strict=True)
        outs = zip(later.view(-1).split(_PIECE), slope.view(-1).split(_PIECE), strict=True)
        for piece, (to, by) in zip(pieces, outs, strict=True):
            _adam_piece(piece, group, step, least, to, by)
    return new, slopes


def _adam_piece(
    piece: Sequence[Tensor], group: Mapping[str, Any], step: float, least: float, to: Tensor, by: Tensor
) -> None:
    """Adam on some weights: `to` becomes the new ones, `by` how they depend on the gradient."""
    weight, gradient, *moments = piece
    rate, decay, tiny = group["lr"], group["weight_decay"], group["eps"]
    first, second = group["betas"]
    if decay and group.get("decoupled_weight_decay", False):
        weight = weight * (1 - rate * decay)
    elif decay:
        gradient = gradient.add(weight, alpha=decay)
    if step == 1:  # the slope all but cancels: a first step is a sign, whatever the gradient
        gradient = gradient.double()
    if moments:
        mean = torch.lerp(moments[0], gradient, 1 - first)
        square = moments[1].mul(second).addcmul_(gradient, gradient, value=1 - second)
    else:
        mean, square = (1 - first) * gradient, (1 - second) * gradient * gradient
    mean.div_(1 - first**step)
    root = square.div_(1 - second**step).sqrt_()
    below = root + tiny
    to.copy_(torch.addcdiv(weight.to(mean.dtype), mean, below, value=-rate))
    through = mean.mul_(gradient).div_(root).div_(below).mul_((1 - second) / (1 - second**step))
    found = through.neg_().add_((1 - first) / (1 - first**step)).mul_(rate).div_(below)
    # A weight that never had a gradient (a word not yet seen) stays where it is: 0 / 0 is 0 here.
    by.copy_(found.masked_fill_(root <= least, 0.0))


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
    length = float(_length(along))
    stride = 1.0 if length == 0 else _STRIDE.get(along[0].dtype, _SINGLE) / length

    def shifted(by: float) -> Tensor:
        return loss(
            {name: (one + by * change).detach() for (name, one), change in zip(weights.items(), along, strict=True)}
        )

    return (shifted(stride) - shifted(-stride)) / (2 * stride)


def _length(parts: Sequence[Tensor]) -> Float[Tensor, ""]:
    """The Euclidean length of all parts together."""
    return torch.stack([one.double().pow(2).sum() for one in parts]).sum().sqrt()


def check_route(route: str) -> None:
    if route not in (*ROUTES, "auto"):
        raise OptionError(f"Option 'route' is 'auto' or one of {', '.join(map(repr, ROUTES))}, not {route!r}.")
