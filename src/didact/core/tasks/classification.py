"""One class per row, of one text (`classification`) or of two (`pair`)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from jaxtyping import Float

from didact.core.measure import class_weights
from didact.core.outputs import Outputs, softmax
from didact.core.row import Row
from didact.core.tasks import columns
from didact.core.tasks.base import Task, Values

if TYPE_CHECKING:
    from torch import Tensor

    from didact.core.batch import Batch
    from didact.core.target import Scale, Target
    from didact.core.tasks.base import Logits, TrainingTargets

_LOG_ZERO: Final = -30.0  # log-probability of all classes but the gold one; finite, so that later computations are


class Classification(Task):
    """Values are one logit per class. Answers agree if their most likely classes are equal."""

    measure: ClassVar[str] = "accuracy"
    has_classes: ClassVar[bool] = True

    def probabilities(self, values: Values) -> Values:
        return softmax(values)

    def logits_of(self, probabilities: Values) -> Values:
        if (probabilities < -1e-6).any() or (abs(probabilities.sum(axis=1) - 1) > 1e-3).any():
            raise ValueError("is negative or does not sum to 1")
        return np.log(probabilities.clip(1e-12))

    def format_answers(self, outputs: Outputs, classes: Sequence[str] | None) -> list[str]:
        names = classes or [f"class {index}" for index in range(outputs.values.shape[1])]
        return [names[label] for label in outputs.labels]

    def training_targets(self, outputs: Outputs, batch: "Batch", *, soft: bool = False) -> "TrainingTargets":  # noqa: ARG002
        import torch

        return torch.from_numpy(outputs.probabilities if soft else outputs.labels)

    def loss(self, logits: "Logits", targets: "TrainingTargets") -> "Float[Tensor, ' batch']":
        """Cross-entropy with labels or probabilities."""
        from torch.nn.functional import cross_entropy

        # Probabilities are in double precision; labels must stay integers.
        targets = targets.to(logits.dtype) if targets.is_floating_point() else targets
        return cross_entropy(logits, targets, reduction="none")

    def agreement(self, answers: Outputs, reference: Outputs) -> Float[np.ndarray, " row"]:
        return (answers.labels == reference.labels).astype(np.float64)

    def overall(self, answers: Outputs, reference: Outputs, *, balanced: bool = False) -> float:
        """Accuracy; with `balanced`, the mean recall of the classes in `reference`."""
        agreement = self.agreement(answers, reference)
        return float((agreement * class_weights(reference.labels) if balanced else agreement).mean())

    def predicted_target(self, logits: "Logits", *, scale: "Scale" = "logit") -> "Target":
        from didact.core.target import Target

        return Target.label(logits.argmax(-1), scale=scale, activation=self.activation)

    def target_of(self, outputs: Outputs, batch: "Batch", *, scale: "Scale" = "logit") -> "Target":  # noqa: ARG002
        import torch

        from didact.core.target import Target

        return Target.label(torch.from_numpy(outputs.labels), scale=scale, activation=self.activation)

    def knows(self, row: Row, classes: Sequence[str] | None) -> bool:
        return isinstance(row.label, int | np.integer) and 0 <= row.label < len(classes or ())

    def gold(self, rows: Sequence[Row], classes: tuple[str, ...] | None) -> Outputs:
        values = np.full((len(rows), len(classes or ())), _LOG_ZERO)
        values[np.arange(len(rows)), np.array([row.label for row in rows], dtype=np.int64)] = 0.0
        return Outputs(self, tuple(row.id for row in rows), values, classes=classes)


class PairClassification(Classification):
    """One class per pair of texts."""

    about: ClassVar[str] = "reads two texts"
    example: ClassVar[tuple[str, str]] = ("answered", "not answered")
    input_columns: ClassVar[tuple[tuple[str, ...], ...]] = columns.PAIRS


CLASSIFICATION: Final[Task] = Classification("classification", ("text",), fewest_texts=1)
PAIR: Final[Task] = PairClassification("pair", ("first", "second"), fewest_texts=2)
