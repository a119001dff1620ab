"""Seeds from names, so that a draw depends on its purpose and not on the order of draws."""

import hashlib

import numpy as np


def seed_from(*parts: object) -> int:
    """A seed of 63 bits, a hash of the parts: `seed_from(0, "dropout", row.id)`."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def numpy_generator(*parts: object) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed_from(*parts)))
