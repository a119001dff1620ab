"""The rows of SMaT's outer loss: every row once per pass, in batches of similar length."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from jaxtyping import Int

from didact.core.batching import shuffled_batches
from didact.core.seeds import numpy_generator

_WINDOW: Final = 4  # batches sorted by length together


class OuterRowSampler:
    """Batches of row indices from shuffled passes, each row once per pass.

    Rows that the student learns from in the current step are excluded, and wait for the next step. Batch sizes
    therefore vary around `size`, but are at least half of it. The batches of an epoch depend only on `seed`, `epoch`
    and the excluded rows, so that a resumed run repeats them.
    """

    def __init__(self, lengths: Int[np.ndarray, " row"], size: int, *, seed: int, epoch: int) -> None:
        self.lengths, self.size = lengths, size
        self._batches = self._passes(seed, epoch)
        self._waiting: Int[np.ndarray, " _"] = np.zeros(0, dtype=np.int64)

    def take(self, excluded: Int[np.ndarray, " _"]) -> Int[np.ndarray, " _"]:
        """The next batch, without the excluded rows."""
        rows = np.concatenate([self._waiting, next(self._batches)])
        is_eligible = ~np.isin(rows, excluded)
        while 2 * is_eligible.sum() < min(self.size, len(self.lengths)):
            rows = np.concatenate([rows, next(self._batches)])
            is_eligible = ~np.isin(rows, excluded)
        self._waiting = rows[~is_eligible]
        return rows[is_eligible]

    def _passes(self, seed: int, epoch: int) -> Iterator[Int[np.ndarray, " _"]]:
        generator = numpy_generator(seed, "outer", epoch)
        while True:
            yield from shuffled_batches(self.lengths, self.size, generator, window=_WINDOW, is_even=True)
