"""Small tables in Parquet: the same content always gives the same bytes, and damage is noticed."""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from didact.errors import RecordError
from didact.records.atomic import with_folder, write_bytes
from didact.records.store import canonical

_KEY: Final = b"didact"


@dataclass(frozen=True)
class Table:
    """Columns of equal length as Python lists, and what is said about them all."""

    columns: Mapping[str, Sequence[Any]]
    about: Mapping[str, Any]


def write_table(path: Path, table: Table, *, types: Mapping[str, str]) -> str:
    """Write the table whole or not at all; gives the hash of its bytes. `types` names each column's Arrow type."""
    import pyarrow
    from pyarrow import parquet

    arrays = {name: pyarrow.array(table.columns[name], _type(pyarrow, kind)) for name, kind in types.items()}
    found = pyarrow.table(arrays).replace_schema_metadata({_KEY: canonical(dict(table.about)).encode()})
    buffer = io.BytesIO()
    parquet.write_table(found, buffer, compression="zstd", write_statistics=False, write_page_checksum=True)
    write_bytes(with_folder(path), buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def read_table(path: Path, *, checksum: str | None = None) -> Table:
    """What `write_table` wrote. With `checksum`, other bytes than those are damage."""
    import pyarrow
    from pyarrow import parquet

    try:
        content = path.read_bytes()
        if checksum is not None and hashlib.sha256(content).hexdigest() != checksum:
            raise RecordError(f"{path} is damaged (its checksum does not fit); it will be computed anew.")
        found = parquet.read_table(pyarrow.BufferReader(content), page_checksum_verification=True)
        about = json.loads((found.schema.metadata or {})[_KEY])
    except (OSError, ValueError, KeyError, pyarrow.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise RecordError(f"{path} is missing or damaged ({reason}); it will be computed anew.") from error
    return Table({name: found.column(name).to_pylist() for name in found.column_names}, about)


def _type(pyarrow: Any, name: str) -> Any:
    if name.startswith("list "):
        return pyarrow.list_(_type(pyarrow, name.removeprefix("list ")))
    return getattr(pyarrow, name)()
