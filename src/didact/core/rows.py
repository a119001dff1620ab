"""Rows from rows, texts, pairs of texts or images."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from didact.core.row import Row
from didact.errors import DataError

# What `Teacher.predict` accepts: rows, or anything that `rows_from` converts.
Rows: TypeAlias = Sequence[Row] | Sequence[Any] | str | np.ndarray


def as_rows(data: Any) -> Sequence[Row]:
    """A sequence of rows unchanged; anything else converted by `rows_from`."""
    if isinstance(data, Sequence) and not isinstance(data, str) and all(isinstance(item, Row) for item in data):
        return data
    return rows_from(data)


def rows_from(data: Any) -> Sequence[Row]:
    """Convert a row, a text, an image, or several rows, texts, pairs of texts or images to rows with distinct ids.

    Raises `DataError` for anything else, for empty texts, and for ids that occur twice.
    """
    if isinstance(data, str | Row | np.ndarray) or (isinstance(data, tuple) and data and isinstance(data[0], str)):
        data = [data]
    if isinstance(data, Mapping):
        splits = ", ".join(f"data[{name!r}]" for name in list(data)[:5])
        raise DataError(f"Expected rows, got a {type(data).__name__} of several splits. Choose one: {splits}.")
    if isinstance(data, Set):
        raise DataError(f"Rows must be ordered, got a {type(data).__name__}. Pass a list.")
    if isinstance(data, bytes) or not isinstance(data, Iterable):
        raise DataError(f"Expected rows, texts, pairs of texts or images, got {type(data).__name__}.")
    unnamed = [item if isinstance(item, Row) else _unnamed_row(index, item) for index, item in enumerate(data)]
    broken = [f"item {index}" for index, row in enumerate(unnamed) if any(map(_has_surrogates, row.texts))]
    if broken:
        raise DataError(f"{len(broken)} of {len(unnamed)} rows contain characters that cannot be encoded:", broken)
    rows = _with_ids(unnamed)
    if not rows:
        raise DataError("There is nothing to explain: no rows were given.")
    empty = [row.id for row in rows if row.image is None and not any(text.strip() for text in row.texts)]
    if empty:
        raise DataError(f"{len(empty)} of {len(rows)} rows are empty texts. Remove them:", empty)
    if len({row.id for row in rows}) < len(rows):
        raise DataError("Two rows share an id; ids must differ, because random draws depend on them.")
    return rows


def _unnamed_row(index: int, item: Any) -> Row:
    """A row without an id."""
    if isinstance(item, str):
        return Row("", (item,))
    if isinstance(item, tuple | list) and item and all(isinstance(text, str) for text in item):
        return Row("", tuple(item))
    if isinstance(item, np.ndarray) and item.ndim == 3 and item.dtype == np.uint8:
        return Row("", image=item)
    raise DataError(
        f"Item {index} is a {type(item).__name__}. Pass rows, texts, pairs of texts, or images as uint8 arrays of "
        "shape height × width × channel."
    )


def _with_ids(rows: Sequence[Row]) -> Sequence[Row]:
    """Fill in missing ids with a hash of the content, so that random draws do not depend on a row's index."""
    counts: dict[str, int] = {}
    named = []
    for row in rows:
        if not isinstance(row.id, str):
            raise DataError(f"The id of a row must be a string, got {row.id!r}.")
        if row.id == "":
            digest = hashlib.sha256(row.content).hexdigest()[:8]
            counts[digest] = counts.get(digest, 0) + 1
            row = replace(row, id=digest if counts[digest] == 1 else f"{digest}-{counts[digest]}")
        named.append(row)
    return named


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
