"""The one training loop: teachers and students alike, with clipping and the best epoch on dev."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from didact.core.batching import length_batches, shuffled_batches
from didact.core.measure import measure
from didact.core.model import Batch, Model, Outputs, Row, Trace
from didact.core.precision import PRECISIONS, SINGLE, autocast, check_trainable, to_single
from didact.core.seeds import numpy_generator, seed_from
from didact.errors import OptionError, TrainingError
from didact.limits import MAX_BATCH_SIZE, MAX_EPOCHS, shown
from didact.students.lesson import Lesson
from didact.students.strategy import Strategy
from didact.viz.progress import Progress


@dataclass(frozen=True)
class Training:
    """How to train. `warmup` is a share of all steps; the rate then falls to a twentieth (`linear`) or stays
    (`constant`). Training stops after `patience` epochs without a better measure on dev. `momentum` is SGD's.
    `precision` is that of the forward pass in a step; weights, losses and what is answered stay single. With
    `balanced` the measure on dev counts every class the same.
    """

    epochs: int = 10
    batch_size: int = 32
    rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.1
    clip: float = 1.0
    patience: int = 3
    seed: int = 0
    optimiser: str = "adamw"
    schedule: str = "linear"
    momentum: float = 0.9
    precision: str = SINGLE
    balanced: bool = False

    def __post_init__(self) -> None:
        faults = [
            f"{name} must be {wanted}, not {shown(getattr(self, name))}"
            for name, good, wanted in (
                ("epochs", self.epochs >= 1, "at least 1"),
                ("epochs", self.epochs <= MAX_EPOCHS, f"at most {MAX_EPOCHS:,}"),
                ("batch_size", self.batch_size >= 1, "at least 1"),
                ("batch_size", self.batch_size <= MAX_BATCH_SIZE, f"at most {MAX_BATCH_SIZE:,}"),
                ("rate", 0 < self.rate < math.inf, "above 0 and finite"),
                ("weight_decay", 0 <= self.weight_decay < math.inf, "0 or more and finite"),
                ("warmup", 0 <= self.warmup < 1, "from 0 to below 1"),
                ("clip", 0 < self.clip < math.inf, "above 0 and finite"),
                ("patience", self.patience >= 1, "at least 1"),
                ("optimiser", self.optimiser in _OPTIMISERS, " or ".join(_OPTIMISERS)),
                ("schedule", self.schedule in ("linear", "constant"), "linear or constant"),
                ("momentum", 0 <= self.momentum < 1, "from 0 to below 1"),
                ("precision", self.precision in PRECISIONS, " or ".join(PRECISIONS)),
            )
            if not good
        ]
        if faults:
            raise OptionError("The training cannot be done as asked: " + "; ".join(faults) + ".")

    def facts(self) -> dict[str, object]:
        """Everything about it, for keys and records; what was not there from the start is left out unless used."""
        found = asdict(self)
        if self.precision == SINGLE:
            del found["precision"]
        if not self.balanced:
            del found["balanced"]
        return found


@dataclass(frozen=True)
class Epoch:
    """What one epoch left: mean training loss, and loss and measure on dev."""

    number: int
    loss: float
    dev_loss: float
    dev_measure: float

    @property
    def rank(self) -> tuple[float, float]:
        """What makes one epoch better than another: the measure on dev, and of equal ones the lower loss."""
        return float(np.nan_to_num(self.dev_measure, nan=-1.0)), -self.dev_loss


_OPTIMISERS = ("adamw", "adam", "sgd")
_UNSCALED = torch.amp.GradScaler("cpu", enabled=False)  # gradients and steps as they are


@dataclass(frozen=True)
class Examples:
    """Rows with the answers to learn, encoded once."""

    rows: tuple[Row, ...]
    batch: Batch
    outputs: Outputs
    goal: Shaped[Tensor, "row *goal"]

    @classmethod
    def of(cls, model: Model, rows: tuple[Row, ...], outputs: Outputs, *, soft: bool = False) -> "Examples":
        if not rows:
            raise TrainingError(
                "Training needs rows to learn from and rows to choose the epoch by; one of them is empty."
            )
        batch = model.encode(rows)
        return cls(rows, batch, outputs, outputs.task.training_targets(outputs, batch, soft=soft))

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, chosen: Int[np.ndarray, " chosen"]) -> "Examples":
        """These examples, in this order."""
        index = torch.from_numpy(chosen)
        rows = tuple(self.rows[row] for row in chosen)
        return Examples(rows, self.batch.select(index), self.outputs.select(chosen), self.goal[index])

    def batches(self, batch_size: int) -> list["Examples"]:
        """All of them in batches of similar length, longest first."""
        return [self.select(chosen) for chosen in length_batches(self.batch.lengths, batch_size)]


@dataclass(frozen=True)
class AuxiliaryLoss:
    """A loss beside the task's own: what a strategy makes of the explanations of the training rows.

    The strategy's parameters are trained with the model's.
    """

    strategy: Strategy
    lesson: Lesson

    def __call__(self, trace: Trace, batch: Batch, chosen: Int[Tensor, " chosen"]) -> Float[Tensor, " chosen"]:
        lesson = self.lesson.select(chosen.to(batch.device), batch.mask.shape[1])
        loss: Float[Tensor, " chosen"] = self.strategy(trace, batch, lesson)
        return loss


def fit(
    model: Model,
    train: Examples,
    dev: Examples,
    training: Training,
    *,
    beside: AuxiliaryLoss | None = None,
    keep: str = "best",
    progress: bool = False,
    seen: Callable[[Epoch], Any] = lambda _: None,
) -> list[Epoch]:
    """Train the model in place; it ends with the weights of its best dev epoch, in evaluation mode.

    `keep="last"` leaves those of the last epoch: for a model that has learned from the dev rows too.

    Two calls with one seed on one machine, with one number of threads, give the same bytes.
    """
    check_trainable(training.precision, model.device)
    steps = -(-len(train) // training.batch_size) * training.epochs
    parameters = [one for one in model.parameters() if one.requires_grad]
    parameters += [] if beside is None else list(beside.strategy.parameters())
    optimiser = make_optimiser(parameters, training)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate_at(step, steps, training))
    history: list[Epoch] = []
    best: dict[str, Tensor] = {}
    leader: tuple[float, float] | None = None
    waited = 0
    dev_parts = dev.batches(max(training.batch_size, 64))
    scaler = torch.amp.GradScaler("cuda") if training.precision == "float16" else None
    with torch.random.fork_rng(devices=devices_of(model)), Progress("training", total=steps, shown=progress) as shown:
        torch.manual_seed(seed_from(training.seed, "dropout"))
        for number in range(1, training.epochs + 1):
            losses = []
            model.train()
            for chosen in shuffled(train.batch, training, number):
                loss = _loss(model, train, torch.from_numpy(chosen), beside, training.precision)
                losses.append(descend(loss, optimiser, parameters, training, number, scaler))
                schedule.step()
                shown.advance()
            check_finite(parameters, training, number)
            model.eval()
            history.append(Epoch(number, float(np.mean(losses)), *dev_of(model, dev_parts, balanced=training.balanced)))
            seen(history[-1])
            shown.advance(0, note=f"epoch {number}: dev {model.task.measure} {history[-1].dev_measure:.3f}")
            rank = history[-1].rank
            # A lower loss at the same measure makes a better checkpoint, but is no reason to go on for ever.
            waited = 0 if leader is None or rank[0] > leader[0] else waited + 1
            if leader is None or rank > leader:
                leader = rank
                best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
            if waited >= training.patience:
                break
    if keep == "best":
        model.load_state_dict(best)
    return history


def descend(
    loss: Float[Tensor, ""],
    optimiser: torch.optim.Optimizer,
    parameters: list[nn.Parameter],
    training: Training,
    epoch: int,
    scaler: torch.amp.GradScaler | None = None,
) -> float:
    """One step down the gradient of a loss, clipped; gives the loss. One that is no number stops with advice.

    With a `scaler` small gradients are kept through a pass in float16; a step whose gradients overflow is left out.
    """
    if not torch.isfinite(loss):
        raise diverged(f"The loss became {loss.item()}", training, epoch)
    optimiser.zero_grad(set_to_none=True)
    scaler = scaler or _UNSCALED
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(parameters, training.clip)
    scaler.step(optimiser)
    scaler.update()
    return loss.item()


def check_finite(parameters: Iterable[Tensor], training: Training, epoch: int) -> None:
    """An error if a weight is no longer a finite number: the last step of an epoch has no later loss to show it."""
    if not all(one.isfinite().all() for one in parameters):
        raise diverged("Weights became NaN or infinite", training, epoch)


def diverged(what: str, training: Training, epoch: int) -> TrainingError:
    return TrainingError(
        f"{what} in epoch {epoch}, and nothing is kept. The learning rate ({training.rate:g}) is probably too high: "
        "lower it (learning_rate, --learning-rate)."
    )


def best_epoch(history: Sequence[Epoch]) -> Epoch:
    """The epoch whose weights `fit` leaves; of equal ones the first."""
    return max(history, key=lambda one: one.rank)


def predict_examples(model: Model, batches: Sequence[Examples]) -> Outputs:
    """What the model answers to encoded rows, in the order of the parts."""
    with torch.no_grad():
        found = [model.outputs_of(part.rows, part.batch, _logits(model, part)) for part in batches]
    return Outputs.joined(found)


def make_optimiser(parameters: list[nn.Parameter], training: Training) -> torch.optim.Optimizer:
    if training.optimiser == "sgd":
        return torch.optim.SGD(
            parameters, lr=training.rate, momentum=training.momentum, weight_decay=training.weight_decay, fused=True
        )
    kind = torch.optim.AdamW if training.optimiser == "adamw" else torch.optim.Adam
    return kind(parameters, lr=training.rate, weight_decay=training.weight_decay, fused=True)


def rate_at(step: int, steps: int, training: Training) -> float:
    """Linear warm-up, then linear decay to a twentieth, or none."""
    rising = max(1, round(training.warmup * steps)) if training.warmup else 0
    if step < rising:
        return (step + 1) / rising
    return 1.0 if training.schedule == "constant" else 1 - 0.95 * (step - rising) / max(1, steps - rising)


def _loss(
    model: Model, examples: Examples, chosen: Int[Tensor, " chosen"], beside: AuxiliaryLoss | None, precision: str
) -> Float[Tensor, ""]:
    batch = examples.batch.select(chosen).to(model.device)
    with autocast(batch.device, precision):
        trace = model(batch, listen=() if beside is None else beside.strategy.listen)
    trace = trace if precision == SINGLE else to_single(trace)
    losses = model.task.loss(trace.logits, goal_on(model, examples.goal[chosen]))
    return (losses if beside is None else losses + beside(trace, batch, chosen)).mean()


def goal_on(model: Model, goal: Shaped[Tensor, "row *goal"]) -> Shaped[Tensor, "row *goal"]:
    if goal.is_floating_point():  # some devices have no double precision
        goal = goal.to(next(model.parameters()).dtype)
    return goal.to(model.device)


def _logits(model: Model, part: Examples) -> Float[Tensor, "row *output"]:
    return model(part.batch.to(model.device)).logits


def dev_of(model: Model, batches: Sequence[Examples], *, balanced: bool = False) -> tuple[float, float]:
    """Loss and measure on dev, in one pass."""
    total, found = 0.0, []
    with torch.no_grad():
        for part in batches:
            logits = _logits(model, part)
            total += model.task.loss(logits, goal_on(model, part.goal)).sum().item()
            found.append(model.outputs_of(part.rows, part.batch, logits))
    reference = Outputs.joined([part.outputs for part in batches])
    return total / len(reference), measure(Outputs.joined(found), reference, balanced=balanced)


def shuffled(batch: Batch, training: Training, epoch: int) -> Iterator[Int[np.ndarray, " chosen"]]:
    """The batches of an epoch, in random order; the seed and the epoch decide them."""
    generator = numpy_generator(training.seed, "order", epoch)
    return shuffled_batches(batch.lengths, training.batch_size, generator, window=16)


def devices_of(model: Model) -> list[torch.device]:
    return [model.device] if model.device.type == "cuda" else []


def predict_in_order(student: Model, test: Examples) -> Outputs:
    """The student's answers in the order of the test rows."""
    found = predict_examples(student, test.batches(256))
    place = {name: index for index, name in enumerate(found.ids)}
    return found.select(np.array([place[row.id] for row in test.rows], dtype=np.int64))
