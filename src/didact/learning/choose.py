"""Chooses between a learned explainer, its initial weights and its members, by the dev scores of new students."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from didact.core.model import Model
from didact.explainers.combine import combine_components
from didact.explainers.mix import Blend, ComponentMix
from didact.learning.fit import Examples, Training, best_epoch
from didact.learning.teach import teach
from didact.results.component_scores import ComponentScores
from didact.students.strategy import Strategy


@dataclass(frozen=True)
class Choice:
    """The candidate that was chosen, and the dev score of the new student of each candidate."""

    name: str
    dev: dict[str, float]

    @property
    def note(self) -> str:
        scores = ", ".join(f"{name} {value:.3f}" for name, value in self.dev.items())
        return f"Dev scores of new students taught by each candidate: {scores}. Chosen: {self.name}."


def choose_by_new_students(
    explainer: ComponentMix,
    components: ComponentScores,
    train: Examples,
    dev: Examples,
    training: Training,
    *,
    student: Callable[[], Model],
    strategy: Callable[[], Strategy],
) -> Choice:
    """Set the explainer, in place, to the candidate that teaches new students best, by their score on dev.

    Candidates are the learned weights, the initial (equal) weights, and for a blend each member alone. SMaT looks one
    step ahead, and weights that help in the next step need not be best for a whole training.

    `components` are the scores of the rows of `train`; `student` and `strategy` make a new one for each candidate.
    """
    learned = (explainer.coefficients.detach().clone(), explainer.log_temperature.detach().clone())
    unit_temperature = torch.zeros_like(learned[1])
    candidates: dict[str, tuple[Tensor, Tensor]] = {
        "learned": learned,
        "start": (torch.full_like(learned[0], 1 / len(explainer.names)), unit_temperature),
    }
    if isinstance(explainer, Blend):
        single_members = torch.eye(len(explainer.names), device=learned[0].device, dtype=learned[0].dtype)
        # Softmax gives no component a weight of exactly 1. A coefficient of 10 gives it nearly all.
        single_members = single_members * (
            10.0 if explainer.normaliser == "softmax" else 2.0 if explainer.normaliser == "entmax15" else 1.0
        )
        candidates |= {name: (row, unit_temperature) for name, row in zip(explainer.names, single_members, strict=True)}
    ranks, dev_measures = {}, {}
    for name, state in candidates.items():
        _set_parameters(explainer, state)
        model = student()
        epoch = best_epoch(
            teach(model, strategy(), combine_components(explainer, components), train, dev, training).history
        )
        ranks[name], dev_measures[name] = epoch.rank, epoch.dev_measure
    best = max(ranks, key=lambda name: ranks[name])
    _set_parameters(explainer, candidates[best])
    return Choice(best, dev_measures)


def _set_parameters(explainer: ComponentMix, state: tuple[Tensor, Tensor]) -> None:
    with torch.no_grad():
        explainer.coefficients.copy_(state[0])
        explainer.log_temperature.copy_(state[1])
