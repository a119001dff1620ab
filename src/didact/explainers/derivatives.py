"""Tensors that depend on the input, and values with the derivative of something else: the tools of `rules`."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

Elementwise = Callable[[Tensor], Tensor]  # a function of each number by itself


def depends_on_input(value: object) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def tensors_in(args: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among arguments, and in lists of them."""
    for arg in args:
        if isinstance(arg, Tensor):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from (item for item in arg if isinstance(item, Tensor))


def map_dependent(args: Iterable[Any], change: Callable[[Tensor], Tensor]) -> list[Any]:
    """The arguments, with each dependent tensor changed."""
    result: list[Any] = []
    for arg in args:
        if isinstance(arg, list | tuple):
            result.append(map_dependent(arg, change) if any(map(depends_on_input, arg)) else arg)
        else:
            result.append(change(arg) if depends_on_input(arg) else arg)
    return result


class _WithGradientOf(torch.autograd.Function):
    """A value, with the derivative of something else: the gradient goes on to `carrier`, times `factor`."""

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
    """`value`, whose gradient goes on to `carrier` (of the same shape), times `factor`."""
    # In a tuple autograd does not see the value, and takes it for a result of ours rather than for an input.
    return _WithGradientOf.apply(carrier, (value.detach(),), factor)


def derivative(function: Elementwise, values: Tensor) -> Tensor:
    """The derivative of a function of each number."""
    with torch.enable_grad():
        points = values.detach().requires_grad_()
        result = function(points)
        if not result.requires_grad:
            return torch.zeros_like(values)
        (gradient,) = torch.autograd.grad(result.sum(), points)
    return gradient
