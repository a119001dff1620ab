"""Tools of `rules`: find tensors that depend on the input, and give a value the gradient of another tensor."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

Elementwise = Callable[[Tensor], Tensor]  # an elementwise function


def depends_on_input(value: object) -> bool:
    """Whether the value is a tensor that depends on the input; parameters are frozen, so no other needs a gradient."""
    return isinstance(value, Tensor) and value.requires_grad


def tensors_in(args: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among the arguments, also in lists and tuples."""
    for arg in args:
        if isinstance(arg, Tensor):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from (item for item in arg if isinstance(item, Tensor))


def map_dependent(args: Iterable[Any], change: Callable[[Tensor], Tensor]) -> list[Any]:
    """The arguments, with `change` applied to every tensor that depends on the input."""
    result: list[Any] = []
    for arg in args:
        if isinstance(arg, list | tuple):
            result.append(map_dependent(arg, change) if any(map(depends_on_input, arg)) else arg)
        else:
            result.append(change(arg) if depends_on_input(arg) else arg)
    return result


class _WithGradientOf(torch.autograd.Function):
    """A value whose gradient flows to `carrier`, multiplied by `factor`."""

    @staticmethod
    def forward(ctx: Any, carrier: Tensor, value: tuple[Tensor], factor: Tensor | None) -> Tensor:  # noqa: ARG004
        if factor is not None:
            ctx.save_for_backward(factor)
        return value[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        return gradient * ctx.saved_tensors[0] if ctx.saved_tensors else gradient, None, None


def with_gradient_of(value: Tensor, carrier: Tensor, factor: Tensor | None = None) -> Tensor:
    """`value`, with its gradient redirected to `carrier` (same shape) and multiplied by `factor`."""
    # Inside a tuple autograd does not see the value, and treats it as an output of the function, not as an input.
    return _WithGradientOf.apply(carrier, (value.detach(),), factor)


def derivative(function: Elementwise, values: Tensor) -> Tensor:
    """The derivative of an elementwise function at `values`; 0 where it is constant."""
    with torch.enable_grad():
        points = values.detach().requires_grad_()
        result = function(points)
        if not result.requires_grad:
            return torch.zeros_like(values)
        (gradient,) = torch.autograd.grad(result.sum(), points)
    return gradient
