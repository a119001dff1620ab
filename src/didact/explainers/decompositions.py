"""Composite torch functions (norms, variance, attention, …) decomposed into functions that have rules."""

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final

import torch
from torch import Tensor


def _layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,  # noqa: ARG001 - the same numbers
) -> Tensor:
    dims = tuple(range(-len(normalized_shape), 0))
    centred = input - input.mean(dims, keepdim=True)
    normal = centred / ((centred * centred).mean(dims, keepdim=True) + eps).sqrt()
    normal = normal if weight is None else normal * weight
    return normal if bias is None else normal + bias


def _rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    dims = tuple(range(-len(normalized_shape), 0))
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    normal = input / ((input * input).mean(dims, keepdim=True) + eps).sqrt()
    return normal if weight is None else normal * weight


def _group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,  # noqa: ARG001 - the same numbers
) -> Tensor:
    grouped = input.reshape(input.shape[0], num_groups, -1)
    normal = _layer_norm(grouped, grouped.shape[-1:], eps=eps).reshape(input.shape)
    by_channel = (-1, *[1] * (input.dim() - 2))
    normal = normal if weight is None else normal * weight.reshape(by_channel)
    return normal if bias is None else normal + bias.reshape(by_channel)


def _vector_norm(
    input: Tensor,
    p: float | str | None = 2.0,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    values = input if dtype is None else input.to(dtype)
    dims = _dims(values, dim)
    if p in (None, "fro", 2):
        return (values * values).sum(dims, keepdim=keepdim).sqrt()
    if p == 1:
        return values.abs().sum(dims, keepdim=keepdim)
    if not isinstance(p, int | float) or p <= 0:
        raise TypeError(f"no rule for a norm of order {p!r}")
    if p == float("inf"):
        return values.abs().amax(dims, keepdim=keepdim)
    return (values.abs() ** p).sum(dims, keepdim=keepdim) ** (1 / p)


def _normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, **_: None) -> Tensor:
    return input / _vector_norm(input, p, dim, keepdim=True).clamp_min(eps)


def _var(
    input: Tensor,
    dim: int | Sequence[int] | bool | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    if isinstance(dim, bool):  # torch.var(input, unbiased)
        dim, unbiased = None, dim
    dims = _dims(input, dim)
    if correction is None:
        correction = 0 if unbiased is False else 1
    centred = input - input.mean(dims, keepdim=True)
    count = math.prod(input.shape[axis] for axis in dims)
    return (centred * centred).sum(dims, keepdim=keepdim) / max(0, count - correction)


@wraps(_var)
def _std(*args: Any, **options: Any) -> Tensor:
    return _var(*args, **options).sqrt()


def _maximum(input: Tensor, other: Tensor) -> Tensor:
    return torch.stack(torch.broadcast_tensors(input, other), -1).amax(-1)


def _minimum(input: Tensor, other: Tensor) -> Tensor:
    return -_maximum(-input, -other)


def _amin(input: Tensor, dim: int | tuple[int, ...] = (), keepdim: bool = False) -> Tensor:
    return -(-input).amax(dim, keepdim)


def _dims(values: Tensor, dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """The reduced dimensions; by default all."""
    if dim is None or dim == () or dim == []:
        return tuple(range(values.dim()))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _addmm(input: Tensor, first: Tensor, second: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    product = torch.matmul(first, second)
    return (input if beta == 1 else input * beta) + (product if alpha == 1 else product * alpha)


def _addcmul(input: Tensor, first: Tensor, second: Tensor, *, value: float = 1) -> Tensor:
    return input + first * second * value


def _addcdiv(input: Tensor, first: Tensor, second: Tensor, *, value: float = 1) -> Tensor:
    return input + first / second * value


def _glu(input: Tensor, dim: int = -1) -> Tensor:
    signal, gate = input.chunk(2, dim)
    return signal * gate.sigmoid()


def _scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,  # noqa: ARG001 - models are explained in evaluation mode
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    logits = torch.matmul(query, key.transpose(-1, -2)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        logits = logits.masked_fill(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        logits = logits + attn_mask
    return torch.matmul(logits.softmax(-1), value)


DECOMPOSITIONS: Final[dict[str, Callable[..., Tensor]]] = {
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "normalize": _normalize,
    "addmm": _addmm,
    "baddbmm": _addmm,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "glu": _glu,
    "group_norm": _group_norm,
    "norm": _vector_norm,
    "linalg_vector_norm": _vector_norm,
    "var": _var,
    "std": _std,
    "maximum": _maximum,
    "minimum": _minimum,
    "fmax": _maximum,
    "fmin": _minimum,
    "amin": _amin,
    "scaled_dot_product_attention": _scaled_dot_product_attention,
}
