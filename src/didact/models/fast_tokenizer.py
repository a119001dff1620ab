"""Rows tokenized by a fast tokenizer of transformers, with the characters that each token covers."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from didact.core.batch import TokenizedRow
from didact.core.row import Row
from didact.core.task import Task
from didact.errors import ShapeError, UnsupportedError
from didact.models.tokenizer import trim_whitespace

_LOCK: Final = threading.RLock()  # truncation and padding are state of the tokenizer, which threads share


def tokenize_rows(
    tokenizer: Any, rows: Sequence[Row], *, task: Task, name: str, max_length: int | None, has_types: bool
) -> list[TokenizedRow]:
    """Tokenize rows, truncated to `max_length` if given; in a reading task only the passage is truncated.

    `name` is the model's, for messages. `has_types`: whether the model reads `token_type_ids`. Raises a `ShapeError` if
    rows have the wrong number of texts, and an `UnsupportedError` if a question alone is too long.
    """
    options: dict[str, object] = {"return_offsets_mapping": True, "verbose": False}
    if max_length is not None:
        options |= {"truncation": task.truncation, "max_length": max_length}
    columns = _text_columns(rows, task, name)
    try:
        with _LOCK, preserved_truncation(tokenizer):
            encoded = tokenizer(*columns, **options)
    except Exception as error:
        if "runcation error" not in str(error):
            raise
        raise UnsupportedError(
            f"A question alone is longer than the {max_length} tokens that model {name!r} reads, and only passages "
            "are truncated. Shorten the question, or increase max_length."
        ) from error
    types = encoded.get("token_type_ids") if has_types else None
    tokenized_rows = [
        TokenizedRow(
            tokens=np.array(encoded["input_ids"][index], dtype=np.int64),
            segments=np.array(
                [-1 if segment is None else segment for segment in encoded.sequence_ids(index)], dtype=np.int64
            ),
            offsets=np.array(encoded["offset_mapping"][index], dtype=np.int64).reshape(-1, 2),
            types=None if types is None else np.array(types[index], dtype=np.int64),
        )
        for index in range(len(rows))
    ]
    for row, tokenized_row in zip(rows, tokenized_rows, strict=True):
        trim_whitespace(row.texts, tokenized_row)
    return tokenized_rows


def _text_columns(rows: Sequence[Row], task: Task, name: str) -> list[list[str]]:
    """The first texts of all rows, and the second ones if rows have two."""
    counts = {len(row.texts) for row in rows}
    if len(counts) > 1 or not counts <= set(range(task.fewest_texts, len(task.segments) + 1)):
        hint = " Load the model with task='pair' if it reads two texts." if len(task.segments) == 1 else ""
        raise ShapeError(
            f"The task of model {name!r} is {task}, which reads {' and '.join(task.segments)}; "
            f"the rows have {' or '.join(map(str, sorted(counts)))} texts.{hint}"
        )
    return [list(texts) for texts in zip(*(row.texts for row in rows), strict=True)]


def check_fast_tokenizer(tokenizer: Any, name: str, advice: str) -> None:
    """Raise an `UnsupportedError` for a slow tokenizer, which has no character offsets."""
    if not getattr(tokenizer, "is_fast", False):
        raise UnsupportedError(
            f"The tokenizer of {name!r} is {type(tokenizer).__name__}, which does not report the characters of a "
            f"token. {advice}"
        )


def padding_token(config: Any, tokenizer: Any) -> int:
    """The padding token, by default 0: padding is masked, so any token will do."""
    tokens = (getattr(source, "pad_token_id", None) for source in (config, tokenizer))
    return next((token for token in tokens if isinstance(token, int) and token >= 0), 0)


@contextmanager
def preserved_truncation(tokenizer: Any) -> Iterator[None]:
    """Restore truncation and padding afterwards: a call to a fast tokenizer changes them permanently."""
    backend = tokenizer.backend_tokenizer
    truncation, padding = backend.truncation, backend.padding
    try:
        yield
    finally:
        backend.no_truncation() if truncation is None else backend.enable_truncation(**truncation)
        backend.no_padding() if padding is None else backend.enable_padding(**padding)


def tokenizer_config(tokenizer: Any) -> dict[str, object]:
    """A fast tokenizer or image processor as plain values, without the truncation and padding of its last call."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    config: dict[str, object] = tokenizer.to_dict() if backend is None else json.loads(backend.to_str())
    return {key: value for key, value in config.items() if key not in ("truncation", "padding")}
