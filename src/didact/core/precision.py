"""Half precision where it does no harm: inside a forward pass. Weights, losses and scores stay single."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, Final

import torch
from torch import Tensor, nn

from didact.core.model import require_model
from didact.core.needs import require
from didact.core.shared_weights import shared_copy
from didact.core.teacher import Teacher
from didact.core.trace import Trace
from didact.errors import OptionError, UnsupportedError

SINGLE: Final = "single"
_HALF_DTYPES: Final = {"bfloat16": torch.bfloat16, "float16": torch.float16}
PRECISIONS: Final = (SINGLE, *_HALF_DTYPES)
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
def autocast(device: torch.device, precision: str) -> Iterator[None]:
    """Products inside are taken in this precision; nothing changes for `single`."""
    if precision == SINGLE:
        yield
        return
    with torch.autocast(device.type, dtype=_HALF_DTYPES[precision]):
        yield


def to_single(trace: Trace) -> Trace:
    """The trace in single precision, where it was less."""
    return replace(trace, **{field.name: _to_float32(getattr(trace, field.name)) for field in fields(trace)})


def weights_precision(teacher: Teacher) -> str:
    """The coarsest precision that a teacher's weights are kept in: `int8`, `float16`, `bfloat16` or `single`."""
    if not isinstance(teacher, nn.Module):
        return SINGLE
    if any(type(module).__module__.startswith("torch.ao.nn.quantized") for module in teacher.modules()):
        return INT8
    dtypes = {parameter.dtype for parameter in teacher.parameters()}
    return next((name for name, dtype in reversed(_HALF_DTYPES.items()) if dtype in dtypes), SINGLE)


def check_method(teacher: Teacher, method: str, need: str, precision: str) -> None:
    """Refuse, before any work, a method whose need the teacher does not meet, or not in this precision."""
    require(teacher, need, f"Method {method!r}")
    if precision != SINGLE and not isinstance(teacher, nn.Module):
        raise UnsupportedError(
            f"precision={precision!r} is about models; teacher {teacher.name!r} computes as it does."
        )
    if need == "gradients":
        check_gradients(teacher, precision, method=method)


def check_gradients(model: Teacher, precision: str, *, method: str) -> None:
    """An error where the weights, or the precision asked for, are too coarse for a method that takes gradients."""
    weights = weights_precision(model)
    if weights != SINGLE:
        remedy = "Load it without quantisation" if weights == INT8 else "Convert it, model.float()"
        raise UnsupportedError(
            f"Method {method!r} takes gradients, and the weights of {model.name!r} are {weights}, in which it would "
            f"not keep what it promises. {remedy}, or choose a method that needs predictions or attention alone."
        )
    if precision != SINGLE:
        raise no_gradients_error(method, precision)


def in_precision(teacher: Teacher, precision: str, *, method: str) -> Teacher:
    """The teacher in this precision; of a model a copy, with the same weights.

    It serves methods that take no gradient, and refuses others. A model whose weights are coarser than single is
    treated the same way, whatever was asked for.
    """
    teacher = shared_copy(teacher)
    if precision == SINGLE and weights_precision(teacher) == SINGLE:
        return teacher
    model = require_model(teacher, method)
    original_run = model.run

    def run(embeddings: Tensor, *args: Any, **kwargs: Any) -> Trace:
        if torch.is_grad_enabled() and embeddings.requires_grad:
            check_gradients(model, precision, method=method)
        with autocast(embeddings.device, precision):
            trace = original_run(embeddings, *args, **kwargs)
        return to_single(trace)

    object.__setattr__(model, "run", run)
    return model


def no_gradients_error(method: str, precision: str) -> UnsupportedError:
    return UnsupportedError(
        f"Method {method!r} takes gradients, which in {precision} would not keep what it promises. Leave precision "
        "out, or choose a method that needs predictions or attention alone."
    )


def _to_float32(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_to_float32, value))
    if isinstance(value, Tensor) and value.dtype in _HALF_DTYPES.values():
        return value.float()
    return value
