"""Strategy `attention`: the student's attention is trained towards the explanation."""

import math
from collections.abc import Collection
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from didact.core.batch import Batch
from didact.core.explanation import Signed
from didact.core.model import Model, eval_mode
from didact.core.simplex import sparsemax
from didact.core.trace import Trace, TraceField
from didact.errors import OptionError
from didact.results.explanations import Explanations
from didact.students.lesson import Lesson, check_share, distribution_lesson, split_lesson, top_lesson
from didact.students.strategy import Strategy

Send = Literal["whole", "top"]
Side = Literal["mix", "cls"]
Direction = Literal["forward", "reverse"]
SignedOption = Literal[Signed, "split"]
# Log-probability of units that the student cannot attend to (masked, or with a probability that underflows to 0). It
# keeps the loss finite, and is below all log-probabilities in single precision.
_UNATTENDED = -100.0
# Smallest log-probability of the explanation, for the reverse direction.
_MIN_LOG_TARGET = -30.0


class Attention(Strategy):
    """`beta` · KL(explanation ‖ student's attention) over the units; `direction=reverse` exchanges the two.

    With `side=mix` the student's attention is a learned sparse mix of the attention logits of all heads (Fernandes et
    al. 2022, the S-explainer). With `side=cls` it is the attention of the last layer from the pooling position, before
    dropout, averaged over heads (Pruthi et al. 2022, eq. 2). `send=whole` uses the whole distribution, which a
    `temperature` below 1 sharpens; `send=top` gives the top share `k` of the words equal weight, and the others
    `floor`. `signed` is how signed scores become a distribution: `absolute`, `positive` or `softmax`.

    `signed=split` sends positive and negative scores as two distributions. Each has a learned mix of heads of its own,
    and the two divergences are weighted by the share of the absolute scores that is positive or negative. It needs
    `side=mix` and `send=whole`: there is only one attention from the pooling position, and marks have no signs.
    """

    version: ClassVar[int] = 3  # 3: no floor under the student's log-probabilities

    def __init__(
        self,
        *,
        send: str = "whole",
        side: str = "mix",
        direction: str = "forward",
        beta: float = 5.0,
        k: float = 0.1,
        signed: str = "absolute",
        temperature: float = 1.0,
        floor: float = 1e-3,
    ) -> None:
        super().__init__()
        allowed_values = {"send": (send, Send), "side": (side, Side), "signed": (signed, SignedOption)}
        allowed_values["direction"] = (direction, Direction)
        for name, (value, choices) in allowed_values.items():
            if value not in get_args(choices):
                allowed = " or ".join(map(repr, get_args(choices)))
                raise OptionError(f"Option {name!r} of strategy 'attention' must be {allowed}, got {value!r}.")
        if not beta >= 0 or not temperature > 0 or not floor >= 0:
            raise OptionError(
                "Strategy 'attention' needs beta and floor of 0 or more and a temperature above 0, got "
                f"beta={beta}, temperature={temperature}, floor={floor}."
            )
        if signed == "split" and (side != "mix" or send != "whole"):
            raise OptionError(
                f"Strategy 'attention' with signed=split needs side=mix and send=whole, got side={side}, send={send}: "
                "it pulls two mixes of heads towards two distributions. Choose the strategy 'gradient' or "
                "'multitask(signs=true)'."
            )
        check_share("k", k)
        self.send, self.side, self.signed, self.direction = send, side, signed, direction
        self.beta, self.k, self.temperature, self.floor = beta, k, temperature, floor

    @property
    def listen(self) -> Collection[TraceField]:
        return frozenset({"mean"} if self.side == "mix" else {"reading"})

    @property
    def reads_sizes(self) -> bool:
        return self.send == "whole"

    def attach(self, model: Model, batch: Batch) -> None:
        with eval_mode(model), torch.no_grad():  # a student without attention raises an error here
            trace = model(batch.select([0]).to(model.device), listen=self.listen)
        if self.side == "mix":
            assert trace.mean is not None
            # Equal weights at first, as in SMaT.
            self.coefficients = nn.Parameter(trace.mean.new_zeros(trace.mean.shape[1] * trace.mean.shape[2]))
        if self.signed == "split":
            self.coefficients_against = nn.Parameter(torch.zeros_like(self.coefficients))

    def lesson(self, explanations: Explanations, batch: Batch) -> Lesson:
        if self.send == "top":
            return top_lesson(explanations, batch, k=self.k, temperature=self.temperature, floor=self.floor)
        if self.signed == "split":
            return split_lesson(explanations, batch, temperature=self.temperature, floor=self.floor)
        signed: Signed = self.signed  # type: ignore[assignment]
        return distribution_lesson(explanations, batch, signed=signed, temperature=self.temperature, floor=self.floor)

    def forward(self, trace: Trace, batch: Batch, lesson: Lesson) -> Float[Tensor, " batch"]:
        assert lesson.mass is not None
        loss = self.divergence(lesson.mass.to(trace.logits), self.student_log_probs(trace, batch), batch.units)
        if self.signed != "split":
            return loss
        assert lesson.mass_against is not None
        assert lesson.share_against is not None
        log_probs = self._mixed_log_probs(trace, batch, self.coefficients_against)
        loss_against = self.divergence(lesson.mass_against.to(trace.logits), log_probs, batch.units)
        return loss + lesson.share_against.to(loss) * (loss_against - loss)

    def divergence(
        self,
        target: Float[Tensor, "batch token"],
        log_probs: Float[Tensor, "batch token"],
        units: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """The loss of each row: `beta` times the divergence of the student's log-probabilities from the target."""
        # Finite values have no floor, which would remove the gradient where the student is most wrong.
        log_probs = log_probs.masked_fill(log_probs == -torch.inf, _UNATTENDED).masked_fill(~units, 0.0)
        if self.direction == "reverse":
            log_target = target.clamp_min(math.exp(_MIN_LOG_TARGET)).log().masked_fill(~units, 0.0)
            return self.beta * (log_probs.exp() * units * (log_probs - log_target)).sum(-1)
        # The entropy of the target is constant, and its gradient at 0 infinite, so it is detached.
        return self.beta * (torch.xlogy(target, target).detach() - target * log_probs).sum(-1)

    def student_log_probs(self, trace: Trace, batch: Batch) -> Float[Tensor, "batch token"]:
        """The log-probabilities of the student's attention over the units, minus infinity elsewhere."""
        if self.side == "mix":
            return self._mixed_log_probs(trace, batch, self.coefficients)
        assert trace.reading is not None
        # The mean of the heads' probabilities up to a constant; logsumexp avoids underflow.
        logits = trace.reading[:, -1].logsumexp(1)
        return logits.masked_fill(~batch.units, -torch.inf).log_softmax(-1)

    def _mixed_log_probs(
        self, trace: Trace, batch: Batch, coefficients: Float[Tensor, " head"]
    ) -> Float[Tensor, "batch token"]:
        assert trace.mean is not None
        logits = torch.einsum("h,bht->bt", sparsemax(coefficients), trace.mean.flatten(1, 2))
        return logits.masked_fill(~batch.units, -torch.inf).log_softmax(-1)
