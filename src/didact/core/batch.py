"""Rows as tensors: the inputs of a model, and the characters or pixels that each position covers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from didact.core.row import Box, Row, Span
from didact.core.words import patches_touched, touches, word_index


@dataclass(frozen=True)
class Batch:
    """Tokenised rows, padded on the right to one length.

    `mask` is true on all tokens but padding, `units` on tokens that may be scored: content, no special tokens.
    `segments` (the number of the text) and `words` (the number of the word in its text) are -1 outside the units.
    `offsets` are the start and end of a token in its text; for an image, the top and left pixel of a patch at the
    size that the model reads. `types` are the token type ids of models that take them.
    """

    ids: tuple[str, ...]
    tokens: Int[Tensor, "batch token"]
    mask: Bool[Tensor, "batch token"]
    units: Bool[Tensor, "batch token"]
    segments: Int[Tensor, "batch token"]
    words: Int[Tensor, "batch token"]
    offsets: Int[Tensor, "batch token 2"]
    types: Int[Tensor, "batch token"] | None = None
    pixels: Float[Tensor, "batch channel height width"] | None = None
    rationale: Bool[Tensor, "batch token"] | None = None
    rows: tuple[Row, ...] | None = None  # for texts, and for images of black boxes

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def device(self) -> torch.device:
        return self.tokens.device

    @property
    def lengths(self) -> Int[Tensor, " batch"]:
        return self.mask.sum(-1)

    def to(self, device: torch.device | str) -> "Batch":
        moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in self._tensors().items()}
        return replace(self, **moved)

    def select(self, indices: Sequence[int] | Int[Tensor, " chosen"]) -> "Batch":
        """The rows at these indices, in this order, cut to the longest of them. Indices may repeat."""
        chosen = torch.as_tensor(indices, dtype=torch.long, device=self.device)
        length = int(self.lengths[chosen].max()) if len(chosen) else 0
        order = chosen.tolist()
        values: dict[str, Any] = {"ids": tuple(self.ids[index] for index in order)}
        if self.rows is not None:
            values["rows"] = tuple(self.rows[index] for index in order)
        for name, tensor in self._tensors().items():
            values[name] = tensor[chosen] if name == "pixels" else tensor[chosen, :length]
        return replace(self, **values)

    def repeat(self, times: int) -> "Batch":
        """Each row repeated `times` times; the copies of a row are neighbours."""
        indices = torch.arange(len(self), device=self.device).repeat_interleave(times)
        return self.select(indices)

    def _tensors(self) -> dict[str, Tensor]:
        items = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in items if isinstance(value, Tensor)}


class TokenizedRow(NamedTuple):
    """One tokenised row: token ids, number of the text (-1 for special tokens), start and end of the characters."""

    tokens: Int[np.ndarray, " token"]
    segments: Int[np.ndarray, " token"]
    offsets: Int[np.ndarray, "token 2"]
    types: Int[np.ndarray, " token"] | None = None


def text_batch(rows: Sequence[Row], tokenized_rows: Sequence[TokenizedRow], *, padding: int) -> Batch:
    """A batch of texts, padded on the right with the token `padding`. Tokens that touch a rationale are marked."""
    segments = _padded([tokenized.segments for tokenized in tokenized_rows], -1)
    pairs = list(zip(rows, tokenized_rows, strict=True))
    rationale = None
    if any(row.rationale is not None for row in rows):
        rationale = _padded(
            [touches(_spans(row), tokenized.segments, tokenized.offsets) for row, tokenized in pairs], False
        )
    types = [tokenized.types for tokenized in tokenized_rows if tokenized.types is not None]
    return Batch(
        ids=tuple(row.id for row in rows),
        tokens=_padded([tokenized.tokens for tokenized in tokenized_rows], padding),
        mask=_padded([np.ones(len(tokenized.tokens), dtype=bool) for tokenized in tokenized_rows], False),
        units=segments >= 0,
        segments=segments,
        words=_padded([word_index(row.texts, tokenized.segments, tokenized.offsets) for row, tokenized in pairs], -1),
        offsets=_padded([tokenized.offsets for tokenized in tokenized_rows], 0),
        types=_padded(types, 0) if len(types) == len(tokenized_rows) else None,
        rationale=rationale,
        rows=tuple(rows),
    )


def _padded(arrays: Sequence[Shaped[np.ndarray, "_ *rest"]], value: int | bool) -> Shaped[Tensor, "batch token *rest"]:
    return pad_sequence([torch.from_numpy(array) for array in arrays], batch_first=True, padding_value=value)


def _spans(row: Row) -> list[Span]:
    return [span for span in row.rationale or () if isinstance(span, Span)]


def patch_batch(
    rows: Sequence[Row], pixels: Float[Tensor, "batch channel height width"], *, patch: int, leading: int = 0
) -> Batch:
    """A batch of images: `leading` special positions, then one position per square patch, row by row.

    Rationales are scaled from the size of the image to that of `pixels`.
    """
    grid = (pixels.shape[2] // patch, pixels.shape[3] // patch)
    count, size = grid[0] * grid[1], len(rows)
    corners = torch.cartesian_prod(torch.arange(grid[0]), torch.arange(grid[1])) * patch
    offsets = torch.cat([torch.zeros(leading, 2, dtype=torch.long), corners]).expand(size, -1, -1)
    units = (torch.arange(leading + count) >= leading).expand(size, -1)
    rationale = None
    if any(row.rationale is not None for row in rows):
        rationale = torch.zeros(size, leading + count, dtype=torch.bool)
        for index, row in enumerate(rows):
            boxes = [_resized(box, row, pixels) for box in row.rationale or () if isinstance(box, Box)]
            rationale[index, leading:] = torch.from_numpy(patches_touched(boxes, size=patch, grid=grid))
    return Batch(
        ids=tuple(row.id for row in rows),
        tokens=torch.zeros(size, leading + count, dtype=torch.long),
        mask=torch.ones(size, leading + count, dtype=torch.bool),
        units=units.contiguous(),
        segments=torch.where(units, 0, -1),
        words=torch.where(units, torch.arange(leading + count) - leading, -1),
        offsets=offsets.contiguous(),
        pixels=pixels,
        rationale=rationale,
    )


def _resized(box: Box, row: Row, pixels: Float[Tensor, "batch channel height width"]) -> Box:
    assert row.image is not None
    vertical, horizontal = pixels.shape[2] / row.image.shape[0], pixels.shape[3] / row.image.shape[1]
    top, left = int(box.top * vertical), int(box.left * horizontal)
    return Box(top, left, math.ceil(box.bottom * vertical), math.ceil(box.right * horizontal))
