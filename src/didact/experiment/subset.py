"""Which rows a student sees: the same for every explainer, and larger subsets hold the smaller ones."""

import hashlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int


def subset(ids: Sequence[str], *, size: int, seed: int) -> Int[np.ndarray, " chosen"]:
    """`size` rows of this seed, as indices. The draw depends on the seed and the ids, never on the rows' places."""
    order = sorted(range(len(ids)), key=lambda row: hashlib.sha256(f"{seed}\n{ids[row]}".encode()).digest())
    return np.array(order[:size], dtype=np.int64)
