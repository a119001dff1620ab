"""What a learned explainer weighs, computed once for all rows: one look at the teacher, however long learning takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from didact.core.batch import Batch
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.core.row import Row
from didact.core.target import Target
from didact.core.teacher import Teacher
from didact.explainers.learned import name_of
from didact.explainers.mix import ComponentMix
from didact.explaining.explain import explain
from didact.results.component_scores import ComponentScores
from didact.results.explanations import Explanations


def compute_component_scores(
    teacher: Teacher, rows: Sequence[Row], explainer: ComponentMix, **options: Any
) -> ComponentScores:
    """The scores of the explainer's parts for these rows. `options` are those of `explain`."""
    recorder = ComponentRecorder(explainer)
    explanations = explain(teacher, rows, recorder, **options)
    return ComponentScores(explanations, explainer.names, recorder.values_of(explanations))


class ComponentRecorder(Explainer):
    """Explains as the explainer does, and keeps what it weighed."""

    def __init__(self, explainer: ComponentMix) -> None:
        super().__init__()
        self.explainer = explainer
        self.__name__ = f"the parts of {name_of(explainer)}"
        self.recorded: dict[str, Float[np.ndarray, "unit part"]] = {}

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        self.explainer.prepare(teacher, rows)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        components = self.explainer.components(teacher, batch, target)
        for name, row_scores, units in zip(batch.ids, components, batch.units, strict=True):
            self.recorded[name] = row_scores[:, units].T.detach().cpu().float().numpy()
        with torch.no_grad():
            scores = self.explainer.mix_components(components, batch.units)
        return Explanation(scores, batch.mask, batch.units, "distribution")

    def values_of(self, explanations: Explanations) -> Float[np.ndarray, "unit part"]:
        """What was weighed in these rows; it is not kept any longer."""
        return np.concatenate([self.recorded.pop(name) for name in explanations.ids])
