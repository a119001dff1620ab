"""SMaT: an explainer learns, with a student, to send what helps it (Fernandes et al. 2022, equations 6 to 9)."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.func import functional_call

from didact.core.batch import Batch
from didact.core.loss import task_loss
from didact.core.model import Model, evaluating
from didact.core.precision import SINGLE
from didact.core.seeds import seed_from
from didact.errors import OptionError, RecordError, TrainingError, UnsupportedError
from didact.explainers.mix import Mix
from didact.learning.fit import (
    Epoch,
    Examples,
    Training,
    best_of,
    check_finite,
    dev_of,
    devices_of,
    goal_on,
    make_optimiser,
    rate_at,
    shuffled,
)
from didact.learning.hypergradient import Hypergradient, Route, Step, Weights, check_route, hypergradient, preview
from didact.learning.mixed import MixedLessons
from didact.learning.outer_rows import OuterRows
from didact.records.parts import Parts
from didact.records.sealed import check_tensors, write_tensors
from didact.render.progress import Progress
from didact.students.attention import Attention
from didact.students.lesson import Lesson
from didact.students.strategy import Strategy

# The outer rate times the number of parts: 5e-3 for 8 heads and 5e-4 for 72 served in trials; the paper has 5e-4, 48.
_RATE_BY_PART: Final = 0.04
VERSION: Final = 4  # part of every key: raise it when the same options would learn something else
_ALIKE: Final = 0.1  # what a difference in single precision may be off by, and far more than it is
_GRAPHS: Final = 4  # a second backward pass keeps about this many times what the first one saved


@dataclass(frozen=True)
class Smat:
    """How an explainer is learned.

    Every step teaches the student once (`batch_size` rows of the training), takes with `pilot` one more step that is
    only looked at, and then asks on `outer_batch` other rows (as many as `batch_size` unless said) how the explanation
    should have been. These come from the training rows themselves (`outer=train`, never those of the step) or from
    dev, as in the paper; every row judges once per pass. `outer_rate` is 0.04 over the number of parts unless said.
    `reset` starts the student anew every so many epochs, 0 never. `route` is how derivatives are taken: double,
    forward, difference, or what fits into `memory` (GB). `keep` is the epoch whose explainer and student are kept: the
    best on dev, or the last. With `choose=fresh` new students are then taught by what was learned, by its start and, of
    a blend, by each member, and the best on dev is kept; `auto` does this for blends, `learned` for none.
    """

    outer: str = "train"
    outer_batch: int | None = None
    outer_rate: float | None = None
    outer_clip: float = 5.0
    temperature_rate: float = 0.01
    pilot: bool = True
    reset: int = 0
    route: str = "auto"
    memory: float = 2.0
    keep: str = "best"
    choose: str = "auto"

    def __post_init__(self) -> None:
        check_route(self.route)
        faults = [
            f"{name} must be {wanted}, not {getattr(self, name)}"
            for name, good, wanted in (
                ("outer", self.outer in ("train", "dev"), "train or dev"),
                ("outer_batch", self.outer_batch is None or self.outer_batch >= 1, "at least 1"),
                ("outer_rate", self.outer_rate is None or 0 < self.outer_rate < math.inf, "above 0 and finite"),
                ("outer_clip", 0 < self.outer_clip < math.inf, "above 0 and finite"),
                ("temperature_rate", 0 < self.temperature_rate < math.inf, "above 0 and finite"),
                ("reset", self.reset >= 0, "0 or more"),
                ("memory", 0 < self.memory < math.inf, "above 0 and finite"),
                ("keep", self.keep in ("best", "last"), "best or last"),
                ("choose", self.choose in ("auto", "learned", "fresh"), "auto, learned or fresh"),
            )
            if not good
        ]
        if faults:
            raise OptionError("An explainer cannot be learned as asked: " + "; ".join(faults) + ".")


@dataclass(frozen=True)
class MixEpoch(Epoch):
    """An epoch of learning: also the mean loss on the outer rows, and what became of the mix."""

    outer_loss: float
    entropy: float
    active: int
    temperature: float


@dataclass(frozen=True)
class LearnedMix:
    """What learning left. The explainer and the student it was handed hold the weights of the epoch that was kept."""

    history: list[MixEpoch]
    kept: MixEpoch
    route: Route
    lost_rows: int
    notes: list[str] = field(default_factory=list)


def learn_mix(
    student: Model,
    strategy: Strategy,
    explainer: Mix,
    parts: Parts,
    train: Examples,
    dev: Examples,
    training: Training,
    smat: Smat,
    *,
    checkpoint: Path | None = None,
    progress: bool = False,
    seen: Callable[[MixEpoch], Any] = lambda _: None,
) -> LearnedMix:
    """Learn the explainer, and train the student beside it, both in place. `parts` are of the rows of `train`.

    With `checkpoint` every epoch is kept in that file; the same call goes on from there to the same end.
    """
    return SmatLoop(student, strategy, explainer, parts, train, dev, training, smat, checkpoint).run(progress, seen)


class Pupil(nn.Module):
    """A student with the strategy it is taught by: all that the inner optimiser trains."""

    def __init__(self, student: Model, strategy: Strategy) -> None:
        super().__init__()
        self.student, self.strategy = student, strategy

    def forward(
        self, batch: Batch, goal: Shaped[Tensor, "row *goal"], lesson: Lesson | None, blind: bool = False
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Mean simulation loss and mean explanation loss. When blind, the graph goes to the lesson alone."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not blind):
            trace = self.student(batch, listen=() if lesson is None else self.strategy.listen)
            simulation = task_loss(self.student.task, trace.logits, goal).mean()
        if lesson is None:
            return simulation, torch.zeros_like(simulation)
        return simulation, self.strategy(trace, batch, lesson).mean()


class OuterAdam:
    """Adam with a floor inside the root too, as the paper's code has it: tiny gradients do not become full steps."""

    def __init__(self, parameters: Sequence[Tensor], rates: Sequence[float], *, clip: float) -> None:
        self.parameters, self.rates, self.clip = list(parameters), list(rates), clip
        self.steps = 0
        self.means = [torch.zeros_like(one) for one in parameters]
        self.squares = [torch.zeros_like(one) for one in parameters]

    def step(self, gradients: Sequence[Tensor]) -> None:
        self.steps += 1
        norm = float(torch.sqrt(sum((one.cpu().double() ** 2).sum() for one in gradients)))  # type: ignore[arg-type]
        scale = min(1.0, self.clip / max(norm, 1e-30))
        for one, rate, mean, square, gradient in zip(
            self.parameters, self.rates, self.means, self.squares, gradients, strict=True
        ):
            mean.lerp_(gradient * scale, 0.1)
            square.mul_(0.999).addcmul_(gradient * scale, gradient * scale, value=0.001)
            corrected = square / (1 - 0.999**self.steps)
            with torch.no_grad():
                one -= rate * mean / (1 - 0.9**self.steps) / ((corrected + 1e-8).sqrt() + 1e-8)

    def state(self) -> dict[str, Tensor]:
        moments = {"mean": self.means, "square": self.squares}
        return {f"{name}.{place}": one for name, found in moments.items() for place, one in enumerate(found)}

    def restore(self, state: Mapping[str, Tensor], steps: int) -> None:
        self.steps = steps
        for name, found in {"mean": self.means, "square": self.squares}.items():
            for place, one in enumerate(found):
                one.copy_(state[f"{name}.{place}"])


class SmatLoop:
    """Everything one run of learning holds."""

    def __init__(
        self,
        student: Model,
        strategy: Strategy,
        explainer: Mix,
        parts: Parts,
        train: Examples,
        dev: Examples,
        training: Training,
        smat: Smat,
        checkpoint: Path | None,
    ) -> None:
        self.training, self.smat, self.checkpoint = training, smat, checkpoint
        self.train, self.dev = train, dev
        self.size = smat.outer_batch or training.batch_size
        check_row_counts(len(train), len(dev), batch_size=training.batch_size, smat=smat)
        _check_answers(train)
        _check_parts(parts)
        if training.precision != SINGLE:
            raise UnsupportedError(
                f"An explainer is learned through second derivatives, which {training.precision} is too coarse for. "
                "Leave precision out."
            )
        if not isinstance(strategy, Attention) or strategy.send != "whole":
            raise UnsupportedError(
                f"An explainer is learned through what it sends whole, and the strategy is {_said(strategy)}. "
                "Choose the strategy 'attention' (send=whole)."
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_from(training.seed, "strategy"))
            strategy.attach(student, train.batch)
        self.student, self.strategy = student, strategy.to(student.device)
        self.explainer = explainer.to(student.device)
        self.lessons = MixedLessons(parts, train.batch, temperature=strategy.temperature, device=student.device)
        self.pupil = Pupil(student, strategy)
        self.weights = {name: one for name, one in self.pupil.named_parameters() if one.requires_grad}
        self.learned = [one for one in (explainer.coefficients, explainer.log_temperature) if one.requires_grad]
        self.rate = smat.outer_rate or _RATE_BY_PART / len(explainer.names)
        self.steps = -(-len(train) // training.batch_size)
        self.start = {name: one.detach().clone() for name, one in self.pupil.state_dict().items()}
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
        parts = self.dev.parts(max(self.training.batch_size, 64))
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
        kept = self.history[-1] if self.smat.keep == "last" else best_of(self.history)
        state = self.best if self.smat.keep == "best" else self._state()
        self.pupil.load_state_dict({name[6:]: one for name, one in state.items() if name.startswith("pupil.")})
        with torch.no_grad():
            for place, one in enumerate(self.learned):
                one.copy_(state[f"learned.{place}"])
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

    def _step(
        self, step: int, chosen: Int[np.ndarray, " chosen"], judging: Int[np.ndarray, " judging"]
    ) -> Hypergradient:
        """Equations 6 to 8, and the gradient of 9; the `judging` rows are those of the outer loss."""
        self.student.train()
        told = self._told(chosen, judging)
        if self.smat.pilot:
            self._learn(self._gradients(told, step))
        found = self._hypergradient(told, step, self.route)
        if not self.smat.pilot:
            self._learn(found.inner)
        return found

    def _told(
        self, chosen: Int[np.ndarray, " chosen"], judging: Int[np.ndarray, " judging"]
    ) -> tuple[Batch, Tensor, Lesson, Int[np.ndarray, " judging"]]:
        index = torch.from_numpy(chosen)
        batch = self.train.batch.select(index).to(self.student.device)
        lesson = self.lessons(self.explainer, index, batch.mask.shape[1])
        return batch, goal_on(self.student, self.train.goal[index]), lesson, judging

    def _gradients(self, told: tuple[Any, ...], step: int) -> list[Tensor]:
        """Of the student's own step, the explanation as it is."""
        batch, goal, lesson, _ = told
        assert lesson.mass is not None
        _draw_anew(seed_from(self.training.seed, step, "student"), self.student.device)
        loss = torch.stack(self.pupil(batch, goal, Lesson(mass=lesson.mass.detach()))).sum()
        return list(torch.autograd.grad(loss, list(self.weights.values()), materialize_grads=True))

    def _learn(self, gradients: Sequence[Tensor]) -> None:
        """The student's step (equations 6 and 7)."""
        for one, gradient in zip(self.weights.values(), gradients, strict=True):
            one.grad = gradient
        torch.nn.utils.clip_grad_norm_(list(self.weights.values()), self.training.clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def _hypergradient(self, told: tuple[Any, ...], step: int, route: Route, *, plainly: bool = False) -> Hypergradient:
        """How the explainer should change; `plainly`, as if the student took steps straight down its gradient."""
        batch, goal, lesson, judging = told
        assert lesson.mass is not None
        sent = lesson.mass.detach().requires_grad_()  # all that the student sees of the explainer
        # The pilot is another look at the same rows, with another dropout, as in the paper.
        look = "pilot" if self.smat.pilot else "student"

        def taught(weights: Weights, blind: bool) -> tuple[Tensor, Tensor]:
            asked = (batch, goal, Lesson(mass=sent), blind)
            _draw_anew(seed_from(self.training.seed, step, look), self.student.device)  # the same dropout each time
            if weights is self.weights:
                return self.pupil(*asked)
            found: tuple[Tensor, Tensor] = functional_call(self.pupil, dict(weights), asked)
            return found

        def outer(weights: Weights) -> Tensor:
            rows, answers = self._judges(judging)
            with evaluating(self.pupil):
                found: Tensor = functional_call(self.pupil, dict(weights), (rows, answers, None))[0]
            return found

        def taken(gradients: Sequence[Tensor]) -> Step:
            if plainly:
                return _plain_step(self.weights, gradients, self.training.rate)
            return preview(self.optimiser, self.weights, gradients, clip=self.training.clip)

        found = hypergradient(self.weights, [sent], taught=taught, outer=outer, step=taken, route=route)
        of = torch.autograd.grad(lesson.mass, self.learned, grad_outputs=found.of, materialize_grads=True)
        return replace(found, of=list(of))

    def _outer_rows(self, epoch: int) -> OuterRows:
        return OuterRows(self._judged_by.batch.lengths.numpy(), self.size, seed=self.training.seed, epoch=epoch)

    @property
    def _judged_by(self) -> Examples:
        return self.train if self.smat.outer == "train" else self.dev

    def _taught(self, chosen: Int[np.ndarray, " chosen"]) -> Int[np.ndarray, " _"]:
        """The rows of a step that may not judge it: none where dev rows judge."""
        return chosen if self.smat.outer == "train" else chosen[:0]

    def _judges(self, judging: Int[np.ndarray, " judging"]) -> tuple[Batch, Tensor]:
        index, source = torch.from_numpy(judging), self._judged_by
        return source.batch.select(index).to(self.student.device), goal_on(self.student, source.goal[index])

    def _maybe_reset(self, number: int) -> None:
        if self.smat.reset and number > 1 and (number - 1) % self.smat.reset == 0:
            self.pupil.load_state_dict(self.start)
            self.optimiser = make_optimiser(list(self.weights.values()), self.training)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _checked_route(self) -> Route:
        """The route that will be taken, tried on one step that changes nothing."""
        self.student.train()
        chosen = np.argsort(-self.train.batch.lengths.numpy(), kind="stable")[: self.training.batch_size]
        judging = self._outer_rows(0).take(self._taught(chosen))
        told = self._told(chosen, judging)
        asked = self.smat.route
        route: Route = self._fitting_route(told) if asked == "auto" else asked  # type: ignore[assignment]
        try:
            found = self._hypergradient(told, 0, route, plainly=True)
            reason = self._unlike(found, chosen, judging) if route == "double" else ""
        except (RuntimeError, NotImplementedError) as error:
            reason = _first_line(error)
        if reason and asked != "auto":
            raise UnsupportedError(
                f"The student cannot be differentiated as route={route!r} needs: {reason} "
                "Choose route='difference', which asks for no second derivative."
            )
        if reason:
            route = "difference"
            self.notes.append(f"The student cannot be differentiated twice ({reason}): route 'difference'.")
            found = self._hypergradient(self._told(chosen, judging), 0, route, plainly=True)
        self._check_numbers(found, "before the first step")
        if not any(one.any() for one in found.of):
            raise TrainingError(
                "Before the first step, the gradient for the explainer is exactly 0: nothing it could send makes a "
                "difference. Either beta is 0, or the student's attention does not depend on what it learns."
            )
        return route

    def _unlike(
        self, found: Hypergradient, chosen: Int[np.ndarray, " chosen"], judging: Int[np.ndarray, " judging"]
    ) -> str:
        """Why a second backward pass cannot be trusted. Where a backward pass has none of its own, torch may go on
        without it and say nothing: only the other route tells."""
        other = self._hypergradient(self._told(chosen, judging), 0, "difference", plainly=True)
        gap = torch.cat([(one - two).flatten() for one, two in zip(found.of, other.of, strict=True)]).norm()
        size = torch.cat([one.flatten() for one in other.of]).norm()
        return f"its second derivatives are off by {float(gap / size):.0%}." if gap > _ALIKE * size else ""

    def _fitting_route(self, told: tuple[Any, ...]) -> Route:
        """A second backward pass where its graph fits into memory; recurrent layers have slow ones."""
        if any(isinstance(one, nn.RNNBase) for one in self.pupil.modules()):
            return "difference"
        held: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        batch, goal, lesson, _ = told
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            self.pupil(batch, goal, lesson)
        return "double" if _GRAPHS * sum(held.values()) <= self.smat.memory * 1e9 else "difference"

    def _check_numbers(self, found: Hypergradient, where: str) -> None:
        if not found.inner_loss.isfinite() or not found.outer_loss.isfinite():
            raise TrainingError(
                f"The student's loss became {float(found.inner_loss)} {where}. Its learning rate "
                f"({self.training.rate:g}) is probably too high: lower it (rate, --rate)."
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
        return MixEpoch(number, inner, *dev, outer, view.entropy, view.active, self.explainer.heat)

    def _state(self) -> dict[str, Tensor]:
        found = {f"pupil.{name}": one for name, one in self.pupil.state_dict().items()}
        found |= {f"learned.{place}": one for place, one in enumerate(self.learned)}
        return {name: one.detach().clone() for name, one in found.items()}

    def _keep(self, epoch: MixEpoch) -> None:
        self.history.append(epoch)
        if best_of(self.history) is epoch:
            self.best = self._state()
        if self.checkpoint is None:
            return
        state = self._state() | {f"best.{name}": one for name, one in self.best.items()}
        state |= {f"outer.{name}": one for name, one in self.outer.state().items()}
        for place, one in enumerate(self.weights.values()):
            state |= {f"inner.{place}.{name}": value for name, value in self.optimiser.state[one].items()
                      if isinstance(value, Tensor)}  # fmt: skip
        about = {
            "history": [asdict(one) for one in self.history], "steps": self.outer.steps, "notes": self.notes,
            "route": self.route,
        }  # fmt: skip
        plain = {name: one.detach().cpu().contiguous() for name, one in state.items()}
        write_tensors(self.checkpoint, save(plain, metadata={"about": json.dumps(about)}))

    def _resume(self) -> None:
        """Go on from the checkpoint, if there is one that fits; a damaged one is started over."""
        if self.checkpoint is None or not self.checkpoint.is_file():
            return
        try:
            check_tensors(self.checkpoint, advice="")
            with safe_open(self.checkpoint, framework="pt", device=str(self.student.device)) as file:
                about = json.loads(file.metadata()["about"])
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
        except (RecordError, OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            self.notes.append(f"The checkpoint {self.checkpoint} is damaged ({_first_line(error)}): started over.")
            return
        self.history = [MixEpoch(**one) for one in about["history"]]
        self.notes, self.route = about["notes"], about["route"]
        self.best = {name[5:]: one for name, one in state.items() if name.startswith("best.")}
        self.pupil.load_state_dict({name[6:]: one for name, one in state.items() if name.startswith("pupil.")})
        with torch.no_grad():
            for place, one in enumerate(self.learned):
                one.copy_(state[f"learned.{place}"])
        self.outer.restore({name[6:]: one for name, one in state.items() if name.startswith("outer.")}, about["steps"])
        for place, one in enumerate(self.weights.values()):
            head = f"inner.{place}."
            kept = {name[len(head) :]: value for name, value in state.items() if name.startswith(head)}
            if kept:
                self.optimiser.state[one] = kept


def _check_parts(parts: Parts) -> None:
    if len(parts.names) < 2 or np.ptp(parts.values, axis=1).max() < 1e-6:
        raise TrainingError(
            f"The {len(parts.names)} parts to be weighed ({', '.join(parts.names[:3])}) all say the same: there is "
            "nothing to choose from. Take another family or other members, e.g. family='blend'."
        )


def _plain_step(weights: Weights, gradients: Sequence[Tensor], rate: float) -> Step:
    new = {name: one.detach() - rate * by for (name, one), by in zip(weights.items(), gradients, strict=True)}
    return Step(new, lambda vector: [rate * one for one in vector])


def check_row_counts(train: int, dev: int, *, batch_size: int, smat: Smat) -> None:
    """Raise an OptionError if there are too few rows for a step and for the outer rows that judge it."""
    size = smat.outer_batch or batch_size
    if train < batch_size + (size if smat.outer == "train" else 0):
        raise OptionError(
            f"Learning takes {batch_size} rows for each step"
            + (f" and {size} others to judge it by" if smat.outer == "train" else "")
            + f", and there are {train}. Give more rows, or lower batch_size or outer_batch "
            "(on the command line --size, --batch-size, --outer-batch)."
        )
    if smat.outer == "dev" and dev < size:
        raise OptionError(
            f"Each step is judged by {size} rows of dev, and there are {dev}: lower outer_batch (--outer-batch)."
        )


def _check_answers(train: Examples) -> None:
    answers = train.outputs
    same = len(set(answers.labels.tolist())) == 1 if answers.task.has_classes else False
    if answers.task.measure == "pearson":
        same = float(np.ptp(answers.values[:, 0])) == 0.0
    if same:
        raise TrainingError(
            f"The teacher gives one and the same answer to all {len(train)} rows: there is nothing to teach. "
            "Look at teacher.predict(rows), or take rows of other classes."
        )


def _draw_anew(seed: int, device: torch.device) -> None:
    """Seed what dropout draws from. On the CPU that one alone: torch.manual_seed seeds every device there could be,
    which costs more than a small layer."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def _note(epoch: MixEpoch, measure: str) -> str:
    return f"epoch {epoch.number}: dev {measure} {epoch.dev_measure:.3f}, {epoch.active} active"


def _said(strategy: Strategy) -> str:
    return "'attention' (send=top)" if isinstance(strategy, Attention) else repr(type(strategy).__name__.lower())


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") + "."
