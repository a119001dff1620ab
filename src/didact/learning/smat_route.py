"""Which route takes SMaT's derivative: `double`, unless the student has no second derivatives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import torch
from torch import Tensor, nn

from didact.errors import UnsupportedError
from didact.learning.hypergradient import Hypergradient, Route

_TOLERANCE: Final = 0.1  # a difference in single precision is off by 0.02 at most


@dataclass(frozen=True)
class CheckedRoute:
    """A route that works, the gradient that it gave in the trial, and what people should know."""

    route: Route
    trial: Hypergradient
    notes: tuple[str, ...] = ()


def check_route(requested: str, student: nn.Module, trial: Callable[[Route], Hypergradient]) -> CheckedRoute:
    """The requested route, tried on one step.

    A custom backward without a second derivative may drop terms in silence (docs/decisions/013-smat.md). So an exact
    route is compared with `difference`, which needs none. `auto` then takes `difference`; a named route is refused.
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
            "Choose route='difference', which asks for no second derivative."
        )
    message = f"The student cannot be differentiated twice ({reason}): route 'difference'."
    return CheckedRoute("difference", difference, (message,))


def _default_route(student: nn.Module) -> Route:
    """Recurrent layers have no second derivatives on a GPU, and very slow ones on a CPU."""
    return "difference" if any(isinstance(module, nn.RNNBase) for module in student.modules()) else "double"


def _disagreement(exact: Sequence[Tensor], difference: Sequence[Tensor]) -> str:
    """Why an exact gradient cannot be trusted; empty if it can."""
    gap = torch.cat(
        [(analytic - numeric).flatten() for analytic, numeric in zip(exact, difference, strict=True)]
    ).norm()
    size = torch.cat([gradient.flatten() for gradient in difference]).norm()
    return f"its second derivatives are off by {float(gap / size):.0%}." if gap > _TOLERANCE * size else ""


def first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") + "."
