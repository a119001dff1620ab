"""Models that accelerate has spread: layers on several devices, weights that come only when they are needed."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from didact.errors import MissingExtraError

AUTO = "auto"


def check_accelerate() -> None:
    """An error that says what to install, before anything is loaded."""
    try:
        import accelerate  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "Device 'auto' spreads a model over what there is, which needs accelerate: pip install "
            "'didact[accelerate]'. Or name one device."
        ) from None


def is_dispatched(model: nn.Module) -> bool:
    """Whether accelerate moves the model's inputs or weights while it runs."""
    return any(hasattr(module, "_hf_hook") for module in model.modules())


def device_of_module(module: nn.Module) -> torch.device:
    """Where the module computes. Weights that are elsewhere until they are needed say `meta`; their hook knows."""
    for submodule in module.modules():
        for hook in _hooks(submodule):
            device = getattr(hook, "execution_device", None)
            if device is not None:
                return torch.device(device)
    return next(module.parameters()).device


@contextmanager
def outputs_in_place(model: nn.Module) -> Iterator[None]:
    """While this lasts, what the model gives stays on the devices where it came about: a copy has no gradient."""
    moving_hooks = [hook for hook in _hooks(model) if getattr(hook, "io_same_device", False)]
    for hook in moving_hooks:
        hook.io_same_device = False
    try:
        yield
    finally:
        for hook in moving_hooks:
            hook.io_same_device = True


def named_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """All weights by name, one after another; those that are elsewhere are fetched."""
    for name, value in sorted(model.state_dict().items()):
        # An int8 layer of torch keeps its weight and bias as a tuple, and its dtype beside them.
        values = value if isinstance(value, tuple) else (value,)
        for tensor in values:
            if isinstance(tensor, Tensor):
                tensor = tensor.dequantize() if tensor.is_quantized else tensor
                yield name, _offloaded_weight(model, name) if tensor.device.type == "meta" else tensor


def _offloaded_weight(model: nn.Module, name: str) -> Tensor:
    """A weight out of the map of the nearest module around it that has one."""
    path = name.split(".")
    for depth in range(len(path) - 1, -1, -1):
        for hook in _hooks(model.get_submodule(".".join(path[:depth]))):
            with suppress(KeyError):
                weight: Tensor = (getattr(hook, "weights_map", None) or {})[".".join(path[depth:])]
                return weight
    raise RuntimeError(f"The weight {name!r} is neither in the model nor where accelerate keeps such weights.")


def _hooks(module: nn.Module) -> tuple[Any, ...]:
    hook = getattr(module, "_hf_hook", None)
    return () if hook is None else tuple(getattr(hook, "hooks", (hook,)))
