"""Rows of data that do not fit in memory, some at a time and in their order."""

import gzip
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from didact.core.row import Row
from didact.core.task import Task
from didact.data.columns import check_columns, layout_of, reader
from didact.data.rows import read_rows
from didact.data.table import Record, Table
from didact.errors import DataError, MissingExtraError, OptionError


def stream_rows(
    source: Any,
    *,
    size: int,
    task: str | Task | None = None,
    columns: Mapping[str, str | None] | None = None,
    classes: Sequence[str] | None = None,
    labels: bool = True,
    split: str = "train",
) -> Iterator[list[Row]]:
    """Rows in lists of `size`, the last one shorter. Nothing but the list at hand is kept.

    `source` is a Parquet or JSON-lines file (packed by gzip or not), the name of a data set on the hub (its `split` is
    streamed), or anything that can be iterated over: records, rows or texts. How columns are read is decided by the
    first records; faults are told by their place, with the list they are in. Without `labels` gold labels are not read.
    """
    if size < 1:
        raise OptionError(f"Rows are read at least 1 at a time, not {size}.")
    name, records = _records(source, split)
    layout = None
    seen = 0
    for part in _chunks(records, size):
        if all(isinstance(one, Row) for one in part):
            yield [one for one in part if isinstance(one, Row)]
            continue
        named = [{"text": one} if isinstance(one, str) else one for one in part]
        held = [one for one in named if isinstance(one, Mapping)]
        if len(held) < len(named):
            strange = next(one for one in named if not isinstance(one, Mapping))
            raise DataError(f"{name} holds a {type(strange).__name__}, where a record, a row or a text belongs.")
        keys = tuple(dict.fromkeys(key for record in held for key in record))
        table = Table(name, keys, held, range(seen + 1, seen + len(held) + 1))
        if layout is None:
            layout, _ = layout_of(table, task=task, columns=columns)
            if not labels:
                layout = replace(layout, roles={role: one for role, one in layout.roles.items() if role != "label"})
        check_columns(table, layout)
        read, _ = reader([table], layout, classes if layout.task.has_classes else None, name)
        rows, _ = read_rows(name, {"": [table]}, read)
        seen += len(held)
        yield rows[""]


def _records(source: Any, split: str) -> tuple[str, Iterable[Any]]:
    if isinstance(source, str | Path):
        path = Path(source)
        if path.is_file():
            return str(path), _from_file(path)
        if isinstance(source, str) and source.count("/") == 1 and not path.exists():
            return source, _from_hub(source, split)
        raise DataError(
            f"{source} cannot be streamed: it is no file (.parquet, .jsonl, .jsonl.gz), and no name on the hub "
            "(owner/name)."
        )
    if not isinstance(source, Iterable):
        raise DataError(f"Records, rows or texts are streamed from something to iterate over, not {type(source)}.")
    return type(source).__name__, source


def _from_file(path: Path) -> Iterator[Record]:
    ending = path.name.lower()
    if ending.endswith(".parquet"):
        return _from_parquet(path)
    if ending.endswith((".jsonl", ".jsonl.gz", ".ndjson")):
        return _from_lines(path)
    raise DataError(f"{path} cannot be streamed. Files that can: .parquet, .jsonl, .jsonl.gz.")


def _from_parquet(path: Path) -> Iterator[Record]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, memory_map=False, buffer_size=1 << 20) as file:
            for batch in file.iter_batches(batch_size=512):
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet; it may be cut off. ({error})") from error


def _from_lines(path: Path) -> Iterator[Record]:
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _record(line, f"{path} line {number}")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}).") from error


def _record(line: str, place: str) -> Record:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: no JSON can be read from it ({error}).") from error
    if not isinstance(found, dict):
        raise DataError(f"{place}: holds a JSON {type(found).__name__}, where an object belongs.")
    return found


def _from_hub(name: str, split: str) -> Iterable[Record]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingExtraError(
            f'{name} is streamed from the hub by the package datasets. Install it: pip install "didact[hub]"'
        ) from error
    try:
        return load_dataset(name, split=split, streaming=True)
    except Exception as error:  # whatever the hub and its libraries raise
        raise DataError(f"{name} cannot be streamed from the hub ({type(error).__name__}: {error}).") from error


def _chunks(records: Iterable[Any], size: int) -> Iterator[list[Any]]:
    several = iter(records)
    while part := list(itertools.islice(several, size)):
        yield part
