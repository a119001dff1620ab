"""One score per row, of one text or of two."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np

from didact.core.measure import pearson
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.tasks import columns
from didact.core.tasks.base import Task

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from didact.core.batch import Batch
    from didact.core.tasks.base import Logits, TrainingTargets


class Regression(Task):
    """Values are one number. Agreement is the correlation over all rows."""

    measure: ClassVar[str] = "pearson"
    has_classes: ClassVar[bool] = False
    is_score: ClassVar[bool] = True
    problem_type: ClassVar[str | None] = "regression"
    about: ClassVar[str] = "reads a text and gives it a score"
    example: ClassVar[tuple[str, str]] = ("0.9", "0.1")
    label_kind: ClassVar[Literal["class", "score", "answers"]] = "score"
    label_columns: ClassVar[tuple[str, ...]] = (*columns.SCORES, "label")
    input_columns: ClassVar[tuple[tuple[str, ...], ...]] = (*columns.TRANSLATIONS, *columns.PAIRS)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.segments, "text")

    @property
    def usual_inputs(self) -> list[dict[str, str]]:
        pairs = [dict(zip(self.segments, names, strict=True)) for names in self.input_columns]
        return [*pairs, *({"text": name} for name in columns.TEXTS)]

    def fits(self, names: set[str]) -> bool:
        """True for a translation with a score, and for a text with a column `score` and no other label."""
        if any(names.issuperset(pair) for pair in columns.TRANSLATIONS):
            return not names.isdisjoint(columns.SCORES)
        is_single = not any(names.issuperset(pair) for pair in columns.PAIRS) and not names.isdisjoint(columns.TEXTS)
        return is_single and "score" in names and names.isdisjoint(columns.LABELS)

    def training_targets(self, outputs: Outputs, batch: "Batch", *, soft: bool = False) -> "TrainingTargets":  # noqa: ARG002
        import torch

        return torch.from_numpy(outputs.values[:, 0])

    def loss(self, logits: "Logits", targets: "TrainingTargets") -> "Float[Tensor, ' batch']":
        """The squared error."""
        return (logits[:, 0] - targets.to(logits.dtype)) ** 2

    def overall(self, answers: Outputs, reference: Outputs, *, balanced: bool = False) -> float:  # noqa: ARG002
        """Pearson's r; NaN if either side is constant."""
        return pearson(answers.values[:, 0], reference.values[:, 0])

    def knows(self, row: Row, classes: Sequence[str] | None) -> bool:  # noqa: ARG002
        return isinstance(row.label, int | float | np.number)

    def gold(self, rows: Sequence[Row], classes: tuple[str, ...] | None) -> Outputs:  # noqa: ARG002
        values = np.array([row.label for row in rows], dtype=np.float64).reshape(-1, 1)
        return Outputs(self, tuple(row.id for row in rows), values)


REGRESSION: Final[Task] = Regression("regression", ("source", "target"), fewest_texts=1)
