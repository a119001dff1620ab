"""Training of one student on the teacher's answers, with or without explanations."""

from dataclasses import dataclass, replace
from typing import Final

import torch

from didact.core.model import Model
from didact.core.seeds import seed_from
from didact.learning.fit import AuxiliaryLoss, Epoch, Examples, Training, fit
from didact.results.explanations import Explanations
from didact.students.strategy import Strategy

# All students of a comparison train alike: no early stopping, the best dev epoch. Options depend only on the kind of
# student. They were found in an early trial, and tuned for no explainer (docs/decisions/010-the-protocol.md).
STUDENT_FROM_SCRATCH: Final = Training(
    epochs=12, batch_size=32, rate=2e-3, weight_decay=0.0, warmup=0.0, clip=5.0, patience=1000,
    optimiser="adam", schedule="constant",
)  # fmt: skip
ON_FROZEN: Final = replace(STUDENT_FROM_SCRATCH, epochs=10, rate=1e-3)
STUDENT_PRETRAINED: Final = replace(
    STUDENT_FROM_SCRATCH, epochs=4, batch_size=16, rate=1e-4, warmup=0.1, clip=1.0, schedule="linear"
)
# Rates of SGD with momentum. SGD exaggerates the effect of explanations, so it is only a second column.
SGD_RATES: Final = {STUDENT_FROM_SCRATCH: 0.1, ON_FROZEN: 0.05, STUDENT_PRETRAINED: 0.01}


def student_training(model: Model, optimiser: str) -> Training:
    """The default training options of a student of this kind."""
    training = {"nothing": STUDENT_FROM_SCRATCH, "words": ON_FROZEN, "everything": STUDENT_PRETRAINED}[model.pretrained]
    if optimiser == "sgd":
        return replace(training, optimiser="sgd", rate=SGD_RATES[training])
    return replace(training, optimiser=optimiser)


@dataclass(frozen=True)
class TeachingResult:
    """The epochs of a student, and the number of rows that lose a part of their explanation, which it cannot read."""

    history: list[Epoch]
    lost_rows: int


def teach(
    student: Model,
    strategy: Strategy,
    explanations: Explanations | None,
    train: Examples,
    dev: Examples,
    training: Training,
    *,
    keep: str = "best",
    progress: bool = False,
) -> TeachingResult:
    """Train the student in place. `explanations` are of the rows of `train`, in their order; None: answers alone."""
    if explanations is None:
        return TeachingResult(fit(student, train, dev, training, keep=keep, progress=progress), 0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_from(training.seed, "strategy"))
        strategy.attach(student, train.batch)
    strategy.to(student.device)
    lesson = strategy.lesson(explanations, train.batch).to(student.device)
    lost = 0 if lesson.lost is None else int(lesson.lost.sum())
    auxiliary = AuxiliaryLoss(strategy, lesson)
    return TeachingResult(fit(student, train, dev, training, auxiliary=auxiliary, keep=keep, progress=progress), lost)
