"""Checks of a Hugging Face model on two short rows: didact must compute the answers that transformers computes.

`check_model` compares answers. `measure_pooling_position` and `attention_source` measure where the head pools and
whether attention can be recorded; their results depend only on the configuration and are cached per process.
"""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from didact.core.model import Batch, InputLevel, PoolingPosition, TraceField, eval_mode
from didact.errors import UnsupportedError
from didact.models.attention_function import attention_implementation
from didact.models.attention_recorder import AttentionRecorder
from didact.models.hooks import errors_as_unsupported, first_output, unsupported_model_error
from didact.models.huggingface import HuggingFaceModel
from didact.models.pooling_position import classify_pooling, position_weights, silenced_transformers
from didact.models.probe_rows import probe_batch

_TOLERANCE: Final = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 3e-2, torch.bfloat16: 1e-1}
_LEAST_SCALE: Final = 0.1  # of logits; below it, differences are absolute
# Settings of chunked attention. Chunks are far longer than the rows of this check, which would not reveal it.
_CHUNKS: Final = ("lsh_attn_chunk_length", "local_attn_chunk_length", "block_per_row")
_CAPTURING: Final = "_output_capturing_hooks_installed"  # transformers sets it on modules with its hooks

_POOLING_POSITIONS: dict[str, PoolingPosition] = {}
_ATTENTION_SOURCES: dict[str, "AttentionSource"] = {}
_CHECKED: set[str] = set()


@dataclass(frozen=True)
class AttentionSource:
    """Where attention comes from: our attention function (default), the model's output (`is_returned`), or `fault`."""

    is_returned: bool = False
    fault: str | None = None


def check_model(model: HuggingFaceModel) -> None:
    """Raise an `UnsupportedError` if padding, embeddings as inputs, or recording attention change the answers.

    Compares the logits of a padded batch, computed from embeddings, with those of each row alone, computed from token
    ids by an unmodified call. Also compares the states of the last layer, because saturated logits hide differences.
    Models of equal configuration and weights are checked once per process. The model is left as it was.
    """
    _check_chunks(model)
    key = _key(model) + _weights_key(model)
    if key in _CHECKED:
        return
    with _undisturbed(model), errors_as_unsupported(model.name, model.model):
        model.probe()
        batch = probe_batch(model)
        with torch.no_grad():
            with _last_states(model) as reference_states:
                reference = torch.cat([_reference_logits(model, batch, row) for row in range(len(batch))])
            for at, recorded, description in _COMPARISONS:
                with _last_states(model) as states:
                    logits = _batch_logits(model, batch, at, recorded=recorded)
                _check_equal(model, logits, reference, f"its answers {description}")
                _check_states(model, states, reference_states, batch, f"its states in the last layer {description}")
    _CHECKED.add(key)


_COMPARISONS: Final[tuple[tuple[InputLevel, bool, str], ...]] = (
    ("word", False, "from word embeddings, in a padded batch,"),
    ("word", True, "with didact's attention function, in a padded batch,"),
    ("embedding", False, "from the output of its embedding block, in a padded batch,"),
)


def _reference_logits(model: HuggingFaceModel, batch: Batch, row: int) -> Tensor:
    """The logits of one row from an unmodified call, padded to the length of the batch."""
    row_batch = batch.select([row])
    logits = model.reference_logits(row_batch)
    padding = batch.tokens.shape[1] - row_batch.tokens.shape[1]
    return nn.functional.pad(logits, (0, padding), value=-torch.inf) if model.task.is_per_token else logits


def _batch_logits(model: HuggingFaceModel, batch: Batch, at: InputLevel, *, recorded: bool) -> Tensor:
    """Logits of a batch from embeddings. `recorded` runs twice, to reveal models that change embeddings in place."""
    embeddings = model.embed(batch, at=at)
    for _ in range(2 if recorded else 1):
        recorder = AttentionRecorder((), batch, "first") if recorded else None
        logits = model.logits_from_output(model.call_transformers(embeddings, batch, at=at, recorder=recorder), batch)
    return logits


@contextmanager
def _last_states(model: HuggingFaceModel) -> Iterator[list[Tensor]]:
    """The outputs of the last layer inside the context, one tensor per call."""
    states: list[Tensor] = []

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        if isinstance(hidden := first_output(output), Tensor):
            states.append(hidden)

    with model.layers_in_order[-1].register_forward_hook(keep):
        yield states


def _check_states(
    model: HuggingFaceModel, states: list[Tensor], reference_states: list[Tensor], batch: Batch, description: str
) -> None:
    """Compare the states of the last pass at real tokens, row by row, if layers return one state per token.

    Quantised models are left out, because they round relative to the largest number of a batch.
    """
    if (
        _is_quantised(model)
        or not states
        or len(reference_states) % len(batch)
        or states[-1].shape[:2] != batch.tokens.shape
    ):
        return
    calls = len(reference_states) // len(batch)  # one module may serve as several layers
    for row, reference in enumerate(reference_states[calls - 1 :: calls]):
        length = int(batch.lengths[row])
        if reference.shape[:2] == (1, length):
            _check_equal(model, states[-1][row, :length], reference[0], description)


def _check_equal(model: HuggingFaceModel, values: Tensor, reference: Tensor, description: str) -> None:
    """Raise an error if values and reference differ by more than the tolerance; both may be infinite or NaN."""
    if values.shape != reference.shape:
        raise _refusal(model, f"{description} have the shape {tuple(values.shape)} instead of {tuple(reference.shape)}")
    finite = reference.isfinite() & values.isfinite()
    if not bool(((reference == values) | finite | (reference.isnan() & values.isnan())).all()):
        raise _refusal(model, f"{description} are infinite or NaN, and those of a row alone are not")
    if not bool(finite.any()):
        return
    difference = float((values - reference)[finite].abs().max())
    scale = max(float(reference[finite].abs().max()), _LEAST_SCALE)
    if difference > tolerance(model) * scale:
        gap = f"{difference:.2g} (values up to {scale:.2g})"
        raise _refusal(model, f"{description} differ from those of a row alone by {gap}")


def _refusal(model: HuggingFaceModel, fault: str) -> UnsupportedError:
    """The error of a failed check."""
    refusal = unsupported_model_error(model.name, model.model, fault)
    return UnsupportedError(f"{refusal} Or load it with check=False, at your own risk.")


def tolerance(model: HuggingFaceModel) -> float:
    """The tolerated difference of answers, relative to the largest logit. Quantised weights count as bfloat16.

    In float64 it is 1e-6, because many architectures compute norms and rotations in float32 anyway.
    """
    if _is_quantised(model):
        return _TOLERANCE[torch.bfloat16]
    return _TOLERANCE.get(_dtype(model), _TOLERANCE[torch.bfloat16])


def _is_quantised(model: HuggingFaceModel) -> bool:
    modules = model.model.modules()
    return getattr(model.model, "is_quantized", False) or any("quant" in type(module).__module__ for module in modules)


def _check_chunks(model: HuggingFaceModel) -> None:
    """Raise an error for chunked attention, which depends on the padded length of a batch."""
    config = model.model.config
    sparse = [f"{name}={getattr(config, name)}" for name in _CHUNKS if getattr(config, name, None) is not None]
    if getattr(config, "attention_type", None) == "block_sparse":
        sparse.append("attention_type=block_sparse")
    if sparse:
        raise _refusal(
            model,
            f"its attention works on blocks of tokens ({', '.join(sparse)}), so that answers to long texts depend on "
            "the padding of the batch",
        )


# -- where the head pools ---------------------------------------------------------------------------------------------


def measure_pooling_position(model: HuggingFaceModel) -> PoolingPosition:
    """Where the head pools, from the gradients of two rows' logits with respect to their last hidden states."""
    key = _key(model)
    if key in _POOLING_POSITIONS:
        return _POOLING_POSITIONS[key]
    with _undisturbed(model), errors_as_unsupported(model.name, model.model):
        batch = probe_batch(model)
        positions = set()
        for row in range(len(batch)):
            row_batch = batch.select([row])
            weights = _position_weights(model, row_batch)
            positions.add("unknown" if weights is None else classify_pooling(weights[0], _dtype(model)))
        position: PoolingPosition = positions.pop() if len(positions) == 1 else "measured"
        if position == "last":
            _warn_about_padding_once(model, batch)
        if position == "unknown":
            return _pooling_by_answers(model, batch)
    _POOLING_POSITIONS[key] = position
    return position


def _position_weights(model: HuggingFaceModel, row_batch: Batch) -> Tensor | None:
    try:
        return position_weights(model.model, model.layers_in_order[-1], lambda: model.reference_logits(row_batch))
    except (NotImplementedError, RuntimeError):
        model.reference_logits(row_batch)  # raises any error that is not about gradients
        return None


def _warn_about_padding_once(model: HuggingFaceModel, batch: Batch) -> None:
    """Run one pass, so that transformers gives its warning about padding now, while warnings are silenced.

    It warns once per process that a causal classifier would pool padding. didact prevents that.
    """
    model._pooling_position = "last"
    with torch.no_grad():
        model.call_transformers(model.embed(batch), batch)


def _pooling_by_answers(model: HuggingFaceModel, batch: Batch) -> PoolingPosition:
    """The pooling position without gradients (quantised weights): `last` if only then batched answers are right."""
    with torch.no_grad():
        reference = torch.cat([_reference_logits(model, batch, row) for row in range(len(batch))])
        for position in ("unknown", "last"):
            model._pooling_position = position
            try:
                _check_equal(model, _batch_logits(model, batch, "word", recorded=False), reference, "")
            except (UnsupportedError, ValueError):
                continue
            return position
    return "unknown"


# -- attention --------------------------------------------------------------------------------------------------------


def attention_source(model: HuggingFaceModel) -> AttentionSource:
    """Whether the attention of every layer can be recorded, and equals what the model returns (if it does).

    Only results are cached. Any other error (such as a GPU out of memory) is raised, and the next call checks again.
    """
    key = _key(model)
    if key not in _ATTENTION_SOURCES:
        with _undisturbed(model), torch.no_grad():
            batch = probe_batch(model)
            try:
                _ATTENTION_SOURCES[key] = _check_recording(model, batch)
            except UnsupportedError as error:  # an argument that our attention function does not implement
                _ATTENTION_SOURCES[key] = AttentionSource(fault=str(error).rstrip("."))
    return _ATTENTION_SOURCES[key]


def _check_recording(model: HuggingFaceModel, batch: Batch) -> AttentionSource:
    """Record attention in one pass, and compare it with the attention that the model returns."""
    layers = int(model.model.config.num_hidden_layers)
    words = model.embed(batch)
    listen: tuple[TraceField, ...] = ("full",)
    recorder = AttentionRecorder(listen, batch, "first")
    model.call_transformers(words, batch, recorder=recorder)
    returned = _returned_attentions(model, words, batch)
    if not recorder.layer_count:
        if returned is None or len(returned) != layers:
            return AttentionSource(
                fault="it neither calls transformers' attention interface nor returns one weight per pair of tokens in "
                f"each of its {layers} layers"
            )
        return AttentionSource(is_returned=True)
    if recorder.unsupported_shape is not None:
        return AttentionSource(
            fault=f"it has the shape {recorder.unsupported_shape}, which is not one weight per pair of tokens"
        )
    if recorder.layer_count != layers:
        count = (
            f"only {recorder.layer_count} of its {layers} layers record any" if recorder.layer_count < layers else ""
        )
        return AttentionSource(fault=count or f"{recorder.layer_count} attention maps are recorded for {layers} layers")
    recorded = recorder.trace_fields()["full"]
    if returned is None or len(returned) != layers or recorded.shape[2] != returned[0].shape[1]:
        return AttentionSource()
    difference = _attention_difference(
        recorded, torch.stack([attention.to(recorded.device) for attention in returned], 1), batch
    )
    if difference > tolerance(model):
        return AttentionSource(fault=f"recorded weights differ from those the model returns by {difference:.2g}")
    return AttentionSource()


def _returned_attentions(model: HuggingFaceModel, words: Tensor, batch: Batch) -> tuple[Tensor, ...] | None:
    """The attention probabilities from `output_attentions=True` and eager attention, if they are per pair of tokens."""
    try:
        with attention_implementation(model.model, "eager"):
            output = model.call_transformers(words, batch, returns_attention=True)
    except (TypeError, ValueError, AttributeError, LookupError, NotImplementedError):
        return None  # the model cannot return attention
    attentions = getattr(output, "attentions", None) or ()
    length = batch.tokens.shape[1]
    fits = [
        attention is not None and attention.ndim == 4 and attention.shape[-2:] == (length, length)
        for attention in attentions
    ]
    return tuple(attentions) if fits and all(fits) else None


def _attention_difference(recorded: Tensor, returned: Tensor, batch: Batch) -> float:
    """The largest difference of probabilities at real tokens, both normalised without attention sinks."""
    real = batch.mask[:, None, None, :].expand(recorded.shape[:4])
    returned_rows = returned[real]
    total = returned_rows.sum(-1, keepdim=True)
    return float((recorded.softmax(-1)[real] - returned_rows / total.masked_fill(total == 0, 1.0)).abs().max())


def _dtype(model: HuggingFaceModel) -> torch.dtype:
    return next(
        (parameter.dtype for parameter in model.model.parameters() if parameter.is_floating_point()), torch.float32
    )


def _key(model: HuggingFaceModel) -> str:
    """Everything that decides the measured properties: class, dtype, task and configuration."""
    config = {name: value for name, value in model.model.config.to_dict().items() if not name.startswith("_")}
    properties = [type(model.model).__qualname__, str(_dtype(model)), model.task.name, tolerance(model)]
    return json.dumps([properties, config], sort_keys=True, default=str)


def _weights_key(model: HuggingFaceModel) -> str:
    """The first and last number of every weight: hashing all of a large model would cost more than the check."""
    ends = []
    for parameter in model.model.parameters():
        if parameter.device.type == "meta" or not parameter.numel():
            continue
        flat = parameter.detach().reshape(-1)
        ends += [float(flat[0]), float(flat[-1])]
    return json.dumps([ends, model.model.config._attn_implementation])


@contextmanager
def _undisturbed(model: HuggingFaceModel) -> Iterator[None]:
    """Evaluation mode without logs and warnings. Afterwards modes, hooks and random generators are as before."""
    state = np.random.get_state()  # some models use numpy's generator
    hooks = [(module, set(module._forward_hooks)) for module in model.model.modules()]
    unhooked = [module for module, _ in hooks if not getattr(module, _CAPTURING, False)]
    devices = {parameter.device for parameter in model.model.parameters() if parameter.device.type == "cuda"}
    try:
        with (
            torch.random.fork_rng(devices=list(devices)),
            torch.inference_mode(False),
            eval_mode(model),
            silenced_transformers(),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        np.random.set_state(state)
        for module, hooks_before in hooks:  # transformers leaves hooks in a model after output_attentions=True
            for key in set(module._forward_hooks) - hooks_before:
                del module._forward_hooks[key]
        for module in unhooked:
            vars(module).pop(_CAPTURING, None)
