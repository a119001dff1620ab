"""The promise of a strategy: what it wants to be sent, and what ignoring it costs the student."""

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
    """A loss beside the task's own. Its parameters, if any, are trained with the student's and then thrown away.

    `version` is part of a cell's key: raise it when the same options would teach differently.
    """

    version: ClassVar[int] = 1

    @property
    def listen(self) -> Collection[TraceField]:
        """What of the student's forward pass it reads; a plain attribute does as well."""
        return ()

    def attach(self, model: Model, batch: Batch) -> None:
        """Make the parameters that depend on the student, and refuse a student that cannot be taught this way."""

    def lesson(self, explanations: Explanations, batch: Batch) -> Lesson:
        """What is sent of the explanations, on the student's positions: the whole, as a distribution over units.

        Rows of both are in one order.
        """
        return distribution_lesson(explanations, batch)

    @abstractmethod
    def forward(self, trace: Trace, batch: Batch, lesson: Lesson) -> Float[Tensor, " batch"]:
        """One loss per row, weighted."""
