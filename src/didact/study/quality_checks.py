"""Answers that look as if nobody had read the page: reasons to look closer, never to leave somebody out unasked."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Final

from didact.study.answers import Answer, median_seconds

FEWEST: Final = 5  # answers before anything is said of a person
FASTEST: Final = 1.0  # seconds, below which nobody has read anything
SHARE: Final = 0.2  # of the others' median time
ALIKE: Final = 0.8  # of the pages, from which on answers are suspiciously alike


def quality_flags(answers: Sequence[Answer]) -> dict[str, list[str]]:
    """What is odd about each person's answers; people with nothing odd are left out."""
    people: dict[str, list[Answer]] = {}
    for answer in answers:
        people.setdefault(answer.person, []).append(answer)
    known = {name: own for name, own in people.items() if len(own) >= FEWEST}
    times = {name: median_seconds(own) for name, own in known.items()}
    found = {}
    for name, own in known.items():
        others = [time for other, time in times.items() if other != name and math.isfinite(time)]
        said = [*_too_fast(times[name], others), *_untouched(own), *_alike(own)]
        if said:
            found[name] = said
    return found


def _too_fast(time: float, others: Sequence[float]) -> list[str]:
    if time < FASTEST:
        return [f"half of the pages were open for less than {time:.1f} s"]
    if others and time < SHARE * statistics.median(others):
        return [f"{time:.1f} s for a page, where the others take {statistics.median(others):.1f} s"]
    return []


def _untouched(own: Sequence[Answer]) -> list[str]:
    pages = [answer for answer in own if answer.phase == "ranking"]
    idle = sum(not answer.is_touched for answer in pages)
    return [f"{idle} of {len(pages)} orders were saved as they stood"] if pages and idle >= ALIKE * len(pages) else []


def _alike(own: Sequence[Answer]) -> list[str]:
    """The same places on nearly all pages. Methods change their places from page to page, so good answers do, too."""
    given = Counter(_given(answer) for answer in own)
    common, count = given.most_common(1)[0]
    if count < ALIKE * len(own) or (len(own) < 2 * FEWEST and own[0].choice is not None):
        return []
    return [f"{count} of {len(own)} answers are the same: {common}"]


def _given(answer: Answer) -> str:
    if answer.ranks is not None:
        return " ".join(str(answer.ranks[method]) for method in answer.shown)
    return str(answer.choice if answer.choice is not None else answer.rating)
