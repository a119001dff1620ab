"""Files as tables: JSON lines, CSV, TSV, Parquet and NumPy archives, told apart by their ending.

Nothing is unpickled, and nothing is guessed but what separates the fields of a CSV file. A damaged file is refused as a
whole, with the lines that are damaged.
"""

import csv
import gzip
import io
import itertools
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from didact.data.table import Record, Table
from didact.errors import DataError
from didact.records.paths import check_readable
from didact.records.unpack import check_archive, open_lines


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


def _jsonl(path: Path) -> Table:
    records: list[Record] = []
    numbers: list[int] = []
    faults: list[str] = []
    columns: dict[str, None] = {}
    lines = _lines(path)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            where = "the line is cut off or broken" if number == len(lines) else "the line is broken"
            faults.append(f"{path} line {number}: {where}, no JSON can be read from it ({_reason(error)})")
            continue
        if not isinstance(record, dict):
            faults.append(f"{path} line {number}: holds a JSON {type(record).__name__}, where an object belongs")
            continue
        columns |= dict.fromkeys(record)
        records.append(record)
        numbers.append(number)
    _refuse(path, faults)
    return Table(str(path), tuple(columns), records, numbers, unit="line")


def _separated(path: Path, *, delimiter: str | None = None) -> Table:
    """A CSV file, or with `delimiter` a tab a TSV file. Which character separates the fields of a CSV is found out."""
    lines = _lines(path)
    csv.field_size_limit(_LONGEST_FIELD)  # of the whole process; Python's own limit is 131,072
    tried: list[str] = []
    notes: tuple[str, ...] = ()
    # Tabs cannot stand inside a field of a TSV file, so quotes mean nothing there; in CSV they do.
    style: dict[str, Any] = {"delimiter": delimiter, "quoting": csv.QUOTE_NONE}
    if delimiter is None:
        found, tried = _separator(lines)
        style = {"delimiter": found, "strict": True}
        notes = () if found == "," else (f"Fields of {path.name} are separated by {_SEPARATORS[found]}.",)
    reader = csv.reader(io.StringIO("\n".join(lines)), **style)
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
    _refuse(path, faults, tried)
    return Table(str(path), tuple(header), records, numbers, unit="line", is_typed=False, notes=notes)


_LONGEST_FIELD: Final = 2**31 - 1
_SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_SAMPLE: Final = 200  # records that tell what separates fields


def _separator(lines: list[str]) -> tuple[str, list[str]]:
    """What separates the fields: the first of the usual characters by which all sampled records are as long as the
    header; and what was found with each. Where none fits, the one that cuts the header into most fields.
    """
    found: dict[str, tuple[int, int, int]] = {}
    for sign in _SEPARATORS:
        width, fitting, total = found[sign] = _fit(lines, sign)
        if width > 1 and fitting == total:
            return sign, []
    best = max(found, key=lambda sign: found[sign][0])  # the first of equals: the comma
    tried = [
        f"{_SEPARATORS[sign]}: the header has {width} {'field' if width == 1 else 'fields'}, and {fitting} of the "
        f"first {total} records have as many"
        for sign, (width, fitting, total) in found.items()
    ]
    return best, tried


def _fit(lines: list[str], sign: str) -> tuple[int, int, int]:
    """Fields of the header, records with as many fields, and records looked at."""
    reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=sign, strict=True)
    fitting = total = 0
    header: list[str] = []
    try:
        header = next(reader, [])
        for values in itertools.islice((one for one in reader if one), _SAMPLE):
            total += 1
            fitting += len(values) == len(header)
    except csv.Error:
        total += 1
    return len(header), fitting, total


def _parquet(path: Path) -> Table:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
        records = table.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            f"{path} cannot be read as Parquet; it may be cut off. Write it again. ({_reason(error)})"
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} holds texts that are not UTF-8. Write it again. ({_reason(error)})") from None
    return Table(str(path), tuple(table.column_names), records, range(1, len(records) + 1))


def _npz(path: Path) -> Table:
    import numpy as np

    check_archive(path)
    try:
        with path.open("rb") as file:  # NumPy leaves a damaged archive open when it opens it by itself
            archive = np.load(file, allow_pickle=False)
            if not hasattr(archive, "files"):
                raise DataError(
                    f"{path} is one bare NumPy array. Save named arrays: numpy.savez(path, images=…, labels=…)."
                )
            arrays = {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, RuntimeError, MemoryError) as error:
        raise DataError(
            f"{path} cannot be read as an .npz archive; it may be cut off. Write it again. ({_reason(error)})"
        ) from None
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path} holds pickled objects, or is no .npz archive. didact never unpickles: save plain arrays of "
            f"numbers, numpy.savez(path, images=…, labels=…). ({_reason(error)})"
        ) from None
    sizes = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(f"{path} holds arrays of different lengths, so they are not columns: {sizes}.")
    count = next(iter(sizes.values()), 0)
    columns = {name: array if array.ndim > 2 else array.tolist() for name, array in arrays.items()}
    records = [{name: column[index] for name, column in columns.items()} for index in range(count)]
    return Table(str(path), tuple(arrays), records, range(1, count + 1))


def _lines(path: Path) -> list[str]:
    """The lines of a text file, gzip-packed or not. Bytes that are not UTF-8 are named by line and position."""
    lines: list[str] = []
    faults: list[str] = []
    offset = 0
    try:
        with open_lines(path) as file:
            for number, line in enumerate(file, 1):
                whole = line
                if number == 1:
                    _check_width(path, line)
                    whole = line.removeprefix(b"\xef\xbb\xbf")
                try:
                    lines.append(whole.removesuffix(b"\n").removesuffix(b"\r").decode())
                except UnicodeDecodeError as error:
                    byte = f"byte {error.start + 1} of the line, {offset + error.start + 1} of the file"
                    faults.append(f"{path} line {number}: {byte}, is not UTF-8 (0x{whole[error.start]:02x})")
                offset += len(whole)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} is cut off or damaged inside its gzip packing, after line {len(lines)}. "
            f"Copy or write it again. ({_reason(error)})"
        ) from None
    _refuse(path, faults)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _check_width(path: Path, line: bytes) -> None:
    """An error for UTF-16 and UTF-32, which have a zero byte beside every letter of a Latin alphabet."""
    if line.startswith((b"\xff\xfe", b"\xfe\xff")) or line.count(b"\0") * 4 > len(line) > 3:
        raise DataError(
            f"{path} is written in UTF-16 or UTF-32, not in UTF-8. Save it again as UTF-8 (in a spreadsheet: "
            "CSV UTF-8)."
        )


def _refuse(path: Path, faults: list[str], tried: list[str] | None = None) -> None:
    if faults:
        how = ""
        if tried:
            how = f" Tried as separators: {'; '.join(tried)}. Put texts that hold the separator in double quotes."
        raise DataError(f"{path} cannot be read, and nothing of it was loaded.{how} Faults:", faults)


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _csv(path: Path) -> Table:
    return _separated(path)


def _tsv(path: Path) -> Table:
    return _separated(path, delimiter="\t")


ENDINGS: Final[dict[str, Callable[[Path], Table]]] = {
    ".jsonl": _jsonl,
    ".jsonl.gz": _jsonl,
    ".csv": _csv,
    ".csv.gz": _csv,
    ".tsv": _tsv,
    ".tsv.gz": _tsv,
    ".parquet": _parquet,
    ".npz": _npz,
}


def data_files(folder: Path) -> Iterator[Path]:
    """The files of a folder that can be read, in the order of their names."""
    return (path for path in sorted(folder.iterdir()) if path.is_file() and ending_of(path))
