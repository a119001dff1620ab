"""Adapter for Hugging Face models: forward passes from the embeddings up that record attention.

A `Model` of didact splits the forward pass in two: `encode` and `embed` turn rows into embeddings, and `run` computes
logits from embeddings (transformers: `inputs_embeds`). Gradient methods replace or differentiate the embeddings between
the two. `run` also records attention and hidden states (`listen`). Between calls the transformers model is unchanged:
hooks and the attention function are installed only during a forward pass.
"""

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from didact.core.batch import Batch, patch_batch, text_batch
from didact.core.model import (
    Attention,
    InputLevel,
    Model,
    PoolingPosition,
    Row,
    check_lengths,
    check_readable,
    eval_mode,
)
from didact.core.task import Task
from didact.core.trace import Trace, TraceField
from didact.errors import UnsupportedError
from didact.models.accelerate_hooks import device_of_module, is_dispatched, named_weights, outputs_in_place
from didact.models.attention_function import recording
from didact.models.attention_recorder import ATTENTION_FIELDS, AttentionRecorder, record_probabilities
from didact.models.fast_tokenizer import check_fast_tokenizer, padding_token, tokenize_rows, tokenizer_config
from didact.models.heads import check_architecture, class_names, fitting_task, max_input_length, transformer_layers
from didact.models.hooks import (
    errors_as_unsupported,
    first_input,
    first_output,
    replaced_input,
    replaced_output,
    unsupported_model_error,
)
from didact.models.images import crop_window, rgb_image
from didact.models.pooling_position import pooling_at_last_token, position_weights

if TYPE_CHECKING:
    from didact.models.selfcheck import AttentionSource


class HuggingFaceModel(Model):
    """A transformers model with its tokenizer, or for images with its image processor.

    Where it differs from a call of transformers:

    - Batches are padded on the right by didact, whatever the tokenizer's `padding_side`.
    - Causal classifiers pool the last real token. Given `inputs_embeds`, transformers would pool the last position,
      even if that is padding.
    - If attention is recorded or gradients are on, layers compute attention with `models.attention_function`.

    Two properties are measured on two short rows at the first use (`probe`), because configurations do not state them:
    the positions whose final hidden state the head reads (`pooling_position`), and whether attention can be recorded.

    Args:
        model: With a head for sequence classification, question answering or image classification.
        tokenizer: A fast tokenizer, because explanations need character offsets; for images the image processor.
        task: By default the task of the head. Pass the task `pair` for text pairs: their heads look like those of
            single texts.
        classes: Names of the outputs, by default those of the configuration (`id2label`).
        name: For messages and reports, by default `model.name_or_path`.
        max_length: Maximum number of tokens, by default the limit of model and tokenizer.
        truncate: Whether to truncate longer rows. By default they raise an error.

    Raises:
        UnsupportedError: If didact cannot run the architecture from its embeddings up, or the tokenizer is slow.
        OptionError: If task, classes or max_length do not fit the model.
    """

    library = "huggingface"
    pretrained = "everything"
    can_dispatch = True

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Any,
        *,
        task: Task | None = None,
        classes: Sequence[str] | None = None,
        name: str | None = None,
        max_length: int | None = None,
        truncate: bool = False,
    ) -> None:
        super().__init__()
        check_architecture(model)
        self.model = model
        self.tokenizer = tokenizer  # for image tasks the image processor
        self.name = name or getattr(model, "name_or_path", "") or type(model).__name__
        self.task = fitting_task(model, task)
        self.classes = class_names(model, self.task, classes)
        self.truncate = truncate
        self._pooling_position: PoolingPosition | None = None
        self._measured_attention_source: AttentionSource | None = None
        self._is_probed = False
        self.max_length = max_input_length(model, tokenizer, max_length)
        self._layers = transformer_layers(model)
        self._first_layer = self._layers[0]
        self._forward_arguments = frozenset(inspect.signature(model.forward).parameters)
        if self.task.is_text:
            check_fast_tokenizer(
                tokenizer, self.name, "didact needs a fast tokenizer: convert it, or load the model with one."
            )
        else:
            self._patch_size = int(model.config.patch_size)
            with errors_as_unsupported(self.name, self.model):
                self._leading_positions = self._count_leading_positions()

    def _kind(self) -> str:
        return f"transformers, {type(self.model).__name__}"

    # -- devices ------------------------------------------------------------------------------------------------------

    @property
    def is_dispatched(self) -> bool:  # type: ignore[override]
        return is_dispatched(self.model)

    @property
    def device(self) -> torch.device:
        """The device of the embeddings: inputs are sent there, and logits are returned there."""
        return device_of_module(self.model.get_input_embeddings() if self.task.is_text else self._patch_module)

    @property
    def is_portable(self) -> bool:  # type: ignore[override]
        """Whether a saved copy can be loaded elsewhere.

        False for a model on several devices: another machine may have less memory.
        """
        return not self.is_dispatched

    def to(self, *args: Any, **kwargs: Any) -> "HuggingFaceModel":
        if self.is_dispatched:
            raise UnsupportedError(
                f"Model {self.name!r} is distributed over devices by accelerate and cannot be moved to one of them. "
                "Load it again with that device."
            )
        return super().to(*args, **kwargs)

    def weights(self) -> Iterable[tuple[str, Tensor]]:
        """All weights by name, offloaded ones included."""
        return named_weights(self)

    # -- rows to tensors ----------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Row]) -> Batch:
        """Tokenize rows (or process images) into one batch on the CPU, padded on the right."""
        self.probe()
        if not self.task.is_text:
            return self._encode_images(rows)
        tokenized_rows = tokenize_rows(
            self.tokenizer,
            rows,
            task=self.task,
            name=self.name,
            max_length=self.max_length if self.truncate else None,
            has_types="token_type_ids" in self._forward_arguments,
        )
        check_lengths([len(row.tokens) for row in tokenized_rows], self.max_length, name=self.name, unit="tokens")
        batch = text_batch(rows, tokenized_rows, padding=padding_token(self.model.config, self.tokenizer))
        check_readable(batch, self.task, name=self.name)
        return batch

    def _encode_images(self, rows: Sequence[Row]) -> Batch:
        images = [rgb_image(row, self.name) for row in rows]
        pixels = self.tokenizer(images=images, return_tensors="pt", input_data_format="channels_last")["pixel_values"]
        if getattr(self.tokenizer, "do_center_crop", False):  # the boxes refer to the uncropped image
            rows = [replace(row, rationale=None) for row in rows]
        return patch_batch(rows, pixels, patch=self._patch_size, leading=self._leading_positions)

    def visible_area(self, height: int, width: int) -> tuple[float, float, float, float]:
        """Top, left, height and width of the part of an image that remains after the processor's crop, in pixels."""
        crop = crop_window(self.tokenizer, height, width)
        return super().visible_area(height, width) if crop is None else crop

    def _count_leading_positions(self) -> int:
        """The number of special positions ([CLS], registers) before the patches, from a pass over an empty image."""
        size = self.model.config.image_size
        height, width = (size, size) if isinstance(size, int) else size
        pixels = torch.zeros(1, self.model.config.num_channels, height, width, device=self.device, dtype=self.dtype)
        with eval_mode(self), torch.no_grad():
            hidden = self._first_layer_input({"pixel_values": pixels})
        return int(hidden.shape[1]) - (height // self._patch_size) * (width // self._patch_size)

    @property
    def _patch_module(self) -> nn.Module:
        return self.model.base_model.embeddings.patch_embeddings

    # -- from the embeddings up ---------------------------------------------------------------------------------------

    def embed(self, batch: Batch, *, at: InputLevel = "word") -> Float[Tensor, "batch token dim"]:
        """The embeddings of a batch: of words (or patches) for `word`, the input of the first layer for `embedding`."""
        if at == "embedding":
            return self._first_layer_input(self._inputs(batch))
        if self.task.is_text:
            return first_output(self.model.get_input_embeddings()(batch.tokens))
        assert batch.pixels is not None
        patches = first_output(self._patch_module(batch.pixels.to(self.dtype)))
        # Special positions have no patch embedding: their zeros keep the positions aligned, and `run` drops them.
        return torch.cat([patches.new_zeros(len(batch), self._leading_positions, patches.shape[-1]), patches], 1)

    def run(
        self,
        embeddings: Float[Tensor, "batch token dim"],
        batch: Batch,
        *,
        at: InputLevel = "word",
        listen: Collection[TraceField] = (),
        zero_values_at: Bool[Tensor, "batch token"] | None = None,
    ) -> Trace:
        """Compute logits from embeddings, and record the fields of the `Trace` that `listen` names.

        - `at`: which embeddings these are, as in `embed`.
        - `listen`: `full` (attention logits), `mean` (attention logits averaged over queries), `reading`
          (log attention probabilities with the pooling position as query), `weights` (attention probabilities),
          `hidden` (hidden states).
        - `zero_values_at`: positions whose value vectors are zero in every layer, for value zeroing.

        Raises an `UnsupportedError` if the model does not support the requested attention.
        """
        records_attention = bool(set(listen) & ATTENTION_FIELDS)
        if records_attention or zero_values_at is not None:
            self.check_attention(listen, zero_values_at)
        # "first" is not used without "reading".
        pooling = self._pooling_for_recorder(batch) if "reading" in listen else "first"
        recorder = AttentionRecorder(listen, batch, pooling, zero_values_at)
        # With a recorder, layers use didact's attention function. The model's own (sdpa) is faster, but returns no
        # attention and has no second derivative.
        uses_recorder = records_attention or zero_values_at is not None or torch.is_grad_enabled()
        output = self.call_transformers(
            embeddings, batch, at=at, recorder=recorder if uses_recorder else None, listen=listen
        )
        if records_attention and self._attention_source.is_returned:
            record_probabilities(recorder, output.attentions, self.name)
        hidden = tuple(output.hidden_states) if "hidden" in listen else None
        return Trace(logits=self.logits_from_output(output, batch), hidden=hidden, **recorder.trace_fields())

    def call_transformers(
        self,
        embeddings: Float[Tensor, "batch token dim"],
        batch: Batch,
        *,
        at: InputLevel = "word",
        recorder: AttentionRecorder | None = None,
        listen: Collection[TraceField] = (),
        returns_attention: bool | None = None,
    ) -> Any:
        """Call the transformers model on embeddings, and return its output.

        - `at`: what the embeddings are. `word`: word (or patch) embeddings, before positions are added; `embedding`:
          the input of the first layer.
        - `recorder`: if given, layers compute attention with `models.attention_function`, which feeds the recorder.
        - `listen`: fields of the `Trace`. `hidden` sets `output_hidden_states`.
        - `returns_attention`: sets `output_attentions`. By default only if attention cannot be recorded otherwise.
        """
        options: dict[str, object] = {"return_dict": True, "output_hidden_states": "hidden" in listen}
        if returns_attention is None:
            returns_attention = bool(set(listen) & ATTENTION_FIELDS) and self._attention_source.is_returned
        if returns_attention:
            options["output_attentions"] = True
        pools_last = self.pools_last  # may run the model to measure it, so before hooks are in place
        word_vectors: Tensor | None = None  # None: the model gets ids or pixels, and a hook replaces the embeddings
        if self.task.is_text and at == "word":
            word_vectors = embeddings
        elif self.task.is_text and pools_last:
            # From token ids, a causal classifier finds the last token itself, which would override
            # pooling_at_last_token.
            word_vectors = self.embed(batch)
        with ExitStack() as stack:
            if recorder is not None:
                stack.enter_context(recording(self.model, recorder))
            if pools_last:
                stack.enter_context(pooling_at_last_token(self.model, batch))
            if at == "embedding":
                stack.enter_context(replaced_input(self._first_layer, embeddings))
            elif not self.task.is_text:
                stack.enter_context(replaced_output(self._patch_module, embeddings[:, self._leading_positions :]))
            stack.enter_context(outputs_in_place(self.model))
            return self.model(**self._inputs(batch, word_vectors), **options)

    def reference_logits(self, batch: Batch) -> Float[Tensor, "batch *output"]:
        """Logits of an unmodified call, from token ids or pixels alone. The rows must be equally long (no mask)."""
        inputs = self._inputs(batch)
        inputs.pop("attention_mask", None)
        with outputs_in_place(self.model):
            return self.logits_from_output(self.model(**inputs, return_dict=True), batch)

    def logits_from_output(self, output: Any, batch: Batch) -> Float[Tensor, "batch *output"]:
        """The logits in an output of transformers. For span prediction, -inf where no answer may start or end."""
        logits = self.task.head_logits(output).to(batch.device)  # accelerate may return them on another device
        return self.task.token_logits(logits, batch) if self.task.is_per_token else logits

    def self_check(self) -> None:
        """Raise an `UnsupportedError` if the answers differ from those of transformers on two short rows."""
        from didact.models.selfcheck import check_model

        check_model(self)

    # -- measured properties ------------------------------------------------------------------------------------------

    def probe(self) -> None:
        """Measure the pooling position and whether attention can be recorded, once.

        `encode` calls this, because explanation methods add their hooks and gradients after encoding.
        """
        if self._is_probed:
            return
        self._is_probed = True  # before measuring, which also calls encode
        try:
            _ = self.pooling_position, self._attention_source  # both are measured on first access
        except BaseException:
            self._is_probed = False
            raise

    @property
    def pooling_position(self) -> PoolingPosition:  # type: ignore[override]
        """Where the head pools, measured on two short rows.

        For heads with logits per token it has no meaning and is `first`.
        """
        if self.task.is_per_token:
            return "first"
        if self._pooling_position is None:
            from didact.models.selfcheck import measure_pooling_position

            self._pooling_position = measure_pooling_position(self)
        return self._pooling_position

    @property
    def pools_last(self) -> bool:
        """True if the head reads the last real token, as in causal classifiers."""
        return not self.task.is_per_token and self.pooling_position == "last"

    @property
    def _attention_source(self) -> "AttentionSource":
        if self._measured_attention_source is None:
            from didact.models.selfcheck import attention_source

            self._measured_attention_source = attention_source(self)
        return self._measured_attention_source

    @property
    def attention(self) -> Collection[Attention]:
        """The attention fields that `listen` may name, and `values` if `zero_values_at` works.

        Empty if none can be recorded.
        """
        if self._attention_source.fault is not None:
            return ()
        return ("mean", "reading", "full", "weights") if self._attention_source.is_returned else super().attention

    @property
    def attention_fault(self) -> str:
        """Why the requested fields are missing: a clause that ends an error message."""
        fault = self._attention_source.fault or (
            "it does not use transformers' attention interface, so its value vectors cannot be changed"
        )
        return f"whose attention ({self.model.config.model_type}) cannot be used: {fault}"

    def pooling_weights(self, batch: Batch) -> Float[Tensor, "batch token"]:
        """How much of the head's input comes from each position; sums to 1 per row."""
        if self.pooling_position not in ("measured", "unknown"):
            return super().pooling_weights(batch)
        weights = None
        if self.pooling_position == "measured":
            with torch.no_grad():
                word_vectors = self.embed(batch)
            weights = position_weights(
                self.model,
                self._layers[-1],
                lambda: self.logits_from_output(self.call_transformers(word_vectors, batch), batch),
            )
        if weights is None:
            raise UnsupportedError(
                f"The pooling position of {self.name!r} ({self.model.config.model_type}) cannot be measured, because "
                "its head has no gradient. Choose attention_all, attention_last, or a method that needs only "
                "predictions."
            )
        return weights.to(batch.device, self.dtype)

    def _pooling_for_recorder(self, batch: Batch) -> PoolingPosition | Float[Tensor, "batch token"]:
        """The pooling position in the form that `AttentionRecorder` takes: by name, or measured for this batch."""
        return (
            self.pooling_weights(batch) if self.pooling_position in ("measured", "unknown") else self.pooling_position
        )

    # -- parts of the model --------------------------------------------------------------------------------------------

    def _inputs(self, batch: Batch, embeddings: Tensor | None = None) -> dict[str, object]:
        """The keyword arguments of `model.forward`, with `inputs_embeds` if embeddings are given."""
        if batch.pixels is not None:
            return {"pixel_values": batch.pixels.to(self.dtype)}
        inputs: dict[str, object] = {"input_ids": batch.tokens} if embeddings is None else {"inputs_embeds": embeddings}
        inputs["attention_mask"] = batch.mask.long()
        if batch.types is not None:
            inputs["token_type_ids"] = batch.types
        if "use_cache" in self._forward_arguments:
            inputs["use_cache"] = False
        return inputs

    def _first_layer_input(self, inputs: dict[str, object]) -> Tensor:
        """The input of the first layer. The layers themselves are not computed."""
        hidden = first_input(self._first_layer, lambda: self.model(**inputs))
        if hidden is not None:
            return hidden.to(self.device)
        fault = "it does not call its first layer as a module, so its input cannot be replaced"
        raise unsupported_model_error(self.name, self.model, fault)

    @property
    def layers_in_order(self) -> Sequence[nn.Module]:
        """The transformer layers, each module once."""
        return self._layers

    def special_token_id(self, name: str) -> int:
        """The id of the `pad`, `mask` or `unk` token, used as a baseline or replacement."""
        token = getattr(self.tokenizer, f"{name}_token_id", None)
        if token is None:
            raise UnsupportedError(
                f"Baseline {name!r} needs a token that model {self.name!r} does not have. Choose baseline 'zero'."
            )
        return int(token)

    def token_name(self, token: int) -> str:
        return str(self.tokenizer.convert_ids_to_tokens(token))

    # -- description and files ----------------------------------------------------------------------------------------

    def facts(self) -> Mapping[str, object]:
        """Everything besides the weights that decides an output. Part of fingerprints."""
        config = {key: value for key, value in self.model.config.to_dict().items() if not key.startswith("_")}
        return {
            "config": config,
            "tokenizer": tokenizer_config(self.tokenizer),
            "task": self.task.name,
            "classes": self.classes,
            "max_length": self.max_length,
            "truncate": self.truncate,
        }

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
