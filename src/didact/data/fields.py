"""Readers of single fields of a record, with checks of type, class and range.

Each function returns the value or raises `FieldError`, which names the field; `rows.py` adds the file and the line.
"""

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from jaxtyping import UInt8

from didact.core.row import Box, Span
from didact.data.table import Record


class FieldError(ValueError):
    """One fault of one record. Callers of this package see `DataError`, which collects many of them."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"field {field!r} {problem}")


def text(record: Record, field: str) -> str:
    return checked_text(_required(record, field), field)


def checked_text(value: Any, field: str) -> str:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise FieldError(field, "is empty")
    if not isinstance(value, str):
        raise FieldError(field, f"must be a text, got {short_repr(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise FieldError(field, f"holds half a surrogate pair at character {error.start}") from None
    return value


def row_id(record: Record, field: str = "id") -> str:
    """The id as text. Empty if the record has no id; `rows.py` then makes one from split and line."""
    value = record.get(field)
    if value is None or value == "":
        return ""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise FieldError(field, f"must be a text or an integer, got {short_repr(value)}")
    return checked_text(str(value), field)


def label(record: Record, field: str, classes: Sequence[str]) -> int | None:
    """The class index of a class name or index. None, for no label, if the field is empty or -1."""
    value = _required(record, field)
    if value is None or value == -1:
        return None
    if isinstance(value, str) and value in classes:
        return classes.index(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(classes):
        return value
    raise FieldError(field, f"holds {short_repr(value)}, which is not one of the classes {join_names(classes)}")


def number(record: Record, field: str) -> float:
    return checked_number(_required(record, field), field)


def checked_number(value: Any, field: str) -> float:
    if isinstance(value, str):  # CSV
        try:
            value = float(value)
        except ValueError:
            raise FieldError(field, f"must be a number, got {short_repr(value)}") from None
    try:
        if not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    except OverflowError:  # an integer too large for a float
        pass
    raise FieldError(field, f"must be a finite number, got {short_repr(value)}")


def marks(record: Record, field: str, *, length: int) -> list[bool]:
    """A list of 0 and 1 for `length` tokens, as booleans."""
    value = to_builtin(_required(record, field))
    if not are_marks(value):
        raise FieldError(field, f"must be a list of 0 and 1, got {short_repr(value)}")
    if len(value) != length:
        raise FieldError(field, f"has {len(value)} marks for {length} whitespace tokens")
    return [bool(mark) for mark in value]


def are_marks(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(mark, int | float) and mark in (0, 1) for mark in value)


def tokens(text: str, segment: int = 0) -> list[Span]:
    """The whitespace tokens of a text."""
    return [Span(segment, *token.span()) for token in re.finditer(r"\S+", text)]


def marked_tokens(text: str, marks: Sequence[bool], segment: int = 0) -> tuple[Span, ...]:
    """The spans of the marked whitespace tokens."""
    return tuple(token for token, mark in zip(tokens(text, segment), marks, strict=True) if mark)


def majority(lists: Sequence[Sequence[bool]]) -> list[bool]:
    """For each position, whether more than half of the lists mark it."""
    return [2 * sum(votes) > len(lists) for votes in zip(*lists, strict=True)]


def span(value: Any, texts: Sequence[str], field: str, *, segment: int | None = None) -> Span:
    """A span from `[start, end]` in characters, or `[segment, start, end]`; the end is exclusive.

    `segment` is the text that a span without a segment belongs to. With None, the segment must be written.
    """
    indices = to_builtin(value)
    if (
        not isinstance(indices, list | tuple)
        or not all(isinstance(index, int) for index in indices)
        or len(indices) not in (2, 3)
    ):
        raise FieldError(field, f"must be a span [start, end] or [segment, start, end], got {short_repr(value)}")
    if len(indices) == 2:
        if segment is None:
            raise FieldError(field, f"holds {short_repr(value)}; a row has two texts, so write [segment, start, end]")
        indices = [segment, *indices]
    parsed = Span(*indices)
    if not 0 <= parsed.segment < len(texts):
        raise FieldError(field, f"holds {short_repr(value)}, but a row has the segments 0 to {len(texts) - 1}")
    length = len(texts[parsed.segment])
    if parsed.start >= parsed.end:
        raise FieldError(field, f"holds the span {parsed.start} to {parsed.end}, whose start is not before its end")
    if parsed.start < 0 or parsed.end > length:
        raise FieldError(
            field, f"holds the span {parsed.start} to {parsed.end}, outside its text of {length} characters"
        )
    return parsed


def rationale(record: Record, field: str, texts: Sequence[str]) -> tuple[Span, ...] | None:
    """The rationale, from spans or from 0/1 for each whitespace token of all texts. None if the field is empty."""
    value = parse_list(record.get(field), field)
    if value is None:
        return None
    if not isinstance(value, list):
        raise FieldError(field, f"must be a list of spans or of 0 and 1, got {short_repr(value)}")
    if value and are_marks(value):
        all_tokens = [token for segment, item in enumerate(texts) for token in tokens(item, segment)]
        if len(value) != len(all_tokens):
            raise FieldError(field, f"has {len(value)} marks for {len(all_tokens)} whitespace tokens")
        return tuple(token for token, mark in zip(all_tokens, value, strict=True) if mark)
    default_segment = 0 if len(texts) == 1 else None
    return tuple(span(item, texts, field, segment=default_segment) for item in value)


def boxes(record: Record, field: str, shape: tuple[int, ...]) -> tuple[Box, ...] | None:
    """Boxes from lists of `[top, left, bottom, right]` in pixels, ends exclusive. None if the field is empty."""
    value = parse_list(record.get(field), field)
    if value is None:
        return None
    parsed = []
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, list) or len(item) != 4 or not all(isinstance(coordinate, int) for coordinate in item):
            raise FieldError(field, f"must be a box [top, left, bottom, right], got {short_repr(item)}")
        box = Box(*item)
        if not (0 <= box.top < box.bottom <= shape[0] and 0 <= box.left < box.right <= shape[1]):
            raise FieldError(
                field, f"holds the box {short_repr(item)}, outside its image of {shape[0]} × {shape[1]} pixels"
            )
        parsed.append(box)
    return tuple(parsed)


def answers(record: Record, field: str, texts: Sequence[str]) -> tuple[Span, ...]:
    """Acceptable answers in the passage, from spans, from their texts, or from SQuAD's `{"text", "answer_start"}`."""
    value = parse_list(record.get(field), field)
    if isinstance(value, dict):
        starts, answer_texts = value.get("answer_start"), value.get("text")
        if not isinstance(starts, list) or not isinstance(answer_texts, list) or len(starts) != len(answer_texts):
            raise FieldError(
                field, f"holds {short_repr(value)}; SQuAD's form has lists 'text' and 'answer_start' of equal length"
            )
        if not all(type(start) is int for start in starts) or not all(
            isinstance(answer, str) for answer in answer_texts
        ):
            raise FieldError(field, f"holds {short_repr(value)}; SQuAD's form has texts, and integers as their starts")
        value = [[start, start + len(answer)] for start, answer in zip(starts, answer_texts, strict=True)]
    if value is None:
        return ()
    if isinstance(value, str) or (
        isinstance(value, list) and len(value) == 2 and all(isinstance(index, int) for index in value)
    ):
        value = [value]
    if not isinstance(value, list):
        raise FieldError(field, f"must be a list of answers, got {short_repr(value)}")
    return tuple(dict.fromkeys(_answer(item, texts, field) for item in value))


def image(record: Record, field: str) -> UInt8[np.ndarray, "height width channel"]:
    """Pixels as bytes, from an array, nested lists, a PIL image, or the bytes of an image file."""
    value = _required(record, field)
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
        value = _decode_image(value["bytes"], field)
    try:
        pixels = np.asarray(value)
    except ValueError:
        raise FieldError(field, f"must be an image, got {short_repr(value)}") from None
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.size == 0 or pixels.dtype.kind not in "iu":
        raise FieldError(
            field, f"has shape {pixels.shape} and type {pixels.dtype}; an image is height × width × channel"
        )
    if pixels.min() < 0 or pixels.max() > 255:
        raise FieldError(field, f"must be bytes (0 to 255), got values from {pixels.min()} to {pixels.max()}")
    return pixels.astype(np.uint8, copy=False)


_MAX_PIXELS: Final = 50_000_000  # 150 MB decoded


def _decode_image(content: bytes, field: str) -> Any:
    """An image file as a PIL image. Checks the size before decoding."""
    import io
    import struct
    import warnings
    import zlib

    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            opened = Image.open(io.BytesIO(content))
        if opened.width * opened.height > _MAX_PIXELS:
            raise FieldError(
                field,
                f"holds an image of {opened.width:,} × {opened.height:,} pixels; the limit is {_MAX_PIXELS:,}",
            )
        return opened.convert("RGB")
    except FieldError:
        raise
    except Image.DecompressionBombError:
        raise FieldError(field, f"holds an image of more than {_MAX_PIXELS:,} pixels, the limit") from None
    except (OSError, ValueError, SyntaxError, EOFError, struct.error, zlib.error) as error:
        raise FieldError(field, f"cannot be read as an image: {error}") from None


def parse_list(value: Any, field: str) -> Any:
    """A list, parsed from JSON if it is text (as in CSV). None if the value is empty."""
    if value is None or (isinstance(value, str) and not value):
        return None
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise FieldError(field, f"holds {short_repr(value)}, which is not JSON") from None
    return to_builtin(value)


def to_builtin(value: Any, depth: int = 0) -> Any:
    """Arrays as nested lists and array scalars as numbers. Lists nested deeper than `_MAX_DEPTH` are cut."""
    if hasattr(value, "tolist"):
        return to_builtin(value.tolist(), depth)
    if isinstance(value, list | tuple):
        if depth >= _MAX_DEPTH:
            return "…"
        return [item if isinstance(item, int | float | str) else to_builtin(item, depth + 1) for item in value]
    return value


_MAX_DEPTH: Final = 16  # levels of nested lists


def short_repr(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = "lists nested too deep"
    except ValueError:  # Python does not print integers of more than 4,300 digits
        text = f"a {type(value).__name__} too long to print"
    return text if len(text) <= 60 else text[:57] + "…"


def join_names(names: Sequence[str], limit: int = 12) -> str:
    suffix = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + suffix


def _required(record: Record, field: str) -> Any:
    if field not in record:
        raise FieldError(field, "is missing")
    return record[field]


def _answer(value: Any, texts: Sequence[str], field: str) -> Span:
    if not isinstance(value, str):
        return span(value, texts, field, segment=1)
    start = texts[1].find(value) if value else -1
    if start < 0:
        raise FieldError(field, f"holds the answer {short_repr(value)}, which is not in the passage")
    return Span(1, start, start + len(value))
