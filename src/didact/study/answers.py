"""One answer of one person."""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One answer of one person. Which of `ranks`, `choice` and `rating` it holds follows from the kind of study."""

    person: str  # p01, p02, …: never a name
    cohort: str  # a method or `none` in a simulation, else empty
    step: int  # counted from 1 within the person's steps
    phase: str  # ranking, learning, test or rating
    item: str
    shown: tuple[str, ...] = ()  # methods in the order of the page
    ranks: Mapping[str, int] | None = None  # by method; 1 is best, and equals share the better rank: 1, 1, 3
    choice: str | None = None  # a class
    rating: int | None = None
    seconds: float = math.nan  # for which the page was visible
    is_synthetic: bool = False  # made by `didact study simulate`
    is_touched: bool = True  # True if the person moved or chose anything on the page
    at: float = math.nan  # time of arrival, in seconds since 1970

    @property
    def response(self) -> dict[str, Any]:
        """The one of `ranks`, `choice` and `rating` that is set, by name."""
        values = {"ranks": self.ranks, "choice": self.choice, "rating": self.rating}
        return {name: value for name, value in values.items() if value is not None}


def median_seconds(answers: Iterable[Answer]) -> float:
    """The median time that a page was open, in seconds. NaN if unknown."""
    seconds = [answer.seconds for answer in answers if math.isfinite(answer.seconds)]
    return statistics.median(seconds) if seconds else math.nan
