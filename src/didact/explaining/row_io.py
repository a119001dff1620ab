"""Saves rows in files with all their fields, for other processes to load."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from didact.core.row import Box, Row, Span
from didact.files.table_io import Table, read_table, write_table

_ROWS: Final = {"facts": "string", "image": "binary", "shape": "list int64"}
_ANSWERS: Final = {"answer": "list float64"}


def save_rows(path: Path, rows: Sequence[Row], answers: Float[np.ndarray, "row value"] | None = None) -> None:
    """Save the rows with labels and rationales, which some targets and methods need.

    `answers` are those of the teacher, if known.
    """
    records = [
        [row.id, row.texts, row.label, row.rationale, row.alignments]
        + ([] if row.rationale_weights is None else [row.rationale_weights])
        for row in rows
    ]
    images = [row.image for row in rows]
    columns: dict[str, list[Any]] = {
        "facts": [json.dumps(record, ensure_ascii=False) for record in records],
        "image": [None if image is None else image.tobytes() for image in images],
        "shape": [None if image is None else list(image.shape) for image in images],
    }
    if answers is not None:
        columns["answer"] = [values.tolist() for values in answers]
    write_table(path, Table(columns, {}), types=_ROWS if answers is None else _ROWS | _ANSWERS)


def load_rows(path: Path) -> tuple[Row, ...]:
    """Load the rows that `save_rows` saved."""
    columns = read_table(path).columns
    return tuple(map(_row, columns["facts"], columns["image"], columns["shape"]))


def read_answers(path: Path) -> Float[np.ndarray, "row value"] | None:
    """Load the answers that `save_rows` saved with the rows; None if it saved none."""
    answers = read_table(path).columns.get("answer")
    return None if answers is None else np.array(answers, dtype=np.float64)


def _row(record: str, image: bytes | None, shape: Sequence[int] | None) -> Row:
    name, texts, label, rationale, alignments, *weights = json.loads(record)
    pixels = None if image is None else np.frombuffer(image, dtype=np.uint8).reshape(shape or ()).copy()
    marked: Any = (
        None if rationale is None else tuple((Span if len(values) == 3 else Box)(*values) for values in rationale)
    )
    pairs = None if alignments is None else tuple((Span(*first), Span(*second)) for first, second in alignments)
    answer = tuple(Span(*values) for values in label) if isinstance(label, list) else label
    true_scores = tuple(weights[0]) if weights else None
    return Row(name, tuple(texts), pixels, answer, marked, pairs, rationale_weights=true_scores)
