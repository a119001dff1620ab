"""What all stored documents share: a schema version, numbers, and fields that are read and written by their types."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_origin

from pydantic import TypeAdapter

from didact.errors import OptionError, RecordError
from didact.files.atomic import ensure_parent
from didact.files.checksummed import damaged_error, describe_entry_error, read_json, write_json

VERSION_KEY: Final = "version"  # the entry that names the schema of a document; without it, it is 1
NOT_STORED: Final = {"stored": False}  # metadata of a field that is no part of the document
# What reading a damaged entry can raise.
DAMAGE_ERRORS: Final = (LookupError, TypeError, ValueError, AttributeError)

T = TypeVar("T")


def save_document(path: Path, document: Mapping[str, object], version: int, *, indent: int | None = None) -> None:
    """Write a document with its schema version and a checksum, whole or not at all."""
    write_json(ensure_parent(path), {**plain(document), VERSION_KEY: version}, indent=indent)


def load_document(
    path: Path, newest: int, read: Callable[[Mapping[str, object]], T], *, advice: str, missing: str = ""
) -> T:
    """What `read` makes of the document in a file. Damage is a RecordError that names the file and ends with `advice`.

    A file that is not there is an OptionError with the text `missing`, or without one a FileNotFoundError.
    """
    try:
        document = read_json(path, advice=advice)
    except FileNotFoundError:
        if missing:
            raise OptionError(missing) from None
        raise
    try:
        check_version(document, newest, path)
        return read(document)
    except DAMAGE_ERRORS as error:
        raise damaged_error(path, describe_entry_error(error), advice) from error


def validated(cls: type[T]) -> Callable[[Mapping[str, object]], T]:
    """A reader for `load_document` that makes a dataclass by pydantic: every entry must have the type of its field."""
    adapter = TypeAdapter(cls)
    return lambda document: adapter.validate_python({name: document[name] for name in document if name != VERSION_KEY})


def check_version(document: Mapping[str, object], newest: int, path: Path) -> None:
    """A RecordError for a document of a later version than this didact knows."""
    version = document.get(VERSION_KEY, 1)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"its version is {version!r}")
    if version > newest:
        raise RecordError(f"{path} has schema version {version}, and this didact reads up to {newest}. Update didact.")


def number(value: object) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def require_number(value: object) -> float:
    """A finite number, else a ValueError."""
    finite = number(value)
    if finite is None:
        raise ValueError(f"{value!r} is not a number")
    return finite


def require_list(value: Any) -> list[Any]:
    """A list, else a TypeError that says what stands there."""
    if not isinstance(value, list):
        raise TypeError(f"a list is expected where {type(value).__name__} {str(value)[:40]!r} stands")
    return value


def plain(value: Any) -> Any:
    """The value as JSON has it: a number that is not finite becomes None, tuples become lists."""
    if isinstance(value, Document):
        return value.to_document()
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


Stored = TypeVar("Stored", bound="Document")


class Document:
    """A base of dataclasses that are read from and written to JSON, field by field."""

    __dataclass_fields__: dict[str, Field[Any]]

    @classmethod
    def from_document(cls: type[Stored], document: Mapping[str, object]) -> Stored:
        """Read the fields by their types. Unknown entries are dropped, absent ones get their defaults.

        Raises KeyError for an absent entry without a default, TypeError or ValueError for one of another type.
        """
        values = {}
        for name, field in cls.__dataclass_fields__.items():
            has_default = field.default is not MISSING or field.default_factory is not MISSING
            if _is_stored(field) and (name in document or not has_default):
                values[name] = _typed(field.type, document[name])
        return cls(**values)

    def to_document(self) -> dict[str, object]:
        """The fields as JSON has them."""
        return {
            name: plain(getattr(self, name)) for name, field in self.__dataclass_fields__.items() if _is_stored(field)
        }


class MappingDocument(Document, Mapping[str, Any]):
    """A document whose fields can also be read by name, `row["gain"]`, and made a dict of."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)


def _is_stored(field: Field[Any]) -> bool:
    return bool(field.metadata.get("stored", True))


def _typed(annotation: Any, value: Any) -> Any:
    """The value of an entry as its field has it. What may be unknown becomes None where it is no such value."""
    arguments = [option for option in get_args(annotation) if option not in (NoneType, Ellipsis)]
    if NoneType in get_args(annotation):
        if value is None or arguments == [float]:
            return number(value)
        return value if arguments[0] in (str, int, bool) else _typed(arguments[0], value)
    if annotation is float:
        return require_number(value)
    if annotation is str:
        return "" if value is None else str(value)
    if annotation in (int, bool):
        return annotation(value)
    if isinstance(annotation, type) and issubclass(annotation, Document):
        return annotation.from_document(value or {})
    origin = get_origin(annotation)
    if origin is tuple:
        convert = arguments[0] if arguments[0] in (str, float, int) else partial(_typed, arguments[0])
        return tuple(map(convert, value if isinstance(value, tuple) else require_list(value or [])))
    if origin is Mapping:
        return dict(value or {})
    return value or () if origin is Sequence else value
