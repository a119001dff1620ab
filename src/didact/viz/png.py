"""PNG encoding of images."""

import io
from typing import Any

import numpy as np


def encode_png(image: Any) -> bytes:
    """The PNG file of an image (height x width x channel) with one to four channels. Of two, the first is used."""
    from PIL import Image

    pixels = np.asarray(image)
    pixels = pixels[..., 0] if pixels.shape[-1] < 3 else pixels[..., :4]
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, format="PNG")
    return buffer.getvalue()
