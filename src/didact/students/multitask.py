"""Strategy `multitask`: the student also tags the marked units."""

from collections.abc import Collection
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from didact.core.batch import Batch
from didact.core.model import Model, eval_mode
from didact.core.trace import Trace, TraceField
from didact.errors import OptionError
from didact.results.explanations import Explanations
from didact.students.crf import LinearChainCRF
from didact.students.lesson import Lesson, check_share, marks_lesson, tags_lesson
from didact.students.strategy import Strategy


class Multitask(Strategy):
    """−`beta` · log p(marks | text) of a linear-chain CRF on the student's last hidden states (Pruthi et al. 2022).

    Marks are the top share `k` of the words. The chain skips special tokens. The log-likelihood is averaged over units
    (`per=unit`), or summed as in the paper (`per=row`), which outweighs the loss of the task for long texts.

    With `signs` a marked unit is tagged as speaking for or against the explained class, by the sign of its word's
    score, so that the chain has three states. Marks of explanations without signs all speak for it.
    """

    later_options: ClassVar[frozenset[str]] = frozenset({"signs"})

    def __init__(self, *, beta: float = 1.0, k: float = 0.1, per: str = "unit", signs: bool = False) -> None:
        super().__init__()
        if not beta >= 0:
            raise OptionError(f"Option 'beta' of strategy 'multitask' must be 0 or more, got {beta}.")
        if per not in ("unit", "row"):
            raise OptionError(f"Option 'per' of strategy 'multitask' must be 'unit' or 'row', got {per!r}.")
        check_share("k", k)
        self.beta, self.k, self.per, self.signs = beta, k, per, signs

    @property
    def listen(self) -> Collection[TraceField]:
        return frozenset({"hidden"})

    @property
    def reads_sizes(self) -> bool:
        return False

    def attach(self, model: Model, batch: Batch) -> None:
        with eval_mode(model), torch.no_grad():
            trace = model(batch.select([0]).to(model.device), listen=self.listen)
        assert trace.hidden is not None
        width, states = trace.hidden[-1].shape[-1], trace.hidden[-1]
        tags = 3 if self.signs else 2
        self.emit = nn.Linear(width, tags).to(states)
        self.chain = LinearChainCRF(tags).to(states)

    def lesson(self, explanations: Explanations, batch: Batch) -> Lesson:
        return (tags_lesson if self.signs else marks_lesson)(explanations, batch, k=self.k)

    def forward(self, trace: Trace, batch: Batch, lesson: Lesson) -> Float[Tensor, " batch"]:
        tags = lesson.tags if self.signs else lesson.marks
        assert tags is not None
        assert trace.hidden is not None
        loss = -self.chain.log_likelihood(self.emit(trace.hidden[-1]), tags.long(), batch.units)
        return self.beta * (loss / batch.units.sum(-1).clamp_min(1) if self.per == "unit" else loss)
