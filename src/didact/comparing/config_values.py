"""Parsers of command-line values and of plan files, and checks of `CompareConfig` that need no model code."""

import math
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from didact.config import TRUST
from didact.errors import OptionError, RequestError
from didact.field_types import Integer, check_list, check_seed
from didact.limits import MAX_ROWS, MAX_SEEDS, shown
from didact.registry import parse_spec, python_number, split_list, unknown_name_message

# Controls that are added automatically and can be left out.
SKIPPABLE: Final = ("trivial", "human", "flattened", "matched", "sharpened", "extra")
NEW, EDITED = TEST_SETS = ("new", "edited")
NEW_ROWS_ONLY: Final = (NEW,)
_UNITS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

# -- how the command line reads text ----------------------------------------------------------------------------------


def _number_or_text(text: str, kind: type) -> Any:
    """The text as a number. Other text is returned unchanged, so that the check reports it with all faults."""
    try:
        return kind(text)
    except ValueError:
        return text


def parse_integers(text: str) -> list[Any]:
    return [_number_or_text(item, int) for item in split_list(text)]


def parse_decimals(text: str) -> list[Any]:
    return [_number_or_text(item, float) for item in split_list(text)]


def parse_seeds(text: str) -> Any:
    """`3` is a number of seeds; `3,` and `3,4` are lists of them."""
    numbers = parse_integers(text)
    is_count = len(numbers) == 1 and isinstance(numbers[0], int) and "," not in text
    return numbers[0] if is_count else numbers


def parse_search_space(text: str) -> Any:
    """`yes`, `no`, or options with the values to try: `temperature=[1,0.5]`."""
    if text.lower() in ("yes", "true", "no", "false"):
        return text.lower() in ("yes", "true")
    try:
        return dict(parse_spec(f"space({text})").options)
    except RequestError:
        return text  # the check reports it with all faults


def parse_balance(text: str) -> Any:
    return {"auto": None, "yes": True, "no": False}.get(text.lower(), text)


# -- checks that need no model code -----------------------------------------------------------------------------------


def _non_empty(values: tuple[Any, ...], kind: str) -> tuple[Any, ...]:
    if not values:
        raise OptionError(f"at least one {kind} is required.")
    return values


def check_train_sizes(values: Any) -> tuple[int, ...]:
    values = [values] if isinstance(python_number(values), int) else values
    return tuple(sorted(_non_empty(check_list(values, Integer(1, MAX_ROWS), "sizes"), "size")))


def check_seeds(values: Any) -> tuple[int, ...]:
    values = python_number(values)
    if isinstance(values, int) and not isinstance(values, bool):
        return tuple(range(Integer(1, MAX_SEEDS)(values)))
    if isinstance(values, list | tuple) and len(values) > MAX_SEEDS:
        raise OptionError(f"at most {MAX_SEEDS:,} seeds are allowed, got {len(values):,}.")
    return _non_empty(check_list(values, check_seed, "seeds"), "seed")


def check_temperatures(values: Any) -> tuple[float, ...]:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise OptionError(f"a temperature must be a finite number > 0, got {shown(value)}.")
        return float(value)

    return _non_empty(check_list(values, check, "temperatures"), "temperature")


def check_skip_controls(values: Any) -> tuple[str, ...]:
    def check(value: Any) -> str:
        if value not in SKIPPABLE:
            raise OptionError(unknown_name_message("control that can be left out", str(value), list(SKIPPABLE)))
        return str(value)

    return check_list(values, check, "rows")


def check_test_sets(values: Any) -> tuple[str, ...]:
    def check(value: Any) -> str:
        if value not in TEST_SETS:
            raise OptionError(unknown_name_message("test set", str(value), list(TEST_SETS)))
        return str(value)

    names = check_list([values] if isinstance(values, str) else values, check, "test sets")
    if NEW not in names:
        raise OptionError("new rows are always tested. Name new or new,edited.")
    return tuple(name for name in TEST_SETS if name in names)


def check_test_rows(value: Any) -> int:
    if python_number(value) == 1 and not isinstance(value, bool):
        raise OptionError("an interval needs at least 2 test rows. Choose 2 or more, or 0 for all.")
    return Integer(0, MAX_ROWS)(value)


def check_budget(value: Any) -> float:
    """Seconds from text such as `20m`, `2h`, `1h30m` or `90s`, or from a number of seconds."""
    value = python_number(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        pairs = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", str(value).strip().lower())
        matched = "".join(number + unit for number, unit in pairs)
        if (
            not pairs
            or matched != re.sub(r"\s", "", str(value).lower())
            or any(symbol not in _UNITS for _, symbol in pairs)
        ):
            raise OptionError(f"must be a time such as 20m, 2h, 1h30m or 90s, got {shown(value)}.")
        seconds = sum(float(number) * _UNITS[unit] for number, unit in pairs)
    if not 1 <= seconds < math.inf:
        raise OptionError(f"must be a finite time of at least 1 second, got {shown(value)}.")
    return seconds


def check_out(value: Any) -> str | Path:
    if not isinstance(value, str | Path) or not str(value).strip() or "\0" in str(value):
        raise OptionError(f"must be the path of a folder or a URL, got {shown(value)}.")
    return value


# -- plan files -----------------------------------------------------------------------------------------------------


def read_plan(path: Path, *, trust_remote_code: bool = False) -> dict[str, object]:
    """Read the entries of a plan file, without checking them.

    A file cannot allow a model's code to run: only the caller can, with `trust_remote_code`.

    Raises:
        OptionError: the file is missing, is not TOML, or asks for `trust_remote_code`.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise OptionError(
            f"There is no plan {str(path)!r}. A plan is a TOML file; docs/compare.md shows one."
        ) from None
    except RecursionError:
        raise OptionError(f"The plan {str(path)!r} cannot be read as TOML: lists are nested too deeply.") from None
    except (OSError, ValueError) as error:
        raise OptionError(f"The plan {str(path)!r} cannot be read as TOML: {error}") from error
    if entries.pop(TRUST, False) is not False and not trust_remote_code:
        raise OptionError(
            f"The plan {str(path)!r} asks for trust_remote_code, which runs code that comes with a model. A file "
            "cannot allow that. Read that code; if you trust it, pass --trust-remote-code (trust_remote_code=True)."
        )
    return entries
