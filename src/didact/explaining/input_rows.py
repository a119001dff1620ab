"""Makes rows to explain from splits, texts, pairs of texts, or images."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from didact.core.classes import align_rows
from didact.core.dataset import Dataset, Split
from didact.core.row import Row
from didact.core.rows import rows_from
from didact.core.teacher import Teacher
from didact.errors import OptionError, ShapeError

_LOG = logging.getLogger(__name__)
_GOLD = re.compile(r"\btarget\s*=\s*['\"]?gold\b")


def rows_for(teacher: Teacher, data: Any) -> Sequence[Row]:
    """Make rows from rows, a split, a text, texts, pairs of texts, or images.

    Raises `ShapeError` if the rows hold texts and the teacher reads images, or the reverse.
    """
    rows = rows_with_ids(data)
    expected = "images" if not teacher.task.is_text else "texts"
    if any((row.image is None) == (expected == "images") for row in rows):
        raise ShapeError(f"Teacher {teacher.name!r} does {teacher.task} and reads {expected}, but some rows hold none.")
    return rows


def labelled_rows(
    teacher: Teacher, data: Any, rows: Sequence[Row], *, classes: Sequence[Any] | None = None, required: bool
) -> Sequence[Row]:
    """Map the labels of `rows`, which `rows_for` made from `data`, to indices of the teacher's classes.

    Labels that match no class are an error if `required`, and removed otherwise. Plain rows have no class names and
    stay as they are.
    """
    source = data.all_rows if isinstance(data, Dataset) else data
    named_split = Split(source.name, rows, source.classes) if isinstance(source, Split) else rows
    aligned, note = align_rows(named_split, teacher.classes, classes=classes, required=required)
    if note is not None:
        _LOG.info("%s", note)
    return aligned


def explains_gold_label(*methods: Any) -> bool:
    """True if the spec of one of these methods sets target=gold."""
    return any(_GOLD.search(str(method)) for method in methods if isinstance(method, str | Mapping))


def rows_with_ids(data: Any) -> Sequence[Row]:
    """Make rows from any of the inputs above, each with a unique id."""
    if isinstance(data, Dataset) and data.all_rows is not None:
        data = data.all_rows
    if isinstance(data, Dataset):
        raise OptionError(f"Choose a split of {data.name!r} to explain: data[{'], data['.join(map(repr, data))}].")
    return rows_from(data)
