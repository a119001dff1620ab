"""The training loop of teachers and students: gradient clipping, early stopping, the best epoch on dev."""

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
from didact.errors import OptionError, TrainingError, UnsupportedError
from didact.limits import MAX_BATCH_SIZE, MAX_EPOCHS, shown
from didact.students.lesson import Lesson
from didact.students.strategy import Strategy
from didact.viz.progress import Progress


@dataclass(frozen=True)
class Training:
    """The options of a training.

    - `rate`: highest learning rate. `schedule`: then `linear` decay to a twentieth, or `constant`.
    - `warmup`: share of all steps with a rising learning rate.
    - `clip`: maximum norm of the gradient.
    - `patience`: training stops after this many epochs without a better dev score.
    - `momentum`: for the optimiser `sgd`.
    - `precision`: of forward passes during training. Weights, losses and predictions are always single precision.
    - `balanced`: whether every class counts the same in the dev score.

    Raises an `OptionError` that lists all invalid values.
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
            f"{name} must be {requirement}, not {shown(getattr(self, name))}"
            for name, is_valid, requirement in (
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
            if not is_valid
        ]
        if faults:
            raise OptionError("Training options are invalid: " + "; ".join(faults) + ".")

    def facts(self) -> dict[str, object]:
        """All options, for keys and records. Later additions are left out at their defaults, so that keys stay."""
        options = asdict(self)
        if self.precision == SINGLE:
            del options["precision"]
        if not self.balanced:
            del options["balanced"]
        return options


@dataclass(frozen=True)
class Epoch:
    """The result of an epoch: mean training loss, and loss and score (task measure) on dev."""

    number: int
    loss: float
    dev_loss: float
    dev_measure: float

    @property
    def rank(self) -> tuple[float, float]:
        """For comparing epochs: the dev score, and among equal scores the lower dev loss."""
        return float(np.nan_to_num(self.dev_measure, nan=-1.0)), -self.dev_loss


_OPTIMISERS = ("adamw", "adam", "sgd")
_UNSCALED = torch.amp.GradScaler("cpu", enabled=False)  # leaves gradients and steps unchanged


@dataclass(frozen=True)
class Examples:
    """Encoded rows with the teacher's answers, and `goal`, the form of the answers that the task's loss takes."""

    rows: tuple[Row, ...]
    batch: Batch
    outputs: Outputs
    goal: Shaped[Tensor, "row *goal"]

    @classmethod
    def of(cls, model: Model, rows: tuple[Row, ...], outputs: Outputs, *, soft: bool = False) -> "Examples":
        if not rows:
            raise TrainingError(
                "Training needs rows to learn from and rows to choose the best epoch; one of the two sets is empty."
            )
        batch = model.encode(rows)
        return cls(rows, batch, outputs, outputs.task.training_targets(outputs, batch, soft=soft))

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, chosen: Int[np.ndarray, " chosen"]) -> "Examples":
        """The chosen examples, in this order."""
        index = torch.from_numpy(chosen)
        rows = tuple(self.rows[row] for row in chosen)
        return Examples(rows, self.batch.select(index), self.outputs.select(chosen), self.goal[index])

    def batches(self, batch_size: int) -> list["Examples"]:
        """All examples in batches of similar length, longest first."""
        return [self.select(chosen) for chosen in length_batches(self.batch.lengths, batch_size)]


@dataclass(frozen=True)
class AuxiliaryLoss:
    """The loss that a strategy adds to the task's: a function of the student's pass and the explanations (`lesson`).

    The parameters of the strategy are trained with those of the model.
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
    auxiliary: AuxiliaryLoss | None = None,
    keep: str = "best",
    progress: bool = False,
    on_epoch_end: Callable[[Epoch], Any] = lambda _: None,
) -> list[Epoch]:
    """Train the model in place, and return its epochs. It ends in evaluation mode.

    The model gets the weights of the epoch that is best on `dev`. With `keep="last"` it keeps those of the last epoch,
    for a training set that includes the dev rows. `auxiliary` adds a loss to the task's. `on_epoch_end` is called with
    each `Epoch`.

    The same seed gives the same bytes on the same machine with the same number of threads. Raises a `TrainingError`
    if the loss or a weight becomes NaN or infinite.
    """
    check_trainable(training.precision, model.device)
    if auxiliary is not None and training.precision != SINGLE and auxiliary.strategy.needs_second_derivatives:
        raise UnsupportedError(
            f"Strategy {type(auxiliary.strategy).__name__.lower()!r} needs second derivatives, for which "
            f"{training.precision} is not precise enough. Leave precision out."
        )
    steps = -(-len(train) // training.batch_size) * training.epochs
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    parameters += [] if auxiliary is None else list(auxiliary.strategy.parameters())
    optimiser = make_optimiser(parameters, training)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: learning_rate_factor(step, steps, training))
    history: list[Epoch] = []
    best: dict[str, Tensor] = {}
    best_rank: tuple[float, float] | None = None
    epochs_without_gain = 0
    dev_batches = dev.batches(max(training.batch_size, 64))
    scaler = torch.amp.GradScaler("cuda") if training.precision == "float16" else None
    with (
        torch.random.fork_rng(devices=cuda_devices(model)),
        Progress("training", total=steps, shown=progress) as progress_bar,
    ):
        torch.manual_seed(seed_from(training.seed, "dropout"))
        for number in range(1, training.epochs + 1):
            losses = []
            model.train()
            for chosen in epoch_batches(train.batch, training, number):
                loss = _loss(model, train, torch.from_numpy(chosen), auxiliary, training.precision)
                losses.append(training_step(loss, optimiser, parameters, training, number, scaler))
                schedule.step()
                progress_bar.advance()
            check_finite(parameters, training, number)
            model.eval()
            history.append(
                Epoch(number, float(np.mean(losses)), *evaluate_dev(model, dev_batches, balanced=training.balanced))
            )
            on_epoch_end(history[-1])
            progress_bar.advance(0, note=f"epoch {number}: dev {model.task.measure} {history[-1].dev_measure:.3f}")
            rank = history[-1].rank
            # A lower loss at the same score makes a better checkpoint, but does not extend the training.
            epochs_without_gain = 0 if best_rank is None or rank[0] > best_rank[0] else epochs_without_gain + 1
            if best_rank is None or rank > best_rank:
                best_rank = rank
                best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
            if epochs_without_gain >= training.patience:
                break
    if keep == "best":
        model.load_state_dict(best)
    return history


def training_step(
    loss: Float[Tensor, ""],
    optimiser: torch.optim.Optimizer,
    parameters: list[nn.Parameter],
    training: Training,
    epoch: int,
    scaler: torch.amp.GradScaler | None = None,
) -> float:
    """One optimiser step with clipped gradients. Returns the loss, and raises a `TrainingError` if it is not finite.

    A `scaler` keeps small gradients from vanishing in float16, and skips a step whose gradients overflow.
    """
    if not torch.isfinite(loss):
        raise divergence_error(f"The loss became {loss.item()}", training, epoch)
    optimiser.zero_grad(set_to_none=True)
    scaler = scaler or _UNSCALED
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(parameters, training.clip)
    scaler.step(optimiser)
    scaler.update()
    return loss.item()


def check_finite(parameters: Iterable[Tensor], training: Training, epoch: int) -> None:
    """Raise a `TrainingError` if a weight is NaN or infinite: after the last step no further loss would show it."""
    if not all(parameter.isfinite().all() for parameter in parameters):
        raise divergence_error("Weights became NaN or infinite", training, epoch)


def divergence_error(symptom: str, training: Training, epoch: int) -> TrainingError:
    """The error of a training that diverged, with advice."""
    return TrainingError(
        f"{symptom} in epoch {epoch}, and nothing is saved. The learning rate ({training.rate:g}) is probably too "
        "high: lower it (learning_rate, --learning-rate)."
    )


def best_epoch(history: Sequence[Epoch]) -> Epoch:
    """The epoch with the highest rank, the first of equal ones: `fit` keeps its weights."""
    return max(history, key=lambda epoch: epoch.rank)


def predict_examples(model: Model, batches: Sequence[Examples]) -> Outputs:
    """The model's answers to encoded rows, in the order of the batches."""
    with torch.no_grad():
        outputs = [model.outputs_of(examples.rows, examples.batch, _logits(model, examples)) for examples in batches]
    return Outputs.joined(outputs)


def make_optimiser(parameters: list[nn.Parameter], training: Training) -> torch.optim.Optimizer:
    """The fused optimiser that the options name: SGD, Adam or AdamW."""
    if training.optimiser == "sgd":
        return torch.optim.SGD(
            parameters, lr=training.rate, momentum=training.momentum, weight_decay=training.weight_decay, fused=True
        )
    kind = torch.optim.AdamW if training.optimiser == "adamw" else torch.optim.Adam
    return kind(parameters, lr=training.rate, weight_decay=training.weight_decay, fused=True)


def learning_rate_factor(step: int, steps: int, training: Training) -> float:
    """The factor of the learning rate in a step: linear warm-up, then linear decay to a twentieth, or constant."""
    warmup_steps = max(1, round(training.warmup * steps)) if training.warmup else 0
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    return 1.0 if training.schedule == "constant" else 1 - 0.95 * (step - warmup_steps) / max(1, steps - warmup_steps)


def _loss(
    model: Model, examples: Examples, chosen: Int[Tensor, " chosen"], auxiliary: AuxiliaryLoss | None, precision: str
) -> Float[Tensor, ""]:
    batch = examples.batch.select(chosen).to(model.device)
    with autocast(batch.device, precision):
        trace = model(batch) if auxiliary is None else auxiliary.strategy.run(model, batch)
    trace = trace if precision == SINGLE else to_single(trace)
    losses = model.task.loss(trace.logits, goal_to_device(model, examples.goal[chosen]))
    return (losses if auxiliary is None else losses + auxiliary(trace, batch, chosen)).mean()


def goal_to_device(model: Model, goal: Shaped[Tensor, "row *goal"]) -> Shaped[Tensor, "row *goal"]:
    """The goal on the model's device; floating-point goals in the model's precision."""
    if goal.is_floating_point():  # some devices have no double precision
        goal = goal.to(next(model.parameters()).dtype)
    return goal.to(model.device)


def _logits(model: Model, examples: Examples) -> Float[Tensor, "row *output"]:
    return model(examples.batch.to(model.device)).logits


def evaluate_dev(model: Model, batches: Sequence[Examples], *, balanced: bool = False) -> tuple[float, float]:
    """Mean loss and score on dev, in one pass."""
    total_loss, outputs = 0.0, []
    with torch.no_grad():
        for examples in batches:
            logits = _logits(model, examples)
            total_loss += model.task.loss(logits, goal_to_device(model, examples.goal)).sum().item()
            outputs.append(model.outputs_of(examples.rows, examples.batch, logits))
    reference = Outputs.joined([examples.outputs for examples in batches])
    return total_loss / len(reference), measure(Outputs.joined(outputs), reference, balanced=balanced)


def epoch_batches(batch: Batch, training: Training, epoch: int) -> Iterator[Int[np.ndarray, " chosen"]]:
    """Batches of row indices in random order, decided by the seed and the epoch."""
    generator = numpy_generator(training.seed, "order", epoch)
    return shuffled_batches(batch.lengths, training.batch_size, generator, window=16)


def cuda_devices(model: Model) -> list[torch.device]:
    """The devices whose random generators `torch.random.fork_rng` has to save besides the CPU's."""
    return [model.device] if model.device.type == "cuda" else []


def predict_in_order(student: Model, test: Examples) -> Outputs:
    """The student's answers, in the order of the test rows."""
    outputs = predict_examples(student, test.batches(256))
    index_of = {row_id: index for index, row_id in enumerate(outputs.ids)}
    return outputs.select(np.array([index_of[row.id] for row in test.rows], dtype=np.int64))
