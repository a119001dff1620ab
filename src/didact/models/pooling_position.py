"""Measures which positions of the final hidden states a Hugging Face head reads."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from didact.core.model import Batch, PoolingPosition, TokenScores, eval_mode
from didact.models.hooks import first_output

_DIRECTIONS: Final = 8  # maximum number of gradients; with more outputs, random signed sums of them
_MAX_WEIGHT_ELSEWHERE: Final = 1e-4  # total weight of all other positions
_MEAN_TOLERANCE: Final = {torch.float16: 2e-2, torch.bfloat16: 1e-1}  # relative; 1e-3 for single and double precision


def position_weights(
    model: PreTrainedModel, last_layer: nn.Module, run_model: Callable[[], Float[Tensor, "batch output"]]
) -> TokenScores | None:
    """The norm of the logits' gradient at each position of the last hidden state, normalised to sum to 1 per row.

    `run_model` computes the logits. Only the head is differentiated: the layers run without a graph. Returns None if
    the head has no gradient (quantised weights) or a gradient of 0.
    """
    states: dict[str, Tensor] = {}

    def start_graph(_: nn.Module, __: Any, output: Any) -> Any:
        hidden = first_output(output)
        if not isinstance(hidden, Tensor) or hidden.ndim != 3:
            return output
        torch.set_grad_enabled(True)  # from here on; the surrounding no_grad restores it
        states["layer"] = hidden.detach().clone().requires_grad_()
        return (states["layer"], *output[1:]) if isinstance(output, tuple) else states["layer"]

    def record_output(_: nn.Module, __: Any, output: Any) -> None:
        torch.set_grad_enabled("layer" in states)
        output_states = output[0]
        if isinstance(output_states, Tensor) and output_states.requires_grad:
            states["top"] = output_states  # after the final norm, so that mean pooling has equal weights

    with ExitStack() as hooks:
        hooks.enter_context(last_layer.register_forward_hook(start_graph))
        if model.base_model is not model:
            hooks.enter_context(model.base_model.register_forward_hook(record_output))
        with eval_mode(model), torch.inference_mode(False), torch.no_grad():
            logits = run_model()
        if not logits.requires_grad:
            return None
        with torch.enable_grad():
            return _gradient_norms(logits, [states[name] for name in ("top", "layer") if name in states])


def _gradient_norms(logits: Float[Tensor, "batch output"], states: list[Tensor]) -> TokenScores | None:
    """The root of the summed squares of all gradients at each position, normalised to sum to 1 per row."""
    squared_norms = torch.zeros(states[0].shape[:2], device=logits.device)
    for direction in _directions(logits.shape[-1]):
        value = (logits * direction.to(logits)).sum()
        gradients = torch.autograd.grad(value, states, retain_graph=True, allow_unused=True)
        # A pooler in the base model may read the last layer's output instead of what the base model returns.
        gradient = next((candidate for candidate in gradients if candidate is not None and bool(candidate.any())), None)
        if gradient is not None:
            squared_norms = squared_norms + gradient.to(logits.device).float().square().sum(-1)
    norms = squared_norms.sqrt()
    row_sums = norms.sum(-1, keepdim=True)
    return None if bool((row_sums == 0).any()) or not bool(row_sums.isfinite().all()) else (norms / row_sums).detach()


def _directions(outputs: int) -> Float[Tensor, "direction output"]:
    """The linear combinations of logits to differentiate: each logit alone, or random signed sums of many."""
    if outputs <= _DIRECTIONS:
        return torch.eye(outputs)
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 2, (_DIRECTIONS, outputs), generator=generator) * 2.0 - 1.0


def classify_pooling(weights: Float[Tensor, " token"], dtype: torch.dtype) -> PoolingPosition:
    """The pooling position of a row without padding from its position weights: first, last, mean, else `measured`."""
    if float(weights[0]) > 1 - _MAX_WEIGHT_ELSEWHERE:
        return "first"
    if float(weights[-1]) > 1 - _MAX_WEIGHT_ELSEWHERE:
        return "last"
    deviation = float((weights * len(weights) - 1).abs().max())
    return "mean" if deviation < _MEAN_TOLERANCE.get(dtype, 1e-3) else "measured"


@contextmanager
def pooling_at_last_token(model: PreTrainedModel, batch: Batch) -> Iterator[None]:
    """Let the head see only the state of each row's last real token, inside the context.

    Given `inputs_embeds`, causal classifiers of transformers pool the last position, even if it is padding, and raise
    an error for batches if the configuration has no padding token.
    """
    last = batch.lengths - 1

    def choose(_: nn.Module, __: Any, output: Any) -> Any:
        states = output[0]
        rows = torch.arange(len(batch), device=states.device)
        chosen = states[rows, last.to(states.device)][:, None]
        if isinstance(output, tuple):
            return (chosen, *output[1:])
        output.last_hidden_state = chosen
        return output

    config = model.config.get_text_config()
    has_pad_token = getattr(config, "pad_token_id", None) is not None
    if not has_pad_token:
        config.pad_token_id = 0
    try:
        with model.base_model.register_forward_hook(choose):
            yield
    finally:
        if not has_pad_token:
            config.pad_token_id = None


@contextmanager
def silenced_transformers() -> Iterator[None]:
    """Let transformers log only errors inside the context: checks try calls that cause warnings."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
