"""Computes the component scores of a learned explainer once for all rows, so that learning never runs the teacher."""

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
    """Compute the scores of the explainer's components for these rows. `options` are those of `explain`."""
    recorder = ComponentRecorder(explainer)
    explanations = explain(teacher, rows, recorder, **options)
    return ComponentScores(explanations, explainer.names, recorder.values_of(explanations))


class ComponentRecorder(Explainer):
    """Explains like the wrapped explainer, and records the scores of its components."""

    def __init__(self, explainer: ComponentMix) -> None:
        super().__init__()
        self.explainer = explainer
        self.__name__ = f"the components of {name_of(explainer)}"
        self.recorded: dict[str, Float[np.ndarray, "unit component"]] = {}

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        self.explainer.prepare(teacher, rows)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        components = self.explainer.components(teacher, batch, target)
        for name, row_scores, units in zip(batch.ids, components, batch.units, strict=True):
            self.recorded[name] = row_scores[:, units].T.detach().cpu().float().numpy()
        with torch.no_grad():
            scores = self.explainer.mix_components(components, batch.units)
        return Explanation(scores, batch.mask, batch.units, "distribution")

    def values_of(self, explanations: Explanations) -> Float[np.ndarray, "unit component"]:
        """Return the recorded scores of these rows, and forget them."""
        return np.concatenate([self.recorded.pop(name) for name in explanations.ids])
