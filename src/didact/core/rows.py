"""Rows from whatever users have: rows, texts, pairs of texts, images."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from didact.core.row import Row
from didact.errors import DataError

# What `Teacher.predict` accepts: rows, or what `rows_from` makes rows of.
Rows: TypeAlias = Sequence[Row] | Sequence[Any] | str | np.ndarray


def as_rows(data: Any) -> Sequence[Row]:
    """A sequence of rows unchanged, ids and all; anything else as `rows_from` reads it."""
    if isinstance(data, Sequence) and not isinstance(data, str) and all(isinstance(item, Row) for item in data):
        return data
    return rows_from(data)


def rows_from(data: Any) -> Sequence[Row]:
    """Rows from rows, a text, texts, pairs of texts or images, each with an id of its own."""
    if isinstance(data, str | Row | np.ndarray) or (isinstance(data, tuple) and data and isinstance(data[0], str)):
        data = [data]
    if isinstance(data, Mapping):
        splits = ", ".join(f"data[{name!r}]" for name in list(data)[:5])
        raise DataError(f"Rows were expected, not a {type(data).__name__} of several splits. Choose one: {splits}.")
    if isinstance(data, Set):
        raise DataError(f"A {type(data).__name__} has no order, and rows have one. Give a list.")
    if isinstance(data, bytes) or not isinstance(data, Iterable):
        raise DataError(f"Rows, texts, pairs of texts or images were expected, not {type(data).__name__}.")
    unnamed = [item if isinstance(item, Row) else _unnamed_row(index, item) for index, item in enumerate(data)]
    broken = [f"item {index}" for index, row in enumerate(unnamed) if any(map(_has_surrogates, row.texts))]
    if broken:
        raise DataError(f"{len(broken)} of {len(unnamed)} rows hold characters that no encoding has:", broken)
    rows = _with_ids(unnamed)
    if not rows:
        raise DataError("There is nothing to explain: no rows were given.")
    empty = [row.id for row in rows if row.image is None and not any(text.strip() for text in row.texts)]
    if empty:
        raise DataError(f"{len(empty)} of {len(rows)} rows are empty texts. Leave them out:", empty)
    if len({row.id for row in rows}) < len(rows):
        raise DataError("Two rows share an id; ids must differ, because random draws depend on them.")
    return rows


def _unnamed_row(index: int, item: Any) -> Row:
    """A row without a name."""
    if isinstance(item, str):
        return Row("", (item,))
    if isinstance(item, tuple | list) and item and all(isinstance(text, str) for text in item):
        return Row("", tuple(item))
    if isinstance(item, np.ndarray) and item.ndim == 3 and item.dtype == np.uint8:
        return Row("", image=item)
    raise DataError(
        f"Item {index} is a {type(item).__name__}. Give rows, texts, pairs of texts, or images as uint8 arrays of "
        "height × width × channel."
    )


def _with_ids(rows: Sequence[Row]) -> Sequence[Row]:
    """Rows without a name are named after what they hold: random draws must not depend on a row's place."""
    counts: dict[str, int] = {}
    named = []
    for row in rows:
        if not isinstance(row.id, str):
            raise DataError(f"The id of a row is a text, not {row.id!r}.")
        if row.id == "":
            digest = hashlib.sha256(row.content).hexdigest()[:8]
            counts[digest] = counts.get(digest, 0) + 1
            row = replace(row, id=digest if counts[digest] == 1 else f"{digest}-{counts[digest]}")
        named.append(row)
    return named


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
