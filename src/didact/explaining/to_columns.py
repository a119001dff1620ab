"""Turns a batch of scores into columns without torch: units only, with tokens and answers as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.batch import Batch
from didact.core.explanation import Explanation
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.target import activated
from didact.core.teacher import Teacher
from didact.results.explanations import Explanations
from didact.results.ragged import bounds_of


@dataclass(frozen=True, eq=False)
class BatchAnswers:
    """The teacher's answers to a batch: `logits`, and `words`, the same as text."""

    logits: Float[Tensor, "batch *output"]
    words: Sequence[str]

    @classmethod
    def of(
        cls, teacher: Teacher, rows: Sequence[Row], batch: Batch, known_outputs: Outputs | None = None
    ) -> "BatchAnswers":
        """Use `known_outputs`, or run the teacher. Reading needs the run: known spans are in characters, not tokens."""
        if known_outputs is not None and not teacher.task.is_per_token:
            values = torch.from_numpy(known_outputs.values).to(batch.device, torch.get_default_dtype())
            return cls(values, teacher.task.format_answers(known_outputs, teacher.classes))
        logits, outputs = teacher.answers(rows, batch)
        return cls(logits, teacher.task.format_answers(outputs, teacher.classes))


def batch_to_columns(
    teacher: Teacher,
    rows: Sequence[Row],
    batch: Batch,
    explanation: Explanation,
    answers: BatchAnswers,
    targets: Sequence[str],
    *,
    method: str,
    options: Mapping[str, Any],
    fingerprints: Mapping[str, str],
) -> Explanations:
    """The scores of a batch as columns, of units only."""
    is_unit = explanation.units.cpu().numpy()
    segments, word_index = batch.segments.cpu().numpy()[is_unit], batch.words.cpu().numpy()[is_unit]
    offsets = batch.offsets.cpu().numpy()[is_unit]
    row_of_unit = np.nonzero(is_unit)[0]
    if batch.pixels is not None:
        offsets, tokens = _boxes(teacher, rows, batch, row_of_unit, offsets), [""] * len(row_of_unit)
    else:
        token_ids = batch.tokens.cpu().numpy()[is_unit]
        tokens = [
            rows[row].texts[segment][start:end] if segment >= 0 else teacher.token_name(int(token_id))
            for row, segment, (start, end), token_id in zip(
                row_of_unit.tolist(), segments.tolist(), offsets.tolist(), token_ids, strict=True
            )
        ]
    residuals = (
        np.full(len(rows), np.nan)
        if explanation.residual is None
        else explanation.residual.detach().cpu().double().numpy()
    )
    return Explanations(
        method=method,
        kind=explanation.kind,
        options=options,
        task=teacher.task.name,
        classes=teacher.classes,
        teacher=teacher.name,
        fingerprints=fingerprints,
        ids=batch.ids,
        texts=tuple(row.texts for row in rows),
        bounds=bounds_of(is_unit.sum(1)),
        tokens=tuple(tokens),
        segments=segments,
        word_index=word_index,
        offsets=offsets,
        scores=explanation.scores.detach().cpu().double().numpy()[is_unit],
        targets=tuple(targets),
        predictions=tuple(answers.words),
        residuals=residuals,
        alignments=explanation.alignments,
        cautions=tuple(explanation.cautions),
        probabilities=_probabilities(teacher, answers.logits),
        labels=gold_labels(teacher, rows),
    )


def _probabilities(teacher: Teacher, logits: Float[Tensor, "batch *output"]) -> Float[np.ndarray, " batch"]:
    """The probability of each predicted class. NaN for answers other than classes, and for labels of people."""
    if teacher.classes is None or teacher.reads_labels:
        return np.full(len(logits), np.nan)
    return activated(logits.detach().cpu().double(), teacher.task.activation).amax(-1).numpy()


def gold_labels(teacher: Teacher, rows: Sequence[Row]) -> tuple[str | None, ...]:
    """The gold label of each row by name. None without a label, or if it matches no class of the teacher."""
    classes = teacher.classes
    if classes is None:
        return (None,) * len(rows)
    task = teacher.task
    labelled = [row for row in rows if task.knows(row, classes)]
    if not labelled:
        return (None,) * len(rows)
    names = iter(task.format_answers(task.gold(labelled, classes), classes))
    return tuple(next(names) if task.knows(row, classes) else None for row in rows)


def _boxes(
    teacher: Teacher, rows: Sequence[Row], batch: Batch, row_of_unit: np.ndarray, corners: np.ndarray
) -> np.ndarray:
    """Patches in pixels of the original images, which may be larger or smaller than the model's input."""
    assert batch.pixels is not None
    patch = _patch_size(batch)
    ends = np.concatenate([corners, corners + patch], axis=1).astype(np.float64)
    areas = np.array([teacher.visible_area(*row.image.shape[:2]) for row in rows if row.image is not None])[row_of_unit]
    start, size = np.tile(areas[:, :2], 2), np.tile(areas[:, 2:], 2)
    return np.round(start + ends * size / np.tile(batch.pixels.shape[2:], 2)).astype(np.int64)


def _patch_size(batch: Batch) -> int:
    """The width of a patch in pixels of the model's input."""
    row_offsets = batch.offsets[0, batch.segments[0] >= 0, 0].unique()
    assert batch.pixels is not None
    return int(row_offsets[1] - row_offsets[0]) if len(row_offsets) > 1 else batch.pixels.shape[2]
