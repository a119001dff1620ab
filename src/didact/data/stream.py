"""Rows of data that do not fit in memory, in batches and in their order."""

import contextlib
import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from didact.core.classes import align_rows, match_classes
from didact.core.dataset import Split
from didact.core.row import Row
from didact.core.task import Task
from didact.data import DATASETS
from didact.data.columns import Layout, check_columns, layout_of, reader
from didact.data.files import ENDINGS, parquet_length, parquet_records, parse_json_line, text_lines
from didact.data.ids import SeenIds
from didact.data.load import load_data
from didact.data.rows import read_rows
from didact.data.table import Record, Table
from didact.errors import DataError, MissingExtraError, OptionError
from didact.files.paths import check_readable, kind_at, shorten_path
from didact.registry import unknown_name_message

_LOG = logging.getLogger(__name__)
_STREAMABLE: Final = (".parquet", ".jsonl", ".jsonl.gz", ".ndjson")
# A source with one of these endings is meant as a file, even if it cannot be streamed or does not exist.
_FILE_ENDINGS: Final = (
    *ENDINGS,
    *_STREAMABLE,
    ".json",
    ".gz",
    ".zip",
    ".zst",
    ".bz2",
    ".xz",
    ".txt",
    ".arrow",
    ".feather",
)
_HUB_NAME: Final = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


class RowLists(Iterator[list[Row]]):
    """Lists of rows. `total` is the number of all rows, or None if it is unknown before reading."""

    def __init__(self, lists: Iterator[list[Row]], total: int | None) -> None:
        self.total, self._lists = total, lists

    def __next__(self) -> list[Row]:
        return next(self._lists)


def stream_rows(
    source: Any,
    *,
    size: int,
    task: str | Task | None = None,
    columns: Mapping[str, str | None] | None = None,
    classes: Sequence[str] | None = None,
    data_classes: Sequence[str] | None = None,
    labels: bool = True,
    split: str = "train",
    data_dir: str | Path | None = None,
    seed: int = 0,
    notes: Callable[[str], None] | None = None,
) -> RowLists:
    """Rows in lists of `size`; the last may be shorter. Memory holds one list, and 8 bytes per id.

    `source` is a Parquet or JSON-lines file (gzipped or not); a name from `didact data list`, whose `split` is loaded
    whole with `data_dir` and `seed` as for `load_data`; a data set on the hub, whose `split` is streamed; or an
    iterable of records, rows or texts. The first list decides how columns are read.

    Labels become indices of `classes`, matched by name. `data_classes` are the names of these classes in the data, in
    the same order, if they differ. If `labels` is false, labels are optional: a list with invalid labels is read
    without any. `notes` is called with each note on what was inferred; notes are also logged.

    Raises `DataError` with the location of each fault when the list that contains it is read.
    """
    if size < 1:
        raise OptionError(f"Rows are read at least 1 at a time, not {size}.")
    check_streamable(source)
    options = _ReadOptions(task, columns, classes, data_classes, labels, notes)
    column_classes: Mapping[str, tuple[str, ...]] = {}
    records: Iterable[Any]
    if isinstance(source, str | Path):
        name, path = str(source), Path(source)
        if kind_at(path) == "file":
            is_parquet = path.name.lower().endswith(".parquet")
            records = parquet_records(path) if is_parquet else _from_lines(path)
            total = parquet_length(path) if is_parquet else None  # counting lines would need a second pass
        elif _is_registered(source):
            records, total = _from_registry(name, split, options, data_dir=data_dir, seed=seed)
        else:
            records, total, column_classes = _from_hub(name, split)
    else:
        name, records, total = type(source).__name__, source, _length(source)
        if isinstance(source, Split):
            records = options.aligned(source)
    return RowLists(_with_unique_ids(name, _read_chunks(name, records, size, options, column_classes)), total)


@dataclass(frozen=True)
class _ReadOptions:
    """How records are read: the arguments of `stream_rows` that concern columns and labels."""

    task: str | Task | None
    columns: Mapping[str, str | None] | None
    classes: Sequence[str] | None
    data_classes: Sequence[str] | None
    labels: bool
    notes: Callable[[str], None] | None

    def report(self, *notes: str | None) -> None:
        for note in filter(None, notes):
            _LOG.info("%s", note)
            if self.notes is not None:
                self.notes(note)

    def aligned(self, split: Split) -> Sequence[Row]:
        """The rows of a split, with labels as indices of `classes`."""
        data_classes = self.data_classes if self.labels else None
        rows, note = align_rows(split, self.classes, classes=data_classes, required=self.labels)
        if self.labels:
            self.report(note)
        return rows


def check_streamable(source: Any) -> None:
    """Raise `DataError` for a source that cannot be streamed, before anything is loaded. Does not contact the hub."""
    if not isinstance(source, str | Path):
        if not isinstance(source, Iterable):
            raise DataError(f"Records, rows or texts are streamed from an iterable, not from {type(source)}.")
        return
    name, path = shorten_path(source), Path(source)
    kind = kind_at(path)
    if kind == "file":
        if not path.name.lower().endswith(_STREAMABLE):
            raise DataError(f"{path} cannot be streamed. Files that can: {', '.join(_STREAMABLE)}.")
        check_readable(path)
        return
    if _is_registered(source):
        return
    if kind == "folder":
        raise DataError(f"{path} is a folder. Only single files are streamed: name a file ({', '.join(_STREAMABLE)}).")
    is_nested = path.parent != Path() and kind_at(path.parent) == "folder"
    if isinstance(source, Path) or name.lower().endswith(_FILE_ENDINGS) or is_nested or name.startswith("."):
        raise DataError(f"There is no file {name}. Files that can be streamed: {', '.join(_STREAMABLE)}.")
    if not _HUB_NAME.fullmatch(name):
        suggestion = unknown_name_message("data set", name.partition("(")[0].strip(), list(DATASETS))
        raise DataError(
            f"{name!r} cannot be streamed: it is neither a file ({', '.join(_STREAMABLE)}) nor a name on the hub "
            f"(owner/name). "
            f"{suggestion}"
        )


def _is_registered(source: str | Path) -> bool:
    return isinstance(source, str) and source.partition("(")[0].strip() in DATASETS


def _read_chunks(
    name: str, records: Iterable[Any], size: int, options: _ReadOptions, column_classes: Mapping[str, tuple[str, ...]]
) -> Iterator[list[Row]]:
    """Lists of rows from records. `column_classes` are class names that columns of the source declare."""
    layout = None
    count = 0
    for chunk in _chunks(records, size):
        count += len(chunk)
        if all(isinstance(item, Row) for item in chunk):
            yield [item for item in chunk if isinstance(item, Row)]
            continue
        items = [{"text": item} if isinstance(item, str) else item for item in chunk]
        mappings = [item for item in items if isinstance(item, Mapping)]
        if len(mappings) < len(items):
            unsupported = next(item for item in items if not isinstance(item, Mapping))
            raise DataError(f"{name} must contain records, rows or texts, got {type(unsupported).__name__}.")
        keys = tuple(dict.fromkeys(key for record in mappings for key in record))
        table = Table(name, keys, mappings, range(count - len(mappings) + 1, count + 1), classes=column_classes)
        is_first = layout is None
        if layout is None:
            layout, notes = layout_of(table, task=options.task, columns=options.columns, other_tables=None)
            options.report(*notes)
        yield _rows_of(table, layout, options, is_first=is_first)


def _rows_of(table: Table, layout: Layout, options: _ReadOptions, *, is_first: bool) -> list[Row]:
    """The rows of a table. If labels are optional and invalid, the rows are read without them."""
    unlabelled = replace(layout, roles={role: column for role, column in layout.roles.items() if role != "label"})
    if not options.labels and not (layout.task.has_classes and options.classes):
        return _read_table(table, unlabelled)[0]
    try:
        rows, classes_found = _read_table(table, layout)
        return _in_classes(table, rows, classes_found, options, is_first=is_first)
    except (DataError, OptionError):
        if options.labels:
            raise
    return _read_table(table, unlabelled)[0]


def _read_table(table: Table, layout: Layout) -> tuple[list[Row], tuple[str, ...] | None]:
    check_columns(table, layout)
    read, classes_found = reader([table], layout, None, table.name)
    return read_rows(table.name, {"": [table]}, read)[0][""], classes_found


def _in_classes(
    table: Table, rows: list[Row], classes_found: tuple[str, ...] | None, options: _ReadOptions, *, is_first: bool
) -> list[Row]:
    """The rows with labels as indices of `options.classes` instead of the classes found in this table."""
    if classes_found is None or options.classes is None:
        return rows
    try:
        match = match_classes(classes_found, options.classes, classes=options.data_classes)
    except OptionError as error:
        raise OptionError(f"{table.name}, {table.unit}s {table.numbers[0]} to {table.numbers[-1]}: {error}") from None
    if is_first:
        options.report(match.note)
    return match.relabel(rows)


def _with_unique_ids(name: str, lists: Iterator[list[Row]]) -> Iterator[list[Row]]:
    """The same lists with unique ids. Rows without an id get one from their number. Repeated ids raise `DataError`."""
    ids, count = SeenIds(), 0
    for rows in lists:
        rows = [row if row.id else replace(row, id=f"row-{count + number}") for number, row in enumerate(rows, 1)]
        repeated = ids.first_repeated([row.id for row in rows])
        if repeated is not None:
            raise DataError(
                f"{name} row {count + repeated + 1}: the id {rows[repeated].id!r} was already used by a row before it. "
                "Ids must differ, because random draws depend on them."
            )
        count += len(rows)
        yield rows


def _from_registry(
    name: str, split: str, options: _ReadOptions, *, data_dir: str | Path | None, seed: int
) -> tuple[Iterable[Any], int | None]:
    """A split of a registered data set, with labels in the order of the classes, and its number of rows."""
    data = load_data(name, columns=options.columns or None, data_dir=data_dir, seed=seed)
    options.report(*data.notes)
    if options.task is not None and str(data.task) != str(options.task):
        raise OptionError(f"Data set {data.name!r} has the task {data.task}, not {options.task}.")
    rows = options.aligned(data[split])
    return rows, len(rows)


def _from_lines(path: Path) -> Iterator[Record]:
    def refuse(fault: str) -> None:
        raise DataError(f"{fault}.")

    for number, line in text_lines(path, refuse):
        try:
            if line.strip():
                yield parse_json_line(line)
        except ValueError as fault:
            refuse(f"{path} line {number}: {fault}")


def _from_hub(name: str, split: str) -> tuple[Iterable[Any], int | None, dict[str, tuple[str, ...]]]:
    """A stream of a split on the hub, its number of rows, and the class names that its columns declare."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingExtraError(
            f'{name} is streamed from the hub by the package datasets. Install it: pip install "didact[hub]"'
        ) from error
    try:
        stream = load_dataset(name, split=split, streaming=True)
    except Exception as error:  # whatever the hub and its libraries raise
        raise DataError(f"{name} cannot be streamed from the hub ({type(error).__name__}: {error}).") from error
    split_info = (stream.info.splits or {}).get(split)
    features = getattr(stream, "features", None) or {}
    classes = {column: tuple(kind.names) for column, kind in features.items() if getattr(kind, "names", None)}
    return stream, split_info.num_examples or None if split_info is not None else None, classes


def _length(source: Iterable[Any]) -> int | None:
    if isinstance(source, Sized):
        with contextlib.suppress(TypeError):  # some define __len__ and raise
            return len(source)
    return None


def _chunks(records: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(records)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
