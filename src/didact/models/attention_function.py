"""The attention function that records the attention of Hugging Face models.

transformers lets a library register an attention function by name; every supported architecture then calls it with
query, key, value and mask. `attend` computes what the eager implementation computes. If a recorder is active, it passes
it the scaled logits, with any additive bias but before the mask, and the attention probabilities. The mask function is
registered under the same name: without it transformers passes no mask, and padding would be attended to.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from didact.errors import UnsupportedError
from didact.models.attention_recorder import AttentionRecorder

IMPLEMENTATION: Final = "didact"
_RECORDER: ContextVar[AttentionRecorder | None] = ContextVar("didact_recorder", default=None)

# Arguments that transformers' eager functions ignore as well: the mask already contains their effect, or they concern
# outputs and caches that are handled outside of the attention function.
_IGNORED: Final = frozenset(
    {
        "is_causal", "sliding_window", "position_ids", "cache_position", "past_key_values", "past_key_value",
        "use_cache", "deterministic", "output_attentions", "output_hidden_states", "output_router_logits",
        "return_dict",
    }
)  # fmt: skip


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Eager attention with a hook for the active recorder. Keys and values shared by several query heads are repeated.

    `s_aux` are attention sinks: one logit per head that takes part in the softmax and has no value vector. Returns the
    output [batch, token, head, dim] and the attention probabilities, as transformers expects. Raises an
    `UnsupportedError` if the model passes an argument that would change the result and is not implemented here.
    """
    _check_arguments(module, kwargs)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    logits = torch.matmul(query, key.transpose(2, 3)) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    if position_bias is not None:
        logits = logits + position_bias
    recorder = _RECORDER.get()
    if recorder is not None and recorder.records_attention:
        recorder.record_logits(*split_mask(logits, attention_mask))
    elif recorder is not None:
        recorder.layer_count += 1
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        logits = logits.masked_fill(~attention_mask, torch.finfo(logits.dtype).min)
    elif attention_mask is not None:
        logits = logits + attention_mask
    if s_aux is not None:
        sinks = s_aux.reshape(1, -1, 1, 1).expand(len(logits), -1, logits.shape[2], -1)
        logits = torch.cat([logits, sinks.to(logits.dtype)], -1)
    # As in the eager implementations, the softmax of half-precision logits is computed in float32.
    softmax_dtype = torch.float32 if logits.dtype in (torch.float16, torch.bfloat16) else logits.dtype
    weights = logits.softmax(-1, dtype=softmax_dtype).to(query.dtype)
    if s_aux is not None:
        weights = weights[..., :-1]
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    if recorder is not None:
        recorder.record_weights(weights)
        value = recorder.zero_values(value)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


def split_mask(logits: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Split an additive mask into a bias and a boolean mask.

    Returns the logits plus the bias of the allowed pairs, and a mask of these pairs (None: all). Some architectures add
    a learned bias to the mask (BEiT's relative positions, Doge). Only a value near the smallest number of the dtype
    forbids a pair; float64 masks may contain the smallest float32.
    """
    if mask is None:
        return logits, None
    if mask.dtype == torch.bool:
        return logits, mask
    minimum = torch.finfo(torch.float16 if mask.dtype == torch.float16 else torch.float32).min
    allowed = mask > minimum / 2
    return logits + mask.masked_fill(~allowed, 0.0), allowed


def _check_arguments(module: nn.Module, kwargs: Mapping[str, object]) -> None:
    """Raise an `UnsupportedError` for an argument that would be ignored silently."""
    unknown = sorted(name for name, value in kwargs.items() if value is not None and name not in _IGNORED)
    if unknown:
        kind = getattr(getattr(module, "config", None), "model_type", type(module).__name__)
        raise UnsupportedError(
            f"Models of type {kind!r} call attention with {', '.join(map(repr, unknown))}, which didact does not "
            "compute. Wrap the model's predictions instead: didact.teacher_from_function(…)."
        )


AttentionInterface.register(IMPLEMENTATION, attend)
AttentionMaskInterface.register(IMPLEMENTATION, eager_mask)


@contextmanager
def recording(model: PreTrainedModel, recorder: AttentionRecorder) -> Iterator[None]:
    """Use `attend` in the model inside the context, and record with `recorder`. Restores the implementation it had."""
    token = _RECORDER.set(recorder)
    try:
        with attention_implementation(model, IMPLEMENTATION):
            yield
    finally:
        _RECORDER.reset(token)


@contextmanager
def attention_implementation(model: PreTrainedModel, name: str) -> Iterator[None]:
    """Use the named attention implementation in the model inside the context."""
    originals = [(config, config._attn_implementation) for config in _configs(model)]
    try:
        for config, _ in originals:
            config._attn_implementation = name
        yield
    finally:
        for config, implementation in originals:
            config._attn_implementation = implementation


def _configs(model: PreTrainedModel) -> Sequence[Any]:
    """All configurations in the model, outer ones first: setting the attribute of one also sets it in its parts."""
    queue = [module.config for module in model.modules() if isinstance(module, PreTrainedModel)]
    configs: dict[int, Any] = {}
    while queue:
        config = queue.pop(0)
        if id(config) not in configs:
            configs[id(config)] = config
            sub_configs = (getattr(config, name, None) for name in config.sub_configs)
            queue += [sub_config for sub_config in sub_configs if sub_config is not None]
    return list(configs.values())
