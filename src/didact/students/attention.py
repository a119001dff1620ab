"""The student's own attention is drawn to the explanation."""

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
from didact.students.lesson import Lesson, check_share, distribution_lesson, top_lesson
from didact.students.strategy import Strategy

Send = Literal["whole", "top"]
Side = Literal["mix", "cls"]
Direction = Literal["forward", "reverse"]
# Log-probability of a unit that the student cannot attend to (it is masked, or its probability underflows to 0). The
# loss stays finite. It is below every probability that single precision holds.
_UNATTENDED = -100.0
# Least log-probability of what is sent, for the reverse direction.
_MIN_LOG_TARGET = -30.0


class Attention(Strategy):
    """`beta` times KL(explanation ‖ the student's attention), both over the units only; `direction=reverse` turns it.

    The student's side is a learned sparse mix of the attention logits of all its heads (`side=mix`: Fernandes et al.
    2022, the S-explainer), or the last layer's attention from where the student answers, mean of the heads, before
    dropout (`side=cls`: Pruthi et al. 2022, eq. 2). `send=whole` sends the distribution, sharpened below a
    `temperature` of 1; `send=top` the top share `k` of the words, all alike, against `floor` elsewhere. `signed` says
    how signed scores are sent: by size (absolute), positive ones alone (positive), or softmax(s / temperature).
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
        allowed_values = {"send": (send, Send), "side": (side, Side), "signed": (signed, Signed)}
        allowed_values["direction"] = (direction, Direction)
        for name, (value, choices) in allowed_values.items():
            if value not in get_args(choices):
                allowed = " or ".join(map(repr, get_args(choices)))
                raise OptionError(f"Option {name!r} of strategy 'attention' is {allowed}, not {value!r}.")
        if not beta >= 0 or not temperature > 0 or not floor >= 0:
            raise OptionError(
                "Strategy 'attention' needs beta and floor from 0 and a temperature above 0; "
                f"beta={beta}, temperature={temperature}, floor={floor} was asked for."
            )
        check_share("k", k)
        self.send, self.side, self.signed, self.direction = send, side, signed, direction
        self.beta, self.k, self.temperature, self.floor = beta, k, temperature, floor

    @property
    def listen(self) -> Collection[TraceField]:
        return frozenset({"mean"} if self.side == "mix" else {"reading"})

    def attach(self, model: Model, batch: Batch) -> None:
        with eval_mode(model), torch.no_grad():  # a student without attention refuses here
            trace = model(batch.select([0]).to(model.device), listen=self.listen)
        if self.side == "mix":
            assert trace.mean is not None
            # Equal at first, as in SMaT.
            self.coefficients = nn.Parameter(trace.mean.new_zeros(trace.mean.shape[1] * trace.mean.shape[2]))

    def lesson(self, explanations: Explanations, batch: Batch) -> Lesson:
        if self.send == "top":
            return top_lesson(explanations, batch, k=self.k, temperature=self.temperature, floor=self.floor)
        signed: Signed = self.signed  # type: ignore[assignment]
        return distribution_lesson(explanations, batch, signed=signed, temperature=self.temperature, floor=self.floor)

    def forward(self, trace: Trace, batch: Batch, lesson: Lesson) -> Float[Tensor, " batch"]:
        assert lesson.mass is not None
        return self.divergence(lesson.mass.to(trace.logits), self.student_log_probs(trace, batch), batch.units)

    def divergence(
        self,
        target: Float[Tensor, "batch token"],
        log_probs: Float[Tensor, "batch token"],
        units: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """The loss of each row, of what it was sent and its own log-probabilities."""
        # No floor for finite values: it would take the gradient away where the student is most wrong.
        log_probs = log_probs.masked_fill(log_probs == -torch.inf, _UNATTENDED).masked_fill(~units, 0.0)
        if self.direction == "reverse":
            log_target = target.clamp_min(math.exp(_MIN_LOG_TARGET)).log().masked_fill(~units, 0.0)
            return self.beta * (log_probs.exp() * units * (log_probs - log_target)).sum(-1)
        # What was sent has an entropy that no student can change; its slope at 0 is infinite, so it is left out.
        return self.beta * (torch.xlogy(target, target).detach() - target * log_probs).sum(-1)

    def student_log_probs(self, trace: Trace, batch: Batch) -> Float[Tensor, "batch token"]:
        """The student's side: log-probabilities over the units, minus infinity elsewhere."""
        if self.side == "mix":
            assert trace.mean is not None
            heads = trace.mean.flatten(1, 2)
            logits = torch.einsum("h,bht->bt", sparsemax(self.coefficients), heads)
        else:
            assert trace.reading is not None
            # The heads' probabilities are averaged; a sum in the logarithm does it without underflow.
            logits = trace.reading[:, -1].logsumexp(1)
        return logits.masked_fill(~batch.units, -torch.inf).log_softmax(-1)
