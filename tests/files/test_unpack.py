"""Small files that claim to be large: they are refused before they fill the memory."""

import base64
import gzip
import io
import json
import tracemalloc
import zipfile
import zlib

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from didact.data.load import load_data
from didact.data.stream import stream_rows
from didact.errors import DataError
from didact.explaining.read_explanations import read_explanations
from didact.files import unpack

LINE = b'{"text": "good", "label": 1}\n'


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch):
    """The bound is a quarter of a MB here, so that a test needs no more than that."""
    monkeypatch.setattr(unpack, "FREE", 2**18)


def bomb(size: int, content: bytes = b" ") -> bytes:
    return gzip.compress(content * size)


def peak_of(work) -> int:
    with pytest.raises(DataError, match="decompresses to more than"):
        work()  # what is imported on first use does not count
    tracemalloc.start()
    with pytest.raises(DataError, match="decompresses to more than"):
        work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.csv.gz", "x.tsv.gz"])
@pytest.mark.parametrize("content", [b" ", b"a "])
def test_packed_tables(name, content, tmp_path):
    path = tmp_path / name
    path.write_bytes(bomb(8 * 2**20, content))
    assert peak_of(lambda: load_data(path)) < 6 * 2**20


def test_a_packed_stream(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(bomb(8 * 2**20))
    assert peak_of(lambda: list(stream_rows(path, size=10))) < 6 * 2**20


def test_foreign_files(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(bomb(8 * 2**20))
    assert peak_of(lambda: read_explanations(path, ["good"], format="eraser")) < 6 * 2**20


def test_what_packs_well_is_read(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(LINE * 1000))
    assert len(load_data(path).all_rows) == 1000
    assert sum(map(len, stream_rows(path, size=300))) == 1000


def header(shape: tuple[int, ...], content: bytes = b"") -> bytes:
    """A `.npy` file whose header claims this shape."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue() + content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header((10**12,)), "declares 8,000,000,000,000 bytes"),
        (header((2**40, 2**40)), "declares"),
        (header((5,), b"\0" * 8), "declares 40 bytes"),
        (header((2**19,), bytes(4 * 2**20)), "decompresses to more than"),
    ],
)
def test_archives_that_claim_too_much(content, message, tmp_path):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("images.npy", "scores.npy"):
            archive.writestr(name, content)
    for read in (load_data, lambda path: read_explanations(path, ["good"], tokens=[["good"]])):
        with pytest.raises(DataError, match=message):
            read(path)


def test_packed_arrays_of_inseq(tmp_path):
    packed = base64.b64encode(bomb(8 * 2**20)).decode()
    array = {"__ndarray__": f"b64.gz:{packed}", "shape": [1, 1], "dtype": "float32"}
    sequence = {"source": ["good"], "target": ["x"], "attr_pos_start": 0, "source_attributions": array}
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"sequence_attributions": [sequence], "info": {}}))
    assert peak_of(lambda: read_explanations(path, ["good"], format="inseq")) < 6 * 2**20


def png(width: int, height: int) -> bytes:
    """A small file that says it is a large image."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        whole = kind + content
        return len(content).to_bytes(4, "big") + whole + zlib.crc32(whole).to_bytes(4, "big")

    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size + b"\x08\x00\0\0\0") + chunk(b"IDAT", zlib.compress(b"\0" * 10))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (png(20_000, 20_000), "pixels"),
        (png(9_000, 9_000), "9,000 × 9,000 pixels"),
        (png(10, 10)[:50], "cannot be read as an image"),
        (b"no image", "cannot be read as an image"),
    ],
)
def test_images(content, message, tmp_path):
    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table({"image": [{"bytes": content}], "label": [0]}), path)
    with pytest.raises(DataError, match=message):
        load_data(path)
