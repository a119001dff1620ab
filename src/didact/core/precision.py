"""Half precision inside forward passes. Weights, losses and scores stay in single precision."""

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
INT8: Final = "int8"  # weights of torch's quantised layers, which have no gradients; no option of users


def check_precision(precision: str) -> str:
    if precision not in PRECISIONS:
        raise OptionError(f"Option 'precision' must be one of {', '.join(map(repr, PRECISIONS))}, got {precision!r}.")
    return precision


def check_trainable(precision: str, device: torch.device) -> None:
    """Raise `OptionError` for float16 without cuda: its gradients need scaling, which torch has on cuda only."""
    if check_precision(precision) == "float16" and device.type != "cuda":
        raise OptionError(
            f"Training in float16 is not supported on {device.type}: it needs gradient scaling, which torch has "
            "on cuda only. Choose precision 'bfloat16'."
        )


@contextmanager
def autocast(device: torch.device, precision: str) -> Iterator[None]:
    """A context in which torch computes products in this precision; no effect for `single`."""
    if precision == SINGLE:
        yield
        return
    with torch.autocast(device.type, dtype=_HALF_DTYPES[precision]):
        yield


def to_single(trace: Trace) -> Trace:
    """The trace with tensors of half precision converted to single."""
    return replace(trace, **{field.name: _to_float32(getattr(trace, field.name)) for field in fields(trace)})


def weights_precision(teacher: Teacher) -> str:
    """The lowest precision among a teacher's weights: `int8`, `float16`, `bfloat16` or `single`."""
    if not isinstance(teacher, nn.Module):
        return SINGLE
    if any(type(module).__module__.startswith("torch.ao.nn.quantized") for module in teacher.modules()):
        return INT8
    dtypes = {parameter.dtype for parameter in teacher.parameters()}
    return next((name for name, dtype in reversed(_HALF_DTYPES.items()) if dtype in dtypes), SINGLE)


def check_method(teacher: Teacher, method: str, need: str, precision: str) -> None:
    """Raise `UnsupportedError` if the teacher does not meet the need of a method, or not in this precision."""
    require(teacher, need, f"Method {method!r}")
    if precision != SINGLE and not isinstance(teacher, nn.Module):
        raise UnsupportedError(
            f"precision={precision!r} needs a model, and teacher {teacher.name!r} is a black box. Leave precision out."
        )
    if need == "gradients":
        check_gradients(teacher, precision, method=method)


def check_gradients(model: Teacher, precision: str, *, method: str) -> None:
    """Raise `UnsupportedError` if the precision, or that of the weights, is too low for a method with gradients."""
    weights = weights_precision(model)
    if weights != SINGLE:
        remedy = "Load it without quantisation" if weights == INT8 else "Convert it, model.float()"
        raise UnsupportedError(
            f"Method {method!r} takes gradients, and the weights of {model.name!r} are {weights}, too inexact "
            f"for them. {remedy}, or choose a method that needs only predictions or attention."
        )
    if precision != SINGLE:
        raise no_gradients_error(method, precision)


def in_precision(teacher: Teacher, precision: str, *, method: str) -> Teacher:
    """The teacher with forward passes in this precision; a model is copied, and the copy shares its weights.

    The copy raises `UnsupportedError` if `method` takes gradients. So does a model with weights below single precision,
    whatever `precision` is.
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
        f"Method {method!r} takes gradients, which are too inexact in {precision}. Leave precision "
        "out, or choose a method that needs only predictions or attention."
    )


def _to_float32(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_to_float32, value))
    if isinstance(value, Tensor) and value.dtype in _HALF_DTYPES.values():
        return value.float()
    return value
