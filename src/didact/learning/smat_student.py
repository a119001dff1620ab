"""The student in SMaT: the inputs of one step, and its two losses."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from didact.core.model import Batch, Model
from didact.students.lesson import Lesson
from didact.students.strategy import Strategy


@dataclass(frozen=True)
class InnerBatch:
    """The rows of one step with the student's goal and lesson, and the indices of the rows of the outer loss."""

    batch: Batch
    goal: Shaped[Tensor, "row *goal"]
    lesson: Lesson
    outer_rows: Int[np.ndarray, " outer"]


class StudentWithStrategy(nn.Module):
    """A student and its strategy as one module: all parameters of the inner optimiser."""

    def __init__(self, student: Model, strategy: Strategy) -> None:
        super().__init__()
        self.student, self.strategy = student, strategy

    def forward(
        self, batch: Batch, goal: Shaped[Tensor, "row *goal"], lesson: Lesson | None, detach_student: bool = False
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Mean simulation loss and mean explanation loss (0 without a lesson).

        With `detach_student` the graph leads only to the lesson.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not detach_student):
            trace = self.student(batch, listen=() if lesson is None else self.strategy.listen)
            simulation = self.student.task.loss(trace.logits, goal).mean()
        if lesson is None:
            return simulation, torch.zeros_like(simulation)
        return simulation, self.strategy(trace, batch, lesson).mean()


def seed_dropout(seed: int, device: torch.device) -> None:
    """Seed the generator that dropout uses on the device.

    On a CPU only that one: `torch.manual_seed` seeds all possible devices, which takes longer than a small layer.
    """
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
