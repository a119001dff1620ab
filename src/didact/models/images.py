"""Images for an image processor of transformers, and the part of an image that remains after its crop."""

from typing import Any

import numpy as np

from didact.core.row import Row
from didact.errors import ShapeError


def rgb_image(row: Row, model: str) -> np.ndarray:
    """The image of a row with three channels; a grey channel is repeated."""
    if row.image is None:
        raise ShapeError(f"Model {model!r} reads images, and some rows have none.")
    if row.image.ndim != 3 or row.image.shape[2] not in (1, 3):
        raise ShapeError(
            f"Row {row.id!r} has an image of shape {row.image.shape}; models read height × width × 3, or × 1 for grey."
        )
    return np.repeat(row.image, 3, axis=2) if row.image.shape[2] == 1 else row.image


def crop_window(processor: Any, height: int, width: int) -> tuple[float, float, float, float] | None:
    """Top, left, height and width of the centre crop, in pixels of the raw image. None without a crop."""
    if not getattr(processor, "do_center_crop", False):
        return None
    size, crop = dict(processor.size), dict(processor.crop_size)
    vertical_scale = horizontal_scale = 1.0
    if processor.do_resize:
        shortest = size.get("shortest_edge")
        vertical_scale, horizontal_scale = (
            (shortest / min(height, width),) * 2
            if shortest is not None
            else (size["height"] / height, size["width"] / width)
        )
    window_height, window_width = crop["height"] / vertical_scale, crop["width"] / horizontal_scale
    return (height - window_height) / 2, (width - window_width) / 2, window_height, window_width
