"""Copies of a teacher that are tuned to answer rows without some of their units, for the metric `f_fidelity`."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from didact.core.batch import Batch
from didact.core.fingerprint import cached_fingerprint
from didact.core.model import Model
from didact.core.perturb import MaskedForward
from didact.core.row import Row, fingerprint_of
from didact.core.seeds import seed_from
from didact.core.trace import Trace, TraceField
from didact.learning.fit import Examples, fit
from didact.learning.train import default_training
from didact.metrics.f_fidelity import MaskTuning
from didact.viz.progress import Progress

RATE_SHARE: Final = 0.25  # the learning rate, relative to that of training a teacher
_DEV_ROWS: Final = 16  # `fit` reports on them; the copy of the last epoch is used in any case
_MAX_COPIES: Final = 2  # per teacher
_COPIES: WeakKeyDictionary[Model, dict[object, Model]] = WeakKeyDictionary()


def tuned_copy(
    teacher: Model,
    rows: Sequence[Row],
    tuning: MaskTuning,
    *,
    replacement: str,
    batch_size: int = 64,
    progress: bool = False,
) -> Model:
    """A copy of the teacher, tuned on its own answers to these rows, with random units removed from them.

    In each epoch each row loses a random number of units, from none to the share `tuning.beta`. `replacement` is what
    takes their place. The same seed gives the same bytes. The teacher does not change. The last copies of a teacher
    stay in memory, so that several evaluations of it tune once.
    """
    key = (cached_fingerprint(teacher), teacher.device, teacher.dtype, tuning, replacement, fingerprint_of(rows))
    copies = _COPIES.setdefault(teacher, {})
    if key not in copies:
        copies[key] = _tune(teacher, rows, tuning, replacement, batch_size, progress)
        while len(copies) > _MAX_COPIES:
            del copies[next(iter(copies))]
    return copies[key]


def random_presence(
    units: Bool[Tensor, "row position"], beta: float, generator: torch.Generator
) -> Bool[Tensor, "row position"]:
    """A mask per row without a random number of random units, from none to the share `beta`, rounded up."""
    limits = (units.sum(-1) * beta - 1e-9).ceil().clamp(min=1)
    counts = (torch.rand(len(units), generator=generator) * (limits + 1)).floor()
    ranks = torch.rand(units.shape, generator=generator).masked_fill(~units, 2.0).argsort(-1).argsort(-1)
    return ~units | (ranks >= counts[:, None])


def _tune(
    teacher: Model, rows: Sequence[Row], tuning: MaskTuning, replacement: str, batch_size: int, progress: bool
) -> Model:
    copy = deepcopy(teacher).requires_grad_(True)
    if copy.dtype in (torch.float16, torch.bfloat16):
        copy = copy.float()
    train = Examples.of(copy, tuple(rows), teacher.predict(rows, batch_size=batch_size), soft=True)
    dev = train.select(np.arange(min(_DEV_ROWS, len(rows))))
    training = default_training(copy)
    training = replace(
        training, rate=training.rate * RATE_SHARE, epochs=tuning.epochs, patience=tuning.epochs, seed=tuning.seed
    )
    masked = MaskedForward(copy, train.batch, replace=replacement)
    with (
        _masked_in_training(copy, masked, tuning),
        Progress("tuning a copy of the teacher on masked rows", total=tuning.epochs, shown=progress) as bar,
    ):
        fit(copy, train, dev, training, keep="last", on_epoch_end=lambda _: bar.advance())
    return copy


@contextmanager
def _masked_in_training(model: Model, masked: MaskedForward, tuning: MaskTuning) -> Iterator[None]:
    """A context in which the model reads masked rows in training mode, and rows as they are in evaluation mode."""
    generator = torch.Generator().manual_seed(seed_from(tuning.seed, "f_fidelity", "tuning"))
    read_whole = model.forward

    def forward(batch: Batch, *, listen: Collection[TraceField] = ()) -> Trace:
        if not model.training:
            return read_whole(batch, listen=listen)
        is_present = random_presence(batch.units.cpu(), tuning.beta, generator).to(batch.device)
        return model.run(*masked.inputs(model, batch, is_present), listen=listen)

    object.__setattr__(model, "forward", forward)
    try:
        yield
    finally:
        object.__delattr__(model, "forward")
