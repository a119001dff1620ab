"""The progress of a study: answered pages, time per page, odd answers."""

import math
import time
from typing import Any

from didact.study.answers import Answer, median_seconds
from didact.study.database import AnswerStore, Person
from didact.study.design import Design
from didact.study.quality_checks import quality_flags
from didact.study.schedule import steps_of


def overview(design: Design, store: AnswerStore) -> dict[str, Any]:
    """The values for the organiser's page and for `didact study status`."""
    people = [person for person in store.people() if not person.is_erased]
    answers_by_person: dict[str, list[Answer]] = {}
    for answer in store.read():
        answers_by_person.setdefault(answer.person, []).append(answer)
    flags = quality_flags([answer for person_answers in answers_by_person.values() for answer in person_answers])
    rows = [_row(design, person, answers_by_person.get(person.id, []), flags.get(person.id, [])) for person in people]
    done, total = sum(row["done"] for row in rows), sum(row["total"] for row in rows)
    return {
        "rows": rows,
        "counts": {"people": len(rows), "answers": done, "finished": sum(row["done"] == row["total"] for row in rows)},
        "progress": done / total if total else 0.0,
    }


def _row(design: Design, person: Person, person_answers: list[Answer], flags: list[str]) -> dict[str, Any]:
    seconds = median_seconds(person_answers)
    return {
        "person": f"{person.id} (synthetic)" if person.is_synthetic else person.id,
        "cohort": person.cohort,
        "done": len(person_answers),
        "total": len(steps_of(design, person.number)),
        "started": _when(person.consented),
        "last": _when(max((answer.at for answer in person_answers), default=None)),
        "median_seconds": None if math.isnan(seconds) else seconds,
        "flags": flags,
    }


def _when(at: float | None) -> str:
    return "" if at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
