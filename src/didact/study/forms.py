"""Parse submitted forms into answers. Anything that is not an answer raises `FormError`."""

import re
from collections.abc import Mapping
from string import ascii_lowercase
from typing import Any

from didact.study.design import Design
from didact.study.schedule import Step

LONGEST = 24 * 3600.0  # seconds; a page cannot be open for longer
_COMMON = frozenset({"csrf", "seconds", "touched"})


class FormError(ValueError):
    """A form that does not answer its page."""


def methods_by_code(step: Step) -> dict[str, str]:
    """The methods of a page by the codes that replace their names there: a, b, c … in order."""
    return dict(zip(ascii_lowercase, step.shown, strict=False))


def parse_answer(design: Design, step: Step, fields: Mapping[str, str]) -> dict[str, Any]:
    """The response to this step in a form: ranks, choice or rating, by name."""
    if design.kind == "ranking":
        codes = methods_by_code(step)
        _check_names(fields, {f"rank-{code}" for code in codes})
        ranks = {method: _choice_number(fields.get(f"rank-{code}"), 1, len(codes)) for code, method in codes.items()}
        return {"ranks": competition_ranks(ranks)}
    if design.kind == "simulation":
        _check_names(fields, {"choice"})
        return {"choice": design.classes[_choice_number(fields.get("choice"), 0, len(design.classes) - 1)]}
    _check_names(fields, {"rating"})
    return {"rating": _choice_number(fields.get("rating"), 1, design.points)}


def parse_draft(design: Design, step: Step, fields: Mapping[str, str]) -> Any:
    """The values of a refused form, for the page to show again."""
    if design.kind == "ranking":
        return {code: fields.get(f"rank-{code}", "") for code in methods_by_code(step)}
    text = fields.get("choice" if design.kind == "simulation" else "rating", "")[:3]  # no valid value is longer
    number = whole_number(text)
    return text if design.kind == "simulation" or number is None else number


def parse_seconds(fields: Mapping[str, str]) -> float | None:
    """The seconds that the page reports it was visible; None if it reports nothing."""
    text = fields.get("seconds", "")
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,6})?", text) or float(text) > LONGEST:
        raise FormError("The time on this page cannot be read. Load the page again.")
    return float(text)


def is_touched(fields: Mapping[str, str]) -> bool:
    return fields.get("touched") == "1"


def competition_ranks(ranks: Mapping[str, int]) -> dict[str, int]:
    """Standard competition ranks: ties share the better rank and the next one is skipped (1, 1, 3)."""
    return {method: 1 + sum(other < rank for other in ranks.values()) for method, rank in ranks.items()}


def _check_names(fields: Mapping[str, str], expected: set[str]) -> None:
    unexpected = sorted(set(fields) - expected - _COMMON)
    if unexpected:
        raise FormError("The form has fields that this page does not ask for. Load the page again.")


def _choice_number(value: str | None, low: int, high: int) -> int:
    if value is None or value == "":
        raise FormError("Something is not answered yet.")
    number = whole_number(value)
    if number is None or not low <= number <= high:
        raise FormError("An answer is not one of the choices. Load the page again.")
    return number


def whole_number(text: str) -> int | None:
    """The number in ASCII digits, else None. `int` would also accept `1_0`, `+1` and digits of other scripts."""
    return int(text) if re.fullmatch(r"0|[1-9][0-9]{0,5}", text) else None
