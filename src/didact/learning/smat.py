"""SMaT: an explainer learns, with a student, to send what helps it (Fernandes et al. 2022, equations 6 to 9)."""

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
    dev_of,
    devices_of,
    goal_on,
    make_optimiser,
    rate_at,
    shuffled,
)
from didact.learning.hypergradient import Hypergradient, Route, Step, Weights, hypergradient, preview
from didact.learning.outer_adam import OuterAdam
from didact.learning.outer_rows import OuterRows
from didact.learning.smat_checkpoint import Checkpoint
from didact.learning.smat_checks import check_answers, check_parts, check_row_counts, check_strategy
from didact.learning.smat_options import LearnedMix, MixEpoch, SmatOptions
from didact.learning.smat_route import check_route, first_line
from didact.learning.smat_student import InnerBatch, StudentWithStrategy, seed_dropout
from didact.results.component_scores import ComponentScores
from didact.students.lesson import Lesson
from didact.students.strategy import Strategy
from didact.viz.progress import Progress

Chosen: TypeAlias = Int[np.ndarray, " chosen"]
Judging: TypeAlias = Int[np.ndarray, " judging"]
# The outer rate times the number of parts: 5e-3 for 8 heads and 5e-4 for 72 served in trials; the paper has 5e-4, 48.
_RATE_BY_PART: Final = 0.04


def run_smat(
    student: Model,
    strategy: Strategy,
    explainer: ComponentMix,
    parts: ComponentScores,
    train: Examples,
    dev: Examples,
    training: Training,
    smat: SmatOptions,
    *,
    checkpoint: Path | None = None,
    progress: bool = False,
    seen: Callable[[MixEpoch], Any] = lambda _: None,
) -> LearnedMix:
    """Learn the explainer, and train the student beside it, both in place. `parts` are of the rows of `train`.

    With `checkpoint` every epoch is kept in that file; the same call goes on from there to the same end.
    """
    return SmatLoop(student, strategy, explainer, parts, train, dev, training, smat, checkpoint).run(progress, seen)


class SmatLoop:
    """Everything one run of learning holds."""

    def __init__(
        self,
        student: Model,
        strategy: Strategy,
        explainer: ComponentMix,
        parts: ComponentScores,
        train: Examples,
        dev: Examples,
        training: Training,
        smat: SmatOptions,
        checkpoint: Path | None,
    ) -> None:
        self.training, self.smat, self.checkpoint = training, smat, checkpoint
        self.train, self.dev = train, dev
        self.size = smat.outer_batch or training.batch_size
        check_row_counts(len(train), len(dev), batch_size=training.batch_size, smat=smat)
        check_answers(train)
        check_parts(parts)
        strategy = check_strategy(strategy, training)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_from(training.seed, "strategy"))
            strategy.attach(student, train.batch)
        self.student, self.strategy = student, strategy.to(student.device)
        self.explainer = explainer.to(student.device)
        self.lessons = DifferentiableLessons(
            parts, train.batch, temperature=strategy.temperature, device=student.device
        )
        self.learner = StudentWithStrategy(student, strategy)
        self.weights = {name: one for name, one in self.learner.named_parameters() if one.requires_grad}
        self.learned = [one for one in (explainer.coefficients, explainer.log_temperature) if one.requires_grad]
        self.rate = smat.outer_rate or _RATE_BY_PART / len(explainer.names)
        self.steps = -(-len(train) // training.batch_size)
        self.start = {name: one.detach().clone() for name, one in self.learner.state_dict().items()}
        self.optimiser = make_optimiser(list(self.weights.values()), training)
        rates = [self.rate, smat.temperature_rate][: len(self.learned)]
        self.outer = OuterAdam(self.learned, rates, clip=smat.outer_clip)
        self.history: list[MixEpoch] = []
        self.best: dict[str, Tensor] = {}
        self.notes: list[str] = []
        self.route: Route = "double"

    def run(self, progress: bool, seen: Callable[[MixEpoch], Any]) -> LearnedMix:
        self._resume()
        total = self.steps * self.training.epochs
        parts = self.dev.batches(max(self.training.batch_size, 64))
        with torch.random.fork_rng(devices=devices_of(self.student)), torch.inference_mode(False):
            self.route = self.route if self.history else self._checked_route()
            with Progress("learning to explain", total=total, shown=progress) as bar:
                bar.skip(self.steps * len(self.history))
                for number in range(len(self.history) + 1, self.training.epochs + 1):
                    self._maybe_reset(number)
                    losses = self._epoch(number, bar)
                    self.student.eval()
                    epoch = self._summary(number, losses, dev_of(self.student, parts, balanced=self.training.balanced))
                    self._keep(epoch)
                    seen(epoch)
                    bar.advance(0, note=_note(epoch, self.student.task.measure))
        kept = self.history[-1] if self.smat.keep == "last" else best_epoch(self.history)
        self._load(self.best if self.smat.keep == "best" else self._state())
        self.student.eval()
        assert isinstance(kept, MixEpoch)
        return LearnedMix(self.history, kept, self.route, self.lessons.lost_rows, self.notes)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _epoch(self, number: int, bar: Progress) -> Float[np.ndarray, "step 2"]:
        """One pass over the training rows; each step's inner and outer loss."""
        losses = []
        outer = self._outer_rows(number)
        for place, chosen in enumerate(shuffled(self.train.batch, self.training, number)):
            step = (number - 1) * self.steps + place
            for group in self.optimiser.param_groups:
                group["lr"] = self.training.rate * rate_at(step, self.steps * self.training.epochs, self.training)
            found = self._step(step, chosen, outer.take(self._taught(chosen)))
            self._check_numbers(found, f"in step {step + 1} (epoch {number})")
            self.outer.step(found.of)
            self._check_mix(number, step)
            losses.append((float(found.inner_loss), float(found.outer_loss)))
            bar.advance()
        check_finite([*self.weights.values(), *self.learned], self.training, number)
        return np.array(losses)

    def _step(self, step: int, chosen: Chosen, judging: Judging) -> Hypergradient:
        """Equations 6 to 8, and the gradient of 9; the `judging` rows are those of the outer loss."""
        self.student.train()
        inner = self._inner_batch(chosen, judging)
        if self.smat.pilot:
            self._learn(self._gradients(inner, step))
        found = self._hypergradient(inner, step, self.route)
        if not self.smat.pilot:
            self._learn(found.inner)
        return found

    def _inner_batch(self, chosen: Chosen, judging: Judging) -> InnerBatch:
        index = torch.from_numpy(chosen)
        batch = self.train.batch.select(index).to(self.student.device)
        lesson = self.lessons(self.explainer, index, batch.mask.shape[1])
        return InnerBatch(batch, goal_on(self.student, self.train.goal[index]), lesson, judging)

    def _gradients(self, inner: InnerBatch, step: int) -> list[Tensor]:
        """Of the student's own step, the explanation as it is."""
        mass = inner.lesson.mass
        assert mass is not None
        seed_dropout(seed_from(self.training.seed, step, "student"), self.student.device)
        loss = torch.stack(self.learner(inner.batch, inner.goal, Lesson(mass=mass.detach()))).sum()
        return list(torch.autograd.grad(loss, list(self.weights.values()), materialize_grads=True))

    def _learn(self, gradients: Sequence[Tensor]) -> None:
        """The student's step (equations 6 and 7)."""
        for one, gradient in zip(self.weights.values(), gradients, strict=True):
            one.grad = gradient
        torch.nn.utils.clip_grad_norm_(list(self.weights.values()), self.training.clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def _hypergradient(self, inner: InnerBatch, step: int, route: Route, *, plainly: bool = False) -> Hypergradient:
        """How the explainer should change; `plainly`, as if the student took steps straight down its gradient."""
        mass = inner.lesson.mass
        assert mass is not None
        sent = mass.detach().requires_grad_()  # all that the student sees of the explainer
        # The pilot is another look at the same rows, with another dropout, as in the paper.
        look = "pilot" if self.smat.pilot else "student"

        def taught(weights: Weights, blind: bool) -> tuple[Tensor, Tensor]:
            inputs = (inner.batch, inner.goal, Lesson(mass=sent), blind)
            seed_dropout(seed_from(self.training.seed, step, look), self.student.device)  # the same dropout each time
            if weights is self.weights:
                return self.learner(*inputs)
            found: tuple[Tensor, Tensor] = functional_call(self.learner, dict(weights), inputs)
            return found

        def outer(weights: Weights) -> Tensor:
            rows, answers = self._judges(inner.judging)
            with eval_mode(self.learner):
                found: Tensor = functional_call(self.learner, dict(weights), (rows, answers, None))[0]
            return found

        def taken(gradients: Sequence[Tensor]) -> Step:
            if plainly:
                return _plain_step(self.weights, gradients, self.training.rate)
            return preview(self.optimiser, self.weights, gradients, clip=self.training.clip)

        found = hypergradient(self.weights, [sent], taught=taught, outer=outer, step=taken, route=route)
        of = torch.autograd.grad(mass, self.learned, grad_outputs=found.of, materialize_grads=True)
        return replace(found, of=list(of))

    def _outer_rows(self, epoch: int) -> OuterRows:
        return OuterRows(self._judged_by.batch.lengths.numpy(), self.size, seed=self.training.seed, epoch=epoch)

    @property
    def _judged_by(self) -> Examples:
        return self.train if self.smat.outer == "train" else self.dev

    def _taught(self, chosen: Chosen) -> Int[np.ndarray, " _"]:
        """The rows of a step that may not judge it: none where dev rows judge."""
        return chosen if self.smat.outer == "train" else chosen[:0]

    def _judges(self, judging: Judging) -> tuple[Batch, Tensor]:
        index, source = torch.from_numpy(judging), self._judged_by
        return source.batch.select(index).to(self.student.device), goal_on(self.student, source.goal[index])

    def _maybe_reset(self, number: int) -> None:
        if self.smat.reset and number > 1 and (number - 1) % self.smat.reset == 0:
            self.learner.load_state_dict(self.start)
            self.optimiser = make_optimiser(list(self.weights.values()), self.training)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _checked_route(self) -> Route:
        """The route to take, after a trial step that changes nothing."""
        self.student.train()
        chosen = np.argsort(-self.train.batch.lengths.numpy(), kind="stable")[: self.training.batch_size]
        judging = self._outer_rows(0).take(self._taught(chosen))
        checked = check_route(
            self.smat.route,
            self.student,
            lambda route: self._hypergradient(self._inner_batch(chosen, judging), 0, route, plainly=True),
        )
        self.notes += checked.notes
        self._check_numbers(checked.trial, "before the first step")
        if not any(gradient.any() for gradient in checked.trial.of):
            raise TrainingError(
                "Before the first step, the gradient for the explainer is exactly 0: nothing it could send makes a "
                "difference. Either beta is 0, or the student's attention does not depend on what it learns."
            )
        return checked.route

    def _check_numbers(self, found: Hypergradient, where: str) -> None:
        if not found.inner_loss.isfinite() or not found.outer_loss.isfinite():
            raise TrainingError(
                f"The student's loss became {float(found.inner_loss)} {where}. Its learning rate "
                f"({self.training.rate:g}) is probably too high: lower it (learning_rate, --learning-rate)."
            )
        if not all(one.isfinite().all() for one in found.of):
            raise TrainingError(
                f"The gradient for the explainer became NaN or infinite {where}, while the student's loss is "
                f"{float(found.inner_loss):.3g}. Lower the student's rate ({self.training.rate:g}) or beta, or choose "
                "route='double'."
            )

    def _check_mix(self, number: int, step: int) -> None:
        """A sparse mix with one part left gets no gradient any more: what is there now will stay."""
        with torch.no_grad():
            active = int(self.explainer.weights.count_nonzero())
        if active > 1 or len(self.explainer.names) < 3 or any("one part" in note for note in self.notes):
            return
        name = self.explainer.names[int(self.explainer.weights.argmax())]
        early = (
            f" This early the outer rate ({self.rate:g}) may be too high: compare with a lower one (outer_rate, "
            "--outer-rate)."
            if number == 1 and self.training.epochs > 1
            else ""
        )
        self.notes.append(
            f"From step {step + 1} (epoch {number}) on the mix has one part ({name}) and learns no more.{early}"
        )

    # -- what is kept -------------------------------------------------------------------------------------------------

    def _summary(self, number: int, losses: np.ndarray, dev: tuple[float, float]) -> MixEpoch:
        view = self.explainer.view()
        inner, outer = losses.mean(0).tolist()
        return MixEpoch(number, inner, *dev, outer, view.entropy, view.active, self.explainer.current_temperature)

    def _state(self) -> dict[str, Tensor]:
        found = {f"pupil.{name}": one for name, one in self.learner.state_dict().items()}
        found |= {f"learned.{place}": one for place, one in enumerate(self.learned)}
        return {name: one.detach().clone() for name, one in found.items()}

    def _keep(self, epoch: MixEpoch) -> None:
        self.history.append(epoch)
        if best_epoch(self.history) is epoch:
            self.best = self._state()
        if self.checkpoint is None:
            return
        state = self._state() | {f"best.{name}": one for name, one in self.best.items()}
        state |= {f"outer.{name}": one for name, one in self.outer.state().items()}
        for place, one in enumerate(self.weights.values()):
            state |= {f"inner.{place}.{name}": value for name, value in self.optimiser.state[one].items()
                      if isinstance(value, Tensor)}  # fmt: skip
        Checkpoint(self.history, self.outer.steps, self.notes, self.route, state).save(self.checkpoint)

    def _resume(self) -> None:
        """Go on from the checkpoint, if there is one that fits; a damaged one is started over."""
        if self.checkpoint is None or not self.checkpoint.is_file():
            return
        try:
            saved = Checkpoint.load(self.checkpoint, self.student.device)
        except RecordError as error:
            self.notes.append(f"The checkpoint {self.checkpoint} is damaged ({first_line(error)}): started over.")
            return
        self.history, self.notes, self.route = saved.history, saved.notes, saved.route
        self.best = saved.below("best.")
        self._load(saved.tensors)
        self.outer.restore(saved.below("outer."), saved.steps)
        for place, weight in enumerate(self.weights.values()):
            if state := saved.below(f"inner.{place}."):
                self.optimiser.state[weight] = state

    def _load(self, state: Mapping[str, Tensor]) -> None:
        """Put the weights of `_state` back."""
        head = "pupil."
        self.learner.load_state_dict({name[len(head) :]: one for name, one in state.items() if name.startswith(head)})
        with torch.no_grad():
            for place, parameter in enumerate(self.learned):
                parameter.copy_(state[f"learned.{place}"])


def _plain_step(weights: Weights, gradients: Sequence[Tensor], rate: float) -> Step:
    new = {name: one.detach() - rate * by for (name, one), by in zip(weights.items(), gradients, strict=True)}
    return Step(new, lambda vector: [rate * one for one in vector])


def _note(epoch: MixEpoch, measure: str) -> str:
    return f"epoch {epoch.number}: dev {measure} {epoch.dev_measure:.3f}, {epoch.active} active"
