"""L2E: a network learns to explain as another explainer does (Situ et al. 2021, algorithm 1)."""

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
from didact.learning.fit import Training, check_finite, descend, make_optimiser, rate_at, shuffled
from didact.viz.progress import Progress

TOP: Final = 0.3  # the share of units that the paper looks at
DEFAULTS: Final = {"epochs": 40, "batch_size": 32, "rate": 5e-4, "weight_decay": 0.01, "patience": 5}
# What the paper's released code does; its network is 512 wide and post-norm.
PAPER: Final = {
    "training": {
        "epochs": 50, "rate": 1e-4, "weight_decay": 0.0, "warmup": 0.0, "clip": 25.0, "patience": 50,
        "optimiser": "sgd", "momentum": 0.0, "schedule": "constant",
    },
    "network": {"dropout": 0.0, "positions": False, "embeddings": "own"},
}  # fmt: skip


@dataclass(frozen=True)
class L2EExamples:
    """Rows with the scores of the explainers to be imitated, on the teacher's positions.

    `scored` marks where scores stand; `labels` are what is explained: a row's class, or the bucket of its score.
    """

    batch: Batch
    weights: Float[Tensor, "row token imitated"]
    scored: Bool[Tensor, "row token"]
    labels: Int[Tensor, " row"]

    def __len__(self) -> int:
        return len(self.batch)

    def select(self, chosen: Int[np.ndarray, " chosen"] | Sequence[int]) -> "L2EExamples":
        """These rows, in this order, cut to the longest of them."""
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
    """What one epoch left: the mean loss on the rows it learned from, and on those held out."""

    number: int
    loss: float
    dev_loss: float


@dataclass(frozen=True)
class L2EResult:
    """What learning left; the explainer that was handed in has the weights of the epoch that was kept."""

    history: list[L2EEpoch]
    kept_epoch: L2EEpoch
    spearman: float
    top: float


def split_indices(count: int, share: float, seed: int) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " dev"]]:
    """Places of the rows to learn from, and of those that choose the epoch."""
    if count < 2:
        raise OptionError(f"Learning needs two explained rows at least, one of them held out, and there are {count}.")
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
    seen: Callable[[L2EEpoch], Any] = lambda _: None,
) -> L2EResult:
    """Train the explainer's network in place. It ends with the weights of the epoch whose loss on `dev` is lowest.

    Two calls with one seed on one machine, with one number of threads, give the same bytes.
    """
    if training.precision != SINGLE:
        raise UnsupportedError(
            f"The network that learns to imitate is small, and trained in single precision alone, not in "
            f"{training.precision}. Leave precision out."
        )
    weights = list(explainer.network.parameters())
    device, dtype = weights[0].device, weights[0].dtype
    if explainer.formulation == "labelling":
        explainer.set_values(_values(explainer, train))
    optimiser = make_optimiser(weights, training)
    steps = -(-len(train) // training.batch_size) * training.epochs
    history: list[L2EEpoch] = []
    best: dict[str, Tensor] = {}
    devices = [device] if device.type == "cuda" else []
    parts = [dev.select(chosen).to(device, dtype) for chosen in length_batches(dev.batch.lengths, training.batch_size)]
    with (
        torch.random.fork_rng(devices=devices),
        torch.inference_mode(False),
        Progress("learning to imitate", total=steps, shown=progress) as bar,
    ):
        torch.manual_seed(seed_from(training.seed, "dropout"))
        for number in range(1, training.epochs + 1):
            losses = []
            explainer.train()
            for chosen in shuffled(train.batch, training, number):
                for group in optimiser.param_groups:
                    group["lr"] = training.rate * rate_at(bar.done, steps, training)
                loss = row_losses(explainer, teacher, train.select(chosen).to(device, dtype)).mean()
                losses.append(descend(loss, optimiser, weights, training, number))
                bar.advance()
            check_finite(weights, training, number)
            explainer.eval()
            history.append(L2EEpoch(number, float(np.mean(losses)), _dev_loss(explainer, teacher, parts)))
            seen(history[-1])
            bar.advance(0, note=f"epoch {number}: loss on held-out rows {history[-1].dev_loss:.4f}")
            kept = best_epoch(history)
            if kept is history[-1]:
                best = {name: one.detach().clone() for name, one in explainer.network.state_dict().items()}
            if number - kept.number >= training.patience:
                break
    explainer.network.load_state_dict(best)
    return L2EResult(history, best_epoch(history), *_likeness(explainer, teacher, parts))


def best_epoch(history: Sequence[L2EEpoch]) -> L2EEpoch:
    """The epoch whose weights are kept; of equal ones the first."""
    return min(history, key=lambda one: one.dev_loss)


def row_losses(explainer: L2E, teacher: Teacher, rows: L2EExamples) -> Float[Tensor, " row"]:
    """Each row's loss, the mean over the explainers that are imitated. The labels' own positions are no part of it."""
    network_outputs = explainer.network_outputs(teacher, rows.batch, rows.labels)
    losses = []
    for place in range(network_outputs.shape[2]):
        own, weights = network_outputs[:, :, place], rows.weights[:, :, place]
        if explainer.formulation == "labelling":
            labels = l2e_losses.labels_of(weights, rows.scored, is_signed=explainer.network_spec.is_signed)
            losses.append(l2e_losses.labelling_loss(own, labels))
        elif explainer.formulation == "regression":
            losses.append(l2e_losses.regression_loss(own[..., 0], weights, rows.scored))
        elif explainer.is_signed:
            losses.append(l2e_losses.ranking_loss(*_with_zero(own[..., 0], weights, rows.scored)))
        else:
            losses.append(l2e_losses.ranking_loss(own[..., 0], weights.abs(), rows.scored))
    return torch.stack(losses).mean(0)


def _with_zero(
    found: Float[Tensor, "row unit"], weights: Float[Tensor, "row unit"], real: Bool[Tensor, "row unit"]
) -> tuple[Tensor, Tensor, Tensor]:
    """One more unit, whose weight and score are 0: an order of signed weights has a place for nothing."""
    pad = torch.nn.functional.pad
    return pad(found, (0, 1)), pad(weights, (0, 1)), pad(real, (0, 1), value=True)


def _values(explainer: L2E, train: L2EExamples) -> Float[Tensor, "imitated label"]:
    """What each label is worth, for each explainer that is imitated."""
    signed = explainer.network_spec.is_signed
    found = []
    for weights in train.weights.unbind(-1):
        labels = l2e_losses.labels_of(weights, train.scored, is_signed=signed)
        found.append(l2e_losses.label_values(weights, labels, is_signed=signed))
    return torch.stack(found)


def _dev_loss(explainer: L2E, teacher: Teacher, parts: Sequence[L2EExamples]) -> float:
    with torch.no_grad():
        total = sum(float(row_losses(explainer, teacher, part).sum()) for part in parts)
    return total / sum(map(len, parts))


def _likeness(explainer: L2E, teacher: Teacher, parts: Sequence[L2EExamples]) -> tuple[float, float]:
    """How like the imitated scores the network's are, by size: mean Spearman ρ of rows, and shared top units (IoU)."""
    correlations, shared = [], []
    with torch.no_grad():
        for part in parts:
            network_outputs = explainer.scores(explainer.network_outputs(teacher, part.batch, part.labels), part.scored)
            sizes = torch.stack([l2e_losses.scaled(one, part.scored) for one in part.weights.unbind(-1)], -1)
            asked_for = (sizes if explainer.is_signed else sizes.abs()).mean(-1)
            for found, asked, real in zip(network_outputs, asked_for, part.scored, strict=True):
                one, other = found[real].abs().cpu().numpy(), asked[real].abs().cpu().numpy()
                if len(one) > 1 and np.ptp(one) > 0 and np.ptp(other) > 0:
                    correlations.append(float(spearmanr(one, other).statistic))
                count = int(np.ceil(TOP * len(one)))
                tops = [set(np.argsort(-each, kind="stable")[:count].tolist()) for each in (one, other)]
                if count:
                    shared.append(len(tops[0] & tops[1]) / len(tops[0] | tops[1]))
    return float(np.mean(correlations)) if correlations else float("nan"), float(np.mean(shared))
