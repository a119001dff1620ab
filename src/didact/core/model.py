"""`Model`, the base class of teachers and students that run from their embeddings up and record attention."""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

# Re-exported: the types of a model's signature.
from didact.core.batch import Batch as Batch
from didact.core.batching import row_batches
from didact.core.needs import require, require_attention
from didact.core.outputs import Outputs as Outputs
from didact.core.row import Row as Row
from didact.core.rows import Rows, as_rows
from didact.core.shared_weights import shared_copy
from didact.core.task import Task as Task
from didact.core.teacher import Attention as Attention
from didact.core.teacher import Teacher, describe_teacher
from didact.core.trace import Trace as Trace
from didact.core.trace import TraceField as TraceField
from didact.errors import ShapeError, UnsupportedError


class TooLongError(UnsupportedError):
    """Rows are longer than the model reads. `lengths` has the length of every row of the call, in order."""

    def __init__(self, message: str, lengths: Sequence[int]) -> None:
        super().__init__(message)
        self.lengths = list(lengths)


TokenMask: TypeAlias = Bool[Tensor, "batch token"]
TokenScores: TypeAlias = Float[Tensor, "batch token"]
TokenVectors: TypeAlias = Float[Tensor, "batch token dim"]
InputLevel = Literal["word", "embedding"]
# Where the head pools: one position, the mean of all real ones, weights measured for each batch, or not known.
PoolingPosition = Literal["first", "last", "mean", "measured", "unknown"]


class Model(nn.Module, Teacher):
    """A white box: a module that encodes rows, embeds them and runs from the embeddings up.

    Level `at="word"` means the word or patch embeddings before positions and LayerNorm, `at="embedding"` the input of
    the first layer. `pooling_position` is where the head pools: the first token, the last real one or the mean of all;
    `pooling_weights` gives it as a weight per position.
    """

    pooling_position: PoolingPosition
    max_length: int
    truncate: bool = False
    is_identified_by_answers = False
    record: Mapping[str, Any] = MappingProxyType({})  # from `didact train`: base, data, measures

    @abstractmethod
    def encode(self, rows: Sequence[Row]) -> Batch:
        """The rows as one batch on the CPU. Rows above `max_length` raise `TooLongError` unless `truncate` is set."""

    @abstractmethod
    def embed(self, batch: Batch, *, at: InputLevel = "word") -> TokenVectors: ...

    @abstractmethod
    def run(
        self,
        embeddings: TokenVectors,
        batch: Batch,
        *,
        at: InputLevel = "word",
        listen: Collection[TraceField] = (),
        zero_values_at: TokenMask | None = None,
    ) -> Trace:
        """Run from the embeddings to the logits, and record the attention and hidden states that `listen` names.

        The attention values of positions in `zero_values_at` are zeroed: no token receives anything from them.
        """

    @abstractmethod
    def special_token_id(self, name: str) -> int:
        """The id of a special token: `pad`, `mask` or `unk`. Raises `UnsupportedError` if the tokenizer has none."""

    @abstractmethod
    def token_name(self, token: int) -> str: ...

    @property
    @abstractmethod
    def layers_in_order(self) -> Sequence[nn.Module]:
        """The layers in order, each once even if it is called often. Each maps hidden states to hidden states."""

    def pooling_weights(self, batch: Batch) -> TokenScores:
        """The weight of each position in the pooled state; sums to 1 per row."""
        weights = torch.zeros(batch.mask.shape, dtype=self.dtype, device=batch.device)
        if self.pooling_position == "mean":
            return weights + batch.mask / batch.lengths[:, None]
        rows = torch.arange(len(batch), device=batch.device)
        weights[rows, batch.lengths - 1 if self.pooling_position == "last" else 0] = 1.0
        return weights

    def visible_area(self, height: int, width: int) -> tuple[float, float, float, float]:
        """The part of an image of this size that the model reads: top, left, height, width. By default all of it."""
        return 0.0, 0.0, float(height), float(width)

    @contextmanager
    def decomposed(self) -> Iterator[None]:
        """A context in which the model runs in elementary operations on rows, so that rules can replace gradients.

        The first dimension of all intermediate tensors is the row.
        """
        yield

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """Everything but the weights that decides an output, as plain JSON: architecture, tokenizer, lengths."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Save weights, configuration and tokenizer in an existing folder."""

    def __repr__(self) -> str:
        """A summary instead of torch's module tree, which `print(teacher.model)` shows for a transformers model."""
        details = {"max tokens": self.max_length} if self.task.is_text else {}
        return describe_teacher(self, self._kind(), {**details, "parameters": f"{self._parameter_count():,}"})

    def _kind(self) -> str:
        """The kind of model, for `print`."""
        return type(self).__name__

    def _parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def forward(self, batch: Batch, *, listen: Collection[TraceField] = ()) -> Trace:
        return self.run(self.embed(batch), batch, listen=listen)

    # -- as a teacher -------------------------------------------------------------------------------------------------

    @property
    def attention(self) -> Collection[Attention]:
        return get_args(Attention)

    def check_attention(self, listen: Collection[TraceField], zero_values_at: TokenMask | None) -> None:
        """Raise `UnsupportedError` if the model cannot record these fields, or cannot zero values."""
        require_attention(
            self, [*(field for field in listen if field != "hidden"), *(() if zero_values_at is None else ("values",))]
        )

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def tensors(self) -> Sequence[Tensor]:
        return [value for value in self.state_dict(keep_vars=True).values() if isinstance(value, Tensor)]

    def self_check(self) -> None:
        """Raise an error if the answers from the embeddings up differ from the model's own."""

    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs:
        """Answer rows, texts, pairs of texts (as tuples) or images, in batches of similar length.

        Training mode and gradients do not change.
        """
        rows = as_rows(rows)
        values = np.zeros((len(rows), self.task.width(self.classes)))
        with inference_copy(self) as model:
            for indices in row_batches(rows, batch_size):
                try:
                    batch = model.encode([rows[index] for index in indices])
                except TooLongError:  # counts this batch only; check_rows counts all rows
                    model.check_rows(rows)
                    raise
                values[indices] = model.task.decode(model(batch.to(model.device)).logits, batch)
        return self._outputs(rows, values)

    def answers(self, rows: Sequence[Row], batch: Batch) -> tuple[Float[Tensor, "batch *output"], Outputs]:
        with eval_mode(shared_copy(self)) as model, torch.no_grad():
            logits = model(batch).logits
        return logits, self.outputs_of(rows, batch, logits)

    def outputs_of(self, rows: Sequence[Row], batch: Batch, logits: Float[Tensor, "batch *output"]) -> Outputs:
        """The answers that these logits stand for."""
        return self._outputs(rows, self.task.decode(logits, batch))

    def _outputs(self, rows: Sequence[Row], values: Float[np.ndarray, "row width"]) -> Outputs:
        answers = self.task.answer_texts(rows, values)
        return Outputs(self.task, tuple(row.id for row in rows), values, answers, self.classes)

    def check_rows(self, rows: Sequence[Row], *, batch_size: int = 256) -> None:
        lengths = [0] * len(rows)
        for start in range(0, len(rows), batch_size):
            try:
                self.encode(rows[start : start + batch_size])
            except TooLongError as error:
                lengths[start : start + batch_size] = error.lengths
        check_lengths(lengths, self.max_length, name=self.name, unit="tokens")

    def weights(self) -> Iterable[tuple[str, Tensor]]:
        """All weights, sorted by name."""
        return sorted(self.state_dict().items())

    def fingerprint(self, rows: Sequence[Row] = (), outputs: Outputs | None = None) -> str:  # noqa: ARG002
        """A hash of weights, configuration and tokenizer. Not cached: see `cached_fingerprint`."""
        digest = hashlib.sha256(json.dumps(self.facts(), sort_keys=True, default=str).encode())
        for name, tensor in self.weights():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]


def require_model(teacher: Teacher, method: str) -> Model:
    """The teacher as a `Model`. Raises `UnsupportedError` if it is a black box; `method` is named in the error."""
    require(teacher, "gradients", f"Method {method!r}")
    return cast(Model, teacher)


@contextmanager
def eval_mode(model: nn.Module) -> Any:
    """A context in evaluation mode. Afterwards every module has its former mode."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield model
    finally:
        for module in training:
            module.training = True


@contextmanager
def inference_copy(model: "Model") -> Iterator["Model"]:
    """A context with a copy of the model that shares its weights, in evaluation mode and without gradients."""
    model = shared_copy(model)
    # accelerate cannot load offloaded weights in inference mode.
    with eval_mode(model), torch.no_grad() if model.is_dispatched else torch.inference_mode():
        yield model


def check_lengths(lengths: Sequence[int], limit: int, *, name: str, unit: str) -> None:
    """Raise `TooLongError`, with their number, if rows are longer than `limit`."""
    too_long = [length for length in lengths if length > limit]
    if too_long:
        raise TooLongError(
            f"{len(too_long)} of {len(lengths)} rows are longer than the {limit} {unit} that model {name!r} reads "
            f"(the longest has {max(too_long)}). Shorten them, or truncate them (truncate=True, --truncate).",
            lengths,
        )


def check_readable(batch: Batch, task: Task, *, name: str) -> None:
    """Raise `ShapeError` if rows have no content after encoding."""
    has_content = task.content(batch).any(-1).tolist()
    unreadable = [row for row, is_readable in zip(batch.ids, has_content, strict=True) if not is_readable]
    if unreadable:
        raise ShapeError(
            f"{len(unreadable)} of {len(batch)} rows hold nothing that model {name!r} can read "
            f"(no {task.content_name}): {', '.join(unreadable[:10])}."
        )
