"""Single random draws from one seeded stream."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from didact.core.seeds import numpy_generator

T = TypeVar("T")


class RandomStream:
    """Draws one number at a time, which numpy alone does slowly: it is asked for blocks of them.

    The stream is decided by the parts alone, so that the first rows of a split are the same however many follow.
    """

    def __init__(self, *seed_parts: object) -> None:
        self.generator = numpy_generator(*seed_parts)
        self._block: Iterator[float] = iter(())

    def uniform(self) -> float:
        """A number from 0 to 1, 1 excluded."""
        for number in self._block:
            return number
        self._block = iter(self.generator.random(512).tolist())
        return next(self._block)

    def bernoulli(self, probability: float) -> bool:
        return self.uniform() < probability

    def integer(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self.uniform() * (high - low + 1))

    def choice(self, items: Sequence[T]) -> T:
        return items[int(self.uniform() * len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items, in random order."""
        pool = list(items)
        for index in range(count):
            other = self.integer(index, len(pool) - 1)
            pool[index], pool[other] = pool[other], pool[index]
        return pool[:count]
