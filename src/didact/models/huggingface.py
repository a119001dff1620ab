"""Hugging Face models as white boxes: from the embeddings up, with their attention, left as they were found."""

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
    """A transformers model with its tokenizer or image processor.

    It pools by itself where transformers would read padding (causal classifiers given embeddings), pads on the right
    by itself, and switches the attention implementation only while it runs. Where the head pools and whether attention
    can be recorded are measured on two short rows, the first time they matter.
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
        self.tokenizer = tokenizer
        self.name = name or getattr(model, "name_or_path", "") or type(model).__name__
        self.task = fitting_task(model, task)
        self.classes = class_names(model, self.task, classes)
        self.truncate = truncate
        self._pooling_position: PoolingPosition | None = None
        self._attention: AttentionSource | None = None
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

    # -- where it is --------------------------------------------------------------------------------------------------

    @property
    def is_dispatched(self) -> bool:  # type: ignore[override]
        return is_dispatched(self.model)

    @property
    def device(self) -> torch.device:
        """Where inputs go and answers come back: the device of the embeddings."""
        return device_of_module(self.model.get_input_embeddings() if self.task.is_text else self._patch_module)

    @property
    def is_portable(self) -> bool:  # type: ignore[override]
        """Other machines may have less memory than it needs."""
        return not self.is_dispatched

    def to(self, *args: Any, **kwargs: Any) -> "HuggingFaceModel":
        if self.is_dispatched:
            raise UnsupportedError(
                f"Model {self.name!r} is spread over devices by accelerate, and cannot be moved to one. "
                "Load it anew with the device it is to have."
            )
        return super().to(*args, **kwargs)

    def weights(self) -> Iterable[tuple[str, Tensor]]:
        return named_weights(self)

    # -- rows to tensors ----------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Row]) -> Batch:
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
        if getattr(self.tokenizer, "do_center_crop", False):  # boxes cannot follow a crop
            rows = [replace(row, rationale=None) for row in rows]
        return patch_batch(rows, pixels, patch=self._patch_size, leading=self._leading_positions)

    def window(self, height: int, width: int) -> tuple[float, float, float, float]:
        crop = crop_window(self.tokenizer, height, width)
        return super().window(height, width) if crop is None else crop

    def _count_leading_positions(self) -> int:
        """How many special positions ([CLS], registers) stand before the patches: asked of the model itself."""
        size = self.model.config.image_size
        height, width = (size, size) if isinstance(size, int) else size
        pixels = torch.zeros(1, self.model.config.num_channels, height, width, device=self.device, dtype=self.dtype)
        with eval_mode(self), torch.no_grad():
            hidden = self._first_layer_input({"pixel_values": pixels})
        return int(hidden.shape[1]) - (height // self._patch_size) * (width // self._patch_size)

    # -- from the embeddings up ---------------------------------------------------------------------------------------

    def embed(self, batch: Batch, *, at: InputLevel = "word") -> Float[Tensor, "batch token dim"]:
        if at == "embedding":
            return self._first_layer_input(self._inputs(batch))
        if self.task.is_text:
            return first_output(self.model.get_input_embeddings()(batch.tokens))
        assert batch.pixels is not None
        patches = first_output(self._patch_module(batch.pixels.to(self.dtype)))
        # Special positions have no word of their own: zeros stand for them, and `run` leaves them out.
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
        records_attention = bool(set(listen) & ATTENTION_FIELDS)
        if records_attention or zero_values_at is not None:
            self.check_attention(listen, zero_values_at)
        recorder = AttentionRecorder(
            listen, batch, self._recorder_pooling(batch) if "reading" in listen else "first", zero_values_at
        )
        # sdpa has neither attentions nor a second derivative; where nobody needs them, the model's own code is faster.
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
        """What transformers gives for these embeddings; with our attention function if there is an `ear`."""
        options: dict[str, object] = {"return_dict": True, "output_hidden_states": "hidden" in listen}
        if returns_attention is None:
            returns_attention = bool(set(listen) & ATTENTION_FIELDS) and self._attention_source.is_returned
        if returns_attention:
            options["output_attentions"] = True
        pools_last = self.pools_last  # measured before anything is switched
        starts_at_words = at == "word" and self.task.is_text
        # Causal classifiers that are given token ids ask them where the last token is: they get embeddings.
        reads_token_ids = not starts_at_words and not pools_last
        word_vectors = (
            None if reads_token_ids or not self.task.is_text else embeddings if starts_at_words else self.embed(batch)
        )
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
        """The logits of transformers itself for rows of one length, from token ids or pixels alone."""
        inputs = self._inputs(batch)
        inputs.pop("attention_mask", None)
        with outputs_in_place(self.model):
            return self.logits_from_output(self.model(**inputs, return_dict=True), batch)

    def logits_from_output(self, output: Any, batch: Batch) -> Float[Tensor, "batch *output"]:
        logits = self.task.head_logits(output).to(batch.device)  # of a spread model it may be elsewhere
        return self.task.token_logits(logits, batch) if self.task.is_per_token else logits

    def self_check(self) -> None:
        from didact.models.selfcheck import check_model

        check_model(self)

    # -- what is measured ---------------------------------------------------------------------------------------------

    def probe(self) -> None:
        """Measure where the head pools and whether attention is recorded, once.

        Rows are encoded before a method puts hooks or derivatives of its own into the model; later would be too late.
        """
        if self._is_probed:
            return
        self._is_probed = True  # the rows to measure with are encoded, too
        try:
            assert self.pooling_position
            assert self._attention_source
        except BaseException:
            self._is_probed = False
            raise

    @property
    def pooling_position(self) -> PoolingPosition:  # type: ignore[override]
        """Where the head pools, measured on two short rows; a task per token is read at every token."""
        if self.task.is_per_token:
            return "first"
        if self._pooling_position is None:
            from didact.models.selfcheck import measure_pooling_position

            self._pooling_position = measure_pooling_position(self)
        return self._pooling_position

    @property
    def pools_last(self) -> bool:
        return not self.task.is_per_token and self.pooling_position == "last"

    @property
    def _attention_source(self) -> "AttentionSource":
        if self._attention is None:
            from didact.models.selfcheck import attention_source

            self._attention = attention_source(self)
        return self._attention

    @property
    def attention(self) -> Collection[Attention]:
        if self._attention_source.fault is not None:
            return ()
        return ("mean", "reading", "full", "weights") if self._attention_source.is_returned else super().attention

    @property
    def attention_fault(self) -> str:
        fault = self._attention_source.fault or (
            "it computes attention without transformers' attention interface, so its values cannot be changed"
        )
        return f"whose attention ({self.model.config.model_type}) cannot be used: {fault}"

    def pooling_weights(self, batch: Batch) -> Float[Tensor, "batch token"]:
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
                f"Where {self.name!r} ({self.model.config.model_type}) pools its states cannot be measured: its head "
                "has no gradient. Choose attention_all, attention_last, or a method that needs predictions only."
            )
        return weights.to(batch.device, self.dtype)

    def _recorder_pooling(self, batch: Batch) -> PoolingPosition | Float[Tensor, "batch token"]:
        return (
            self.pooling_weights(batch) if self.pooling_position in ("measured", "unknown") else self.pooling_position
        )

    def _inputs(self, batch: Batch, embeddings: Tensor | None = None) -> dict[str, object]:
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
        """What enters the first layer; nothing above it is computed."""
        hidden = first_input(self._first_layer, lambda: self.model(**inputs))
        if hidden is not None:
            return hidden.to(self.device)
        fault = "it does not call its first layer as a module, so nothing can enter there"
        raise unsupported_model_error(self.name, self.model, fault)

    @property
    def layers_in_order(self) -> Sequence[nn.Module]:
        return self._layers

    def special_token_id(self, name: str) -> int:
        token = getattr(self.tokenizer, f"{name}_token_id", None)
        if token is None:
            raise UnsupportedError(
                f"Baseline {name!r} was asked for, but {self.name!r} has no such token. Choose baseline 'zero'."
            )
        return int(token)

    def token_name(self, token: int) -> str:
        return str(self.tokenizer.convert_ids_to_tokens(token))

    # -- keeping ------------------------------------------------------------------------------------------------------

    def facts(self) -> Mapping[str, object]:
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

    @property
    def _patch_module(self) -> nn.Module:
        return self.model.base_model.embeddings.patch_embeddings
