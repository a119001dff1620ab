"""Strategy `none`: the student sees the teacher's answers and no explanations."""

from jaxtyping import Float
from torch import Tensor

from didact.core.batch import Batch
from didact.core.trace import Trace
from didact.results.explanations import Explanations
from didact.students.lesson import Lesson
from didact.students.strategy import Strategy


class Unexplained(Strategy):
    """Control: an empty lesson and a loss of 0."""

    @property
    def reads_sizes(self) -> bool:
        return False

    def lesson(self, explanations: Explanations, batch: Batch) -> Lesson:  # noqa: ARG002
        return Lesson()

    def forward(self, trace: Trace, batch: Batch, lesson: Lesson) -> Float[Tensor, " batch"]:  # noqa: ARG002
        return trace.logits.new_zeros(len(batch))
