"""Our own attention function inside Hugging Face models.

Transformers lets a library register an attention function by name; every supported architecture then calls it with
query, key, value and mask. Ours computes what the eager path computes, to the last bit, and hands the scaled logits,
before the mask is added, to whoever listens. The matching mask function is registered too: without it transformers
passes no mask at all and padding is silently attended.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from didact.models.listening import Ear

NAME: Final = "didact"
_EAR: ContextVar[Ear | None] = ContextVar("didact_ear", default=None)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Eager attention that can be overheard. Keys and values shared by several query heads are repeated."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    logits = torch.matmul(query, key.transpose(2, 3)) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    ear = _EAR.get()
    if ear is not None:
        ear.hear(logits, None if attention_mask is None else attention_mask == 0)
    if attention_mask is not None:
        logits = logits + attention_mask
    # Half precision is raised for the softmax, as the eager paths do; single and double stay what they are.
    wide = torch.float32 if logits.dtype in (torch.float16, torch.bfloat16) else logits.dtype
    weights = logits.softmax(-1, dtype=wide).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    if ear is not None:
        ear.weigh(weights)
        value = ear.blanked(value)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, eager_mask)


@contextmanager
def overheard(model: PreTrainedModel, ear: Ear) -> Iterator[None]:
    """Our attention inside the model while this lasts; the implementation it had comes back afterwards."""
    configs = {id(part.config): part.config for part in model.modules() if isinstance(part, PreTrainedModel)}
    before = [(config, config._attn_implementation) for config in configs.values()]
    token = _EAR.set(ear)
    try:
        for config, _ in before:
            config._attn_implementation = NAME
        yield
    finally:
        _EAR.reset(token)
        for config, implementation in before:
            config._attn_implementation = implementation
