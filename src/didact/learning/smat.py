"""SMaT training: an explainer and a student learn together (Fernandes et al. 2022, equations 6 to 9).

Bilevel optimisation with one inner step. Each step of the loop:

1. The explainer turns its explanations into lessons (distributions over the student's tokens) for a batch of training
   rows (`DifferentiableLessons`).
2. The student takes an optimiser step on the teacher's answers and these lessons (`_student_step`; inner loss).
3. A second, look-ahead step is computed but not taken. The hypergradient is the derivative of the student's loss on
   other rows after this step (outer loss) with respect to the explainer's parameters (`_hypergradient`).
4. The explainer takes a step along the hypergradient (`OuterAdam`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import functional_call

from didact.core.model import Batch, Model, eval_mode
from didact.core.seeds import seed_from
from didact.errors import RecordError, TrainingError
from didact.explainers.mix import ComponentMix
from didact.learning.differentiable_lessons import DifferentiableLessons
from didact.learning.fit import (
    Examples,
    Training,
    best_epoch,
    check_finite,
    cuda_devices,
    epoch_batches,
    evaluate_dev,
    goal_to_device,
    learning_rate_factor,
    make_optimiser,
)
from didact.learning.hypergradient import Hypergradient, Route, Step, Weights, hypergradient, preview
from didact.learning.outer_adam import OuterAdam
from didact.learning.outer_rows import OuterRowSampler
from didact.learning.smat_checkpoint import Checkpoint
from didact.learning.smat_checks import check_answers, check_components, check_row_counts, check_strategy
from didact.learning.smat_options import SmatEpoch, SmatOptions, SmatResult
from didact.learning.smat_route import check_route, first_line
from didact.learning.smat_student import InnerBatch, StudentWithStrategy, seed_dropout
from didact.results.component_scores import ComponentScores
from didact.students.lesson import Lesson
from didact.students.strategy import Strategy
from didact.viz.progress import Progress

RowIndices: TypeAlias = Int[np.ndarray, " inner"]
OuterIndices: TypeAlias = Int[np.ndarray, " outer"]
# Default outer rate times the number of components. In trials 5e-3 suited 8 heads and 5e-4 suited 72; the paper
# has 5e-4 for 48.
_RATE_TIMES_COMPONENTS: Final = 0.04
_COLLAPSED: Final = ("on one component", "one part")  # in the note of a collapse; the second in old checkpoints
_STUDENT_PREFIX: Final = "pupil."  # stored in checkpoints, so it stays


def run_smat(
    student: Model,
    strategy: Strategy,
    explainer: ComponentMix,
    components: ComponentScores,
    train: Examples,
    dev: Examples,
    training: Training,
    smat: SmatOptions,
    *,
    checkpoint: Path | None = None,
    progress: bool = False,
    on_epoch_end: Callable[[SmatEpoch], Any] = lambda _: None,
) -> SmatResult:
    """Train explainer and student together, both in place.

    Args:
        student: The model that learns from the teacher's answers.
        strategy: How the student learns from explanations. Must be `attention` with send=whole.
        explainer: The mix of components whose coefficients (and temperature) are learned.
        components: Component scores of the rows of `train`, in the same order.
        train: The rows that the student learns from, with the teacher's answers.
        dev: The rows on which the best epoch is chosen.
        training: The options of the student's training.
        smat: The options of the explainer's training.
        checkpoint: A file for the state after each epoch. The same call with this file resumes, with the same result.
        progress: Whether to show a progress bar.
        on_epoch_end: Called with each `SmatEpoch`.

    Raises:
        TrainingError: If all components or all answers are equal, the explainer's gradient is 0, or a loss or gradient
            becomes NaN or infinite.
        OptionError: If there are too few rows.
        UnsupportedError: If the strategy, the precision or the route does not allow learning.
    """
    return SmatLoop(student, strategy, explainer, components, train, dev, training, smat, checkpoint).run(
        progress, on_epoch_end
    )


class SmatLoop:
    """The state of one SMaT training: student, explainer, their optimisers, and the epochs so far."""

    def __init__(
        self,
        student: Model,
        strategy: Strategy,
        explainer: ComponentMix,
        components: ComponentScores,
        train: Examples,
        dev: Examples,
        training: Training,
        smat: SmatOptions,
        checkpoint: Path | None,
    ) -> None:
        self.training, self.smat, self.checkpoint = training, smat, checkpoint
        self.train, self.dev = train, dev
        self.outer_batch_size = smat.outer_batch or training.batch_size
        check_row_counts(len(train), len(dev), batch_size=training.batch_size, smat=smat)
        check_answers(train)
        check_components(components)
        strategy = check_strategy(strategy, training)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_from(training.seed, "strategy"))
            strategy.attach(student, train.batch)
        self.student, self.strategy = student, strategy.to(student.device)
        self.explainer = explainer.to(student.device)
        self.lessons = DifferentiableLessons(
            components, train.batch, temperature=strategy.temperature, device=student.device
        )
        self.inner_model = StudentWithStrategy(student, strategy)
        self.student_weights = {
            name: parameter for name, parameter in self.inner_model.named_parameters() if parameter.requires_grad
        }
        self.explainer_parameters = [
            parameter for parameter in (explainer.coefficients, explainer.log_temperature) if parameter.requires_grad
        ]
        self.outer_rate = smat.outer_rate or _RATE_TIMES_COMPONENTS / len(explainer.names)
        self.steps_per_epoch = -(-len(train) // training.batch_size)
        self.initial_state = {name: tensor.detach().clone() for name, tensor in self.inner_model.state_dict().items()}
        self.optimiser = make_optimiser(list(self.student_weights.values()), training)
        # The temperature is second, if it is learned.
        rates = [self.outer_rate, smat.temperature_rate][: len(self.explainer_parameters)]
        self.outer_optimiser = OuterAdam(self.explainer_parameters, rates, clip=smat.outer_clip)
        self.history: list[SmatEpoch] = []
        self.best_state: dict[str, Tensor] = {}
        self.notes: list[str] = []
        self.route: Route = "double"

    def run(self, progress: bool, on_epoch_end: Callable[[SmatEpoch], Any]) -> SmatResult:
        """Train the epochs that the checkpoint lacks, and load the weights of the chosen epoch."""
        self._resume()
        total = self.steps_per_epoch * self.training.epochs
        dev_batches = self.dev.batches(max(self.training.batch_size, 64))
        with torch.random.fork_rng(devices=cuda_devices(self.student)), torch.inference_mode(False):
            self.route = self.route if self.history else self._checked_route()
            with Progress("learning to explain", total=total, shown=progress) as bar:
                bar.skip(self.steps_per_epoch * len(self.history))
                for epoch_number in range(len(self.history) + 1, self.training.epochs + 1):
                    self._maybe_reset(epoch_number)
                    losses = self._epoch(epoch_number, bar)
                    self.student.eval()
                    epoch = self._summary(
                        epoch_number, losses, evaluate_dev(self.student, dev_batches, balanced=self.training.balanced)
                    )
                    self._end_epoch(epoch)
                    on_epoch_end(epoch)
                    bar.advance(0, note=_progress_note(epoch, self.student.task.measure))
        kept_epoch = self.history[-1] if self.smat.keep == "last" else best_epoch(self.history)
        if self.smat.keep == "best":
            self._load(self.best_state)
        self.student.eval()
        assert isinstance(kept_epoch, SmatEpoch)
        return SmatResult(self.history, kept_epoch, self.route, self.lessons.lost_rows, self.notes)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _epoch(self, epoch_number: int, bar: Progress) -> Float[np.ndarray, "step 2"]:
        """One pass over the training rows. Returns the inner and outer loss of each step."""
        losses = []
        sampler = self._outer_sampler(epoch_number)
        for index, inner_rows in enumerate(epoch_batches(self.train.batch, self.training, epoch_number)):
            step = (epoch_number - 1) * self.steps_per_epoch + index
            for group in self.optimiser.param_groups:
                group["lr"] = self.training.rate * learning_rate_factor(
                    step, self.steps_per_epoch * self.training.epochs, self.training
                )
            result = self._step(step, inner_rows, sampler.take(self._excluded_rows(inner_rows)))
            self._check_numbers(result, f"in step {step + 1} (epoch {epoch_number})")
            self.outer_optimiser.step(result.explainer_gradients)
            self._note_collapse(epoch_number, step)
            losses.append((float(result.inner_loss), float(result.outer_loss)))
            bar.advance()
        check_finite([*self.student_weights.values(), *self.explainer_parameters], self.training, epoch_number)
        return np.array(losses)

    def _step(self, step: int, inner_rows: RowIndices, outer_rows: OuterIndices) -> Hypergradient:
        """One step of the student (equations 6 and 7), and the hypergradient (8 and 9) on the outer rows.

        With `pilot` the student's own step comes first and the look-ahead step starts from its new weights. Without,
        the look-ahead step is the student's own.
        """
        self.student.train()
        inner = self._inner_batch(inner_rows, outer_rows)
        if self.smat.pilot:
            self._student_step(self._student_gradients(inner, step))
        result = self._hypergradient(inner, step, self.route)
        if not self.smat.pilot:
            self._student_step(result.student_gradients)
        return result

    def _inner_batch(self, inner_rows: RowIndices, outer_rows: OuterIndices) -> InnerBatch:
        """The chosen training rows on the student's device, with their lesson from the explainer."""
        index = torch.from_numpy(inner_rows)
        batch = self.train.batch.select(index).to(self.student.device)
        lesson = self.lessons(self.explainer, index, batch.mask.shape[1])
        return InnerBatch(batch, goal_to_device(self.student, self.train.goal[index]), lesson, outer_rows)

    def _student_gradients(self, inner: InnerBatch, step: int) -> list[Tensor]:
        """The gradients of the student's own step, where the lesson is a constant."""
        mass = inner.lesson.mass
        assert mass is not None
        seed_dropout(seed_from(self.training.seed, step, "student"), self.student.device)
        loss = torch.stack(self.inner_model(inner.batch, inner.goal, Lesson(mass=mass.detach()))).sum()
        return list(torch.autograd.grad(loss, list(self.student_weights.values()), materialize_grads=True))

    def _student_step(self, gradients: Sequence[Tensor]) -> None:
        """Clip the gradients and let the student's optimiser take a step (equations 6 and 7)."""
        for weight, gradient in zip(self.student_weights.values(), gradients, strict=True):
            weight.grad = gradient
        torch.nn.utils.clip_grad_norm_(list(self.student_weights.values()), self.training.clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def _hypergradient(
        self, inner: InnerBatch, step: int, route: Route, *, is_plain_sgd: bool = False
    ) -> Hypergradient:
        """The gradient of the outer loss after a look-ahead step, with respect to the explainer's parameters.

        `is_plain_sgd`: assume plain gradient descent instead of the student's optimiser, to compare routes exactly.
        """
        mass = inner.lesson.mass
        assert mass is not None
        sent_mass = mass.detach().requires_grad_()  # the only path from the explainer to the student
        # As in the paper, the look-ahead step sees the same rows with another dropout mask.
        dropout_key = "pilot" if self.smat.pilot else "student"

        def inner_losses(weights: Weights, detach_student: bool) -> tuple[Tensor, Tensor]:
            inputs = (inner.batch, inner.goal, Lesson(mass=sent_mass), detach_student)
            # the same dropout mask in each call
            seed_dropout(seed_from(self.training.seed, step, dropout_key), self.student.device)
            if weights is self.student_weights:
                return self.inner_model(*inputs)
            losses: tuple[Tensor, Tensor] = functional_call(self.inner_model, dict(weights), inputs)
            return losses

        def outer_loss(weights: Weights) -> Tensor:
            batch, goal = self._outer_batch(inner.outer_rows)
            with eval_mode(self.inner_model):
                loss: Tensor = functional_call(self.inner_model, dict(weights), (batch, goal, None))[0]
            return loss

        def look_ahead_step(gradients: Sequence[Tensor]) -> Step:
            if is_plain_sgd:
                return _plain_step(self.student_weights, gradients, self.training.rate)
            return preview(self.optimiser, self.student_weights, gradients, clip=self.training.clip)

        result = hypergradient(
            self.student_weights,
            [sent_mass],
            inner_losses=inner_losses,
            outer_loss=outer_loss,
            step=look_ahead_step,
            route=route,
        )
        explainer_gradients = torch.autograd.grad(
            mass, self.explainer_parameters, grad_outputs=result.explainer_gradients, materialize_grads=True
        )
        return replace(result, explainer_gradients=list(explainer_gradients))

    def _outer_sampler(self, epoch: int) -> OuterRowSampler:
        return OuterRowSampler(
            self._outer_examples.batch.lengths.numpy(), self.outer_batch_size, seed=self.training.seed, epoch=epoch
        )

    @property
    def _outer_examples(self) -> Examples:
        return self.train if self.smat.outer == "train" else self.dev

    def _excluded_rows(self, inner_rows: RowIndices) -> Int[np.ndarray, " _"]:
        """The rows that the outer loss of this step must not use.

        These are the student's rows, if the outer loss draws from `train` too.
        """
        return inner_rows if self.smat.outer == "train" else inner_rows[:0]

    def _outer_batch(self, outer_rows: OuterIndices) -> tuple[Batch, Tensor]:
        """The rows of the outer loss on the student's device, with their goal."""
        index, source = torch.from_numpy(outer_rows), self._outer_examples
        return source.batch.select(index).to(self.student.device), goal_to_device(self.student, source.goal[index])

    def _maybe_reset(self, epoch_number: int) -> None:
        """Restore the student's initial weights every `reset` epochs."""
        if self.smat.reset and epoch_number > 1 and (epoch_number - 1) % self.smat.reset == 0:
            self.inner_model.load_state_dict(self.initial_state)
            self.optimiser = make_optimiser(list(self.student_weights.values()), self.training)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _checked_route(self) -> Route:
        """The route to use, after a trial step that changes no weights."""
        self.student.train()
        inner_rows = np.argsort(-self.train.batch.lengths.numpy(), kind="stable")[: self.training.batch_size]
        outer_rows = self._outer_sampler(0).take(self._excluded_rows(inner_rows))
        checked = check_route(
            self.smat.route,
            self.student,
            lambda route: self._hypergradient(self._inner_batch(inner_rows, outer_rows), 0, route, is_plain_sgd=True),
        )
        self.notes += checked.notes
        self._check_numbers(checked.trial, "before the first step")
        if not any(gradient.any() for gradient in checked.trial.explainer_gradients):
            raise TrainingError(
                "Before the first step, the gradient of the explainer is exactly 0: its explanations do not affect the "
                "student. Either beta is 0, or the student's attention does not depend on what it learns."
            )
        return checked.route

    def _check_numbers(self, result: Hypergradient, when: str) -> None:
        """Raise a `TrainingError` for losses or gradients that are NaN or infinite.

        `when` completes the sentence of the message.
        """
        if not result.inner_loss.isfinite() or not result.outer_loss.isfinite():
            raise TrainingError(
                f"The student's loss became {float(result.inner_loss)} {when}. Its learning rate "
                f"({self.training.rate:g}) is probably too high: lower it (learning_rate, --learning-rate)."
            )
        if not all(gradient.isfinite().all() for gradient in result.explainer_gradients):
            raise TrainingError(
                f"The gradient of the explainer became NaN or infinite {when}, while the student's loss is "
                f"{float(result.inner_loss):.3g}. Lower the student's rate ({self.training.rate:g}) or beta, or "
                "choose route='double'."
            )

    def _note_collapse(self, epoch_number: int, step: int) -> None:
        """Add a note if a sparse mix has only one component left: it gets no gradient any more, and cannot change."""
        with torch.no_grad():
            active = int(self.explainer.weights.count_nonzero())
        is_noted = any(text in note for note in self.notes for text in _COLLAPSED)
        if active > 1 or len(self.explainer.names) < 3 or is_noted:
            return
        name = self.explainer.names[int(self.explainer.weights.argmax())]
        early = (
            f" This early the outer rate ({self.outer_rate:g}) may be too high: compare with a lower one (outer_rate, "
            "--outer-rate)."
            if epoch_number == 1 and self.training.epochs > 1
            else ""
        )
        self.notes.append(
            f"From step {step + 1} (epoch {epoch_number}) on, all weight is {_COLLAPSED[0]} ({name}); it gets no "
            f"gradient any more, so the mix no longer changes.{early}"
        )

    # -- state and checkpoints ----------------------------------------------------------------------------------------

    def _summary(self, epoch_number: int, losses: np.ndarray, dev: tuple[float, float]) -> SmatEpoch:
        view = self.explainer.view()
        inner, outer = losses.mean(0).tolist()
        return SmatEpoch(
            epoch_number, inner, *dev, outer, view.entropy, view.active, self.explainer.current_temperature
        )

    def _state(self) -> dict[str, Tensor]:
        state = {f"{_STUDENT_PREFIX}{name}": tensor for name, tensor in self.inner_model.state_dict().items()}
        state |= {f"learned.{index}": parameter for index, parameter in enumerate(self.explainer_parameters)}
        return {name: tensor.detach().clone() for name, tensor in state.items()}

    def _end_epoch(self, epoch: SmatEpoch) -> None:
        """Record an epoch, its weights if it is the best so far, and the checkpoint."""
        self.history.append(epoch)
        if best_epoch(self.history) is epoch:
            self.best_state = self._state()
        if self.checkpoint is None:
            return
        state = self._state() | {f"best.{name}": tensor for name, tensor in self.best_state.items()}
        state |= {f"outer.{name}": tensor for name, tensor in self.outer_optimiser.state().items()}
        for index, weight in enumerate(self.student_weights.values()):
            state |= {f"inner.{index}.{name}": value for name, value in self.optimiser.state[weight].items()
                      if isinstance(value, Tensor)}  # fmt: skip
        Checkpoint(self.history, self.outer_optimiser.steps, self.notes, self.route, state).save(self.checkpoint)

    def _resume(self) -> None:
        """Restore the state from the checkpoint, if it exists. A damaged one is ignored, with a note."""
        if self.checkpoint is None or not self.checkpoint.is_file():
            return
        try:
            saved = Checkpoint.load(self.checkpoint, self.student.device)
        except RecordError as error:
            message = f"The checkpoint {self.checkpoint} is damaged ({first_line(error)})."
            self.notes.append(f"{message} Training starts again from the first epoch.")
            return
        self.history, self.notes, self.route = saved.history, saved.notes, saved.route
        self.best_state = saved.with_prefix("best.")
        self._load(saved.tensors)
        self.outer_optimiser.restore(saved.with_prefix("outer."), saved.steps)
        for index, weight in enumerate(self.student_weights.values()):
            if state := saved.with_prefix(f"inner.{index}."):
                self.optimiser.state[weight] = state

    def _load(self, state: Mapping[str, Tensor]) -> None:
        """Set the weights of student and explainer to those of a `_state`."""
        self.inner_model.load_state_dict(
            {name[len(_STUDENT_PREFIX) :]: tensor for name, tensor in state.items() if name.startswith(_STUDENT_PREFIX)}
        )
        with torch.no_grad():
            for index, parameter in enumerate(self.explainer_parameters):
                parameter.copy_(state[f"learned.{index}"])


def _plain_step(weights: Weights, gradients: Sequence[Tensor], rate: float) -> Step:
    """A step of plain gradient descent."""
    new = {
        name: weight.detach() - rate * gradient
        for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
    }
    return Step(new, lambda vector: [rate * value for value in vector])


def _progress_note(epoch: SmatEpoch, measure: str) -> str:
    return f"epoch {epoch.number}: dev {measure} {epoch.dev_measure:.3f}, {epoch.active} active"
