"""Readers of JSON, JSON lines and NumPy archives of other tools. They never unpickle.

A damaged file raises `DataError`. Damaged lines are reported with all other faults.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from didact.errors import DataError
from didact.files.unpack import first_line, gunzip, read_archive
from didact.importers.parsed import ParsedFile, short_repr


def content_of(path: Path) -> str:
    """The text of a file, gzipped or not."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gunzip(content, str(path))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is cut off, or its gzip data are damaged ({first_line(error)}).") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    if not content.strip():
        raise DataError(f"{path} is empty. Write the file again.")
    try:
        return content.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(f"{path} line {line}: byte {error.start + 1} of the file is not UTF-8.") from None


def document(path: Path) -> Any:
    """One JSON document."""
    try:
        return json.loads(content_of(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path} is cut off or broken: it is not valid JSON ({first_line(error)}). Write or copy it again."
        ) from None


def records(source: Any, parsed: ParsedFile) -> list[tuple[str, dict[str, object]]]:
    """The records of a file or list, each with its location. Faults are added to `parsed`."""
    if not isinstance(source, Path):
        return _objects(source, "row", parsed)
    content = content_of(source)
    if content.lstrip().startswith("["):
        return _objects(document(source), "row", parsed)
    entries: list[tuple[str, dict[str, object]]] = []
    lines = content.rstrip("\r\n").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            state = "cut off or broken" if number == len(lines) else "broken"
            parsed.add_fault(f"line {number}", f"the line is {state}: it is not valid JSON ({first_line(error)})")
            continue
        entries += _objects([value], "line", parsed, first=number)
    return entries


def arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` archive. Pickled arrays raise `DataError`."""
    advice = "pad rows of different lengths, or concatenate them and save 'lengths'; save tokens as an array of text"
    return read_archive(path, example="scores=…, tokens=…", advice=advice)


def _objects(
    values: Sequence[Any] | Any, unit: str, parsed: ParsedFile, *, first: int = 1
) -> list[tuple[str, dict[str, object]]]:
    entries: list[tuple[str, dict[str, object]]] = []
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise DataError(f"Explanations must be a list of records, not {type(values).__name__}.")
    for number, value in enumerate(values, first):
        if isinstance(value, dict):
            entries.append((f"{unit} {number}", value))
        else:
            parsed.add_fault(f"{unit} {number}", f"must be an object, got {short_repr(value)}")
    return entries
