"""Models dispatched by accelerate: layers on several devices, weights loaded only when they are needed."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from didact.errors import MissingExtraError

AUTO = "auto"


def check_accelerate() -> None:
    """Raise a `MissingExtraError` if accelerate is not installed, before anything is loaded."""
    try:
        import accelerate  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "Device 'auto' distributes a model over all devices, which needs accelerate: pip install "
            "'didact[accelerate]'. Or name one device."
        ) from None


def is_dispatched(model: nn.Module) -> bool:
    """True if accelerate has put hooks into the model, which move inputs or weights during a pass."""
    return any(hasattr(module, "_hf_hook") for module in model.modules())


def device_of_module(module: nn.Module) -> torch.device:
    """The device that the module computes on. Offloaded weights are on `meta`; their hook has the real device."""
    for submodule in module.modules():
        for hook in _hooks(submodule):
            device = getattr(hook, "execution_device", None)
            if device is not None:
                return torch.device(device)
    return next(module.parameters()).device


@contextmanager
def outputs_in_place(model: nn.Module) -> Iterator[None]:
    """Keep outputs on the devices where they were computed: accelerate's copy to the input device has no gradient."""
    moving_hooks = [hook for hook in _hooks(model) if getattr(hook, "io_same_device", False)]
    for hook in moving_hooks:
        hook.io_same_device = False
    try:
        yield
    finally:
        for hook in moving_hooks:
            hook.io_same_device = True


def named_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield all weights by name, sorted. Offloaded weights are loaded one after another."""
    for name, value in sorted(model.state_dict().items()):
        # A quantised int8 layer of torch has a tuple of weight and bias, and a dtype as a further entry.
        values = value if isinstance(value, tuple) else (value,)
        for tensor in values:
            if isinstance(tensor, Tensor):
                tensor = tensor.dequantize() if tensor.is_quantized else tensor
                yield name, _offloaded_weight(model, name) if tensor.device.type == "meta" else tensor


def _offloaded_weight(model: nn.Module, name: str) -> Tensor:
    """An offloaded weight, from the weights map of the nearest enclosing module that has one."""
    path = name.split(".")
    for depth in range(len(path) - 1, -1, -1):
        for hook in _hooks(model.get_submodule(".".join(path[:depth]))):
            with suppress(KeyError):
                weight: Tensor = (getattr(hook, "weights_map", None) or {})[".".join(path[depth:])]
                return weight
    raise RuntimeError(f"The weight {name!r} is neither in the model nor in a weights map of accelerate.")


def _hooks(module: nn.Module) -> tuple[Any, ...]:
    hook = getattr(module, "_hf_hook", None)
    return () if hook is None else tuple(getattr(hook, "hooks", (hook,)))
