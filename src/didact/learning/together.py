"""Students of one configuration and several seeds taught as one: each sees what it would see alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from didact.core.loss import task_loss
from didact.core.measure import measure
from didact.core.model import Model
from didact.core.outputs import Outputs
from didact.core.precision import SINGLE
from didact.core.seeds import seed_from
from didact.core.simplex import sparsemax_each
from didact.core.task import READING
from didact.errors import TrainingError
from didact.learning.fit import Epoch, Examples, Training, diverged, goal_on, make_optimiser, rate_at, shuffled
from didact.models.stack import Heard, Noise, Packed, Shelf, Stack, why_not_stacked
from didact.models.transformer import TransformerModel
from didact.records.explanations import Explanations
from didact.students.attention import Attention
from didact.students.strategy import Strategy

_ASKED: Final = 32  # rows that each seed answers at once: as many as a processor's near memory holds;
_MOST: Final = 256  # where all seeds answer at once more, so that a device is busy,
_POSITIONS: Final = 2**14  # but no more than so many positions of each


def why_not_together(model: Model, strategy: Strategy | None, training: Training) -> str | None:
    """What keeps such students from being taught together; None if nothing does. Without a strategy, by answers."""
    if strategy is not None and type(strategy) is not Attention:
        return "of the strategies only 'attention' and 'none' are taught together"
    if training.precision != SINGLE:
        return "students are taught together in single precision alone"
    if training.patience < training.epochs:
        return "students that may stop early are not taught together"
    return why_not_stacked(model)


@dataclass(frozen=True, eq=False)
class TaughtTogether:
    """Of each seed its epochs, the rows that could not be sent whole, its weights, and why it failed, if it did."""

    histories: list[list[Epoch]]
    lost_rows: list[int]
    weights: Float[Tensor, "seed weight"]
    errors: list[TrainingError | None]


def teach_together(
    students: Sequence[Model],
    strategies: Sequence[Strategy],
    maps: Sequence[Explanations] | None,
    trains: Sequence[Examples],
    devs: Sequence[Examples],
    trainings: Sequence[Training],
    *,
    keep: str = "best",
    at_once: bool | None = None,
) -> TaughtTogether:
    """Train the students in place, as `teach` would one after another: the same but for rounding.

    Every seed has its own rows, order, dropout, clipping and best epoch; one optimiser steps for all. Students differ
    in their weights alone, trainings in their seed alone. A student whose loss is no number fails by itself.
    `at_once` is as in `Stack`.
    """
    stack = stacked(students, at_once=at_once)
    lessons = None if maps is None else _Lessons(stack, strategies, maps, trains, trainings)
    school = _School(stack, trains, lessons, trainings)
    dev = Questions(stack, devs)
    histories: list[list[Epoch]] = [[] for _ in students]
    best, leaders = stack.flat.clone(), [(-np.inf, -np.inf)] * len(students)
    for number in range(1, trainings[0].epochs + 1):
        losses = school.epoch(number)
        found = dev.measured(balanced=trainings[0].balanced)
        for seed, (dev_loss, value) in enumerate(found):
            if school.errors[seed] is not None:
                continue
            histories[seed].append(Epoch(number, float(np.mean(losses[seed])), dev_loss, value))
            rank = histories[seed][-1].rank
            if number == 1 or rank > leaders[seed] or keep == "last":
                leaders[seed] = rank
                best[seed] = stack.flat[seed]
    stack.flat.copy_(best)
    stack.give_back()
    for student in students:
        student.eval()
    return TaughtTogether(histories, [0] * len(students) if lessons is None else lessons.lost, best, school.errors)


def stacked(students: Sequence[Model], *, at_once: bool | None = None) -> Stack:
    models = [one for one in students if isinstance(one, TransformerModel)]
    assert len(models) == len(students), "why_not_together was not asked"
    return Stack(models, at_once=at_once)


class Questions:
    """The same rows, put to all seeds at once, shortest together; goals may differ."""

    def __init__(self, stack: Stack, examples: Sequence[Examples]) -> None:
        first = examples[0]
        order = np.argsort(-first.batch.lengths.numpy(), kind="stable")
        self.stack, self.sorted = stack, first.select(order)
        self.shelf = Shelf.of([self.sorted.batch], stack.flat.device)
        longest = int(first.batch.lengths.max())
        asked = min(_MOST, max(_ASKED, _POSITIONS // longest)) if stack.at_once else _ASKED
        parts = [np.arange(at, min(at + asked, len(order))) for at in range(0, len(order), asked)]
        self.packs = [stack.pack(self.shelf, [part] * len(stack)) for part in parts]
        self.goals = torch.stack([goal_on(stack.first, one.goal[torch.from_numpy(order)]) for one in examples])

    def logits(self) -> Float[Tensor, "seed row *output"]:
        with torch.no_grad():
            found = [self._wide(self.stack(self.shelf, pack).logits, pack) for pack in self.packs]
        return torch.cat([one.unflatten(0, (len(self.stack), -1)) for one in found], 1)

    def answers(self) -> list[Outputs]:
        """What each seed answers, in an order of its own."""
        models = self.stack.models
        return [
            model.outputs_of(self.sorted.rows, self.sorted.batch, one)
            for model, one in zip(models, self.logits(), strict=True)
        ]

    def measured(self, *, balanced: bool = False) -> list[tuple[float, float]]:
        """Each seed's loss and measure."""
        found = []
        for model, logits, goal in zip(self.stack.models, self.logits(), self.goals, strict=True):
            loss = task_loss(model.task, logits, goal).sum().item() / len(goal)
            said = model.outputs_of(self.sorted.rows, self.sorted.batch, logits)
            found.append((loss, measure(said, self.sorted.outputs, balanced=balanced)))
        return found

    def _wide(self, logits: Tensor, pack: Packed) -> Tensor:
        """Start and end logits as long as the longest of all rows."""
        if self.stack.first.task is not READING:
            return logits
        return F.pad(logits, (0, self.shelf.tokens.shape[1] - pack.length), value=-torch.inf)


class _Lessons:
    """What all seeds are sent, and their strategies as one."""

    def __init__(
        self,
        stack: Stack,
        strategies: Sequence[Strategy],
        maps: Sequence[Explanations],
        trains: Sequence[Examples],
        trainings: Sequence[Training],
    ) -> None:
        own: list[Attention] = []
        sent = []
        for model, strategy, known, train, training in zip(
            stack.models, strategies, maps, trains, trainings, strict=True
        ):
            assert isinstance(strategy, Attention)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed_from(training.seed, "strategy"))
                strategy.attach(model, train.batch)
            own.append(strategy)
            sent.append(strategy.lesson(known, train.batch))
        self.strategy = own[0]
        self.lost = [0 if one.lost is None else int(one.lost.sum()) for one in sent]
        masses = [one.mass for one in sent if one.mass is not None]
        longest = max(mass.shape[1] for mass in masses)
        self.mass = torch.cat([F.pad(mass, (0, longest - mass.shape[1])) for mass in masses]).to(stack.flat)
        self.coefficients: Tensor | None = None
        if self.strategy.side == "mix":
            self.coefficients = torch.stack([one.coefficients.detach() for one in own]).to(stack.flat).requires_grad_()

    @property
    def listen(self) -> frozenset[str]:
        return frozenset(self.strategy.listen)

    def losses(self, heard: Heard, shelf: Shelf, packed: Packed) -> Float[Tensor, " row"]:
        units = shelf.units[packed.rows, : packed.length]
        if self.coefficients is not None:
            assert heard.mean is not None
            weights = sparsemax_each(self.coefficients)[packed.row_seed]
            logits = torch.einsum("rh,rht->rt", weights, heard.mean.flatten(1, 2))
        else:
            assert heard.reading is not None
            last = heard.reading[:, -1]
            here = shelf.mask[packed.rows, : packed.length][:, None] & (last > 0)
            logits = last.masked_fill(~here, 1.0).log().masked_fill(~here, -torch.inf).logsumexp(1)
        own = logits.masked_fill(~units, -torch.inf).log_softmax(-1)
        return self.strategy.gap(self.mass[packed.rows, : packed.length], own, units)


class _School:
    """One optimiser for all seeds, and their epochs."""

    def __init__(
        self, stack: Stack, trains: Sequence[Examples], lessons: _Lessons | None, trainings: Sequence[Training]
    ) -> None:
        assert len({replace(one, seed=0) for one in trainings}) == 1
        assert len({len(one) for one in trains}) == 1
        self.stack, self.trains, self.lessons, self.trainings = stack, trains, lessons, trainings
        device = stack.flat.device
        self.training, self.size = trainings[0], len(trains[0])
        self.shelf = Shelf.of([one.batch for one in trains], device)
        self.goal = torch.cat([goal_on(stack.first, one.goal) for one in trains])
        self.leaves = list(stack.weights.values())
        self.flats = [nn.Parameter(stack.flat)]  # of the same memory
        if lessons is not None and lessons.coefficients is not None:
            self.leaves.append(lessons.coefficients)
            self.flats.append(nn.Parameter(lessons.coefficients.detach()))
        self.optimiser = make_optimiser(self.flats, self.training)
        steps = -(-self.size // self.training.batch_size) * self.training.epochs
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimiser, lambda step: rate_at(step, steps, self.training)
        )
        seeds = [seed_from(one.seed, "dropout") for one in trainings]
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.errors: list[TrainingError | None] = [None] * len(stack)

    def epoch(self, number: int) -> Float[np.ndarray, "seed step"]:
        """One epoch of all seeds; the loss of each at each step."""
        orders = [
            shuffled(one.batch, training, number) for one, training in zip(self.trains, self.trainings, strict=True)
        ]
        found = []
        for chosen in zip(*orders, strict=True):
            rows = [one + seed * self.size for seed, one in enumerate(chosen)]
            found.append(self._step(rows, number))
        is_finite = torch.stack([one.detach().isfinite().all(1) for one in self.flats]).all(0)
        for seed in torch.nonzero(~is_finite).flatten().tolist():
            self._fail(seed, "Weights became NaN or infinite", number)
        return np.stack(found, 1)

    def _step(self, rows: Sequence[Int[np.ndarray, " _"]], epoch: int) -> Float[np.ndarray, " seed"]:
        stack = self.stack
        packed = stack.pack(self.shelf, rows)
        noise = Noise.drawn(stack, packed, self.generators)
        heard = stack(
            self.shelf, packed, listen=frozenset() if self.lessons is None else self.lessons.listen, noise=noise
        )
        losses = task_loss(stack.first.task, heard.logits, self.goal[packed.rows])
        if self.lessons is not None:
            losses = losses + self.lessons.losses(heard, self.shelf, packed)
        means = losses.new_zeros(len(stack)).index_add(0, packed.row_seed, losses * packed.worth)
        values = means.detach().cpu().double().numpy()
        for seed in np.flatnonzero(~np.isfinite(values)):
            self._fail(int(seed), f"The loss became {values[seed]}", epoch)
        slopes = torch.autograd.grad(means.sum(), self.leaves)
        known = len(stack.weights)
        self._descend(
            [
                torch.cat([one.flatten(1) if one.ndim > 1 else one[:, None] for one in slopes[:known]], 1),
                *slopes[known:],
            ]
        )
        return values

    def _descend(self, slopes: Sequence[Float[Tensor, "seed _"]]) -> None:
        """One step of all seeds, each clipped by its own norm."""
        norms = torch.stack([one.norm(dim=1) for one in slopes]).norm(dim=0)[:, None]
        shrink = (self.training.clip / (norms + 1e-6)).clamp(max=1.0)
        for flat, slope in zip(self.flats, slopes, strict=True):
            slope *= shrink
            for seed, error in enumerate(self.errors):
                if error is not None:
                    slope[seed] = 0.0
            flat.grad = slope
        self.optimiser.step()
        self.schedule.step()

    def _fail(self, seed: int, what: str, epoch: int) -> None:
        """The seed goes on at rest: the others do not know of it."""
        self.errors[seed] = self.errors[seed] or diverged(what, self.training, epoch)
