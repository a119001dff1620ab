"""Small Parquet tables with a checksum. Equal content gives equal bytes."""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from didact.errors import RecordError
from didact.files.atomic import ensure_parent, write_bytes
from didact.files.store import canonical_json, unreadable_error

FORMAT: Final = 1  # a header without a format has this one
_KEY: Final = b"didact"
# What reading a damaged file can raise, in Arrow or while decoding its content.
_READ_ERRORS: Final = (OSError, LookupError, ArithmeticError, TypeError, ValueError, AttributeError, MemoryError)


@dataclass(frozen=True)
class Table:
    """Columns of equal length as Python lists, and metadata of the whole table (`about`)."""

    columns: Mapping[str, Sequence[Any]]
    about: Mapping[str, Any]


def write_table(path: Path, table: Table, *, types: Mapping[str, str]) -> str:
    """Write a table atomically. Returns the SHA-256 of the file.

    `types` maps each column to the name of its Arrow type, such as "float64" or "list int32".
    """
    import pyarrow
    from pyarrow import parquet

    arrays = {name: pyarrow.array(table.columns[name], _type(pyarrow, kind)) for name, kind in types.items()}
    content = pyarrow.table(arrays)
    about = dict(table.about)
    header = {"about": about, "checksum": _checksum(_to_lists(content), about)}
    content = content.replace_schema_metadata({_KEY: canonical_json(header).encode()})
    buffer = io.BytesIO()
    parquet.write_table(content, buffer, compression="zstd", write_statistics=False, write_page_checksum=True)
    write_bytes(ensure_parent(path), buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def read_table(path: Path, *, checksum: str | None = None) -> Table:
    """Read a table that `write_table` wrote. Raises `RecordError` if it is missing or damaged.

    With `checksum`, the SHA-256 of the file, the whole file is verified; without it, the checksum in the header.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise RecordError(f"There is no file {path}. It will be computed again.") from None
    except OSError as error:
        raise unreadable_error(path, error) from error
    if checksum is not None and hashlib.sha256(content).hexdigest() != checksum:
        raise _damaged(path)
    try:
        arrow = parquet.ParquetFile(pyarrow.BufferReader(content), page_checksum_verification=checksum is None).read()
        header = json.loads((arrow.schema.metadata or {})[_KEY])
        table = Table(_to_lists(arrow), header["about"])
        version = header.get("format", FORMAT)
        is_intact = checksum is not None or header["checksum"] == _checksum(table.columns, table.about)
    except (pyarrow.ArrowException, *_READ_ERRORS) as error:
        reason = " ".join(str(error).split())
        raise RecordError(f"{path} is missing or damaged ({reason}). It will be computed again.") from error
    if not is_intact:
        raise _damaged(path)
    if version != FORMAT:
        raise RecordError(
            f"{path} has format {version}, but this version of didact reads formats up to {FORMAT}. Update didact."
        )
    return table


def _damaged(path: Path) -> RecordError:
    return RecordError(f"{path} is damaged (its checksum does not match). It will be computed again.")


def _to_lists(table: Any) -> dict[str, list[Any]]:
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _checksum(columns: Mapping[str, Sequence[Any]], about: Mapping[str, object]) -> str:
    """A hash of all content. Parquet's own checksums cover its pages, but not its header."""
    digest = hashlib.sha256(canonical_json(dict(about)).encode())
    for name, column in columns.items():
        digest.update(repr(name).encode())
        for value in column:
            digest.update(repr(value).encode())
    return digest.hexdigest()


def _type(pyarrow: Any, name: str) -> Any:
    if name.startswith("list "):
        return pyarrow.list_(_type(pyarrow, name.removeprefix("list ")))
    return getattr(pyarrow, name)()
