"""Files as tables: JSON lines, CSV, TSV, Parquet and NumPy archives, told apart by their ending.

Nothing is unpickled, and nothing is guessed but what separates the fields of a CSV file. A damaged file is refused as a
whole, with the lines that are damaged.
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
    """The records of one file."""
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
    """The object that a line of JSON holds; a ValueError says why there is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        state = "cut off or broken" if is_last else "broken"
        raise ValueError(f"the line is {state}, no JSON can be read from it ({first_line(error)})") from None
    if not isinstance(record, dict):
        raise ValueError(f"holds a JSON {type(record).__name__}, where an object belongs")
    return record


def _read_delimited(path: Path, *, delimiter: str | None = None) -> Table:
    """A CSV file, or with `delimiter` a tab a TSV file. Which character separates the fields of a CSV is found out."""
    lines = _read_lines(path)
    csv.field_size_limit(_MAX_FIELD_LENGTH)  # of the whole process; Python's own limit is 131,072
    attempts: list[str] = []
    notes: tuple[str, ...] = ()
    # Tabs cannot stand inside a field of a TSV file, so quotes mean nothing there; in CSV they do.
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
_SAMPLED_RECORDS: Final = 200  # records that tell what separates fields


def _detect_delimiter(lines: list[str]) -> tuple[str, list[str]]:
    """What separates the fields: the first of the usual characters by which all sampled records are as long as the
    header; and what was found with each. Where none fits, the one that cuts the header into most fields.
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
    """Fields of the header, records with as many fields, and records looked at."""
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
    """How many rows a Parquet file has."""
    with _parquet_file(path) as file:
        return int(file.metadata.num_rows)


def parquet_records(path: Path) -> Iterator[Record]:
    """The rows of a Parquet file. Only some of them are in memory at a time."""
    with _parquet_file(path) as file:
        for batch in file.iter_batches(batch_size=512):
            yield from batch.to_pylist()


@contextmanager
def _parquet_file(path: Path) -> Iterator[Any]:
    """An open Parquet file; what pyarrow says of a damaged one is a `DataError`."""
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
    """The lines of a text file. Bytes that are not UTF-8 are named, all of them at once; empty lines at the end go."""
    faults: list[str] = []
    lines = [line for _, line in text_lines(path, faults.append)]
    _raise_if_any(path, faults)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def text_lines(path: Path, report: Callable[[str], None]) -> Iterator[tuple[int, str]]:
    """The numbered lines of a text file, gzip-packed or not. Bytes that are not UTF-8 are reported, and left out."""
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
            f"{path} is cut off or damaged inside its gzip packing, after line {number}. "
            f"Copy or write it again. ({first_line(error)})"
        ) from None


def _check_encoding(path: Path, line: bytes) -> None:
    """An error for UTF-16 and UTF-32, which have a zero byte beside every letter of a Latin alphabet."""
    if line.startswith((b"\xff\xfe", b"\xfe\xff")) or line.count(b"\0") * 4 > len(line) > 3:
        raise DataError(
            f"{path} is written in UTF-16 or UTF-32, not in UTF-8. Save it again as UTF-8 (in a spreadsheet: "
            "CSV UTF-8)."
        )


def _raise_if_any(path: Path, faults: list[str], attempts: list[str] | None = None) -> None:
    if faults:
        hint = ""
        if attempts:
            hint = f" Tried as separators: {'; '.join(attempts)}. Put texts that hold the separator in double quotes."
        raise DataError(f"{path} cannot be read, and nothing of it was loaded.{hint} Faults:", faults)


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
    """The files of a folder that can be read, in the order of their names."""
    return (path for path in sorted(folder.iterdir()) if path.is_file() and ending_of(path))
