"""`Explainer`, the base class of methods that score the units of a batch for a target."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import nn

from didact.core.adapt import as_teacher

# Re-exported: the types of an explainer's signature.
from didact.core.batch import Batch as Batch
from didact.core.explanation import Explanation as Explanation
from didact.core.explanation import Kind as Kind
from didact.core.row import Row as Row
from didact.core.shared_weights import shared_copy
from didact.core.target import Target as Target
from didact.core.teacher import Predictor
from didact.core.teacher import Teacher as Teacher


class Explainer(nn.Module, ABC):
    """Scores every unit of a batch for a target. Options are keyword-only; learned explainers have parameters.

    The scores of a row must not depend on the other rows of its batch, and padding and special tokens score 0.
    `resample_per_seed` is true for methods that are random by design (`random`, noise): every student seed gets its own
    scores.
    """

    version: ClassVar[int] = 1  # part of every key: increase it when the same options give other scores
    # Advice for the warning about a large completeness error; set by explainers that return residuals.
    remedy: ClassVar[str] = "Choose another method."
    resample_per_seed: bool = False

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        """Read from `rows` what all explanations need, such as word counts. Called once, before explaining."""

    @property
    def needs_background(self) -> bool:
        """True if scores depend on the rows passed to `prepare`: by default, if the subclass overrides `prepare`."""
        return type(self).prepare is not Explainer.prepare

    def __call__(self, teacher: Predictor, batch: Batch, target: Target) -> Any:
        """Call `forward` with a copy of the teacher that shares its weights, so that it may change modes and hooks."""
        return super().__call__(shared_copy(as_teacher(teacher)), batch, target)

    @abstractmethod
    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation: ...
