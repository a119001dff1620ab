"""Decompression with a size limit, so that a small file cannot fill the memory.

Text is compressed by a factor of 3 to 20, rarely of more than 50. A file that decompresses to more than `FREE` bytes
and to more than `RATIO` times its size raises `DataError` while it is read.
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
    """A stream of decompressed gzip data. Reading beyond the limit raises `DataError`."""

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
    """Open a file to read it line by line, gzipped or not."""
    file = path.open("rb")
    if not path.name.lower().endswith(".gz"):
        return file
    return io.BufferedReader(Unpacked(file, str(path), path.stat().st_size))


def gunzip(packed: bytes, name: str) -> bytes:
    """The decompressed bytes. Raises `DataError` beyond the limit."""
    limit = size_limit(len(packed))
    content = gzip.GzipFile(fileobj=io.BytesIO(packed)).read(limit + 1)
    if len(content) > limit:
        raise too_large_error(name, limit)
    return content


def read_archive(path: Path, *, example: str, advice: str) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` archive by name. Never unpickles.

    `example` and `advice` say in errors how to save the arrays. Raises `DataError` if the archive cannot be read.
    """
    _check_declared_sizes(path)
    try:
        with path.open("rb") as file:  # NumPy does not close a damaged archive that it opens itself
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
    """The first line of an error message, or the type of the error."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _check_declared_sizes(path: Path) -> None:
    """Raise `DataError` if the arrays of an `.npz` archive declare more bytes than it holds. Ignores other faults."""
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
                        f"{path} is damaged: its array {member.filename!r} declares {declared:,} bytes and has only "
                        f"{available:,}. Write the file again."
                    )
    except DataError:
        raise
    except _READ_ERRORS:
        return


def _declared_bytes(file: Any) -> int:
    """The size in bytes of the array that a `.npy` header declares. 0 for pickled objects, which are never read."""
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    return 0 if dtype.hasobject else math.prod(shape) * dtype.itemsize


def size_limit(size: int) -> int:
    """The largest decompressed size of a file of `size` bytes."""
    return max(FREE, RATIO * size)


def too_large_error(name: str, limit: int) -> DataError:
    """The error for a file that decompresses to more than the limit."""
    return DataError(
        f"{name} decompresses to more than {limit / 2**20:,.0f} MB, far more than expected for its size. Reading "
        "stopped. If the file is right, decompress it yourself and pass the result."
    )
