"""Format `arrays`: scores with lists of tokens, in `.npz` archives or as numpy and torch tensors (captum's, too).

`scores` are rows × tokens, padded at the end, or all rows concatenated, with `lengths`. `tokens` are text arrays of the
same shape, or lists. `ids`, `segments` (the text of each token) and `targets` are optional.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.core.row import Row
from didact.errors import DataError
from didact.importers.files import arrays, document
from didact.importers.parsed import (
    Fault,
    ImportOptions,
    ParsedFile,
    ParsedRow,
    integers,
    numbers,
    optional_id,
    short_repr,
    token_list,
)
from didact.registry import python_number

KEYS = ("scores", "tokens", "lengths", "ids", "segments", "targets")


def read(source: Any, name: str, rows: Sequence[Row], options: ImportOptions) -> ParsedFile:  # noqa: ARG001
    """Read scores. `options.tokens` are the token lists, or a JSON file of them, if the archive has none."""
    fields = dict(source) if isinstance(source, Mapping) else arrays(source) if isinstance(source, Path) else None
    if fields is None:
        if not isinstance(source, Sequence) or not source:
            raise DataError(f"{name} is a {type(source).__name__}. Pass (scores, tokens), or an archive.")
        scores, *rest = source
        fields = {"scores": scores, **({"tokens": rest[0]} if rest else {})}
    unknown = [key for key in fields if key not in KEYS]
    if unknown or "scores" not in fields:
        raise DataError(
            f"{name} has {', '.join(map(repr, fields)) or 'no arrays'}. Scores are read from 'scores', "
            f"with the optional {', '.join(map(repr, KEYS[1:]))}."
        )
    parsed = ParsedFile(name)
    scores, lists, widest = scored_tokens(fields, options.tokens, name, "scores", "tokens")
    columns = {
        key: in_rows(fields[key], fields.get("lengths") if key == "segments" else None, f"{name} {key!r}")
        for key in ("ids", "segments", "targets")
        if fields.get(key) is not None
    }
    for key, column in columns.items():
        if len(column) != len(scores):
            raise DataError(f"{name} has scores for {len(scores)} rows, but {key!r} for {len(column)}.")
    for number, (row_scores, tokens) in enumerate(zip(scores, lists, strict=True)):
        where, id = f"row {number + 1}", None
        try:
            id = optional_id(columns["ids"][number], "ids") if "ids" in columns else None
            words, segments = token_list(tokens), None
            target = python_number(columns["targets"][number]) if "targets" in columns else None
            values = without_padding(numbers(row_scores, "scores"), len(words), widest)
            if "segments" in columns:
                segments = integers(columns["segments"][number], "'segments'")[: len(words)]
            parsed.rows.append(ParsedRow(where, id, words, values, segments, None, target, None))
        except Fault as error:
            parsed.add_fault(where, error, id)
    return parsed


def scored_tokens(
    fields: Mapping[str, Any], token_lists: Any, name: str, scores: str, tokens: str
) -> tuple[Sequence[Any], Sequence[Any], int | None]:
    """The scores and the tokens of each row, and the number of tokens of the longest row if scores are padded."""
    score_rows = in_rows(fields[scores], fields.get("lengths"), f"{name} {scores!r}")
    lists = _token_lists(fields, token_lists, name, count=len(score_rows), key=tokens)
    return score_rows, lists, max(map(len, lists), default=0) if getattr(fields[scores], "ndim", 1) > 1 else None


def _token_lists(fields: Mapping[str, Any], token_lists: Any, name: str, *, count: int, key: str) -> Sequence[Any]:
    """The tokens of each row, from the archive, the caller or a JSON file."""
    if token_lists is None and fields.get(key) is None:
        raise DataError(
            f"{name} has no {key!r}, so its scores cannot be placed in the texts. Pass tokens=[[…], …], or "
            "tokens='tokens.json'."
        )
    if isinstance(token_lists, str | Path):
        token_lists = document(Path(token_lists))
    lists = in_rows(fields[key], fields.get("lengths"), f"{name} {key!r}") if token_lists is None else token_lists
    if isinstance(lists, str) or not isinstance(lists, Sequence):
        raise DataError(f"Tokens must be one list per row, not {type(lists).__name__}.")
    if len(lists) != count:
        raise DataError(f"{name} has scores for {count} rows, but tokens for {len(lists)}. Each row needs both.")
    for tokens in lists:
        if isinstance(tokens, str) or not hasattr(tokens, "__len__"):
            raise DataError(f"Tokens must be one list per row, but one row has {short_repr(tokens)}.")
    return lists


def without_padding(
    scores: Float[np.ndarray, "wide ..."], tokens: int, widest: int | None
) -> Float[np.ndarray, "token ..."]:
    """The scores of the tokens without padding.

    `widest` is the number of tokens of the longest row. Scores beyond the tokens are padding if the longest row fills
    the array, or if they are all 0. Otherwise raises `Fault`.
    """
    if widest is None or len(scores) <= tokens:
        return scores
    if widest < len(scores) and np.nan_to_num(scores[tokens:]).any():
        raise Fault(f"has {tokens} tokens and {len(scores)} scores, and the scores in the padding are not 0")
    return scores[:tokens]


def in_rows(value: Any, lengths: Any, name: str) -> Sequence[Any]:
    """One entry per row, from a list, an array, or all rows concatenated and split by `lengths`."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    if lengths is not None:
        return _split_by_length(value, lengths, name)
    if isinstance(value, np.ndarray) and value.dtype == object and value.ndim > 1:
        raise DataError(f"{name} must be numbers or text, got Python objects.")
    if isinstance(value, str | dict) or not hasattr(value, "__len__") or getattr(value, "ndim", 1) < 1:
        raise DataError(f"{name} must have one entry per row, not {value!r}.")
    return value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind == "U" else list(value)


def _split_by_length(value: Any, lengths: Any, name: str) -> Sequence[Any]:
    try:
        sizes = np.array(integers(lengths, "lengths"), dtype=np.int64)
    except Fault as error:
        raise DataError(f"{name}: {error}.") from None
    flat = value if isinstance(value, np.ndarray) else np.array(value)
    count = len(flat) if flat.ndim else 0
    if (sizes < 0).any() or sizes.sum() != count:
        raise DataError(
            f"{name} has {count} entries, but 'lengths' {short_repr(sizes.tolist())} add up to {sizes.sum()}."
        )
    return [
        entries.tolist() if entries.dtype.kind == "U" else entries for entries in np.split(flat, np.cumsum(sizes)[:-1])
    ]
