"""Unpacking with a bound: a small file never fills the memory, whatever it claims to hold.

Text packs by 3 to 20, rarely by more than 50. What unpacks to more than `FREE` bytes and more than `RATIO` times its
packed size is refused while it is read.
"""

import gzip
import io
import math
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np

from didact.errors import DataError

FREE: Final = 64 * 2**20
RATIO: Final = 100
_READ_ERRORS: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, NotImplementedError)


class Unpacked(io.RawIOBase):
    """The content of gzip-packed bytes as a stream. Reading beyond the bound is a `DataError`."""

    def __init__(self, packed: io.BufferedReader, name: str, size: int) -> None:
        self._packed, self._file = packed, gzip.GzipFile(fileobj=packed)
        self._name, self._limit, self._read = name, size_limit(size), 0

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._packed.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        chunk = self._file.read1(len(buffer))
        self._read += len(chunk)
        if self._read > self._limit:
            raise too_large_error(self._name, self._limit)
        buffer[: len(chunk)] = chunk
        return len(chunk)


def open_lines(path: Path) -> io.BufferedReader:
    """A file to read line by line, gzip-packed or not."""
    file = path.open("rb")
    if not path.name.lower().endswith(".gz"):
        return file
    return io.BufferedReader(Unpacked(file, str(path), path.stat().st_size))


def gunzip(packed: bytes, name: str) -> bytes:
    """Unpacked bytes; at most what the bound allows."""
    limit = size_limit(len(packed))
    content = gzip.GzipFile(fileobj=io.BytesIO(packed)).read(limit + 1)
    if len(content) > limit:
        raise too_large_error(name, limit)
    return content


def read_archive(path: Path, *, example: str, advice: str) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` archive by name. Nothing is unpickled; `example` and `advice` say how to save them."""
    _check_declared_sizes(path)
    try:
        with path.open("rb") as file:  # NumPy leaves a damaged archive open when it opens it by itself
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise DataError(f"{path} is one bare array. Save arrays by name: numpy.savez(path, {example}).")
            return {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, RuntimeError, MemoryError) as error:
        raise DataError(
            f"{path} cannot be read as an .npz archive; it may be cut off. Write it again. ({first_line(error)})"
        ) from None
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path} holds pickled objects, or is no .npz archive. didact never unpickles: {advice}. "
            f"({first_line(error)})"
        ) from None


def first_line(error: Exception) -> str:
    """The first line of what a library says."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _check_declared_sizes(path: Path) -> None:
    """An error if the arrays of an `.npz` archive claim more than the file can hold. Other faults are not told here."""
    try:
        with zipfile.ZipFile(path) as archive:
            limit = size_limit(path.stat().st_size)
            if sum(member.file_size for member in archive.infolist()) > limit:
                raise too_large_error(str(path), limit)
            for member in archive.infolist():
                with archive.open(member) as file:
                    declared = _declared_bytes(file)
                    available = member.file_size - file.tell()
                if declared > available:
                    raise DataError(
                        f"{path} is damaged: its array {member.filename!r} claims {declared:,} bytes, and there are "
                        "only "
                        f"{available:,}. Write the file again."
                    )
    except DataError:
        raise
    except _READ_ERRORS:
        return


def _declared_bytes(file: Any) -> int:
    """Bytes of the array that a `.npy` header announces; 0 for pickled objects, which are never read."""
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    return 0 if dtype.hasobject else math.prod(shape) * dtype.itemsize


def size_limit(size: int) -> int:
    return max(FREE, RATIO * size)


def too_large_error(name: str, limit: int) -> DataError:
    return DataError(
        f"{name} unpacks to more than {limit / 2**20:,.0f} MB, far more than such a file holds, and was not read "
        "further. If it is right, unpack it yourself and give the unpacked file."
    )
