"""Detection of repeated ids in 8 bytes per id."""

import hashlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt64


class SeenIds:
    """A set of 64-bit hashes of ids, in sorted runs of decreasing length.

    Memory is 8 bytes per id, and twice that while runs are merged. The probability that two of n ids collide is
    n² / 2⁶⁵: one in 370,000 for ten million ids.
    """

    def __init__(self) -> None:
        self._runs: list[UInt64[np.ndarray, " id"]] = []

    def first_repeated(self, ids: Sequence[str]) -> int | None:
        """The index of the first id seen before, in `ids` or in earlier calls.

        If all ids are new, adds them and returns None.
        """
        digests = (hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in ids)
        new = np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.uint64)
        order = np.argsort(new, kind="stable")
        run = new[order]
        is_repeated = np.zeros(len(new), dtype=bool)
        is_repeated[order[1:][run[1:] == run[:-1]]] = True
        for old in self._runs:
            is_repeated |= old[np.searchsorted(old, new).clip(max=len(old) - 1)] == new
        if is_repeated.any():
            return int(is_repeated.argmax())
        while self._runs and len(self._runs[-1]) <= len(run):
            run = np.concatenate([self._runs.pop(), run])
            run.sort()
        if len(run):
            self._runs.append(run)
        return None
