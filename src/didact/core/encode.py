"""Batches of words or image squares, for teachers without a tokenizer."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from didact.core.batch import Batch, TokenizedRow, patch_batch, text_batch
from didact.core.row import Row, Span
from didact.core.words import squares_of, words_of
from didact.errors import ShapeError


def unit_batch(rows: Sequence[Row], *, name: str, is_text: bool, patch: int | None) -> Batch:
    """The rows as one batch on the CPU, whose units are words or squares of `patch` pixels.

    `name` is the teacher's, for errors. Raises `ShapeError` for rows without words and for images of different sizes.
    """
    empty = [row.id for row in rows if row.image is None and not words_of(row.texts)]
    if empty:
        raise ShapeError(
            f"{len(empty)} of {len(rows)} rows contain no words, so teacher {name!r} cannot be explained on them: "
            f"{', '.join(empty[:10])}."
        )
    return text_batch(rows, list(map(_words, rows)), padding=0) if is_text else _squares(rows, patch)


def _words(row: Row) -> TokenizedRow:
    spans: list[Span] = words_of(row.texts)
    return TokenizedRow(
        tokens=np.zeros(len(spans), dtype=np.int64),
        segments=np.array([span.segment for span in spans], dtype=np.int64),
        offsets=np.array([[span.start, span.end] for span in spans], dtype=np.int64).reshape(-1, 2),
    )


def _squares(rows: Sequence[Row], patch: int | None) -> Batch:
    images = [row.image for row in rows if row.image is not None]
    if len(images) < len(rows) or len({image.shape for image in images}) != 1:
        raise ShapeError("Each row of an image task needs an image, and the images of a batch must be of one size.")
    squares = squares_of(rows[0], patch=patch)
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
