"""Rows from whatever users have: splits, texts, pairs of texts, images."""

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from didact.core.classes import align_rows
from didact.core.dataset import Dataset, Split
from didact.core.row import Row
from didact.core.teacher import Teacher
from didact.errors import DataError, OptionError, ShapeError

_LOG = logging.getLogger(__name__)
_GOLD = re.compile(r"\btarget\s*=\s*['\"]?gold\b")


def rows_of(teacher: Teacher, data: Any) -> Sequence[Row]:
    """Rows from rows, a split, a text, texts, pairs of texts, or images: as this teacher reads them."""
    rows = named_rows(data)
    expected = "images" if not teacher.task.is_text else "texts"
    if any((row.image is None) == (expected == "images") for row in rows):
        raise ShapeError(f"Teacher {teacher.name!r} does {teacher.task} and reads {expected}, but rows hold none.")
    return rows


def labelled_rows(
    teacher: Teacher, data: Any, rows: Sequence[Row], *, classes: Sequence[Any] | None = None, required: bool
) -> Sequence[Row]:
    """The `rows` that `rows_of` made of `data`, with labels as indices into the teacher's classes.

    Labels that do not fit are an error if they are `required`, and else left out. Plain rows, which know no class
    names, stay as they are.
    """
    source = data.all_rows if isinstance(data, Dataset) else data
    known = Split(source.name, rows, source.classes) if isinstance(source, Split) else rows
    found, note = align_rows(known, teacher.classes, classes=classes, required=required)
    if note is not None:
        _LOG.info("%s", note)
    return found


def asks_for_gold(*methods: Any) -> bool:
    """Whether one of these methods, by name and options, explains the gold label."""
    return any(_GOLD.search(str(method)) for method in methods if isinstance(method, str | Mapping))


def named_rows(data: Any) -> Sequence[Row]:
    """Rows from whatever was given, each with an id of its own."""
    if isinstance(data, Dataset) and data.all_rows is not None:
        data = data.all_rows
    if isinstance(data, Dataset):
        raise OptionError(f"Choose a split of {data.name!r} to explain: data[{'], data['.join(map(repr, data))}].")
    if isinstance(data, str | Row | np.ndarray) or (isinstance(data, tuple) and data and isinstance(data[0], str)):
        data = [data]
    if not isinstance(data, Iterable):
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
