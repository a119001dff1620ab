"""Strategy `alignment`: the student attends from phrases of the question to aligned phrases of the passage."""

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.batch import Batch
from didact.core.model import Model
from didact.core.trace import Trace, TraceField
from didact.errors import OptionError, UnsupportedError
from didact.results.explanations import Explanations
from didact.students.lesson import Lesson, aligned_lesson
from didact.students.strategy import Strategy


class Alignment(Strategy):
    """−`beta` · log of the mean attention mass between aligned phrases (Pruthi et al. 2022, section 3).

    The mass between two phrases is the attention of the last layer before dropout, summed over the tokens of the
    passage phrase and averaged over the tokens of the question phrase and over heads. The loss of a row without aligned
    phrases is 0. The strategies `attention` and `multitask` treat the same explanations as marks, which corresponds to
    the lossy variants in the paper.
    """

    def __init__(self, *, beta: float = 1.0) -> None:
        super().__init__()
        if not beta >= 0:
            raise OptionError(f"Option 'beta' of strategy 'alignment' must be 0 or more, got {beta}.")
        self.beta = beta

    @property
    def listen(self) -> Collection[TraceField]:
        return frozenset({"full"})

    @property
    def reads_sizes(self) -> bool:
        return False

    def attach(self, model: Model, batch: Batch) -> None:  # noqa: ARG002
        if not model.task.has_alignments:
            raise UnsupportedError(
                f"Strategy 'alignment' needs questions and passages, and task {model.task} has none. "
                "Choose 'attention' or 'multitask'."
            )
        model.check_attention(self.listen, None)

    def lesson(self, explanations: Explanations, batch: Batch) -> Lesson:
        return aligned_lesson(explanations, batch)

    def forward(self, trace: Trace, batch: Batch, lesson: Lesson) -> Float[Tensor, " batch"]:
        assert lesson.phrases is not None
        assert trace.full is not None
        logits = trace.full[:, -1].masked_fill(~batch.mask[:, None, :, None], 0.0)  # avoids NaN in rows of padding
        attention = logits.softmax(-1).mean(1)
        question, passage = lesson.phrases.to(attention.dtype).unbind(2)
        # The attention from each question phrase, and how much of it reaches the aligned passage phrase.
        question_weights = question / question.sum(-1, keepdim=True).clamp_min(1)
        mass = torch.einsum("bpq,bqk,bpk->bp", question_weights, attention, passage)
        is_pair = lesson.phrases.any(-1).all(-1)
        mean = (mass * is_pair).sum(-1) / is_pair.sum(-1).clamp_min(1)
        return torch.where(is_pair.any(-1), -self.beta * mean.clamp_min(1e-12).log(), torch.zeros_like(mean))
