"""Agreement measure `prediction`: do the top units of two methods lead to the same prediction?"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from didact.core.perturb import DEFAULT, REPLACE, on_all_positions
from didact.core.row import Row
from didact.core.teacher import Teacher
from didact.errors import OptionError, UnsupportedError
from didact.metrics.faithfulness import position_units
from didact.metrics.probe import Probe
from didact.metrics.ranked import Ranked
from didact.results.explanations import Explanations
from didact.results.row_explanation import RowExplanation, top_count

ROWS: Final = 256  # rows per call of the teacher


class Prediction:
    """1 if the teacher predicts the same class from the top `k` units of either method alone, else 0.

    Compares two methods as `prediction_agreement` compares a method with the teacher (Situ et al. 2021). `replace` is
    how the other units are removed. Units are ranked as in faithfulness: by score with sign, or by absolute value.
    """

    def __init__(self, *, k: float = 0.3, replace: str = DEFAULT) -> None:
        top_count(k, 1)
        if replace not in REPLACE:
            raise OptionError(f"Option 'replace' of prediction must be one of {', '.join(REPLACE)}, got {replace!r}.")
        self.k, self.replace = k, replace

    def probe(self, teacher: Teacher, explanations: Explanations, *, batch_size: int = 64) -> Probe:
        """A probe of the teacher on the explained rows."""
        if teacher.classes is None:
            answer_kind = "spans" if teacher.task.is_per_token else "a score"
            raise UnsupportedError(
                f"Measure 'prediction' compares predicted classes, and teacher {teacher.name!r} answers {answer_kind}. "
                "Choose a measure of the scores, such as kendall or top_overlap."
            )
        if explanations.is_image and explanations.images is None:
            raise OptionError(
                "Measure 'prediction' needs the explained images, and files of explanations do not hold them. "
                "Explain and compare in one call: didact.agree([didact.explain(…), …], 'prediction', teacher=…)."
            )
        images = explanations.images or (None,) * len(explanations)
        rows = [
            Row(row_id, texts, image)
            for row_id, texts, image in zip(explanations.ids, explanations.texts, images, strict=True)
        ]
        return Probe(teacher, rows, replace=self.replace, batch_size=batch_size)

    def __call__(
        self, explanations: Sequence[Explanations], probe: Probe, *, by_size: bool = False
    ) -> Float[np.ndarray, "row method method"]:
        """All pairs of methods on the rows of the probe. Equal masks of a row are evaluated once."""
        labels = np.full((len(probe.rows), len(explanations)), -1, dtype=np.int64)
        for start in range(0, len(probe.rows), ROWS):
            self._predict_rows(explanations, probe, range(start, min(start + ROWS, len(probe.rows))), labels, by_size)
        has_label = labels >= 0
        is_same = (labels[:, :, None] == labels[:, None]).astype(np.float64)
        return np.where(has_label[:, :, None] & has_label[:, None], is_same, np.nan)

    def _predict_rows(
        self,
        explanations: Sequence[Explanations],
        probe: Probe,
        rows: range,
        labels: Int[np.ndarray, "row method"],
        by_size: bool,
    ) -> None:
        masks_by_row: list[np.ndarray] = []
        methods_by_row: list[tuple[int, list[int]]] = []
        for row in rows:
            top_masks = {
                method: self._top_mask(explanation[row], probe, row, by_size)
                for method, explanation in enumerate(explanations)
            }
            masks = {method: mask for method, mask in top_masks.items() if mask is not None}
            if masks:
                masks_by_row.append(np.concatenate(list(masks.values())))
                methods_by_row.append((row, list(masks)))
        answers = probe.predict_masked(masks_by_row, rows=[row for row, _ in methods_by_row])
        for (row, methods), probabilities in zip(methods_by_row, answers, strict=True):
            labels[row, methods] = probabilities.argmax(1)

    def _top_mask(
        self, explanation: RowExplanation, probe: Probe, row: int, by_size: bool
    ) -> Bool[np.ndarray, "1 position"] | None:
        """The mask of the top units; None if all scores are equal, or if no unit would be removed."""
        if not len(explanation) or (explanation.scores == explanation.scores[0]).all():
            return None
        count = top_count(self.k, len(explanation))
        if count >= len(explanation):
            return None
        return on_all_positions(
            Ranked.of(explanation, by_size=by_size).top([count]), position_units(explanation, probe, row)
        )
