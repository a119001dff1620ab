"""What all readers of stored documents share: versions, numbers, and values as JSON has them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING
from pathlib import Path
from typing import Any, Final, TypeVar

from didact.errors import RecordError

VERSION: Final = "version"  # the entry that names the schema of a document; without it, it is 1
# What reading a damaged entry can raise.
BROKEN: Final = (LookupError, TypeError, ValueError, AttributeError)


def check_version(document: Mapping[str, Any], newest: int, path: Path) -> None:
    """A RecordError for a document of a later version than this didact knows."""
    version = document.get(VERSION, 1)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"its version is {version!r}")
    if version > newest:
        raise RecordError(f"{path} has schema version {version}, and this didact reads up to {newest}. Update didact.")


def number(value: Any) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def finite_or_none(value: float) -> float | None:
    """The number as a document has it: None where it is not finite."""
    return float(value) if math.isfinite(value) else None


def required_number(value: Any) -> float:
    """A finite number, else a ValueError."""
    finite = number(value)
    if finite is None:
        raise ValueError(f"{value!r} is not a number")
    return finite


def list_of(value: Any) -> list[Any]:
    """A list, else a TypeError that says what stands there."""
    if not isinstance(value, list):
        raise TypeError(f"a list is expected where {type(value).__name__} {str(value)[:40]!r} stands")
    return value


def plain(value: Any) -> Any:
    """The value as JSON has it: a number that is not finite becomes None, tuples become lists."""
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


Entry = TypeVar("Entry", bound="Fields")


class Fields(Mapping[str, Any]):
    """A base of dataclasses whose fields can also be read by name, `row["gain"]`, and made a dict of."""

    __dataclass_fields__: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)

    @classmethod
    def from_document(cls: type[Entry], document: Mapping[str, Any]) -> Entry:
        """Read the fields by their types. Unknown entries are dropped, absent ones get their defaults.

        Raises KeyError for an absent entry without a default, TypeError or ValueError for one of another type.
        """
        values = {}
        for name, about in cls.__dataclass_fields__.items():
            if name in document or about.default is MISSING:
                values[name] = _typed(about.type, document[name])
        return cls(**values)

    def to_document(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self.items()}


def _typed(kind: Any, value: Any) -> Any:
    """The value of an entry as its field has it. A number that may be unknown becomes None where it is not finite."""
    if kind == float | None:
        return number(value)
    if kind is float:
        return required_number(value)
    if kind == str | None or kind == int | None:
        return value
    if kind is str:
        return "" if value is None else str(value)
    if kind is int or kind is bool:
        return kind(value)
    if kind in (tuple[str, ...], tuple[float, ...]):
        return tuple(map(kind.__args__[0], value or ()))
    return value or ()
