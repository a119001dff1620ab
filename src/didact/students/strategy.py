"""`Strategy`, the base class of strategies."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from didact.core.batch import Batch
from didact.core.model import Model
from didact.core.trace import Trace, TraceField
from didact.results.explanations import Explanations
from didact.students.lesson import Lesson, distribution_lesson


class Strategy(nn.Module, ABC):
    """A loss in addition to that of the task. Its parameters are trained with the student's and discarded afterwards.

    `version` is part of the key of a cell: increase it when the same options give other students. Options that were
    added later are listed in `later_options`: at their defaults they are not part of keys, so that old keys stay.
    """

    version: ClassVar[int] = 1
    later_options: ClassVar[frozenset[str]] = frozenset()
    needs_second_derivatives: ClassVar[bool] = (
        False  # `forward` differentiates the student, which needs single precision
    )

    @property
    def listen(self) -> Collection[TraceField]:
        """The fields of the student's `Trace` that `forward` reads. Subclasses may use a plain attribute."""
        return ()

    @property
    def reads_sizes(self) -> bool:
        """Whether the sizes of scores matter to the student, so that target normalisation applies. False for marks."""
        return True

    def attach(self, model: Model, batch: Batch) -> None:
        """Create parameters that depend on the student, or raise an error if the strategy does not fit the student.

        `batch` holds rows of the student. Called once, before training.
        """

    def run(self, model: Model, batch: Batch) -> Trace:
        """The student's pass in training, of which `forward` computes the loss. Records what `listen` names."""
        trace: Trace = model(batch, listen=self.listen)
        return trace

    def lesson(self, explanations: Explanations, batch: Batch) -> Lesson:
        """Convert explanations to a lesson on the tokens of `batch`, which has the same rows in the same order.

        By default the lesson is the whole explanation as a distribution.
        """
        return distribution_lesson(explanations, batch)

    @abstractmethod
    def forward(self, trace: Trace, batch: Batch, lesson: Lesson) -> Float[Tensor, " batch"]:
        """The weighted loss of each row."""
