"""How an explanation should change so that a student, one step later, answers better. Two exact ways to find out.

The explainer's parameters φ enter a student's step only through what is sent: g(φ) = ∇θ [L_sim(θ) + L_expl(θ, φ)]. With
θ' = θ − Δ(g) and v = ∇L_sim(θ') on other rows, dL_sim/dφ = −⟨∂g/∂φ, u⟩ with u = (∂Δ/∂g)ᵀ v. `double` takes the gradient
of g by a second backward pass. `forward` and `difference` take the slope of ∂L_expl/∂φ along u instead, by a
forward-mode pass, or by a plain one a little further along: no second graph, and no second derivatives of the student
(docs/decisions/013-smat.md).
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
# How far a difference goes, as a length in the space of all weights. Its error falls with it until rounding takes over:
# in single precision 0.1 to 2 % of the result is left, tried on students of three kinds; in double, 1e-6.
_HAVE_DOUBLE: Final = ("cpu", "cuda")  # devices; for others double precision is the CPU's to compute
_STRIDE: Final = {torch.float64: 1e-6}
_SINGLE: Final = 2e-2
_ROUNDING: Final = 1e-6  # what torch.nn.utils.clip_grad_norm_ adds to the norm
_NEGLIGIBLE: Final = 1e-6  # gradients this much smaller than the typical one
_PIECE: Final = 1 << 17  # weights at a time


@dataclass(frozen=True)
class Step:
    """Where one step of an optimiser leads, and how that depends on the gradient it was given.

    `pull` takes a gradient at the new weights back to the step's gradient, v ↦ (∂Δ/∂g)ᵀ v, and may overwrite it.
    """

    weights: dict[str, Tensor]
    pull: Callable[[list[Tensor]], list[Tensor]]


def preview(optimiser: torch.optim.Optimizer, weights: Weights, gradients: Sequence[Tensor], *, clip: float) -> Step:
    """The step that `optimiser` would take, which it does not. `weights` are its parameters, by name, of one group."""
    norm = torch.nn.utils.get_total_norm(list(gradients))
    scale = clip / (norm + _ROUNDING)
    is_clipped = bool(scale < 1)
    clipped = list(torch._foreach_mul(list(gradients), scale)) if is_clipped else list(gradients)
    kind = _Sgd if isinstance(optimiser, torch.optim.SGD) else _Adam
    rule = kind(optimiser, list(weights.values()), clipped, norm * scale if is_clipped else norm)

    def pull(vector: list[Tensor]) -> list[Tensor]:
        vector = rule.scale(vector)
        if not is_clipped:
            return vector
        # d(c g) with c = clip / (|g| + tiny) is symmetric: c (v − g ⟨g, v⟩ / (|g| (|g| + tiny))).
        along = torch.stack([(one * g).sum() for one, g in zip(vector, gradients, strict=True)]).sum()
        share = along / (norm * (norm + _ROUNDING))
        return [scale * (one - g * share) for one, g in zip(vector, gradients, strict=True)]

    return Step(dict(zip(weights, rule.taken(), strict=True)), pull)


class _Sgd:
    """SGD with momentum and weight decay."""

    def __init__(
        self, optimiser: torch.optim.Optimizer, weights: Sequence[Tensor], gradients: Sequence[Tensor], _: Tensor
    ) -> None:
        self.group = optimiser.param_groups[0]
        self.weights, self.gradients = [one.detach() for one in weights], list(gradients)
        self.before = [optimiser.state.get(one, {}).get("momentum_buffer") for one in weights]

    def taken(self) -> list[Tensor]:
        """The new weights."""
        change = torch._foreach_add(self.gradients, self.weights, alpha=self.group["weight_decay"])
        if self.group["momentum"] and self.before[0] is not None:
            torch._foreach_add_(change, self.before, alpha=self.group["momentum"])
        return list(torch._foreach_add(self.weights, change, alpha=-self.group["lr"]))

    def scale(self, vector: list[Tensor]) -> list[Tensor]:
        """Times the step's slope: the rate, whatever the momentum."""
        return list(torch._foreach_mul(vector, self.group["lr"]))


class _Adam:
    """Adam and AdamW. A piece at a time: what fits into a cache is quick, and nothing large is kept. Small tensors are
    joined first, so that there are not many pieces."""

    def __init__(
        self, optimiser: torch.optim.Optimizer, weights: Sequence[Tensor], gradients: Sequence[Tensor], norm: Tensor
    ) -> None:
        self.group, self.norm = optimiser.param_groups[0], norm
        self.is_decoupled = isinstance(optimiser, torch.optim.AdamW)
        self.states = [optimiser.state.get(one, {}) for one in weights]
        self.step = float(self.states[0]["step"]) + 1 if self.states[0] else 1.0
        self.shapes = [one.shape for one in weights]
        self.gradients = list(gradients)
        small = [place for place, one in enumerate(weights) if one.numel() < _PIECE]
        large = [[place] for place, one in enumerate(weights) if one.numel() >= _PIECE]
        self.sets = [small, *large] if small else large
        moments = [[one[name] for one in self.states] for name in ("exp_avg", "exp_avg_sq") if self.states[0]]
        whole = [[one.detach() for one in weights], self.gradients, *moments]
        self.flat = [[_joined(kind, places) for kind in whole] for places in self.sets]

    def taken(self) -> list[Tensor]:
        """The new weights."""
        found = [torch.empty_like(flat[1]) for flat in self.flat]
        for piece, to in self._pieces(found):
            mean, root, _, weight = self._moments(*piece)
            to.copy_(torch.addcdiv(weight.to(mean), mean, root.add_(self.least), value=-self.rate))
        return self._parted(found)

    def scale(self, vector: list[Tensor]) -> list[Tensor]:
        """Times each weight's slope by its gradient.

        Adam makes full steps even of gradients that are rounding (a bias under a softmax): its slope there is huge.
        What such weights add is as small as their gradients, but a difference along them would see nothing else. A
        weight that never had a gradient (a word not yet seen) stays where it is: 0 / 0 is 0 here.
        """
        first, second = self.group["betas"]
        least = _NEGLIGIBLE * self._typical() * (1 - second**self.step) ** 0.5
        found = [_joined(vector, places).contiguous() for places in self.sets]
        for piece, by in self._pieces(found):
            if not torch.linalg.vector_norm(by):  # words that the outer rows do not have
                continue
            mean, root, gradient, _ = self._moments(*piece)
            torch.threshold_(root, least, torch.inf)  # no slope where the root is negligible
            below = root + self.least
            slope = mean.mul_(gradient).mul_((second - 1) * self.rate).div_(root).div_(below)
            slope = slope.add_((1 - first) * self.rate).div_(below)
            by.copy_(slope.mul_(by.to(slope)))
        return self._parted(found)

    @property
    def rate(self) -> float:
        """What mean / (root + least) is multiplied by: the corrections of both moments are in it."""
        first, second = self.group["betas"]
        return float(self.group["lr"] * (1 - second**self.step) ** 0.5 / (1 - first**self.step))

    @property
    def least(self) -> float:
        """What Adam adds to the root of the corrected moment, for the uncorrected one."""
        return float(self.group["eps"] * (1 - self.group["betas"][1] ** self.step) ** 0.5)

    def _pieces(self, beside: Sequence[Tensor]) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """Some weights with their gradients and moments, and what stands beside them."""
        for flat, other in zip(self.flat, beside, strict=True):
            yield from zip(zip(*(one.split(_PIECE) for one in flat), strict=True), other.split(_PIECE), strict=True)

    def _parted(self, flat: Sequence[Tensor]) -> list[Tensor]:
        """In the shapes of the weights again."""
        found: list[Tensor] = [torch.empty(0)] * len(self.shapes)
        for places, joined in zip(self.sets, flat, strict=True):
            sizes = [self.shapes[place].numel() for place in places]
            for place, part in zip(places, joined.split(sizes), strict=True):
                found[place] = part.view(self.shapes[place])
        return found

    def _moments(self, weight: Tensor, gradient: Tensor, *moments: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Mean and root mean square as they would be, uncorrected, and the gradient and weight that decay leaves."""
        decay, (first, second) = self.group["weight_decay"], self.group["betas"]
        if decay and self.is_decoupled:
            weight = weight * (1 - self.group["lr"] * decay)
        elif decay:
            gradient = gradient.add(weight, alpha=decay)
        if not moments:  # the slope all but cancels: a first step is a sign, whatever the gradient
            gradient = gradient.double() if gradient.device.type in _HAVE_DOUBLE else gradient.cpu().double()
            mean, square = (1 - first) * gradient, (1 - second) * gradient * gradient
        else:
            mean = torch.lerp(moments[0], gradient, 1 - first)
            square = moments[1].mul(second).addcmul_(gradient, gradient, value=1 - second)
        return mean, square.sqrt_(), gradient, weight

    def _typical(self) -> float:
        """The root mean square of all gradients, as Adam remembers them."""
        second = self.group["betas"][1]
        total = (1 - second) * self.norm.cpu().double() ** 2
        if self.states[0]:
            sums = torch._foreach_norm([one["exp_avg_sq"] for one in self.states], 1)
            total = total + second * torch.stack(list(sums)).cpu().double().sum()
        count = sum(one.numel() for one in self.gradients)
        return float(total / (1 - second**self.step) / count) ** 0.5


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
    `learned` too, made anew in each call; when blind, the graph goes to `learned` alone. `outer` is the simulation
    loss on the outer rows, `step` what the inner optimiser makes of a gradient. All must draw the same dropout each
    time.
    """
    own = list(weights.values())
    loss = torch.stack(taught(weights, False)).sum()
    if route == "double":
        graph = torch.autograd.grad(loss, own, create_graph=True, materialize_grads=True)
        gradients = [one.detach() for one in graph]
    else:
        both = torch.autograd.grad(loss, [*own, *learned], materialize_grads=True)
        gradients, here = list(both[: len(own)]), both[len(own) :]
    taken = step(gradients)
    new = {name: one.detach().requires_grad_() for name, one in taken.weights.items()}
    taken.weights.clear()
    after = outer(new)
    along = taken.pull(list(torch.autograd.grad(after, list(new.values()), materialize_grads=True)))
    del new
    if route == "double":
        found = torch.autograd.grad(graph, learned, grad_outputs=along, materialize_grads=True)
    elif route == "forward":
        slope = _slope(weights, along, lambda dual: taught(dual, True)[1])
        found = torch.autograd.grad(slope, learned, materialize_grads=True)
    else:
        length = float(torch.nn.utils.get_total_norm(along))
        stride = 1.0 if length == 0 else _STRIDE.get(along[0].dtype, _SINGLE) / length
        moved = torch._foreach_add([one.detach() for one in own], along, alpha=stride)
        further = taught(dict(zip(weights, moved, strict=True)), True)[1]
        there = torch.autograd.grad(further, learned, materialize_grads=True)
        found = tuple((one - two) / stride for one, two in zip(there, here, strict=True))
    return Hypergradient([-one for one in found], after.detach(), loss.detach(), gradients)


def _slope(weights: Weights, along: Sequence[Tensor], loss: Callable[[Weights], Tensor]) -> Float[Tensor, ""]:
    """The slope of a loss along a direction by forward mode, with a graph to whatever else the loss depends on."""
    with forward_mode.dual_level():
        here = {
            name: forward_mode.make_dual(one.detach(), change)
            for (name, one), change in zip(weights.items(), along, strict=True)
        }
        slope = forward_mode.unpack_dual(loss(here)).tangent
        return torch.zeros((), device=along[0].device) if slope is None else slope


def _joined(tensors: Sequence[Tensor], places: Sequence[int]) -> Tensor:
    """These tensors as one flat one; a single one is not copied."""
    flat = [tensors[place].reshape(-1) for place in places]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


def check_route_name(route: str) -> None:
    if route not in (*ROUTES, "auto"):
        raise OptionError(f"Option 'route' is 'auto' or one of {', '.join(map(repr, ROUTES))}, not {route!r}.")
