"""Protocols of teachers: `Predictor` answers rows, `Differentiable` has gradients, `Attentive` records attention.

An object of a user only has to fulfil a protocol; `core.adapt` makes a `Teacher` of it. `Teacher` is the base class
that didact works with, with defaults for everything but `predict`. torch is imported when rows are encoded.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from didact.core.outputs import Outputs
from didact.core.row import Box, Row, Span
from didact.core.rows import Rows
from didact.core.task import Task
from didact.core.words import squares_of, words_of
from didact.files.store import key_of

if TYPE_CHECKING:
    import torch

    from didact.core.batch import Batch
    from didact.core.trace import Trace

_CLASSES_SHOWN = 12  # classes shown when a teacher is printed
# The fields of `Trace` that a model can record, and `values` if it can zero the values of some positions.
Attention = Literal["mean", "reading", "full", "weights", "values"]


@runtime_checkable
class Predictor(Protocol):
    """Anything that answers rows: the minimum of a teacher."""

    name: str
    task: Task
    classes: tuple[str, ...] | None

    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs: ...


@runtime_checkable
class Differentiable(Predictor, Protocol):
    """A teacher that tokenises rows and runs from its embeddings up, so that gradients can be taken there."""

    def encode(self, rows: Sequence[Row]) -> "Batch": ...

    def embed(self, batch: "Batch", *, at: Any = "word") -> "torch.Tensor": ...

    def run(self, embeddings: "torch.Tensor", batch: "Batch", *, at: Any = "word") -> "Trace": ...


@runtime_checkable
class Attentive(Differentiable, Protocol):
    """A differentiable teacher that records `attention`: `run` also takes `listen` and `zero_values_at`."""

    @property
    def attention(self) -> Collection[Attention]: ...


class Teacher(ABC):
    """The base class of teachers. The defaults are those of a black box."""

    name: str
    task: Task
    classes: tuple[str, ...] | None
    max_length: int | None = None  # the largest number of tokens of a row; None: unlimited
    absent: str = ""  # the text that replaces a removed word
    patch: int | None = None  # width of image squares in pixels; None: an eighth of the height
    default_scale: Literal["logit", "probability"] = "logit"  # scale of the answers of classifiers
    library: ClassVar[str | None] = None  # the library that builds and loads such a model: native or huggingface
    pretrained: Literal["nothing", "words", "everything"] = "nothing"  # which weights were learned from other data
    is_identified_by_answers: bool = True  # the fingerprint depends on answers, which may be expensive
    reads_labels: bool = False  # answers with the labels of the data, so perturbed rows have no answer
    is_dispatched: bool = False  # weights are on several devices, or offloaded
    can_dispatch: bool = False  # can be loaded in this way
    is_portable: bool = False  # can be saved, and loaded in another process

    @abstractmethod
    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs: ...

    def knows(self, row: Row) -> bool:  # noqa: ARG002
        """Whether the teacher can answer the row."""
        return True

    def fingerprint(self, rows: Sequence[Row], outputs: Outputs | None = None) -> str:
        """A hash that identifies the teacher: here of its answers to these rows, passed as `outputs` if known."""
        outputs = self.predict(rows) if outputs is None else outputs
        classes = None if self.classes is None else list(self.classes)
        answers = None if outputs.answers is None else [list(texts) for texts in outputs.answers]
        values = np.round(outputs.values, 6).tolist()
        return key_of({"task": self.task.name, "classes": classes, "values": values, "answers": answers})

    @property
    def attention(self) -> Collection[Attention]:
        """The fields of its attention that it records, and `values` if it can zero those of some positions."""
        return ()

    @property
    def attention_fault(self) -> str:
        """Why it records no other fields, as a clause."""
        return "which has none"

    def with_stored_answers(self, stored: Callable[[Row], np.ndarray | None]) -> "Teacher":  # noqa: ARG002
        """A teacher that takes answers from `stored` if they are not None there. Black boxes return a copy."""
        return self

    # -- rows as tensors ----------------------------------------------------------------------------------------------

    @property
    def device(self) -> "torch.device":
        """The device of the computation."""
        import torch

        return torch.device("cpu")

    @property
    def dtype(self) -> "torch.dtype":
        """The dtype of its scores."""
        import torch

        return torch.float64

    def tensors(self) -> "Sequence[torch.Tensor]":
        """All weights, not copied."""
        return ()

    def encode(self, rows: Sequence[Row]) -> "Batch":
        """The rows as one batch on the CPU, in units of this teacher: here words or image squares."""
        from didact.core.encode import unit_batch

        return unit_batch(rows, name=self.name, is_text=self.task.is_text, patch=self.patch)

    def check_rows(self, rows: Sequence[Row]) -> None:  # noqa: B027 - by default any length is read
        """Raise an error that counts all rows that the teacher cannot read."""

    def answers(self, rows: Sequence[Row], batch: "Batch") -> "tuple[torch.Tensor, Outputs]":  # noqa: ARG002
        """The answers to rows and their batch: as logits (or values), and as outputs."""
        import torch

        outputs = self.predict(rows)
        return torch.from_numpy(outputs.values), outputs

    def token_name(self, token: int) -> str:  # noqa: ARG002
        """The text of a token, as its tokenizer writes it."""
        return ""

    # -- perturbation -------------------------------------------------------------------------------------------------

    def units(self, row: Row) -> list[Span] | list[Box]:
        """The units that can be removed from a row: its words, or squares of its image, row by row."""
        return words_of(row.texts) if row.image is None else squares_of(row, patch=self.patch)

    def without(self, row: Row, removed: Sequence[Span | Box]) -> Row:
        """The row with these words replaced by `absent`, or these squares by the mean colour."""
        if row.image is not None:
            image = row.image.copy()
            mean = row.image.mean(axis=(0, 1)).round().astype(image.dtype)
            for box in removed:
                assert isinstance(box, Box)
                image[box.top : box.bottom, box.left : box.right] = mean
            return Row(row.id, image=image)
        texts = list(row.texts)
        for span in sorted(span for span in removed if isinstance(span, Span))[::-1]:
            text = texts[span.segment]
            texts[span.segment] = text[: span.start] + self.absent + text[span.end :]
        return Row(row.id, tuple(texts))

    def visible_area(self, height: int, width: int) -> tuple[float, float, float, float]:
        """The part of an image of this size that is read: top, left, height, width. By default all whole squares."""
        size = self.patch or max(height // 8, 1)
        return 0.0, 0.0, float(height // size * size), float(width // size * size)


def describe_teacher(teacher: Predictor, kind: str, details: Mapping[str, object]) -> str:
    """A summary for `print`: name, kind, task, classes and `details`."""
    classes = teacher.classes or ()
    names = ", ".join(classes[:_CLASSES_SHOWN]) + (
        f", … ({len(classes)} classes)" if len(classes) > _CLASSES_SHOWN else ""
    )
    lines = {"kind": kind, "task": teacher.task, **({"classes": names} if classes else {}), **details}
    width = max(map(len, lines))
    return "\n".join([f"Teacher {teacher.name!r}", *(f"  {name:<{width}}  {value}" for name, value in lines.items())])
