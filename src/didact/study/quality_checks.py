"""Checks for answers given without reading: reasons to look closer. They never exclude anyone."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Final

from didact.study.answers import Answer, median_seconds

MIN_ANSWERS: Final = 5  # answers of a person before they are checked
MIN_SECONDS: Final = 1.0  # a shorter median means that the pages were not read
TOO_FAST_SHARE: Final = 0.2  # of the others' median time; a shorter median is too fast
SAME_SHARE: Final = 0.8  # of the pages; from this share on, equal answers are odd


def quality_flags(answers: Sequence[Answer]) -> dict[str, list[str]]:
    """What is odd about answers, by person. People without odd answers are left out."""
    answers_by_person: dict[str, list[Answer]] = {}
    for answer in answers:
        answers_by_person.setdefault(answer.person, []).append(answer)
    checked = {
        name: person_answers for name, person_answers in answers_by_person.items() if len(person_answers) >= MIN_ANSWERS
    }
    times = {name: median_seconds(person_answers) for name, person_answers in checked.items()}
    flags = {}
    for name, person_answers in checked.items():
        others = [time for other, time in times.items() if other != name and math.isfinite(time)]
        reasons = [*_too_fast(times[name], others), *_untouched(person_answers), *_same_answers(person_answers)]
        if reasons:
            flags[name] = reasons
    return flags


def _too_fast(time: float, others: Sequence[float]) -> list[str]:
    if time < MIN_SECONDS:
        return [f"half of the pages were open for less than {time:.1f} s"]
    if others and time < TOO_FAST_SHARE * statistics.median(others):
        return [f"{time:.1f} s for a page, while the others take {statistics.median(others):.1f} s"]
    return []


def _untouched(answers: Sequence[Answer]) -> list[str]:
    pages = [answer for answer in answers if answer.phase == "ranking"]
    untouched = sum(not answer.is_touched for answer in pages)
    return (
        [f"{untouched} of {len(pages)} orders were saved unchanged"]
        if pages and untouched >= SAME_SHARE * len(pages)
        else []
    )


def _same_answers(answers: Sequence[Answer]) -> list[str]:
    """Flags equal ranks on almost all pages. Methods change places between pages, so good answers change, too."""
    answer_counts = Counter(_answer_text(answer) for answer in answers)
    common, count = answer_counts.most_common(1)[0]
    if count < SAME_SHARE * len(answers) or (len(answers) < 2 * MIN_ANSWERS and answers[0].choice is not None):
        return []
    return [f"{count} of {len(answers)} answers are the same: {common}"]


def _answer_text(answer: Answer) -> str:
    if answer.ranks is not None:
        return " ".join(str(answer.ranks[method]) for method in answer.shown)
    return str(answer.choice if answer.choice is not None else answer.rating)
