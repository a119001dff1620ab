"""Activations that transformers computes in several operations, as single functions for the backward rules."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.overrides import handle_torch_function

from didact.explainers.derivatives import Elementwise, depends_on_input


@contextmanager
def fused_activations(model: nn.Module) -> Iterator[None]:
    """Treats activations that transformers computes in several operations (GPT-2's GELU) as one function.

    Operation by operation, much of the relevance of `x · (1 + tanh …)` would go to the constant 1.
    """
    activations = [module for module in model.modules() if _is_activation(module)]

    def fuse(module: nn.Module, args: tuple[Any, ...], result: Tensor) -> Any:
        if not depends_on_input(args[0]):
            return result
        return handle_torch_function(apply_activation, (args[0],), args[0], module.forward)

    with ExitStack() as hooks:
        for module in activations:
            hooks.enter_context(module.register_forward_hook(fuse))
        yield


def _is_activation(module: nn.Module) -> bool:
    """Whether the module is an activation without parameters that transformers implements in Python."""
    module_name, class_name = type(module).__module__, type(module).__name__.lower()
    is_python = module_name == "transformers.activations" or (
        module_name.startswith("transformers.") and class_name.endswith("gelu")
    )
    return is_python and next(module.parameters(), None) is None


def apply_activation(values: Tensor, function: Elementwise) -> Tensor:
    """The activation as one function, for which `rules` has a rule."""
    return function(values)
