"""Adapters that make a `Teacher` of any object that fulfils `Predictor` or `Differentiable`."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from didact.core.batch import Batch
from didact.core.function import FunctionTeacher
from didact.core.model import Attention, InputLevel, Model, TokenMask, TokenVectors, Trace, TraceField
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.rows import Rows
from didact.core.teacher import Attentive, Differentiable, Predictor, Teacher
from didact.errors import OptionError, ShapeError, UnsupportedError


def as_teacher(source: object) -> Teacher:
    """A `Teacher` for any object that fulfils `Predictor`. A `Teacher` is returned unchanged.

    Raises `OptionError` if the object lacks an attribute of `Predictor`.
    """
    if isinstance(source, Teacher):
        return source
    if not isinstance(source, Predictor):
        missing = [name for name in ("name", "task", "classes", "predict") if not hasattr(source, name)]
        raise OptionError(
            f"{type(source).__name__} is no teacher: it lacks {', '.join(missing)}. Add what is missing "
            "(see didact.core.teacher.Predictor), or use didact.load_teacher(…) or didact.teacher_from_function(…)."
        )
    return DifferentiableTeacher(source) if isinstance(source, Differentiable) else PredictorTeacher(source)


class PredictorTeacher(FunctionTeacher):
    """A user's `Predictor` as a teacher: a black box, treated like a function."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self.name, self.task = predictor.name, predictor.task
        self.classes = None if predictor.classes is None else tuple(predictor.classes)
        self.output = "logit" if self.task.has_classes else "value"
        self._stored = None

    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs:
        if self.task.is_per_token:  # answers are texts
            return _checked(self.predictor.predict(rows, batch_size=batch_size), self.name)
        return super().predict(rows, batch_size=batch_size)

    def _answers(self, rows: Sequence[Row]) -> Any:
        return _checked(self.predictor.predict(rows, batch_size=len(rows)), self.name).values


class DifferentiableTeacher(Model):
    """A user's `Differentiable` as a model.

    A torch module is identified by a hash of its weights, any other object by its answers.
    """

    def __init__(self, source: Differentiable) -> None:
        super().__init__()
        self.source = source
        self.name, self.task = source.name, source.task
        self.classes = None if source.classes is None else tuple(source.classes)
        self.pooling_position = getattr(source, "pooling_position", "unknown")
        self.max_length = getattr(source, "max_length", torch.iinfo(torch.int64).max)
        self.is_identified_by_answers = not isinstance(source, nn.Module)

    def encode(self, rows: Sequence[Row]) -> Batch:
        return self.source.encode(rows)

    def embed(self, batch: Batch, *, at: InputLevel = "word") -> TokenVectors:
        return self.source.embed(batch, at=at)

    def run(
        self,
        embeddings: TokenVectors,
        batch: Batch,
        *,
        at: InputLevel = "word",
        listen: Collection[TraceField] = (),
        zero_values_at: TokenMask | None = None,
    ) -> Trace:
        self.check_attention(listen, zero_values_at)
        options: dict[str, Any] = (
            {"listen": listen, "zero_values_at": zero_values_at} if isinstance(self.source, Attentive) else {}
        )
        return self.source.run(embeddings, batch, at=at, **options)

    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs:
        return _checked(self.source.predict(rows, batch_size=batch_size), self.name)

    def fingerprint(self, rows: Sequence[Row] = (), outputs: Outputs | None = None) -> str:
        return Teacher.fingerprint(self, rows, outputs) if self.is_identified_by_answers else super().fingerprint()

    @property
    def attention(self) -> Collection[Attention]:
        return self.source.attention if isinstance(self.source, Attentive) else ()

    @property
    def attention_fault(self) -> str:
        return "which records no other" if self.attention else "which records none"

    @property
    def device(self) -> torch.device:
        return getattr(self.source, "device", None) or next(
            (tensor.device for tensor in self.tensors()), torch.device("cpu")
        )

    @property
    def dtype(self) -> torch.dtype:
        return next((parameter.dtype for parameter in self.parameters()), torch.get_default_dtype())

    def special_token_id(self, name: str) -> int:
        if hasattr(self.source, "special_token_id"):
            return int(self.source.special_token_id(name))
        raise UnsupportedError(f"Baseline {name!r} needs a special token, and {self.name!r} names none. Choose 'zero'.")

    def token_name(self, token: int) -> str:
        return str(self.source.token_name(token)) if hasattr(self.source, "token_name") else ""

    @property
    def layers_in_order(self) -> Sequence[nn.Module]:
        return tuple(getattr(self.source, "layers_in_order", ()))

    def facts(self) -> Mapping[str, Any]:
        return {"class": type(self.source).__qualname__, "task": self.task.name, "classes": self.classes}

    def save(self, folder: Path) -> None:
        raise UnsupportedError(
            f"didact cannot save model {self.name!r} in {folder}, because it did not build it. Save it yourself."
        )


def _checked(outputs: object, name: str) -> Outputs:
    if not isinstance(outputs, Outputs):
        raise ShapeError(
            f"predict of teacher {name!r} must return didact.core.outputs.Outputs, got {type(outputs).__name__}."
        )
    return outputs
