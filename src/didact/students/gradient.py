"""Strategy `gradient`: the student's own gradient × input is trained towards the explanation, with its signs."""

from collections.abc import Collection
from dataclasses import replace
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.batch import Batch
from didact.core.model import Model, eval_mode
from didact.core.normalise import positive
from didact.core.target import Target
from didact.core.trace import Trace, TraceField
from didact.errors import OptionError, UnsupportedError
from didact.results.explanations import Explanations
from didact.students.lesson import Lesson, scores_lesson
from didact.students.strategy import Strategy

Loss = Literal["cosine", "mse"]
SignedOption = Literal["keep", "absolute"]
Marks = Literal["for", "size"]
Unsigned = Literal["norm", "for"]
_TRIAL_ROWS = 8  # rows of the trial in `attach`


class Gradient(Strategy):
    """`beta` times the distance of the student's gradient × input from the scores (Parchami-Araghi et al. 2024, e²KD).

    Gradient × input is taken at the units, where the first layer begins, of the logit of the explained class minus the
    mean of the other logits (of the score in a regression). It needs no attention, and is differentiated exactly for
    training, which costs about three passes instead of one. docs/decisions/049-gradient-strategy.md has the deviations
    from the paper and what was measured.

    - `loss=mse` is the squared distance of the two vectors of a row, after the explanations of all rows were scaled by
      one factor to a root mean square norm of `scale` logits. `loss=cosine` is 1 − their cosine. (On vectors of norm 1
      the squared distance would be twice that.)
    - Signed scores are compared with the dot product of gradient and input, signs included. So are marks, which speak
      for the explained class, unless `marks=size`.
    - Magnitudes and distributions say nothing of the sign. They are compared with the norm of the elementwise product,
      which has none either. `unsigned=for` takes them as evidence for the explained class, as marks are.
      `signed=absolute` sends signed scores as magnitudes.
    - The loss of a row without scores is 0. A student that does not depend on any unit has a cosine of 0.

    Refuses reading, whose answer is two positions and not a class, and students without second derivatives.
    """

    needs_second_derivatives: ClassVar[bool] = True
    later_options: ClassVar[frozenset[str]] = frozenset({"unsigned"})

    def __init__(
        self,
        *,
        beta: float = 1.0,
        loss: str = "mse",
        signed: str = "keep",
        marks: str = "for",
        scale: float = 3.0,
        unsigned: str = "norm",
    ) -> None:
        super().__init__()
        for name, value, choices in (
            ("loss", loss, get_args(Loss)),
            ("signed", signed, get_args(SignedOption)),
            ("marks", marks, get_args(Marks)),
            ("unsigned", unsigned, get_args(Unsigned)),
        ):
            if value not in choices:
                allowed = " or ".join(map(repr, choices))
                raise OptionError(f"Option {name!r} of strategy 'gradient' must be {allowed}, got {value!r}.")
        if not beta >= 0 or not scale > 0:
            raise OptionError(
                f"Strategy 'gradient' needs a beta of 0 or more and a scale above 0, got beta={beta}, scale={scale}."
            )
        self.beta, self.loss, self.signed, self.marks, self.scale = beta, loss, signed, marks, scale
        self.unsigned = unsigned

    @property
    def listen(self) -> Collection[TraceField]:
        return frozenset({"hidden"})

    def run(self, model: Model, batch: Batch) -> Trace:
        """The student's pass in operations that have second derivatives, with a graph to its embeddings."""
        with model.decomposed():  # fused LSTMs have none on a GPU, and are no faster twice differentiated on a CPU
            words = model.embed(batch)
            if not words.requires_grad:  # of a model with frozen embeddings
                words = words.detach().requires_grad_()
            return model.run(words, batch, listen=self.listen)

    def attach(self, model: Model, batch: Batch) -> None:
        if model.task.is_per_token:
            raise UnsupportedError(
                f"Strategy 'gradient' needs one logit or score to explain, and task {model.task} has logits for every "
                "token. Choose 'attention', 'multitask' or 'alignment'."
            )
        trial = batch.select(torch.arange(min(len(batch), _TRIAL_ROWS))).to(model.device)
        with eval_mode(model), torch.enable_grad():
            try:
                trace = self.run(model, trial)
                _check_operations(trace.logits)
                values = Target.predicted(model.task, trace.logits.detach()).of(trace.logits)
                scores = gradient_input(trace, values).sum(-1) * trial.units
                parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
                torch.autograd.grad(scores.square().sum(), parameters, allow_unused=True)
            except (RuntimeError, NotImplementedError) as error:
                raise UnsupportedError(
                    f"Strategy 'gradient' differentiates the student twice from its embeddings, and student "
                    f"{model.name!r} does not allow it: {str(error).strip().splitlines()[0].rstrip('.')}. Choose "
                    "'multitask', or another architecture."
                ) from error

    def lesson(self, explanations: Explanations, batch: Batch) -> Lesson:
        norm: Literal["row", "rows"] = "row" if self.loss == "cosine" else "rows"
        lesson = scores_lesson(explanations, batch, absolute=self.signed == "absolute", norm=norm)
        speaks_for = self.marks == "for" if explanations.kind == "binary" else self.unsigned == "for"
        if speaks_for:
            assert lesson.is_signed is not None
            lesson = replace(lesson, is_signed=torch.ones_like(lesson.is_signed))
        return lesson

    def forward(self, trace: Trace, batch: Batch, lesson: Lesson) -> Float[Tensor, " batch"]:
        assert lesson.scores is not None
        assert lesson.is_signed is not None
        products = gradient_input(trace, _explained_values(trace, lesson)) * batch.units[..., None]
        # Not |Σ gradient · input|: the sign that a word happens to have at first would grow, and never change.
        student_scores = torch.where(lesson.is_signed[:, None], products.sum(-1), products.norm(dim=-1))
        scores = lesson.scores.to(student_scores)
        if self.loss == "mse":
            loss = (student_scores - self.scale * scores).square().sum(-1)
        else:
            norms = _norm(student_scores) * _norm(scores)
            loss = 1 - (student_scores * scores).sum(-1) / norms
        return self.beta * torch.where(scores.any(-1), loss, torch.zeros_like(loss))


def gradient_input(trace: Trace, values: Float[Tensor, " batch"]) -> Float[Tensor, "batch token dim"]:
    """The gradient of each row's value times the input of the first layer, with a graph to the parameters."""
    assert trace.hidden is not None
    inputs = trace.hidden[0]
    (gradient,) = torch.autograd.grad(values.sum(), inputs, create_graph=True)
    return gradient * inputs


def _check_operations(logits: Float[Tensor, "batch *output"]) -> None:
    """Raise a `RuntimeError` if a custom backward pass led to the logits: it may drop second derivatives silently."""
    nodes, queue = set(), [logits.grad_fn]
    while queue:
        node = queue.pop()
        if node is None or node in nodes:
            continue
        nodes.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            raise RuntimeError(f"its operation {node.name().removesuffix('Backward')} has a backward pass of its own")
        queue += [parent for parent, _ in node.next_functions]


def _explained_values(trace: Trace, lesson: Lesson) -> Float[Tensor, " batch"]:
    """The logit of each row's explained class minus that of the other class, or minus the mean of the others."""
    if lesson.targets is None:
        return Target.value().of(trace.logits)
    first, second = lesson.targets.unbind(-1)
    values = Target.label(first).of(trace.logits)
    other_classes = trace.logits.shape[-1] - 1
    mean_of_others = (trace.logits.sum(-1) - values) / max(other_classes, 1)
    return values - torch.where(second < 0, mean_of_others, Target.label(second.clamp_min(0)).of(trace.logits))


def _norm(vectors: Float[Tensor, "batch token"]) -> Float[Tensor, " batch"]:
    """The norm of each row, or 1 if it is 0: the derivative of the quotient then stays finite."""
    return positive(vectors.norm(dim=-1))
