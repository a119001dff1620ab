"""Rows of tokens and scores from other tools, before they are matched with the data, and their faults."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.core.row import Span
from didact.registry import python_number


class Fault(ValueError):  # noqa: N818
    """One fault of one row. Callers of this package see `DataError`, which collects many of them."""


@dataclass(frozen=True, eq=False)
class ParsedRow:
    """One row of another tool. `where` is its location for messages (`line 3`); `id` is None if the source has no ids.

    `segments` give the text of each token, -1 for no text. `spans` are given if tokens are those of the data's own
    texts. A target or prediction that is a number is a class.
    """

    where: str
    id: str | None
    tokens: Sequence[str]
    scores: Float[np.ndarray, " token"]
    segments: Sequence[int] | None = None
    spans: Sequence[Span] | None = None
    target: str | int | None = None
    prediction: str | int | None = None


@dataclass(eq=False)
class ParsedFile:
    """All rows of a source. `is_marked` says that scores are marks, 0 or 1."""

    name: str
    rows: list[ParsedRow] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    method: str | None = None
    teacher: str = ""
    is_marked: bool = False

    @contextmanager
    def reading(self, where: str, id: str | None = None) -> Iterator[None]:
        """A context that collects a `Fault` raised while a row is read."""
        try:
            yield
        except Fault as error:
            self.add_fault(where, error, id)

    def add_fault(self, where: str, reason: object, id: str | None = None) -> None:
        self.faults.append(f"{self.name} {where}{'' if id is None else f' (row {id!r})'}: {reason}")


@dataclass(frozen=True, eq=False)
class ImportOptions:
    """Options of the caller: a target, token lists (or a file of them), a kind."""

    target: str | int | None = None
    tokens: Any = None
    kind: str | None = None


def required(record: Any, key: str) -> Any:
    """The value of a key. Raises `Fault` if it is missing."""
    if not isinstance(record, dict):
        raise Fault(f"must be an object with {key!r}, got {short_repr(record)}")
    if record.get(key) is None:
        raise Fault(f"has no {key!r}; it has {', '.join(map(repr, record)) or 'nothing'}")
    return record[key]


def numbers(value: Any, name: str) -> Float[np.ndarray, " token"]:
    """A vector of numbers. They may be infinite or NaN; `align_rows` checks them with the name of the token."""
    array = float_array(value, name)
    if array.ndim != 1:
        raise Fault(f"{name} must be one number per token, got the shape {array.shape}")
    return array


def integers(value: Any, name: str) -> list[int]:
    values = numbers(value, name)
    wrong = values[~((np.abs(values) < 2**53) & (values == np.floor(values)))]
    if len(wrong):
        raise Fault(f"{name} must be integers, got {wrong[0]:g}")
    return [int(number) for number in values]


def float_array(value: Any, name: str) -> Float[np.ndarray, "..."]:
    """An array of numbers of any shape, from lists, numpy or torch."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    if isinstance(value, str | bytes) or not (hasattr(value, "__len__") or hasattr(value, "__array__")):
        raise Fault(f"{name} must be numbers, got {short_repr(value)}")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise Fault(f"{name} must be one number per token, got lists of different lengths") from None
    if array.size == 0:
        return np.zeros(array.shape)
    if array.dtype == object or array.dtype.kind not in "iuf":
        raise Fault(f"{name} must be numbers, got {_kind(array)}")
    return array.astype(np.float64)


def token_list(value: Any, name: str = "'tokens'") -> tuple[str, ...]:
    """The tokens of a list or array."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise Fault(f"{name} must be a list of tokens, got {short_repr(value)}")
    wrong = [item for item in value if not isinstance(item, str)]
    if wrong:
        raise Fault(f"{name} must contain only tokens, got {short_repr(wrong[0])}")
    return tuple(value)


def optional_id(value: Any, key: str) -> str | None:
    """An id as text, or None if it is missing or empty."""
    value = python_number(value)
    if value is None or (isinstance(value, str) and not value):
        return None
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise Fault(f"{key!r} must be a text or an integer, got {short_repr(value)}")
    return str(value)


def short_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def _kind(array: np.ndarray) -> str:
    if array.dtype == object:
        wrong = next((item for item in array.flat if isinstance(item, bool) or not isinstance(item, int | float)), None)
        return "lists of different lengths" if isinstance(wrong, list | np.ndarray) else short_repr(wrong)
    return {"U": "text", "S": "bytes", "b": "true and false", "c": "complex numbers"}.get(array.dtype.kind, "others")
