"""Stored JSON documents: a schema version, finite numbers, and dataclass fields converted by their types."""

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

VERSION_KEY: Final = "version"  # the entry with the schema version of a document; 1 if it is missing
NOT_STORED: Final = {"stored": False}  # metadata of a field that is not part of the document
# The exceptions that reading a damaged entry can raise.
DAMAGE_ERRORS: Final = (LookupError, TypeError, ValueError, AttributeError)

T = TypeVar("T")


def save_document(path: Path, document: Mapping[str, object], version: int, *, indent: int | None = None) -> None:
    """Write a document with its schema version and a checksum. The write is atomic."""
    write_json(ensure_parent(path), {**plain(document), VERSION_KEY: version}, indent=indent)


def load_document(
    path: Path, newest: int, read: Callable[[Mapping[str, object]], T], *, advice: str, missing: str = ""
) -> T:
    """Load a document and convert it with `read`.

    A damaged file raises a RecordError that names the file and ends with `advice`. A missing file raises an OptionError
    with the message `missing`, or a FileNotFoundError if `missing` is empty.
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
    """A `read` function for `load_document` that validates a dataclass, with the types of its fields, by pydantic."""
    adapter = TypeAdapter(cls)
    return lambda document: adapter.validate_python({name: document[name] for name in document if name != VERSION_KEY})


def check_version(document: Mapping[str, object], newest: int, path: Path) -> None:
    """Raise RecordError if the document has a later version than this didact supports."""
    version = document.get(VERSION_KEY, 1)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"its version is {version!r}")
    if version > newest:
        raise RecordError(f"{path} has schema version {version}, and this didact reads up to {newest}. Update didact.")


def number(value: object) -> float | None:
    """The value as a float if it is a finite number, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def require_number(value: object) -> float:
    """The value as a float. Raises ValueError if it is not a finite number."""
    finite = number(value)
    if finite is None:
        raise ValueError(f"{value!r} is not a number")
    return finite


def require_list(value: Any) -> list[Any]:
    """The value if it is a list. Raises TypeError otherwise."""
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {type(value).__name__} {str(value)[:40]!r}")
    return value


def plain(value: Any) -> Any:
    """The value as JSON data: a number that is not finite becomes None, a tuple becomes a list."""
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
    """Base class of dataclasses that are converted from and to JSON data, field by field."""

    __dataclass_fields__: dict[str, Field[Any]]

    @classmethod
    def from_document(cls: type[Stored], document: Mapping[str, object]) -> Stored:
        """Convert each entry to the type of its field. Ignores unknown entries and fills in defaults.

        Raises KeyError if an entry without a default is missing, TypeError or ValueError if one has the wrong type.
        """
        values = {}
        for name, field in cls.__dataclass_fields__.items():
            has_default = field.default is not MISSING or field.default_factory is not MISSING
            if _is_stored(field) and (name in document or not has_default):
                values[name] = _typed(field.type, document[name])
        return cls(**values)

    def to_document(self) -> dict[str, object]:
        """The stored fields as JSON data."""
        return {
            name: plain(getattr(self, name)) for name, field in self.__dataclass_fields__.items() if _is_stored(field)
        }


class MappingDocument(Document, Mapping[str, Any]):
    """A document that is also a mapping of its fields: `row["gain"]`, `dict(row)`."""

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
    """Convert an entry to the type of its field. For an optional number, an invalid value becomes None."""
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
