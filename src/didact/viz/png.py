"""The picture of a row as a PNG file."""

import io
from typing import Any

import numpy as np


def encode_png(image: Any) -> bytes:
    """Pixels of one to four channels, height first; of two channels the first is shown."""
    from PIL import Image

    pixels = np.asarray(image)
    pixels = pixels[..., 0] if pixels.shape[-1] < 3 else pixels[..., :4]
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, format="PNG")
    return buffer.getvalue()
