"""What every kind of task decides. Torch is imported only by the methods that compute with tensors."""

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
    """One kind of task. `segments` names the texts of a row (none: a row is an image); some rows may have fewer.

    The attributes say what an answer is, the methods what follows from it; other code asks them, never the name.
    """

    name: str
    segments: tuple[str, ...]
    fewest_texts: int

    measure: ClassVar[str]  # the name of what `overall` computes
    has_classes: ClassVar[bool]  # whether answers are about named classes
    is_score: ClassVar[bool] = False  # an answer is one number, and agreement a correlation over all rows
    is_per_token: ClassVar[bool] = False  # logits are [batch, output, token], and values are places in the text
    has_alignments: ClassVar[bool] = False  # rows may tell which phrases of their two texts belong together
    grouped_by: ClassVar[int | None] = None  # the text that several rows may share, which keeps them in one split
    activation: ClassVar[Activation] = "softmax"  # from logits to probabilities
    # In transformers: the end of the class name of a model with a fitting head, its `problem_type`, what is truncated.
    head: ClassVar[str] = "ForSequenceClassification"
    problem_type: ClassVar[str | None] = None
    truncation: ClassVar[bool | str] = True
    content_name: ClassVar[str] = "words"  # what `content` holds, for errors
    # What participants of a study are told that the model does, and for the made-up example its answer and another.
    about: ClassVar[str] = "reads a text"
    example: ClassVar[tuple[str, str]] = ("satisfied", "not satisfied")
    # In data: what a label is, the usual names of its column, and those of the inputs' columns (see `usual_inputs`).
    label_kind: ClassVar[Literal["class", "score", "answers"]] = "class"
    label_columns: ClassVar[tuple[str, ...]] = columns.LABELS
    input_columns: ClassVar[tuple[tuple[str, ...], ...]] = tuple((name,) for name in columns.TEXTS)

    def __post_init__(self) -> None:
        """Stored results, which know a task by its name, may be of this task, too."""
        TASK_KINDS.setdefault(self.name, TaskKind(self.segments, self.has_alignments))

    @property
    def is_text(self) -> bool:
        return bool(self.segments)

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        """A copy is the very same task: models compare theirs by identity."""
        from didact.core.task import task_named

        return task_named, (self.name,)

    @property
    def inputs(self) -> tuple[str, ...]:
        """What a user may name the columns of: the texts of a row."""
        return self.segments

    @property
    def usual_inputs(self) -> list[dict[str, str]]:
        """Ways in which a table may hold the inputs: a column's usual name for each of them."""
        return [dict(zip(self.inputs, names, strict=True)) for names in self.input_columns]

    def fits(self, names: set[str]) -> bool:
        """Whether a table with columns of these names is taken for one of this task, if nobody names a task."""
        return any(names.issuperset(option) for option in self.input_columns)

    def resembles(self, other: "Task") -> bool:
        """Whether a model built for one can be built for the other: as many texts, pooled or not, classes or not."""
        return all(
            getattr(self, attribute) == getattr(other, attribute)
            for attribute in ("fewest_texts", "is_per_token", "has_classes")
        ) and len(self.segments) == len(other.segments)

    # -- from a model to an answer ------------------------------------------------------------------------------------

    def width(self, classes: Sequence[str] | None) -> int:
        """How many numbers a head gives, for a row or for a token."""
        return len(classes or ()) or 1

    def content(self, batch: "Batch") -> "Bool[Tensor, 'batch token']":
        """The units that a row must have some of."""
        return batch.units

    def token_logits(self, logits: "Float[Tensor, 'batch token output']", batch: "Batch") -> "Logits":
        """Of a task that `is_per_token`: what a head gives at every token, as logits."""
        raise NotImplementedError

    def head_logits(self, output: Any) -> "Tensor":
        """The numbers in what a model of transformers returns; of a task that `is_per_token`, for `token_logits`."""
        logits: Tensor = output.logits
        return logits

    def decode(self, logits: "Logits", batch: "Batch") -> Values:  # noqa: ARG002
        """The values of `Outputs` that these logits say."""
        return logits.cpu().double().numpy()

    def answer_texts(self, rows: Sequence[Row], values: Values) -> Texts | None:  # noqa: ARG002
        """The texts of the answers, where answers are texts."""
        return None

    def probabilities(self, values: Values) -> Values:
        """The values as probabilities, or as they are where they have none."""
        return values

    def logits_of(self, probabilities: Values) -> Values:
        """Values that have these probabilities. A ValueError tells what is wrong with those of a row."""
        return probabilities

    def format_answers(self, outputs: "Outputs", classes: Sequence[str] | None) -> list[str]:  # noqa: ARG002
        """Each answer as people read it: by default the value, which is a number."""
        return [f"{value:.4g}" for value in outputs.values[:, 0]]

    # -- learning, and how well it went -------------------------------------------------------------------------------

    @abstractmethod
    def training_targets(self, outputs: "Outputs", batch: "Batch", *, soft: bool = False) -> "TrainingTargets":
        """The answers as a model learns them. With `soft`, the probabilities of all classes instead of the best."""

    @abstractmethod
    def loss(self, logits: "Logits", targets: "TrainingTargets") -> "Float[Tensor, ' batch']":
        """One loss per row."""

    def agreement(self, answers: "Outputs", reference: "Outputs") -> Float[np.ndarray, " row"]:  # noqa: ARG002
        """How well each row agrees, from 0 to 1. A task that `is_score` has no such number."""
        raise ShapeError("A correlation is a measure of all rows together; it has no value per row.")

    def overall(self, answers: "Outputs", reference: "Outputs", *, balanced: bool = False) -> float:  # noqa: ARG002
        """The measure of all rows. A comparison resamples rows, so its gains are of the mean of `agreement`."""
        return float(self.agreement(answers, reference).mean())

    # -- what is explained --------------------------------------------------------------------------------------------

    def predicted_target(self, logits: "Logits", *, scale: "Scale" = "logit") -> "Target":  # noqa: ARG002
        """The explained number of each row, from what a model answers: by default the only one."""
        from didact.core.target import Target

        return Target.value()

    def target_of(self, outputs: "Outputs", batch: "Batch", *, scale: "Scale" = "logit") -> "Target":
        """The same from answers: gold ones, or those of a teacher without logits. Not of a task that `is_score`."""
        raise NotImplementedError

    # -- people's labels ----------------------------------------------------------------------------------------------

    @abstractmethod
    def knows(self, row: Row, classes: Sequence[str] | None) -> bool:
        """Whether the row has a gold label of this task."""

    @abstractmethod
    def gold(self, rows: Sequence[Row], classes: tuple[str, ...] | None) -> "Outputs":
        """The gold labels of rows that have one, as answers."""
