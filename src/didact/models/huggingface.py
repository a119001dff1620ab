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
from didact.models.accelerate_hooks import device_of_module, is_dispatched, outputs_in_place, whole_weights
from didact.models.attention_function import recording
from didact.models.attention_recorder import ATTENTION, AttentionRecorder, record_probabilities
from didact.models.fast_tokenizer import check_fast, padding_token, tokenized, tokenizer_facts
from didact.models.heads import check_architecture, class_names, fitting_task, longest_input, transformer_layers
from didact.models.hooks import first_input, first_output, foreign_errors, no_white_box, replaced_input, replaced_output
from didact.models.images import crop_window, rgb_image
from didact.models.pooling_position import pooled_at_last, position_weights

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
        self._reading: PoolingPosition | None = None
        self._attention: AttentionSource | None = None
        self._is_measured = False
        self.max_length = longest_input(model, tokenizer, max_length)
        self._layers = transformer_layers(model)
        self._first_layer = self._layers[0]
        self._accepts = frozenset(inspect.signature(model.forward).parameters)
        if self.task.is_text:
            check_fast(tokenizer, self.name, "didact needs a fast tokenizer: convert it, or load the model with one.")
        else:
            self._patch = int(model.config.patch_size)
            with foreign_errors(self.name, self.model):
                self._leading = self._count_leading()

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
        return whole_weights(self)

    # -- rows to tensors ----------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Row]) -> Batch:
        self.measure()
        if not self.task.is_text:
            return self._encode_images(rows)
        pieces = tokenized(
            self.tokenizer,
            rows,
            task=self.task,
            name=self.name,
            max_length=self.max_length if self.truncate else None,
            has_types="token_type_ids" in self._accepts,
        )
        check_lengths([len(row.tokens) for row in pieces], self.max_length, name=self.name, unit="tokens")
        batch = text_batch(rows, pieces, padding=padding_token(self.model.config, self.tokenizer))
        check_readable(batch, self.task, name=self.name)
        return batch

    def _encode_images(self, rows: Sequence[Row]) -> Batch:
        images = [rgb_image(row, self.name) for row in rows]
        pixels = self.tokenizer(images=images, return_tensors="pt", input_data_format="channels_last")["pixel_values"]
        if getattr(self.tokenizer, "do_center_crop", False):  # boxes cannot follow a crop
            rows = [replace(row, rationale=None) for row in rows]
        return patch_batch(rows, pixels, patch=self._patch, leading=self._leading)

    def window(self, height: int, width: int) -> tuple[float, float, float, float]:
        crop = crop_window(self.tokenizer, height, width)
        return super().window(height, width) if crop is None else crop

    def _count_leading(self) -> int:
        """How many special positions ([CLS], registers) stand before the patches: asked of the model itself."""
        size = self.model.config.image_size
        height, width = (size, size) if isinstance(size, int) else size
        pixels = torch.zeros(1, self.model.config.num_channels, height, width, device=self.device, dtype=self.dtype)
        with eval_mode(self), torch.no_grad():
            entering = self._entering({"pixel_values": pixels})
        return int(entering.shape[1]) - (height // self._patch) * (width // self._patch)

    # -- from the embeddings up ---------------------------------------------------------------------------------------

    def embed(self, batch: Batch, *, at: InputLevel = "word") -> Float[Tensor, "batch token dim"]:
        if at == "embedding":
            return self._entering(self._inputs(batch))
        if self.task.is_text:
            return first_output(self.model.get_input_embeddings()(batch.tokens))
        assert batch.pixels is not None
        patches = first_output(self._patch_module(batch.pixels.to(self.dtype)))
        # Special positions have no word of their own: zeros stand for them, and `run` leaves them out.
        return torch.cat([patches.new_zeros(len(batch), self._leading, patches.shape[-1]), patches], 1)

    def run(
        self,
        embeddings: Float[Tensor, "batch token dim"],
        batch: Batch,
        *,
        at: InputLevel = "word",
        listen: Collection[TraceField] = (),
        zero_values_at: Bool[Tensor, "batch token"] | None = None,
    ) -> Trace:
        records = bool(set(listen) & ATTENTION)
        if records or zero_values_at is not None:
            self.check_attention(listen, zero_values_at)
        recorder = AttentionRecorder(
            listen, batch, self._pooling_of(batch) if "reading" in listen else "first", zero_values_at
        )
        # sdpa has neither attentions nor a second derivative; where nobody needs them, the model's own code is faster.
        is_ours = records or zero_values_at is not None or torch.is_grad_enabled()
        output = self.passed(embeddings, batch, at=at, recorder=recorder if is_ours else None, listen=listen)
        if records and self._attention_source.is_returned:
            record_probabilities(recorder, output.attentions, self.name)
        hidden = tuple(output.hidden_states) if "hidden" in listen else None
        return Trace(logits=self.logits_of(output, batch), hidden=hidden, **recorder.parts())

    def passed(
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
            returns_attention = bool(set(listen) & ATTENTION) and self._attention_source.is_returned
        if returns_attention:
            options["output_attentions"] = True
        pools_last = self.pools_last  # measured before anything is switched
        is_word = at == "word" and self.task.is_text
        # Causal classifiers that are given token ids ask them where the last token is: they get embeddings.
        by_ids = not is_word and not pools_last
        words = None if by_ids or not self.task.is_text else embeddings if is_word else self.embed(batch)
        with ExitStack() as stack:
            if recorder is not None:
                stack.enter_context(recording(self.model, recorder))
            if pools_last:
                stack.enter_context(pooled_at_last(self.model, batch))
            if at == "embedding":
                stack.enter_context(replaced_input(self._first_layer, embeddings))
            elif not self.task.is_text:
                stack.enter_context(replaced_output(self._patch_module, embeddings[:, self._leading :]))
            stack.enter_context(outputs_in_place(self.model))
            return self.model(**self._inputs(batch, words), **options)

    def plain(self, batch: Batch) -> Float[Tensor, "batch *output"]:
        """The logits of transformers itself for rows of one length, from token ids or pixels alone."""
        inputs = self._inputs(batch)
        inputs.pop("attention_mask", None)
        with outputs_in_place(self.model):
            return self.logits_of(self.model(**inputs, return_dict=True), batch)

    def logits_of(self, output: Any, batch: Batch) -> Float[Tensor, "batch *output"]:
        logits = self.task.head_logits(output).to(batch.device)  # of a spread model it may be elsewhere
        return self.task.token_logits(logits, batch) if self.task.is_per_token else logits

    def self_check(self) -> None:
        from didact.models.selfcheck import check_model

        check_model(self)

    # -- what is measured ---------------------------------------------------------------------------------------------

    def measure(self) -> None:
        """Measure where the head pools and whether attention is recorded, once.

        Rows are encoded before a method puts hooks or derivatives of its own into the model; later would be too late.
        """
        if self._is_measured:
            return
        self._is_measured = True  # the rows to measure with are encoded, too
        try:
            assert self.pooling_position
            assert self._attention_source
        except BaseException:
            self._is_measured = False
            raise

    @property
    def pooling_position(self) -> PoolingPosition:  # type: ignore[override]
        """Where the head pools, measured on two short rows; a task per token is read at every token."""
        if self.task.is_per_token:
            return "first"
        if self._reading is None:
            from didact.models.selfcheck import measured_reading

            self._reading = measured_reading(self)
        return self._reading

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
                words = self.embed(batch)
            weights = position_weights(
                self.model, self._layers[-1], lambda: self.logits_of(self.passed(words, batch), batch)
            )
        if weights is None:
            raise UnsupportedError(
                f"Where {self.name!r} ({self.model.config.model_type}) pools its states cannot be measured: its head "
                "has no gradient. Choose attention_all, attention_last, or a method that needs predictions only."
            )
        return weights.to(batch.device, self.dtype)

    def _pooling_of(self, batch: Batch) -> PoolingPosition | Float[Tensor, "batch token"]:
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
        if "use_cache" in self._accepts:
            inputs["use_cache"] = False
        return inputs

    def _entering(self, inputs: dict[str, object]) -> Tensor:
        """What enters the first layer; nothing above it is computed."""
        hidden = first_input(self._first_layer, lambda: self.model(**inputs))
        if hidden is not None:
            return hidden.to(self.device)
        fault = "it does not call its first layer as a module, so nothing can enter there"
        raise no_white_box(self.name, self.model, fault)

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
            "tokenizer": tokenizer_facts(self.tokenizer),
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
