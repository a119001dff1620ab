"""The choice of the route to the hypergradient: `double`, unless the student has no second derivatives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import torch
from torch import Tensor, nn

from didact.errors import UnsupportedError
from didact.learning.hypergradient import Hypergradient, Route

_TOLERANCE: Final = 0.1  # the error of `difference` in single precision is at most 0.02


@dataclass(frozen=True)
class CheckedRoute:
    """A route that works, its gradient in the trial step, and notes for the user."""

    route: Route
    trial: Hypergradient
    notes: tuple[str, ...] = ()


def check_route(requested: str, student: nn.Module, trial: Callable[[Route], Hypergradient]) -> CheckedRoute:
    """The requested route, after a trial on one step.

    A custom backward pass without a second derivative may drop terms silently (docs/decisions/013-smat.md). An exact
    route is therefore compared with `difference`, which needs no second derivative. If they disagree, `auto` falls back
    to `difference`, and an explicit route raises an `UnsupportedError`.
    """
    route = _default_route(student) if requested == "auto" else cast(Route, requested)
    difference = trial("difference")
    if route == "difference":
        return CheckedRoute(route, difference)
    try:
        exact = trial(route)
        reason = _disagreement(exact.explainer_gradients, difference.explainer_gradients)
    except (RuntimeError, NotImplementedError) as error:
        reason = first_line(error)
    if not reason:
        return CheckedRoute(route, exact)
    if requested != "auto":
        raise UnsupportedError(
            f"The student cannot be differentiated as route={route!r} needs: {reason} "
            "Choose route='difference', which needs no second derivative."
        )
    message = f"The student cannot be differentiated twice ({reason}): route 'difference'."
    return CheckedRoute("difference", difference, (message,))


def _default_route(student: nn.Module) -> Route:
    """Recurrent layers have no second derivatives on a GPU, and very slow ones on a CPU."""
    return "difference" if any(isinstance(module, nn.RNNBase) for module in student.modules()) else "double"


def _disagreement(exact: Sequence[Tensor], difference: Sequence[Tensor]) -> str:
    """Why an exact gradient is wrong; empty if it agrees with the finite difference."""
    gap = torch.cat(
        [(analytic - numeric).flatten() for analytic, numeric in zip(exact, difference, strict=True)]
    ).norm()
    size = torch.cat([gradient.flatten() for gradient in difference]).norm()
    return f"its second derivatives differ by {float(gap / size):.0%}." if gap > _TOLERANCE * size else ""


def first_line(error: Exception) -> str:
    """The first line of an error's message, as a sentence."""
    return str(error).strip().splitlines()[0].rstrip(".") + "."
