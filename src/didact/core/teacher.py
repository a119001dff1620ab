"""What teachers can do: answer rows (`Predictor`), be differentiated (`Differentiable`), show attention (`Attentive`).

A protocol is all that a user's own object has to fulfil; it need not derive from anything. `Teacher` is what didact
works with: the same promise, and a default for everything else that is asked of a teacher. `core.adapt` makes one of
any object. No torch before rows are encoded.
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

_CLASSES_SHOWN = 12  # classes that are named when a teacher is printed
# What of its attention a model can record (see `Trace`), and whether it can leave out the values of some positions.
Attention = Literal["mean", "reading", "full", "weights", "values"]


@runtime_checkable
class Predictor(Protocol):
    """Anything that answers rows. All that a teacher has to be."""

    name: str
    task: Task
    classes: tuple[str, ...] | None

    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs: ...


@runtime_checkable
class Differentiable(Predictor, Protocol):
    """A teacher that cuts rows into tokens and runs from its embeddings up, so that gradients can be taken there."""

    def encode(self, rows: Sequence[Row]) -> "Batch": ...

    def embed(self, batch: "Batch", *, at: Any = "word") -> "torch.Tensor": ...

    def run(self, embeddings: "torch.Tensor", batch: "Batch", *, at: Any = "word") -> "Trace": ...


@runtime_checkable
class Attentive(Differentiable, Protocol):
    """A differentiable teacher that records `attention`: `run` also takes `listen` and `zero_values_at`."""

    @property
    def attention(self) -> Collection[Attention]: ...


class Teacher(ABC):
    """A teacher as didact uses it. The defaults are those of one whose answers are all that can be seen."""

    name: str
    task: Task
    classes: tuple[str, ...] | None
    max_length: int | None = None  # the tokens it reads at most; None: any number
    absent: str = ""  # the text in the place of a removed word
    patch: int | None = None  # how wide the squares of its images are, in pixels; None: an eighth of the height
    default_scale: Literal["logit", "probability"] = "logit"  # what its answers are, where they are no scores
    library: ClassVar[str | None] = None  # who builds and opens such a model: native or huggingface
    pretrained: Literal["nothing", "words", "everything"] = "nothing"  # what of it was learned from other data
    is_identified_by_answers: bool = True  # what cannot be hashed goes by its answers, which may cost something
    reads_labels: bool = False  # it answers with the labels of the data, and cannot be asked about changed rows
    is_dispatched: bool = False  # its weights are on several devices, or elsewhere until they are needed
    can_dispatch: bool = False  # it can be loaded so
    is_portable: bool = False  # it can be saved, and opened in another process

    @abstractmethod
    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs: ...

    def knows(self, row: Row) -> bool:  # noqa: ARG002
        """Whether it can answer the row."""
        return True

    def fingerprint(self, rows: Sequence[Row], outputs: Outputs | None = None) -> str:
        """A hash of what it answers to these rows (`outputs`, where that is known already)."""
        outputs = self.predict(rows) if outputs is None else outputs
        classes = None if self.classes is None else list(self.classes)
        answers = None if outputs.answers is None else [list(texts) for texts in outputs.answers]
        values = np.round(outputs.values, 6).tolist()
        return key_of({"task": self.task.name, "classes": classes, "values": values, "answers": answers})

    @property
    def attention(self) -> Collection[Attention]:
        """What of its attention it records, and `values` if it can leave out those of some positions."""
        return ()

    @property
    def attention_fault(self) -> str:
        """Why it does not record the rest, as a clause."""
        return "which has none"

    def with_stored_answers(self, stored: Callable[[Row], np.ndarray | None]) -> "Teacher":  # noqa: ARG002
        """The same teacher, which does not ask again about rows whose answers are `stored`."""
        return self

    # -- rows as tensors ----------------------------------------------------------------------------------------------

    @property
    def device(self) -> "torch.device":
        """Where it computes."""
        import torch

        return torch.device("cpu")

    @property
    def dtype(self) -> "torch.dtype":
        """The precision of its scores."""
        import torch

        return torch.float64

    def tensors(self) -> "Sequence[torch.Tensor]":
        """All its weights, themselves."""
        return ()

    def encode(self, rows: Sequence[Row]) -> "Batch":
        """The rows as one batch on the CPU, in the units of this teacher: words, or squares of images."""
        from didact.core.encode import unit_batch

        return unit_batch(rows, name=self.name, is_text=self.task.is_text, patch=self.patch)

    def check_rows(self, rows: Sequence[Row]) -> None:  # noqa: B027 - others read any length
        """An error that counts all rows it cannot read."""

    def answers(self, rows: Sequence[Row], batch: "Batch") -> "tuple[torch.Tensor, Outputs]":  # noqa: ARG002
        """What it answers to rows and their batch: logits (or values), and the same as outputs."""
        import torch

        outputs = self.predict(rows)
        return torch.from_numpy(outputs.values), outputs

    def token_name(self, token: int) -> str:  # noqa: ARG002
        """A token as its tokenizer writes it."""
        return ""

    # -- what can be taken away ---------------------------------------------------------------------------------------

    def units(self, row: Row) -> list[Span] | list[Box]:
        """What can be removed from a row: its words, or squares of its image, row by row."""
        return words_of(row.texts) if row.image is None else squares_of(row, patch=self.patch)

    def without(self, row: Row, removed: Sequence[Span | Box]) -> Row:
        """The row with these units replaced by what stands for nothing: `absent`, or the mean colour."""
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

    def window(self, height: int, width: int) -> tuple[float, float, float, float]:
        """Which part of an image of this size is read: top, left, height, width. Here: what whole squares cover."""
        size = self.patch or max(height // 8, 1)
        return 0.0, 0.0, float(height // size * size), float(width // size * size)


def describe_teacher(teacher: Predictor, kind: str, details: Mapping[str, object]) -> str:
    """A teacher in a few lines, for `print`: its name, kind, task and classes, and more `facts` about it."""
    classes = teacher.classes or ()
    names = ", ".join(classes[:_CLASSES_SHOWN]) + (
        f", … ({len(classes)} classes)" if len(classes) > _CLASSES_SHOWN else ""
    )
    lines = {"kind": kind, "task": teacher.task, **({"classes": names} if classes else {}), **details}
    width = max(map(len, lines))
    return "\n".join([f"Teacher {teacher.name!r}", *(f"  {name:<{width}}  {value}" for name, value in lines.items())])
