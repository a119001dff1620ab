"""Readers of JSON lines, CSV, TSV, Parquet and NumPy archives. The ending of a file decides its format.

No reader unpickles. Only the delimiter of a CSV file is detected. A damaged file raises `DataError`, which lists the
damaged lines; no part of it is loaded.
"""

import csv
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from didact.data.table import Record, Table
from didact.errors import DataError
from didact.files.paths import check_readable
from didact.files.unpack import first_line, open_lines, read_archive


def read_table(path: Path) -> Table:
    """Read one file. Raises `DataError` if it has an unknown ending, is empty or is damaged."""
    ending = ending_of(path)
    if ending is None:
        raise DataError(
            f"{path} has an ending that didact does not read. Known endings: {', '.join(ENDINGS)}. "
            "Rename the file if it is one of these, or load it yourself and pass a pandas DataFrame."
        )
    check_readable(path)
    if not path.stat().st_size:
        raise DataError(f"{path} is empty (0 bytes). Write the file again.")
    table = ENDINGS[ending](path)
    if not table.records:
        raise DataError(f"{path} holds no rows. Write the file again.")
    return table


def ending_of(path: Path) -> str | None:
    return next((ending for ending in ENDINGS if path.name.lower().endswith(ending)), None)


def stem_of(path: Path) -> str:
    return path.name[: -len(ending_of(path) or "") or None]


def _read_jsonl(path: Path) -> Table:
    records: list[Record] = []
    numbers: list[int] = []
    faults: list[str] = []
    lines = _read_lines(path)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(parse_json_line(line, is_last=number == len(lines)))
            numbers.append(number)
        except ValueError as fault:
            faults.append(f"{path} line {number}: {fault}")
    _raise_if_any(path, faults)
    columns = dict.fromkeys(key for record in records for key in record)
    return Table(str(path), tuple(columns), records, numbers, unit="line")


def parse_json_line(line: str, *, is_last: bool = False) -> Record:
    """The JSON object on a line. Raises `ValueError` if the line holds no object."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        state = "cut off or broken" if is_last else "broken"
        raise ValueError(f"the line is {state}: it is not valid JSON ({first_line(error)})") from None
    if not isinstance(record, dict):
        raise ValueError(f"must be a JSON object, got {type(record).__name__}")
    return record


def _read_delimited(path: Path, *, delimiter: str | None = None) -> Table:
    """Read a CSV file and detect its delimiter, or a TSV file (`delimiter` is a tab)."""
    lines = _read_lines(path)
    csv.field_size_limit(_MAX_FIELD_LENGTH)  # for the whole process; Python's default is 131,072
    attempts: list[str] = []
    notes: tuple[str, ...] = ()
    # A field of a TSV file cannot contain a tab, so quotes have no meaning there. In CSV they do.
    dialect: dict[str, Any] = {"delimiter": delimiter, "quoting": csv.QUOTE_NONE}
    if delimiter is None:
        detected, attempts = _detect_delimiter(lines)
        dialect = {"delimiter": detected, "strict": True}
        notes = () if detected == "," else (f"Fields of {path.name} are separated by {_DELIMITERS[detected]}.",)
    reader = csv.reader(io.StringIO("\n".join(lines)), **dialect)
    records: list[Record] = []
    numbers: list[int] = []
    faults: list[str] = []
    start = 0
    try:
        header = next(reader, [])
        if not any(header) or len(set(header)) != len(header):
            raise DataError(f"{path} line 1: the header {header} must name each column once.")
        start = reader.line_num
        for values in reader:
            number, start = start + 1, reader.line_num
            if not values:
                continue
            if len(values) != len(header):
                faults.append(f"{path} line {number}: has {len(values)} fields, the header names {len(header)}")
                continue
            records.append({name: value or None for name, value in zip(header, values, strict=True)})
            numbers.append(number)
    except csv.Error as error:
        faults.append(f"{path} line {start + 1}: the record that starts here is cut off or broken ({error})")
    _raise_if_any(path, faults, attempts)
    return Table(str(path), tuple(header), records, numbers, unit="line", notes=notes)


_MAX_FIELD_LENGTH: Final = 2**31 - 1
_DELIMITERS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_SAMPLED_RECORDS: Final = 200  # records that are read to detect the delimiter


def _detect_delimiter(lines: list[str]) -> tuple[str, list[str]]:
    """The delimiter, and a report on each candidate if no candidate fits.

    A candidate fits if it gives the header and all sampled records the same number of fields. If no candidate fits, the
    one with the most fields in the header is used.
    """
    counts: dict[str, tuple[int, int, int]] = {}
    for delimiter in _DELIMITERS:
        width, fitting, total = counts[delimiter] = _count_fields(lines, delimiter)
        if width > 1 and fitting == total:
            return delimiter, []
    best = max(counts, key=lambda delimiter: counts[delimiter][0])  # the first of equals: the comma
    attempts = [
        f"{_DELIMITERS[delimiter]}: the header has {width} {'field' if width == 1 else 'fields'}, and {fitting} of the "
        f"first {total} records have as many"
        for delimiter, (width, fitting, total) in counts.items()
    ]
    return best, attempts


def _count_fields(lines: list[str], delimiter: str) -> tuple[int, int, int]:
    """The number of fields in the header, of records with that many fields, and of records read."""
    reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter, strict=True)
    fitting = total = 0
    header: list[str] = []
    try:
        header = next(reader, [])
        for values in itertools.islice((fields for fields in reader if fields), _SAMPLED_RECORDS):
            total += 1
            fitting += len(values) == len(header)
    except csv.Error:
        total += 1
    return len(header), fitting, total


def _read_parquet(path: Path) -> Table:
    with _parquet_file(path) as file:
        columns = tuple(file.schema_arrow.names)
    records = list(parquet_records(path))
    return Table(str(path), columns, records, range(1, len(records) + 1))


def parquet_length(path: Path) -> int:
    """The number of rows of a Parquet file."""
    with _parquet_file(path) as file:
        return int(file.metadata.num_rows)


def parquet_records(path: Path) -> Iterator[Record]:
    """The rows of a Parquet file, one at a time. One batch is in memory."""
    with _parquet_file(path) as file:
        for batch in file.iter_batches(batch_size=512):
            yield from batch.to_pylist()


@contextmanager
def _parquet_file(path: Path) -> Iterator[Any]:
    """An open Parquet file. Errors of pyarrow become `DataError`."""
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, memory_map=False, buffer_size=1 << 20) as file:
            yield file
    except UnicodeDecodeError as error:
        raise DataError(f"{path} holds texts that are not UTF-8. Write it again. ({first_line(error)})") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            f"{path} cannot be read as Parquet; it may be cut off. Write it again. ({first_line(error)})"
        ) from None


def _read_npz(path: Path) -> Table:
    arrays = read_archive(
        path, example="images=…, labels=…", advice="save plain arrays of numbers, numpy.savez(path, images=…, labels=…)"
    )
    sizes = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(f"{path} holds arrays of different lengths, so they are not columns: {sizes}.")
    count = next(iter(sizes.values()), 0)
    columns = {name: array if array.ndim > 2 else array.tolist() for name, array in arrays.items()}
    records = [{name: column[index] for name, column in columns.items()} for index in range(count)]
    return Table(str(path), tuple(arrays), records, range(1, count + 1))


def _read_lines(path: Path) -> list[str]:
    """The lines of a text file without empty lines at its end. One error lists all bytes that are not UTF-8."""
    faults: list[str] = []
    lines = [line for _, line in text_lines(path, faults.append)]
    _raise_if_any(path, faults)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def text_lines(path: Path, report: Callable[[str], None]) -> Iterator[tuple[int, str]]:
    """The numbered lines of a text file, gzipped or not. Lines that are not UTF-8 go to `report` and are skipped."""
    number = offset = 0
    try:
        with open_lines(path) as file:
            for number, line in enumerate(file, 1):
                content = line
                if number == 1:
                    _check_encoding(path, line)
                    content = line.removeprefix(b"\xef\xbb\xbf")
                try:
                    yield number, content.removesuffix(b"\n").removesuffix(b"\r").decode()
                except UnicodeDecodeError as error:
                    byte = f"byte {error.start + 1} of the line, {offset + error.start + 1} of the file"
                    report(f"{path} line {number}: {byte}, is not UTF-8 (0x{content[error.start]:02x})")
                offset += len(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} is cut off, or its gzip data are damaged, after line {number}. "
            f"Copy or write it again. ({first_line(error)})"
        ) from None


def _check_encoding(path: Path, line: bytes) -> None:
    """Raise `DataError` for UTF-16 and UTF-32, which have a zero byte next to every Latin letter."""
    if line.startswith((b"\xff\xfe", b"\xfe\xff")) or line.count(b"\0") * 4 > len(line) > 3:
        raise DataError(
            f"{path} is encoded in UTF-16 or UTF-32, not in UTF-8. Save it again as UTF-8 (in a spreadsheet: "
            "CSV UTF-8)."
        )


def _raise_if_any(path: Path, faults: list[str], attempts: list[str] | None = None) -> None:
    if faults:
        hint = ""
        if attempts:
            hint = (
                f" Tried as delimiters: {'; '.join(attempts)}. Put texts that contain the delimiter in double quotes."
            )
        raise DataError(f"{path} cannot be read, and none of it was loaded.{hint} Faults:", faults)


ENDINGS: Final[dict[str, Callable[[Path], Table]]] = {
    ".jsonl": _read_jsonl,
    ".jsonl.gz": _read_jsonl,
    ".csv": _read_delimited,
    ".csv.gz": _read_delimited,
    ".tsv": partial(_read_delimited, delimiter="\t"),
    ".tsv.gz": partial(_read_delimited, delimiter="\t"),
    ".parquet": _read_parquet,
    ".npz": _read_npz,
}


def data_files(folder: Path) -> Iterator[Path]:
    """The files of a folder with a known ending, in the order of their names."""
    return (path for path in sorted(folder.iterdir()) if path.is_file() and ending_of(path))
