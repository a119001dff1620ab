"""Single random draws from one seeded stream."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from didact.core.seeds import numpy_generator

T = TypeVar("T")


class RandomStream:
    """Draws one random value at a time. Buffers blocks of numbers, because single draws from numpy are slow.

    `seed_parts` alone decide the stream, so the first rows of a split do not depend on its size.
    """

    def __init__(self, *seed_parts: object) -> None:
        self.generator = numpy_generator(*seed_parts)
        self._block: Iterator[float] = iter(())

    def uniform(self) -> float:
        """A number from 0 (included) to 1 (excluded)."""
        for number in self._block:
            return number
        self._block = iter(self.generator.random(512).tolist())
        return next(self._block)

    def bernoulli(self, probability: float) -> bool:
        """True with this probability."""
        return self.uniform() < probability

    def integer(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + int(self.uniform() * (high - low + 1))

    def choice(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[int(self.uniform() * len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items, in random order."""
        pool = list(items)
        for index in range(count):
            other = self.integer(index, len(pool) - 1)
            pool[index], pool[other] = pool[other], pool[index]
        return pool[:count]
