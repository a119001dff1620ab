"""Hugging Face models as white boxes: from the embeddings up, with their attention, left as they were found."""

import inspect
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from didact.core.batch import Batch, Pieces, patch_batch, text_batch
from didact.core.model import At, Model, Reading, check_lengths, check_readable, evaluating, passage_logits
from didact.core.row import Row
from didact.core.task import CLASSIFICATION, IMAGE, PAIR, READING, REGRESSION, Task, task_named
from didact.core.trace import Listen, Trace
from didact.errors import DidactError, OptionError, ShapeError, UnsupportedError
from didact.models.attention import overheard
from didact.models.listening import ATTENTION, Ear, hear_probabilities
from didact.models.pooled import pooled_at_last, position_weights
from didact.models.spread import device_of_module, is_spread, outputs_in_place, whole_weights
from didact.models.tokenizer import trim

if TYPE_CHECKING:
    from didact.models.selfcheck import AttentionSource


class HuggingFaceModel(Model):
    """A transformers model with its tokenizer or image processor.

    It pools by itself where transformers would read padding (causal classifiers given embeddings), pads on the right
    by itself, and switches the attention implementation only while it runs. Where the head pools and whether attention
    can be recorded are measured on two short rows, the first time they matter.
    """

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
        _check_architecture(model)
        self.model = model
        self.tokenizer = tokenizer
        self.name = name or getattr(model, "name_or_path", "") or type(model).__name__
        self.task = _fitting(model, task)
        self.classes = _classes_of(model, self.task, classes)
        self.truncate = truncate
        self._reading: Reading | None = None
        self._attention: AttentionSource | None = None
        self._is_measured = False
        self.max_length = _max_length(model, tokenizer, max_length)
        self._layers = _layers(model)
        self._first_layer = self._layers[0]
        self._accepts = frozenset(inspect.signature(model.forward).parameters)
        if self.task.is_text and not getattr(tokenizer, "is_fast", False):
            raise UnsupportedError(
                f"The tokenizer of {self.name!r} is {type(tokenizer).__name__}, which cannot say which characters a "
                "piece covers. didact needs a fast tokenizer: convert it, or load the model with one."
            )
        if not self.task.is_text:
            self._patch = int(model.config.patch_size)
            with foreign_errors(self):
                self._leading = self._count_leading()

    def _kind(self) -> str:
        return f"transformers, {type(self.model).__name__}"

    # -- where it is --------------------------------------------------------------------------------------------------

    @property
    def is_spread(self) -> bool:
        return is_spread(self.model)

    @property
    def device(self) -> torch.device:
        """Where inputs go and answers come back: the device of the embeddings."""
        return device_of_module(self.model.get_input_embeddings() if self.task.is_text else self._patch_module)

    def to(self, *args: Any, **kwargs: Any) -> "HuggingFaceModel":
        if self.is_spread:
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
        options: dict[str, Any] = {"return_offsets_mapping": True, "verbose": False}
        if self.truncate:
            options |= {"truncation": "only_second" if self.task is READING else True, "max_length": self.max_length}
        try:
            with undisturbed(self.tokenizer):
                encoded = self.tokenizer(*self._texts(rows), **options)
        except Exception as error:
            if "runcation error" not in str(error):
                raise
            raise UnsupportedError(
                f"A question alone is longer than the {self.max_length} tokens that model {self.name!r} reads; "
                "only passages are cut. Shorten it, or raise max_length."
            ) from error
        check_lengths([len(ids) for ids in encoded["input_ids"]], self.max_length, name=self.name, unit="tokens")
        types = encoded.get("token_type_ids") if "token_type_ids" in self._accepts else None
        pieces = [
            Pieces(
                tokens=np.array(encoded["input_ids"][index], dtype=np.int64),
                segments=np.array([-1 if s is None else s for s in encoded.sequence_ids(index)], dtype=np.int64),
                offsets=np.array(encoded["offset_mapping"][index], dtype=np.int64).reshape(-1, 2),
                types=None if types is None else np.array(types[index], dtype=np.int64),
            )
            for index in range(len(rows))
        ]
        for row, one in zip(rows, pieces, strict=True):
            trim(row.texts, one)
        batch = text_batch(rows, pieces, padding=self._padding)
        check_readable(batch, self.task, name=self.name)
        return batch

    @property
    def _padding(self) -> int:
        """A token to fill up with. It is masked everywhere, so a model without one loses nothing by 0."""
        known = (getattr(self.model.config, "pad_token_id", None), getattr(self.tokenizer, "pad_token_id", None))
        return next((token for token in known if isinstance(token, int) and token >= 0), 0)

    def _texts(self, rows: Sequence[Row]) -> list[list[str]]:
        counts = {len(row.texts) for row in rows}
        if len(counts) > 1 or not counts <= set(range(self.task.fewest_texts, len(self.task.segments) + 1)):
            hint = " Load the model with task='pair' if it reads two texts." if self.task is CLASSIFICATION else ""
            raise ShapeError(
                f"Model {self.name!r} does {self.task}, which reads {' and '.join(self.task.segments)}; "
                f"it was given rows of {' or '.join(map(str, sorted(counts)))} texts.{hint}"
            )
        return [list(texts) for texts in zip(*(row.texts for row in rows), strict=True)]

    def _encode_images(self, rows: Sequence[Row]) -> Batch:
        if any(row.image is None for row in rows):
            raise ShapeError(f"Model {self.name!r} reads images, and some rows have none.")
        images = [_colour(row) for row in rows]
        pixels = self.tokenizer(images=images, return_tensors="pt", input_data_format="channels_last")["pixel_values"]
        if getattr(self.tokenizer, "do_center_crop", False):  # boxes cannot follow a crop
            rows = [replace(row, rationale=None) for row in rows]
        return patch_batch(rows, pixels, patch=self._patch, leading=self._leading)

    def window(self, height: int, width: int) -> tuple[float, float, float, float]:
        processor = self.tokenizer
        if not getattr(processor, "do_center_crop", False):
            return super().window(height, width)
        size, crop = dict(processor.size), dict(processor.crop_size)
        down = across = 1.0
        if processor.do_resize:
            shortest = size.get("shortest_edge")
            down, across = (
                (shortest / min(height, width),) * 2
                if shortest is not None
                else (size["height"] / height, size["width"] / width)
            )
        tall, wide = crop["height"] / down, crop["width"] / across
        return (height - tall) / 2, (width - wide) / 2, tall, wide

    def _count_leading(self) -> int:
        """How many special positions ([CLS], registers) stand before the patches: asked of the model itself."""
        size = self.model.config.image_size
        height, width = (size, size) if isinstance(size, int) else size
        pixels = torch.zeros(1, self.model.config.num_channels, height, width, device=self.device, dtype=self._dtype)
        with evaluating(self), torch.no_grad():
            entering = self._entering({"pixel_values": pixels})
        return int(entering.shape[1]) - (height // self._patch) * (width // self._patch)

    # -- from the embeddings up ---------------------------------------------------------------------------------------

    def embed(self, batch: Batch, *, at: At = "word") -> Float[Tensor, "batch token dim"]:
        if at == "embedding":
            return self._entering(self._inputs(batch))
        if self.task.is_text:
            return _first(self.model.get_input_embeddings()(batch.tokens))
        assert batch.pixels is not None
        patches = _first(self._patch_module(batch.pixels.to(self._dtype)))
        # Special positions have no word of their own: zeros stand for them, and `run` leaves them out.
        return torch.cat([patches.new_zeros(len(batch), self._leading, patches.shape[-1]), patches], 1)

    def run(
        self,
        embeddings: Float[Tensor, "batch token dim"],
        batch: Batch,
        *,
        at: At = "word",
        listen: Collection[Listen] = (),
        blank: Bool[Tensor, "batch token"] | None = None,
    ) -> Trace:
        records = bool(set(listen) & ATTENTION)
        if records or blank is not None:
            self._check_attention(changes=blank is not None)
        ear = Ear(listen, batch, self._pooling_of(batch) if "reading" in listen else "first", blank)
        # sdpa has neither attentions nor a second derivative; where nobody needs them, the model's own code is faster.
        is_ours = records or blank is not None or torch.is_grad_enabled()
        output = self.passed(embeddings, batch, at=at, ear=ear if is_ours else None, listen=listen)
        if records and self._attention_source.is_returned:
            hear_probabilities(ear, output.attentions, self.name)
        hidden = tuple(output.hidden_states) if "hidden" in listen else None
        return Trace(logits=self.logits_of(output, batch), hidden=hidden, **ear.parts())

    def passed(
        self,
        embeddings: Float[Tensor, "batch token dim"],
        batch: Batch,
        *,
        at: At = "word",
        ear: Ear | None = None,
        listen: Collection[Listen] = (),
        returns_attention: bool | None = None,
    ) -> Any:
        """What transformers gives for these embeddings; with our attention function if there is an `ear`."""
        options: dict[str, Any] = {"return_dict": True, "output_hidden_states": "hidden" in listen}
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
            if ear is not None:
                stack.enter_context(overheard(self.model, ear))
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
        if self.task is READING:
            ends = torch.stack([output.start_logits, output.end_logits], -1).to(batch.device)
            return passage_logits(ends, batch)
        logits: Tensor = output.logits
        return logits.to(batch.device)  # of a spread model it may be elsewhere

    # -- what is measured ---------------------------------------------------------------------------------------------

    def measure(self) -> None:
        """Measure where the head pools and whether attention is recorded, once.

        Rows are encoded before a method puts hooks or derivatives of its own into the model; later would be too late.
        """
        if self._is_measured:
            return
        self._is_measured = True  # the rows to measure with are encoded, too
        try:
            assert self.reading
            assert self._attention_source
        except BaseException:
            self._is_measured = False
            raise

    @property
    def reading(self) -> Reading:  # type: ignore[override]
        """Where the head pools, measured on two short rows. A span is read at its own ends, not at one position."""
        if self.task is READING:
            return "first"
        if self._reading is None:
            from didact.models.selfcheck import measured_reading

            self._reading = measured_reading(self)
        return self._reading

    @property
    def pools_last(self) -> bool:
        return self.task is not READING and self.reading == "last"

    @property
    def _attention_source(self) -> "AttentionSource":
        if self._attention is None:
            from didact.models.selfcheck import attention_source

            self._attention = attention_source(self)
        return self._attention

    def _check_attention(self, *, changes: bool) -> None:
        """Refuse what cannot be recorded or changed, before any pass."""
        source = self._attention_source
        fault = source.fault
        if changes and fault is None and source.is_returned:
            fault = "it computes attention without transformers' attention interface, so its values cannot be changed"
        if fault is not None:
            raise UnsupportedError(
                f"The attention of {self.name!r} ({self.model.config.model_type}) cannot be used: {fault}. "
                "Choose a method that needs gradients or predictions only."
            )

    def pooling_weights(self, batch: Batch) -> Float[Tensor, "batch token"]:
        if self.reading not in ("measured", "unknown"):
            return super().pooling_weights(batch)
        weights = None
        if self.reading == "measured":
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
        return weights.to(batch.device, self._dtype)

    def _pooling_of(self, batch: Batch) -> Reading | Float[Tensor, "batch token"]:
        return self.pooling_weights(batch) if self.reading in ("measured", "unknown") else self.reading

    def _inputs(self, batch: Batch, embeddings: Tensor | None = None) -> dict[str, Any]:
        if batch.pixels is not None:
            return {"pixel_values": batch.pixels.to(self._dtype)}
        inputs: dict[str, Any] = {"input_ids": batch.tokens} if embeddings is None else {"inputs_embeds": embeddings}
        inputs["attention_mask"] = batch.mask.long()
        if batch.types is not None:
            inputs["token_type_ids"] = batch.types
        if "use_cache" in self._accepts:
            inputs["use_cache"] = False
        return inputs

    def _entering(self, inputs: dict[str, Any]) -> Tensor:
        """What enters the first layer; nothing above it is computed."""

        def stop(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            raise _Entered(args[0] if args else kwargs["hidden_states"])

        hook = self._first_layer.register_forward_pre_hook(stop, with_kwargs=True)
        try:
            self.model(**inputs)
        except _Entered as entered:
            return entered.hidden.to(self.device)
        finally:
            hook.remove()
        raise UnsupportedError(
            f"Model {self.name!r} ({self.model.config.model_type}) cannot be a white box: it does not call its first "
            "layer as a module, so nothing can enter there. Wrap its predictions: didact.teacher_from_function(…)."
        )

    @property
    def layers_in_order(self) -> Sequence[nn.Module]:
        return self._layers

    def filler(self, name: str) -> int:
        token = getattr(self.tokenizer, f"{name}_token_id", None)
        if token is None:
            raise UnsupportedError(
                f"Baseline {name!r} was asked for, but {self.name!r} has no such token. Choose baseline 'zero'."
            )
        return int(token)

    def token_name(self, token: int) -> str:
        return str(self.tokenizer.convert_ids_to_tokens(token))

    # -- keeping ------------------------------------------------------------------------------------------------------

    def facts(self) -> Mapping[str, Any]:
        config = {key: value for key, value in self.model.config.to_dict().items() if not key.startswith("_")}
        tokenizer = (
            self.tokenizer.to_dict() if not self.task.is_text else json.loads(self.tokenizer.backend_tokenizer.to_str())
        )
        for state in ("truncation", "padding"):  # how it was called last, not what it is
            tokenizer.pop(state, None)
        return {
            "config": config,
            "tokenizer": tokenizer,
            "task": self.task.name,
            "classes": self.classes,
            "max_length": self.max_length,
            "truncate": self.truncate,
        }

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.model.parameters()).dtype

    @property
    def _patch_module(self) -> nn.Module:
        return self.model.base_model.embeddings.patch_embeddings


class _Entered(Exception):  # noqa: N818 - carries a value out of a forward pass; nothing went wrong
    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.hidden = hidden


@contextmanager
def undisturbed(tokenizer: Any) -> Iterator[None]:
    """Truncation and padding, which a call to a fast tokenizer sets for good, come back afterwards."""
    backend = tokenizer.backend_tokenizer
    truncation, padding = backend.truncation, backend.padding
    try:
        yield
    finally:
        backend.no_truncation() if truncation is None else backend.enable_truncation(**truncation)
        backend.no_padding() if padding is None else backend.enable_padding(**padding)


@contextmanager
def replaced_input(module: nn.Module, hidden: Tensor) -> Iterator[None]:
    """`hidden` enters the module instead of what it is called with, the first time it is called."""
    calls = 0

    def swap(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        nonlocal calls
        calls += 1
        if calls > 1:  # ALBERT calls one module for all its layers
            return args, kwargs
        return ((hidden, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": hidden})

    hook = module.register_forward_pre_hook(swap, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def replaced_output(module: nn.Module, output: Tensor) -> Iterator[None]:
    """`output` comes out of the module instead of the tensor it computes; what it returns beside that stays."""

    def swap(_: nn.Module, __: Any, computed: Any) -> Any:
        return (output, *computed[1:]) if isinstance(computed, tuple) else output

    hook = module.register_forward_hook(swap)
    try:
        yield
    finally:
        hook.remove()


def _first(output: Any) -> Any:
    """The embeddings, where a module returns more beside them: the size of a grid, the scale of a quantisation."""
    return output[0] if isinstance(output, tuple) else output


def task_of(model: PreTrainedModel) -> Task:
    """The task a model's head was made for; heads that didact does not serve are refused by name."""
    head = type(model).__name__
    config = model.config
    if head.endswith("ForQuestionAnswering"):
        return READING
    if head.endswith("ForImageClassification"):
        return IMAGE
    if head.endswith("ForSequenceClassification"):
        problem = getattr(config, "problem_type", None)
        if problem == "multi_label_classification":
            raise UnsupportedError(
                f"The configuration of {head} says problem_type='multi_label_classification': several labels at once "
                "have no single predicted class. Wrap one label as a classifier of two classes: "
                "didact.teacher_from_function(…). If each text has one label only, set model.config.problem_type to "
                "'single_label_classification'."
            )
        if problem == "regression" and config.num_labels > 1:
            raise UnsupportedError(f"{head} rates {config.num_labels} things at once; a regression has one output.")
        if problem == "regression" or (problem is None and config.num_labels == 1):
            return REGRESSION
        # The head looks the same for one text and for two; only the names of its classes can tell.
        return PAIR if any("entail" in str(name).lower() for name in config.id2label.values()) else CLASSIFICATION
    if "ForTokenClassification" in head:
        return task_named("token_classification")  # raises, with the reason
    if any(mark in head for mark in ("LMHead", "ForCausalLM", "ForConditionalGeneration")):
        return task_named("generation")  # raises, with the reason
    raise UnsupportedError(
        f"{head} has no head that answers a task. Load a model for sequence classification, question answering or "
        "image classification, or train one from it: didact train --model NAME --data DATA."
    )


def _check_architecture(model: PreTrainedModel) -> None:
    """Refuse, with the reason, what the adapter has no way into."""
    config = model.config
    reason = None
    if getattr(config, "is_encoder_decoder", False):
        reason = "an encoder and a decoder read the text twice"
    if type(model).__name__.endswith("ForImageClassification"):
        embeddings = getattr(model.base_model, "embeddings", None)
        if not hasattr(embeddings, "patch_embeddings") or not isinstance(getattr(config, "patch_size", None), int):
            reason = "didact finds no square patches in it (base_model.embeddings.patch_embeddings, config.patch_size)"
    if reason is not None:
        raise UnsupportedError(
            f"Models of type {config.model_type!r} are not supported as white boxes: {reason}. "
            "Wrap its predictions instead: didact.teacher_from_function(…)."
        )


@contextmanager
def foreign_errors(model: HuggingFaceModel) -> Iterator[None]:
    """An error that a model raises on a short row becomes a refusal that quotes it."""
    try:
        yield
    except DidactError:
        raise
    except Exception as error:
        first = str(error).strip().partition("\n")[0].rstrip(".")
        raise UnsupportedError(
            f"Model {model.name!r} ({model.model.config.model_type}) cannot be a white box: run on a short row, it "
            f"raises {type(error).__name__}: {first}. Wrap its predictions instead: didact.teacher_from_function(…)."
        ) from error


def _fitting(model: PreTrainedModel, asked: Task | None) -> Task:
    """The task of the model's head, or the one asked for where the head can do it."""
    own = task_of(model)
    if asked is None or asked == own:
        return own
    if {asked, own} == {CLASSIFICATION, PAIR}:
        return asked
    raise OptionError(f"{type(model).__name__} has a head for {own}, and cannot do {asked}.")


def _colour(row: Row) -> np.ndarray:
    """The image with three channels; grey ones are repeated."""
    assert row.image is not None
    if row.image.ndim != 3 or row.image.shape[2] not in (1, 3):
        raise ShapeError(
            f"Row {row.id!r} has an image of shape {row.image.shape}; models read height × width × 3, or × 1 for grey."
        )
    return np.repeat(row.image, 3, axis=2) if row.image.shape[2] == 1 else row.image


def _classes_of(model: PreTrainedModel, task: Task, classes: Sequence[str] | None) -> tuple[str, ...] | None:
    if not task.has_classes:
        return None
    names = [str(model.config.id2label[index]) for index in range(model.config.num_labels)]
    if classes is not None and len(classes) != len(names):
        raise OptionError(f"{len(classes)} class names were given, but the model has {len(names)} outputs.")
    found = tuple(names if classes is None else classes)
    if len(set(found)) < len(found):
        raise OptionError(
            f"The model names a class twice: {', '.join(found)}. Name its outputs, load_teacher(…, classes=[…]), or "
            "correct id2label in its config.json."
        )
    return found


def _max_length(model: PreTrainedModel, tokenizer: Any, asked: int | None) -> int:
    limit = getattr(model.config, "max_position_embeddings", None) or 0
    limit = limit if limit > 0 else 1_000_000  # XLNet says -1: as many as there are
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if isinstance(table, nn.Embedding) and table.padding_idx is not None:
        limit -= table.padding_idx + 1  # RoBERTa counts positions from behind its padding index
    limit = min(limit, getattr(tokenizer, "model_max_length", None) or limit)
    if asked is None:
        return int(limit)
    if asked > limit:
        raise OptionError(f"max_length {asked} was asked for, but the model reads {limit} tokens at most.")
    special = tokenizer.num_special_tokens_to_add(pair=True) if hasattr(tokenizer, "num_special_tokens_to_add") else 0
    if asked <= special:
        raise OptionError(f"max_length {asked} leaves no room for words beside {special} special tokens.")
    return asked


def _layers(model: PreTrainedModel) -> Sequence[nn.Module]:
    """The transformer layers: the list that has as many as the configuration says, or ALBERT's groups."""
    lists = [part for part in model.base_model.modules() if isinstance(part, nn.ModuleList) and len(part)]
    for wanted in (getattr(model.config, "num_hidden_layers", None), getattr(model.config, "num_hidden_groups", None)):
        for part in lists:
            if len(part) == wanted:
                return tuple(part)
    raise UnsupportedError(f"The layers of {type(model).__name__} were not found; this architecture is not supported.")
