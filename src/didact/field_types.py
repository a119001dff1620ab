"""Types of config fields: bounded numbers, names, lists and columns. Each reports a wrong value in plain words."""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, PlainValidator
from pydantic.json_schema import JsonSchemaValue

from didact.errors import DidactError, OptionError, PlanError
from didact.limits import MAX_BATCH_SIZE, MAX_EPOCHS, MAX_ROWS, max_threads, shown
from didact.registry import python_number

OPTIONAL_ROLES: Final = (
    *("label", "id", "rationale", "alignments"),
    *("revised_text", "revised_first", "revised_second", "revised_label"),
)


@dataclass(frozen=True)
class Integer:
    """An integer between two bounds, both included. NumPy integers count, booleans do not."""

    minimum: int
    maximum: int

    def __call__(self, value: Any) -> int:
        number = python_number(value)
        if isinstance(number, bool) or not isinstance(number, int) or not self.minimum <= number <= self.maximum:
            raise OptionError(f"must be an integer from {self.minimum} to {self.maximum:,}, got {shown(number)}.")
        return number

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return BeforeValidator(self).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True)
class Number:
    """A finite number that `accepts` returns true for; `requirement` says which numbers those are."""

    requirement: str
    accepts: Callable[[float], bool]

    def __call__(self, value: Any) -> float:
        number = python_number(value)
        is_number = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
        if not is_number or not self.accepts(number):
            raise OptionError(f"must be a number {self.requirement}, got {shown(number)}.")
        return number

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        # Pydantic does not convert afterwards: an integer stays an integer, so that keys computed from it stay equal.
        return PlainValidator(self).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "number", "description": self.requirement}


def check_name(value: Any) -> str:
    """A text or path that is not blank, as a string."""
    if not isinstance(value, str | Path) or not str(value).strip():
        raise OptionError(f"must be a name, got {shown(value)}.")
    return str(value)


def _check_switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"must be true or false, got {shown(value)}.")
    return value


def check_seed(value: Any) -> int:
    """An integer from 0 to 2^31 - 1."""
    number = python_number(value)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**31:
        raise OptionError(f"a seed must be an integer from 0 to 2^31 - 1, got {shown(number)}.")
    return number


def _check_columns(value: Any) -> dict[str, str | None]:
    if not isinstance(value, Mapping):
        raise OptionError(f'expected a table of roles and columns such as text = "comment", got {shown(value)}.')
    return {str(role): None if column in (None, "") else str(column) for role, column in value.items()}


def check_list(values: Any, check: Callable[[Any], Any], kind: str) -> tuple[Any, ...]:
    """Check every value of a list. Reports all faults at once, including duplicates."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise OptionError(f"must be a list of {kind}, got {shown(values)}.")
    checked: list[Any] = []
    faults: list[str] = []
    for value in values:
        try:
            checked.append(check(python_number(value)))
        except DidactError as error:
            faults.append(str(error))
    names = [str(value) for value in checked]
    faults += [f"{name} is listed twice." for name in sorted({name for name in names if names.count(name) > 1})]
    if faults:
        raise PlanError("", faults)
    return tuple(checked)


Name = Annotated[str, BeforeValidator(check_name)]
Switch = Annotated[bool, BeforeValidator(_check_switch)]
Seed = Annotated[int, BeforeValidator(check_seed)]
Threads = Annotated[int, Integer(1, max_threads())]
BatchSize = Annotated[int, Integer(1, MAX_BATCH_SIZE)]
Epochs = Annotated[int, Integer(1, MAX_EPOCHS)]
Count = Annotated[int, Integer(1, MAX_ROWS)]
Positive = Annotated[float, Number("above 0", lambda number: number > 0)]
NotNegative = Annotated[float, Number("of 0 or more", lambda number: number >= 0)]
Share = Annotated[float, Number("from 0 to below 1", lambda number: 0 <= number < 1)]
Names = Annotated[tuple[str, ...], BeforeValidator(lambda values: check_list(values, check_name, "names"))]
Columns = Annotated[dict[str, str | None], BeforeValidator(_check_columns)]


def parse_columns(values: Iterable[str]) -> dict[str, str | None]:
    """Parse `["text=comment,label=verdict"]` into columns by role. `label=` and `label=none` mean no labels."""
    columns: dict[str, str | None] = {}
    for item in (item.strip() for value in values for item in value.split(",")):
        role, equals, column = (text.strip() for text in item.partition("="))
        if not equals or not role:
            raise OptionError(f"--columns takes role=column, as in --columns text=comment,label=verdict, not {item!r}.")
        if role in columns:
            raise OptionError(f"--columns names {role!r} twice: {columns[role] or 'none'} and {column or 'none'}.")
        is_optional = role in OPTIONAL_ROLES
        if not column and not is_optional:
            raise OptionError(f"--columns {role}= names no column. Only {', '.join(OPTIONAL_ROLES)} can be left out.")
        columns[role] = None if is_optional and column.lower() in ("", "none") else column
    return columns


def parse_classes(text: str) -> list[str]:
    """Split class names at commas. A name that contains a comma must be quoted."""
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
