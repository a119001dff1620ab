"""The promise of an explainer: it scores the units of a batch for a target."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import nn

from didact.core.adapt import as_teacher

# The types of an explainer's signature can be imported from here, too.
from didact.core.batch import Batch as Batch
from didact.core.explanation import Explanation as Explanation
from didact.core.explanation import Kind as Kind
from didact.core.row import Row as Row
from didact.core.shared_weights import shared_copy
from didact.core.target import Target as Target
from didact.core.teacher import Predictor
from didact.core.teacher import Teacher as Teacher


class Explainer(nn.Module, ABC):
    """Scores every unit for `target`. Options are keyword-only arguments; a learned explainer has parameters too.

    A row's scores never depend on the other rows of its batch. Padding and special tokens score 0. `is_redrawn` tells
    whether the draw itself is the point (chance, noise), so that each student's seed gets another.
    """

    version: ClassVar[int] = 1  # part of every key: raise it when the same options give other numbers
    # What to do when scores that should add up do not. Every explainer that returns residuals sets it.
    remedy: ClassVar[str] = "Choose another method."
    resample_per_seed: bool = False

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        """Take from the data what every row needs, once, before any row is explained: word counts, other images."""

    @property
    def needs_background(self) -> bool:
        """Whether scores depend on the rows it is prepared with. One that prepares itself does, unless it says no."""
        return type(self).prepare is not Explainer.prepare

    def __call__(self, teacher: Predictor, batch: Batch, target: Target) -> Any:
        """Scores by `forward`, which may change modes and hooks of its teacher: a copy with the same weights."""
        return super().__call__(shared_copy(as_teacher(teacher)), batch, target)

    @abstractmethod
    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation: ...
