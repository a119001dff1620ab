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
    given = [one if isinstance(one, Row) else _row(index, one) for index, one in enumerate(data)]
    broken = [f"item {index}" for index, row in enumerate(given) if any(map(_is_broken, row.texts))]
    if broken:
        raise DataError(f"{len(broken)} of {len(given)} rows hold characters that no encoding has:", broken)
    rows = _named(given)
    if not rows:
        raise DataError("There is nothing to explain: no rows were given.")
    blank = [row.id for row in rows if row.image is None and not any(text.strip() for text in row.texts)]
    if blank:
        raise DataError(f"{len(blank)} of {len(rows)} rows are empty texts. Leave them out:", blank)
    if len({row.id for row in rows}) < len(rows):
        raise DataError("Two rows share an id; ids must differ, because random draws depend on them.")
    return rows


def _row(index: int, one: Any) -> Row:
    """A row without a name."""
    if isinstance(one, str):
        return Row("", (one,))
    if isinstance(one, tuple | list) and one and all(isinstance(text, str) for text in one):
        return Row("", tuple(one))
    if isinstance(one, np.ndarray) and one.ndim == 3 and one.dtype == np.uint8:
        return Row("", image=one)
    raise DataError(
        f"Item {index} is a {type(one).__name__}. Give rows, texts, pairs of texts, or images as uint8 arrays of "
        "height × width × channel."
    )


def _named(rows: Sequence[Row]) -> Sequence[Row]:
    """Rows without a name are named after what they hold: random draws must not depend on a row's place."""
    seen: dict[str, int] = {}
    found = []
    for row in rows:
        if not isinstance(row.id, str):
            raise DataError(f"The id of a row is a text, not {row.id!r}.")
        if row.id == "":
            name = hashlib.sha256(row.content).hexdigest()[:8]
            seen[name] = seen.get(name, 0) + 1
            row = replace(row, id=name if seen[name] == 1 else f"{name}-{seen[name]}")
        found.append(row)
    return found


def _is_broken(text: str) -> bool:
    return any("\ud800" <= sign <= "\udfff" for sign in text)
