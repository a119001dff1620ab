"""L2E training: a network learns to imitate slower explainers (Situ et al. 2021, algorithm 1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import spearmanr
from torch import Tensor

from didact.core.batch import Batch
from didact.core.batching import length_batches
from didact.core.precision import SINGLE
from didact.core.seeds import numpy_generator, seed_from
from didact.core.teacher import Teacher
from didact.errors import OptionError, UnsupportedError
from didact.explainers.l2e import L2E
from didact.learning import l2e_losses
from didact.learning.fit import (
    Training,
    check_finite,
    epoch_batches,
    learning_rate_factor,
    make_optimiser,
    training_step,
)
from didact.viz.progress import Progress

TOP_SHARE: Final = 0.3  # share of top units for the overlap, as in the paper
DEFAULTS: Final = {"epochs": 40, "batch_size": 32, "rate": 5e-4, "weight_decay": 0.01, "patience": 5}
# The settings of the paper's released code, whose network is 512 wide and post-norm.
PAPER: Final = {
    "training": {
        "epochs": 50, "rate": 1e-4, "weight_decay": 0.0, "warmup": 0.0, "clip": 25.0, "patience": 50,
        "optimiser": "sgd", "momentum": 0.0, "schedule": "constant",
    },
    "network": {"dropout": 0.0, "positions": False, "embeddings": "own"},
}  # fmt: skip


@dataclass(frozen=True)
class L2EExamples:
    """Rows with the scores of the imitated explainers, on the teacher's positions.

    `scored` marks the positions with scores. `labels` are the explained class of each row, or the bucket of its score.
    """

    batch: Batch
    weights: Float[Tensor, "row token imitated"]
    scored: Bool[Tensor, "row token"]
    labels: Int[Tensor, " row"]

    def __len__(self) -> int:
        return len(self.batch)

    def select(self, chosen: Int[np.ndarray, " chosen"] | Sequence[int]) -> "L2EExamples":
        """The chosen rows, in this order, without padding beyond the longest."""
        index = torch.as_tensor(chosen, dtype=torch.long)
        batch = self.batch.select(index)
        length = batch.mask.shape[1]
        return L2EExamples(batch, self.weights[index, :length], self.scored[index, :length], self.labels[index])

    def to(self, device: torch.device, dtype: torch.dtype) -> "L2EExamples":
        return L2EExamples(
            self.batch.to(device), self.weights.to(device, dtype), self.scored.to(device), self.labels.to(device)
        )


@dataclass(frozen=True)
class L2EEpoch:
    """The result of an epoch: mean loss on the training rows and on the held-out rows."""

    number: int
    loss: float
    dev_loss: float


@dataclass(frozen=True)
class L2EResult:
    """The result of training. The explainer has the weights of `kept_epoch`.

    `spearman` and `top` compare it with the imitated scores on held-out rows: mean rank correlation, and mean overlap
    (intersection over union) of the top 30 % of units.
    """

    history: list[L2EEpoch]
    kept_epoch: L2EEpoch
    spearman: float
    top: float


def split_indices(count: int, share: float, seed: int) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " dev"]]:
    """Random indices of the rows to learn from, and of the held-out rows that choose the epoch; at least one each."""
    if count < 2:
        raise OptionError(f"L2E needs at least two explained rows, because one is held out, and got {count}.")
    order = numpy_generator(seed, "held out").permutation(count)
    dev = min(count - 1, max(1, round(share * count)))
    return np.sort(order[dev:]), np.sort(order[:dev])


def train_network(
    explainer: L2E,
    teacher: Teacher,
    train: L2EExamples,
    dev: L2EExamples,
    training: Training,
    *,
    progress: bool = False,
    on_epoch_end: Callable[[L2EEpoch], Any] = lambda _: None,
) -> L2EResult:
    """Train the explainer's network in place. It gets the weights of the epoch with the lowest loss on `dev`.

    `on_epoch_end` is called with each `L2EEpoch`. The same seed gives the same bytes on the same machine with the same
    number of threads. Raises a `TrainingError` if the loss or a weight becomes NaN or infinite.
    """
    if training.precision != SINGLE:
        raise UnsupportedError(
            f"The network of L2E is small and trains only in single precision, not in "
            f"{training.precision}. Leave precision out."
        )
    weights = list(explainer.network.parameters())
    device, dtype = weights[0].device, weights[0].dtype
    if explainer.formulation == "labelling":
        explainer.set_values(_label_values(explainer, train))
    optimiser = make_optimiser(weights, training)
    steps = -(-len(train) // training.batch_size) * training.epochs
    history: list[L2EEpoch] = []
    best_weights: dict[str, Tensor] = {}
    devices = [device] if device.type == "cuda" else []
    dev_batches = [
        dev.select(chosen).to(device, dtype) for chosen in length_batches(dev.batch.lengths, training.batch_size)
    ]
    with (
        torch.random.fork_rng(devices=devices),
        torch.inference_mode(False),
        Progress("learning to imitate", total=steps, shown=progress) as bar,
    ):
        torch.manual_seed(seed_from(training.seed, "dropout"))
        for number in range(1, training.epochs + 1):
            losses = []
            explainer.train()
            for chosen in epoch_batches(train.batch, training, number):
                for group in optimiser.param_groups:
                    group["lr"] = training.rate * learning_rate_factor(bar.done, steps, training)
                loss = row_losses(explainer, teacher, train.select(chosen).to(device, dtype)).mean()
                losses.append(training_step(loss, optimiser, weights, training, number))
                bar.advance()
            check_finite(weights, training, number)
            explainer.eval()
            history.append(L2EEpoch(number, float(np.mean(losses)), _dev_loss(explainer, teacher, dev_batches)))
            on_epoch_end(history[-1])
            bar.advance(0, note=f"epoch {number}: loss on held-out rows {history[-1].dev_loss:.4f}")
            best = best_epoch(history)
            if best is history[-1]:
                best_weights = {
                    name: tensor.detach().clone() for name, tensor in explainer.network.state_dict().items()
                }
            if number - best.number >= training.patience:
                break
    explainer.network.load_state_dict(best_weights)
    return L2EResult(history, best_epoch(history), *_similarity(explainer, teacher, dev_batches))


def best_epoch(history: Sequence[L2EEpoch]) -> L2EEpoch:
    """The epoch with the lowest loss on held-out rows, the first of equal ones."""
    return min(history, key=lambda epoch: epoch.dev_loss)


def row_losses(explainer: L2E, teacher: Teacher, rows: L2EExamples) -> Float[Tensor, " row"]:
    """The loss of each row, averaged over the imitated explainers."""
    network_outputs = explainer.network_outputs(teacher, rows.batch, rows.labels)
    losses = []
    for index in range(network_outputs.shape[2]):
        outputs, weights = network_outputs[:, :, index], rows.weights[:, :, index]
        if explainer.formulation == "labelling":
            labels = l2e_losses.unit_labels(weights, rows.scored, is_signed=explainer.network_spec.is_signed)
            losses.append(l2e_losses.labelling_loss(outputs, labels))
        elif explainer.formulation == "regression":
            losses.append(l2e_losses.regression_loss(outputs[..., 0], weights, rows.scored))
        elif explainer.is_signed:
            losses.append(l2e_losses.ranking_loss(*_with_zero(outputs[..., 0], weights, rows.scored)))
        else:
            losses.append(l2e_losses.ranking_loss(outputs[..., 0], weights.abs(), rows.scored))
    return torch.stack(losses).mean(0)


def _with_zero(
    scores: Float[Tensor, "row unit"], weights: Float[Tensor, "row unit"], real: Bool[Tensor, "row unit"]
) -> tuple[Tensor, Tensor, Tensor]:
    """The tensors with one more unit of weight and score 0, so that a signed ranking also learns where 0 is."""
    pad = torch.nn.functional.pad
    return pad(scores, (0, 1)), pad(weights, (0, 1)), pad(real, (0, 1), value=True)


def _label_values(explainer: L2E, train: L2EExamples) -> Float[Tensor, "imitated label"]:
    """The score of each label, for each imitated explainer."""
    signed = explainer.network_spec.is_signed
    values = []
    for weights in train.weights.unbind(-1):
        labels = l2e_losses.unit_labels(weights, train.scored, is_signed=signed)
        values.append(l2e_losses.label_values(weights, labels, is_signed=signed))
    return torch.stack(values)


def _dev_loss(explainer: L2E, teacher: Teacher, batches: Sequence[L2EExamples]) -> float:
    with torch.no_grad():
        total = sum(float(row_losses(explainer, teacher, rows).sum()) for rows in batches)
    return total / sum(map(len, batches))


def _similarity(explainer: L2E, teacher: Teacher, batches: Sequence[L2EExamples]) -> tuple[float, float]:
    """Similarity to the imitated scores, by size: mean Spearman ρ of the rows, and mean overlap of top units (IoU)."""
    correlations, overlaps = [], []
    with torch.no_grad():
        for rows in batches:
            scores = explainer.scores(explainer.network_outputs(teacher, rows.batch, rows.labels), rows.scored)
            scaled = torch.stack(
                [l2e_losses.scale_to_unit_max(weights, rows.scored) for weights in rows.weights.unbind(-1)], -1
            )
            targets = (scaled if explainer.is_signed else scaled.abs()).mean(-1)
            for row_scores, row_targets, is_unit in zip(scores, targets, rows.scored, strict=True):
                predicted, imitated = row_scores[is_unit].abs().cpu().numpy(), row_targets[is_unit].abs().cpu().numpy()
                if len(predicted) > 1 and np.ptp(predicted) > 0 and np.ptp(imitated) > 0:
                    correlations.append(float(spearmanr(predicted, imitated).statistic))
                count = int(np.ceil(TOP_SHARE * len(predicted)))
                tops = [set(np.argsort(-sizes, kind="stable")[:count].tolist()) for sizes in (predicted, imitated)]
                if count:
                    overlaps.append(len(tops[0] & tops[1]) / len(tops[0] | tops[1]))
    return float(np.mean(correlations)) if correlations else float("nan"), float(np.mean(overlaps))
