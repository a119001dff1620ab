"""Half precision where it does no harm: inside a forward pass. Weights, losses and scores stay single."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, Final

import torch
from torch import Tensor

from didact.core.model import Model
from didact.core.trace import Trace
from didact.errors import OptionError, UnsupportedError

SINGLE: Final = "single"
_HALF: Final = {"bfloat16": torch.bfloat16, "float16": torch.float16}
PRECISIONS: Final = (SINGLE, *_HALF)
INT8: Final = "int8"  # of torch's quantised layers, which pass no gradients on; a model's weights alone


def check_precision(precision: str) -> str:
    if precision not in PRECISIONS:
        raise OptionError(f"Option 'precision' is one of {', '.join(map(repr, PRECISIONS))}, not {precision!r}.")
    return precision


def check_trainable(precision: str, device: torch.device) -> None:
    """Float16 loses small gradients unless they are scaled, which torch does on cuda alone."""
    if check_precision(precision) == "float16" and device.type != "cuda":
        raise OptionError(
            f"Training in float16 was asked for on {device.type}; its small gradients need to be scaled, which is "
            "done on cuda alone. Choose precision 'bfloat16'."
        )


@contextmanager
def halved(device: torch.device, precision: str) -> Iterator[None]:
    """Products inside are taken in this precision; nothing changes for `single`."""
    if precision == SINGLE:
        yield
        return
    with torch.autocast(device.type, dtype=_HALF[precision]):
        yield


def widened(trace: Trace) -> Trace:
    """The trace in single precision, where it was less."""
    return replace(trace, **{one.name: _wide(getattr(trace, one.name)) for one in fields(trace)})


def weights_precision(model: Model) -> str:
    """The coarsest precision that the model's weights are kept in: `int8`, `float16`, `bfloat16` or `single`."""
    if any(type(module).__module__.startswith("torch.ao.nn.quantized") for module in model.modules()):
        return INT8
    dtypes = {parameter.dtype for parameter in model.parameters()}
    return next((name for name, dtype in reversed(_HALF.items()) if dtype in dtypes), SINGLE)


def check_gradients(model: Model, precision: str, *, method: str) -> None:
    """An error where the weights, or the precision asked for, are too coarse for a method that takes gradients."""
    weights = weights_precision(model)
    if weights != SINGLE:
        remedy = "Load it without quantisation" if weights == INT8 else "Convert it, model.float()"
        raise UnsupportedError(
            f"Method {method!r} takes gradients, and the weights of {model.name!r} are {weights}, in which it would "
            f"not keep what it promises. {remedy}, or choose a method that needs predictions or attention alone."
        )
    if precision != SINGLE:
        raise no_gradients(method, precision)


@contextmanager
def answering_in(model: Model, precision: str, *, method: str) -> Iterator[None]:
    """While this lasts the model runs in this precision, for methods that take no gradient; others are refused.

    A model whose weights are coarser than single is treated the same way, whatever was asked for.
    """
    if precision == SINGLE and weights_precision(model) == SINGLE:
        yield
        return
    own, before = model.run, vars(model).get("run")

    def run(embeddings: Tensor, *others: Any, **options: Any) -> Trace:
        if torch.is_grad_enabled() and embeddings.requires_grad:
            check_gradients(model, precision, method=method)
        with halved(embeddings.device, precision):
            trace = own(embeddings, *others, **options)
        return widened(trace)

    object.__setattr__(model, "run", run)
    try:
        yield
    finally:
        if before is None:
            object.__delattr__(model, "run")  # the class's own again
        else:
            object.__setattr__(model, "run", before)


def no_gradients(method: str, precision: str) -> UnsupportedError:
    return UnsupportedError(
        f"Method {method!r} takes gradients, which in {precision} would not keep what it promises. Leave precision "
        "out, or choose a method that needs predictions or attention alone."
    )


def _wide(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_wide, value))
    if isinstance(value, Tensor) and value.dtype in _HALF.values():
        return value.float()
    return value
