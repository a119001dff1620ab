"""Computes `f_fidelity`: chooses the rows that a copy of the teacher is tuned on, and reads the copy's answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float, Int

from didact.core.dataset import Dataset
from didact.core.model import require_model
from didact.core.needs import obstacle
from didact.core.precision import INT8, weights_precision
from didact.core.row import Row
from didact.core.seeds import seed_from
from didact.core.teacher import Teacher
from didact.data.subset import subset
from didact.explaining.input_rows import rows_with_ids
from didact.learning.mask_tuning import random_presence, tuned_copy
from didact.metrics.f_fidelity import FFidelity, MaskTuning
from didact.metrics.faithfulness import faithfulness
from didact.metrics.probe import Probe
from didact.results.explanations import Explanations
from didact.viz.progress import Progress

_SPLITS: Final = ("teach", "train")  # where the rows for the tuning come from, best first


def tuning_obstacle(teacher: Teacher, data: Any, explained: Sequence[Row]) -> str | None:
    """Why no copy of the teacher can be tuned, as a clause; None if one can."""
    for need in ("gradients", "weights"):
        if (fault := obstacle(teacher, need)) is not None:
            return f"tunes a copy of the teacher, but {fault}"
    if weights_precision(teacher) == INT8:
        return (
            f"tunes a copy of the teacher, but the weights of {teacher.name!r} are int8: load it without quantisation"
        )
    if not rows_for_tuning(data, explained):
        return "tunes a copy of the teacher on rows that are not explained: give the data set that has some (--data)"
    return None


def rows_for_tuning(data: Any, explained: Sequence[Row]) -> list[Row]:
    """Rows of the data with other ids and other texts than the explained ones: of split teach, else train, else any."""
    ids, texts = {row.id for row in explained}, {row.texts for row in explained if row.image is None}

    def others(rows: Iterable[Row]) -> list[Row]:
        return [row for row in rows if row.id not in ids and (row.image is not None or row.texts not in texts)]

    if not isinstance(data, Dataset):
        return [] if data is None else others(rows_with_ids(data))
    splits = (others(data[name]) for name in _SPLITS if name in data)
    return next((rows for rows in splits if rows), None) or others(data.iter_rows())


@dataclass(frozen=True)
class TunedScores:
    """The values of metrics on a tuned copy, how units were removed, and what readers must know of the copy."""

    values: Float[np.ndarray, "metric method row"]
    how: str
    note: str


def scores_on_tuned_copy(
    metrics: Sequence[FFidelity],
    methods: Sequence[Explanations],
    probe: Probe,
    data: Any,
    *,
    progress: bool = False,
) -> TunedScores:
    """The values of metrics with one `MaskTuning`, for all methods on the rows of the probe of the teacher."""
    tuning, batch_size = metrics[0].tuning, probe.masked.batch_size
    teacher = require_model(probe.teacher, "f_fidelity")
    pool = rows_for_tuning(data, probe.rows)
    chosen = sorted(subset([row.id for row in pool], size=min(tuning.rows, len(pool)), seed=tuning.seed))
    rows = [pool[index] for index in chosen]
    copy = tuned_copy(
        teacher, rows, tuning, replacement=probe.masked.replace, batch_size=batch_size, progress=progress
    )  # fmt: skip
    copy_probe = Probe(copy, probe.rows, replace=probe.masked.replace, batch_size=batch_size)
    labels = probe.full().argmax(1)
    assert teacher.classes is not None
    predictions = [teacher.classes[label] for label in labels]
    with Progress("scoring f_fidelity", total=len(probe.rows), shown=progress) as bar:
        values = faithfulness(metrics, [_with_targets(m, predictions) for m in methods], copy_probe, done=bar.advance)
    percent = f"{tuning.beta:.0%}".replace("%", " %")
    how = f"at most {percent} of the units are {probe.masked.description}, read by a tuned copy of the teacher"
    return TunedScores(values, how, _note(tuning, len(rows), percent, _agreement(probe, copy_probe, labels, tuning)))


def by_tuning(metrics: Mapping[str, FFidelity]) -> dict[MaskTuning, dict[str, FFidelity]]:
    """The metrics by the copy that they share."""
    groups: dict[MaskTuning, dict[str, FFidelity]] = {}
    for name, metric in metrics.items():
        groups.setdefault(metric.tuning, {})[name] = metric
    return groups


def _with_targets(explanations: Explanations, predictions: Sequence[str]) -> Explanations:
    """The explanations with the teacher's prediction where the explained class is not stated: not the copy's."""
    targets = tuple(target or name for target, name in zip(explanations.targets, predictions, strict=True))
    return replace(explanations, targets=targets)


def _agreement(
    probe: Probe, copy_probe: Probe, labels: Int[np.ndarray, " row"], tuning: MaskTuning
) -> tuple[float, float, float]:
    """The shares of rows with the teacher's class: whole rows by the copy, randomly masked rows by copy and teacher."""
    generator = torch.Generator().manual_seed(seed_from(tuning.seed, "f_fidelity", "check"))
    present = random_presence(probe.batch.units.cpu(), tuning.beta, generator).numpy()
    masks = list(present[:, None])
    masked = (np.concatenate(model_probe.predict_masked(masks)).argmax(1) for model_probe in (copy_probe, probe))
    answers = (copy_probe.full().argmax(1), *masked)
    whole, by_copy, by_teacher = (float((labels == answer).mean()) for answer in answers)
    return whole, by_copy, by_teacher


def _note(tuning: MaskTuning, rows: int, percent: str, agreement: tuple[float, float, float]) -> str:
    whole, by_copy, by_teacher = (f"{100 * share:.1f} %" for share in agreement)
    epochs = f"{tuning.epochs} {'epoch' if tuning.epochs == 1 else 'epochs'}"
    return (
        f"f_fidelity: a copy of the teacher was tuned for {epochs} on {rows:,} other rows, with up to {percent} of "
        f"their units removed at random. It gives the teacher's class to {whole} of the explained rows, and to "
        f"{by_copy} with up to {percent} of the units removed at random (the teacher itself: {by_teacher})."
    )
