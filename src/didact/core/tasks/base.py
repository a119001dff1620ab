"""`Task`, the base class of tasks. Only methods that compute with tensors import torch."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from didact.core.row import Row
from didact.core.tasks import columns
from didact.errors import ShapeError
from didact.results.task_kinds import TASK_KINDS, TaskKind

if TYPE_CHECKING:
    from jaxtyping import Bool, Shaped
    from torch import Tensor

    from didact.core.batch import Batch
    from didact.core.outputs import Outputs
    from didact.core.target import Scale, Target

    Logits: TypeAlias = Float[Tensor, "batch *output"]
    TrainingTargets: TypeAlias = Shaped[Tensor, "batch *goal"]

Activation: TypeAlias = Literal["softmax", "sigmoid"]
Values: TypeAlias = Float[np.ndarray, "row width"]
Texts: TypeAlias = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Task(ABC):
    """One kind of task.

    `segments` names the texts of a row, of which a row has at least `fewest_texts`; without segments a row is an image.
    Attributes describe an answer, methods compute with it. Other code uses them and never depends on the name.
    """

    name: str
    segments: tuple[str, ...]
    fewest_texts: int

    measure: ClassVar[str]  # name of the measure that `overall` computes
    has_classes: ClassVar[bool]  # answers are named classes
    is_score: ClassVar[bool] = False  # an answer is a number; agreement is a correlation over all rows
    is_per_token: ClassVar[bool] = False  # logits are [batch, output, token], values are characters of a text
    has_alignments: ClassVar[bool] = False  # rows may align phrases of their two texts
    grouped_by: ClassVar[int | None] = None  # index of the text that rows may share: such rows stay in one split
    activation: ClassVar[Activation] = "softmax"  # from logits to probabilities
    # In transformers: the suffix of the class of a model with a head for the task, `problem_type`, and `truncation`.
    head: ClassVar[str] = "ForSequenceClassification"
    problem_type: ClassVar[str | None] = None
    truncation: ClassVar[bool | str] = True
    content_name: ClassVar[str] = "words"  # name of `content` in errors
    # In studies with people: what the model does, and two answers for an invented example.
    about: ClassVar[str] = "reads a text"
    example: ClassVar[tuple[str, str]] = ("satisfied", "not satisfied")
    # In data: the kind of label, the usual names of its column, and those of the input columns (see `usual_inputs`).
    label_kind: ClassVar[Literal["class", "score", "answers"]] = "class"
    label_columns: ClassVar[tuple[str, ...]] = columns.LABELS
    input_columns: ClassVar[tuple[tuple[str, ...], ...]] = tuple((name,) for name in columns.TEXTS)

    def __post_init__(self) -> None:
        """Register the kind of task, by which results on disk are read."""
        TASK_KINDS.setdefault(self.name, TaskKind(self.segments, self.has_alignments))

    @property
    def is_text(self) -> bool:
        return bool(self.segments)

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        """Pickle by name, because tasks are compared by identity."""
        from didact.core.task import task_named

        return task_named, (self.name,)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs whose columns a user may name: by default the texts of a row."""
        return self.segments

    @property
    def usual_inputs(self) -> list[dict[str, str]]:
        """The usual names of the input columns of a table: mappings from input to column."""
        return [dict(zip(self.inputs, names, strict=True)) for names in self.input_columns]

    def fits(self, names: set[str]) -> bool:
        """Whether columns of these names suggest this task. Used if the user does not name a task."""
        return any(names.issuperset(option) for option in self.input_columns)

    def resembles(self, other: "Task") -> bool:
        """Whether an architecture fits both tasks: the same number of texts, pooling, and classes or not."""
        return all(
            getattr(self, attribute) == getattr(other, attribute)
            for attribute in ("fewest_texts", "is_per_token", "has_classes")
        ) and len(self.segments) == len(other.segments)

    # -- from a model to an answer ------------------------------------------------------------------------------------

    def width(self, classes: Sequence[str] | None) -> int:
        """The number of outputs of the head, per row or per token."""
        return len(classes or ()) or 1

    def content(self, batch: "Batch") -> "Bool[Tensor, 'batch token']":
        """The units that a row needs at least one of."""
        return batch.units

    def token_logits(self, logits: "Float[Tensor, 'batch token output']", batch: "Batch") -> "Logits":
        """The logits of the head's outputs at every token, for tasks with `is_per_token`."""
        raise NotImplementedError

    def head_logits(self, output: Any) -> "Tensor":
        """The logits in the output of a transformers model; with `is_per_token`, the input of `token_logits`."""
        logits: Tensor = output.logits
        return logits

    def decode(self, logits: "Logits", batch: "Batch") -> Values:  # noqa: ARG002
        """The values of `Outputs` for these logits."""
        return logits.cpu().double().numpy()

    def answer_texts(self, rows: Sequence[Row], values: Values) -> Texts | None:  # noqa: ARG002
        """The texts of the answers; None if answers are not texts."""
        return None

    def probabilities(self, values: Values) -> Values:
        """The values as probabilities; unchanged for tasks without classes."""
        return values

    def logits_of(self, probabilities: Values) -> Values:
        """Values with these probabilities. Raises `ValueError` with a clause such as `does not sum to 1`."""
        return probabilities

    def format_answers(self, outputs: "Outputs", classes: Sequence[str] | None) -> list[str]:  # noqa: ARG002
        """Each answer as text: by default the value, a number."""
        return [f"{value:.4g}" for value in outputs.values[:, 0]]

    # -- training and evaluation --------------------------------------------------------------------------------------

    @abstractmethod
    def training_targets(self, outputs: "Outputs", batch: "Batch", *, soft: bool = False) -> "TrainingTargets":
        """The answers as training targets of a model; with `soft`, probabilities of all classes instead of one."""

    @abstractmethod
    def loss(self, logits: "Logits", targets: "TrainingTargets") -> "Float[Tensor, ' batch']":
        """One loss per row."""

    def agreement(self, answers: "Outputs", reference: "Outputs") -> Float[np.ndarray, " row"]:  # noqa: ARG002
        """The agreement of each row, from 0 to 1. Undefined for a task with `is_score`."""
        raise ShapeError("A correlation is defined over all rows, not per row.")

    def overall(self, answers: "Outputs", reference: "Outputs", *, balanced: bool = False) -> float:  # noqa: ARG002
        """The measure over all rows: by default the mean of `agreement`, of which a comparison computes gains."""
        return float(self.agreement(answers, reference).mean())

    # -- targets of explanations --------------------------------------------------------------------------------------

    def predicted_target(self, logits: "Logits", *, scale: "Scale" = "logit") -> "Target":  # noqa: ARG002
        """The target of the predicted answers: by default the only output."""
        from didact.core.target import Target

        return Target.value()

    def target_of(self, outputs: "Outputs", batch: "Batch", *, scale: "Scale" = "logit") -> "Target":
        """The target of given answers, gold ones or those of a black box. Not for tasks with `is_score`."""
        raise NotImplementedError

    # -- gold labels --------------------------------------------------------------------------------------------------

    @abstractmethod
    def knows(self, row: Row, classes: Sequence[str] | None) -> bool:
        """Whether the row has a gold label for this task."""

    @abstractmethod
    def gold(self, rows: Sequence[Row], classes: tuple[str, ...] | None) -> "Outputs":
        """The gold labels of the rows as answers. All rows must have one."""
