"""The student of SMaT: what one step of it reads, and both of its losses."""

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
    """The rows of one step, what the student is sent about them, and which rows judge the step."""

    batch: Batch
    goal: Shaped[Tensor, "row *goal"]
    lesson: Lesson
    outer_rows: Int[np.ndarray, " judging"]


class StudentWithStrategy(nn.Module):
    """A student with the strategy it is taught by: all that the inner optimiser trains."""

    def __init__(self, student: Model, strategy: Strategy) -> None:
        super().__init__()
        self.student, self.strategy = student, strategy

    def forward(
        self, batch: Batch, goal: Shaped[Tensor, "row *goal"], lesson: Lesson | None, detach_student: bool = False
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Mean simulation loss and mean explanation loss. When blind, the graph goes to the lesson alone."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not detach_student):
            trace = self.student(batch, listen=() if lesson is None else self.strategy.listen)
            simulation = self.student.task.loss(trace.logits, goal).mean()
        if lesson is None:
            return simulation, torch.zeros_like(simulation)
        return simulation, self.strategy(trace, batch, lesson).mean()


def seed_dropout(seed: int, device: torch.device) -> None:
    """Seed what dropout draws from. On the CPU that one alone: torch.manual_seed seeds every device there could be,
    which costs more than a small layer."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
