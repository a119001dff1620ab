"""JSON documents and safetensors with a checksum.

The checksum is an entry of the document: a SHA-256 of everything else in it. Files of earlier versions have none and
are read without a check. Parquet files have a checksum in their header (`table_io`, `results.explanations_parquet`).
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from didact.errors import RecordError
from didact.files.atomic import write_bytes, write_text

CHECKSUM_FIELD: Final = "checksum"
_DIGITS: Final = 64  # of a SHA-256
_CHUNK: Final = 1 << 20
_MAX_HEADER_BYTES: Final = 100_000_000  # the limit of the safetensors library


def checksum_of(document: Mapping[str, object]) -> str:
    """The checksum of a JSON document. It does not depend on the order of the entries. NaN is allowed."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_json(path: Path, document: Mapping[str, object], *, indent: int | None = None) -> None:
    """Write the document with its checksum, atomically. It must not have an entry `checksum`."""
    write_text(path, checksummed_json(document, indent=indent))


def checksummed_json(document: Mapping[str, object], *, indent: int | None = None) -> str:
    """The document with its checksum as JSON text. Without `indent`, entries are sorted and there is no white space."""
    plain = json.loads(json.dumps(document, ensure_ascii=False))  # turns keys into strings
    assert CHECKSUM_FIELD not in plain
    document_with_checksum = {**plain, CHECKSUM_FIELD: checksum_of(plain)}
    if indent is None:
        return json.dumps(document_with_checksum, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"
    return json.dumps(document_with_checksum, ensure_ascii=False, indent=indent) + "\n"


def read_json(path: Path, *, advice: str) -> dict[str, Any]:
    """The document in a file, without its checksum.

    Raises `RecordError`, which names the file and ends with `advice`, if the file is damaged; `FileNotFoundError` if it
    does not exist.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RecordError(f"Could not read {path}: {error.strerror or error}. {advice}") from error
    return parse_checksummed(content, path, advice=advice)


def parse_checksummed(content: bytes, path: Path | str, *, advice: str) -> dict[str, object]:
    """The document in `content`, without its checksum. Raises `RecordError`, with `path` and `advice`, if damaged."""
    try:
        document = json.loads(content)
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object")
        stored = document.pop(CHECKSUM_FIELD, None)
        is_intact = stored == checksum_of(document) if stored is not None else not _has_renamed_checksum(document)
    except (ValueError, RecursionError) as error:
        raise damaged_error(path, " ".join(str(error).split())[:200], advice) from error
    if not is_intact:
        raise damaged_error(path, "its checksum does not match its content", advice)
    return document


def _has_renamed_checksum(document: Mapping[str, object]) -> bool:
    """Whether the checksum has another name, as after a bit flip in its name."""
    for name, value in document.items():
        if isinstance(value, str) and len(value) == _DIGITS:
            remaining = {other: entry for other, entry in document.items() if other != name}
            if value == checksum_of(remaining):
                return True
    return False


def hash_of_file(path: Path) -> str:
    """The SHA-256 of a file, read in chunks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damaged_error(path: Path | str, reason: str, advice: str) -> RecordError:
    """The error for a damaged file."""
    return RecordError(f"{path} is damaged ({reason}). {advice}")


def describe_entry_error(error: Exception) -> str:
    """A description of the error that reading the entries of a document raised."""
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r}"
    return " ".join(str(error).split())[:200]


# -- safetensors ------------------------------------------------------------------------------------------------------


def write_tensors(path: Path, content: bytes) -> None:
    """Write safetensors with a checksum in their metadata, atomically."""
    write_bytes(path, checksummed_tensors(content))


def checksummed_tensors(content: bytes) -> bytes:
    """The same safetensors, with a checksum of header and tensors in the metadata."""
    length = int.from_bytes(content[:8], "little")
    header, tensors = json.loads(content[8 : 8 + length]), content[8 + length :]
    digest = _tensor_digest(header)
    digest.update(tensors)
    header["__metadata__"] = {**header.get("__metadata__", {}), CHECKSUM_FIELD: digest.hexdigest()}
    text = json.dumps(header, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors start at a multiple of eight bytes
    return len(text).to_bytes(8, "little") + text + tensors


def check_tensors(path: Path, *, advice: str) -> None:
    """Raise `RecordError` if the checksum of a safetensors file does not match. Reads the tensors in chunks."""
    try:
        with path.open("rb") as file:
            is_intact = _is_intact(file)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RecordError(f"Could not read {path}: {error.strerror or error}. {advice}") from error
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError, MemoryError) as error:
        raise damaged_error(path, " ".join(str(error).split())[:200], advice) from error
    if not is_intact:
        raise damaged_error(path, "its checksum does not match its content", advice)


def _is_intact(file: BinaryIO) -> bool:
    length = int.from_bytes(file.read(8), "little")
    if length > _MAX_HEADER_BYTES:
        raise ValueError("the length of its header is invalid")
    header = json.loads(file.read(length))
    stored = header.get("__metadata__", {}).pop(CHECKSUM_FIELD, None)
    if stored is None:
        return True
    digest = _tensor_digest(header)
    while piece := file.read(_CHUNK):
        digest.update(piece)
    return bool(stored == digest.hexdigest())


def _tensor_digest(header: Mapping[str, object]) -> "hashlib._Hash":
    """The digest of a header without its checksum. Empty metadata count as no metadata."""
    plain = {name: entry for name, entry in header.items() if name != "__metadata__" or entry}
    return hashlib.sha256(checksum_of(plain).encode())
