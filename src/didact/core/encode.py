"""Rows as a batch, for any teacher: in the pieces a model reads, or in words where nobody sees inside."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from didact.core.batch import Batch, Pieces, patch_batch, text_batch
from didact.core.function import FunctionTeacher
from didact.core.model import Model, evaluating
from didact.core.row import Row, Span
from didact.core.teacher import Teacher
from didact.core.words import squares_of, words_of
from didact.errors import ShapeError


def encoded(teacher: Teacher, rows: Sequence[Row]) -> Batch:
    """The rows in the units of this teacher, on the CPU. Black boxes and people have words (or squares)."""
    if isinstance(teacher, Model):
        return teacher.encode(rows)
    empty = [row.id for row in rows if row.image is None and not words_of(row.texts)]
    if empty:
        raise ShapeError(
            f"{len(empty)} of {len(rows)} rows hold no words that teacher {teacher.name!r} could be asked about: "
            f"{', '.join(empty[:10])}."
        )
    return text_batch(rows, list(map(_words, rows)), padding=0) if teacher.task.is_text else _squares(teacher, rows)


def logits_of(teacher: Teacher, rows: Sequence[Row], batch: Batch) -> torch.Tensor:
    """What the teacher answers to rows and their batch: logits, or the values of one that nobody sees inside."""
    if not isinstance(teacher, Model):
        return torch.from_numpy(teacher.predict(rows).values)
    with evaluating(teacher), torch.no_grad():
        logits: torch.Tensor = teacher(batch).logits
        return logits


def device_of(teacher: Teacher) -> torch.device:
    """Where the teacher computes."""
    return teacher.device if isinstance(teacher, Model) else torch.device("cpu")


def _words(row: Row) -> Pieces:
    found: list[Span] = words_of(row.texts)
    return Pieces(
        tokens=np.zeros(len(found), dtype=np.int64),
        segments=np.array([span.segment for span in found], dtype=np.int64),
        offsets=np.array([[span.start, span.end] for span in found], dtype=np.int64).reshape(-1, 2),
    )


def _squares(teacher: Teacher, rows: Sequence[Row]) -> Batch:
    images = [row.image for row in rows if row.image is not None]
    if len(images) < len(rows) or len({image.shape for image in images}) != 1:
        raise ShapeError("Rows of an image task need an image each, all of one size, to be explained together.")
    asked = teacher.patch if isinstance(teacher, FunctionTeacher) else None
    squares = squares_of(rows[0], patch=asked)
    if not squares:
        raise ShapeError(f"Images of {images[0].shape[0]} × {images[0].shape[1]} pixels are smaller than a square.")
    size = squares[0].bottom - squares[0].top
    height, width = (length // size * size for length in images[0].shape[:2])
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)[:, :, :height, :width].float()
    batch = patch_batch(
        [
            Row(row.id, image=row.image[:height, :width], rationale=row.rationale)
            for row in rows
            if row.image is not None
        ],
        pixels,
        patch=size,
    )
    return replace(batch, rows=tuple(rows))
