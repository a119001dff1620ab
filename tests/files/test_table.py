"""Small tables: the same content gives the same bytes, and every damaged byte is noticed."""

import json

import pytest
from pyarrow import parquet

from didact.errors import RecordError
from didact.files import table_io
from didact.files.checksummed import hash_of_file
from didact.files.table_io import Table, read_table, write_table

TYPES = {"name": "string", "count": "int64", "value": "float64", "row": "list float64", "raw": "binary"}
COLUMNS = {
    "name": ["a", None, "ü"], "count": [1, None, -3], "value": [0.5, None, float("inf")], "row": [[1.0, 2.0], None, []],
    "raw": [b"\x00\xff", None, b""],
}  # fmt: skip


def test_what_is_written_is_read_back(tmp_path):
    write_table(tmp_path / "deep" / "t.parquet", Table(COLUMNS, {"task": "reading", "n": [1]}), types=TYPES)
    found = read_table(tmp_path / "deep" / "t.parquet")
    assert found.columns == COLUMNS
    assert found.about == {"task": "reading", "n": [1]}


def test_the_same_content_gives_the_same_bytes(tmp_path):
    first = write_table(tmp_path / "a.parquet", Table(COLUMNS, {"a": 1, "b": 2}), types=TYPES)
    second = write_table(tmp_path / "b.parquet", Table(COLUMNS, {"b": 2, "a": 1}), types=TYPES)
    assert first == second
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert write_table(tmp_path / "c.parquet", Table(COLUMNS, {"a": 1}), types=TYPES) != first


def test_other_bytes_than_those_vouched_for(tmp_path):
    path = tmp_path / "a.parquet"
    checksum = write_table(path, Table(COLUMNS, {}), types=TYPES)
    assert read_table(path, checksum=checksum).columns == COLUMNS
    write_table(path, Table(COLUMNS, {"other": 1}), types=TYPES)
    with pytest.raises(RecordError, match="checksum does not match"):
        read_table(path, checksum=checksum)


def test_one_checksum_is_enough(tmp_path, monkeypatch):
    """Whoever has the hash of the file does not also hash every value in it."""
    path = tmp_path / "a.parquet"
    checksum = write_table(path, Table(COLUMNS, {}), types=TYPES)
    monkeypatch.setattr(table_io, "_checksum", None)
    assert read_table(path, checksum=checksum).columns == COLUMNS


def test_a_table_of_a_newer_version(tmp_path):
    path = tmp_path / "a.parquet"
    checksum = write_table(path, Table(COLUMNS, {}), types=TYPES)
    header = json.dumps({"about": {}, "checksum": table_io._checksum(COLUMNS, {}), "format": 2})
    newer = parquet.read_table(path).replace_schema_metadata({b"didact": header.encode()})
    parquet.write_table(newer, path)
    for known in (None, hash_of_file(path)):
        with pytest.raises(
            RecordError,
            match=r"a\.parquet has format 2, but this version of didact reads formats up to 1\. Update didact",
        ):
            read_table(path, checksum=known)
    assert checksum != hash_of_file(path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not a table at all, but long enough to be one PAR1"])
def test_what_is_no_table(tmp_path, content):
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(RecordError, match="missing or damaged"):
        read_table(tmp_path / "a.parquet")


def test_a_missing_file(tmp_path):
    with pytest.raises(RecordError, match="There is no file"):
        read_table(tmp_path / "a.parquet")


def test_a_table_of_somebody_else(tmp_path):
    import pyarrow

    parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(RecordError, match="missing or damaged"):
        read_table(tmp_path / "a.parquet")


def test_every_flipped_bit_is_noticed_or_harmless(tmp_path):
    """Without a checksum from outside: whatever byte is hit, what is read is what was written, or an error."""
    path = tmp_path / "a.parquet"
    written = Table(COLUMNS, {"task": "reading", "classes": ["no", "yes"]})
    write_table(path, written, types=TYPES)
    content = path.read_bytes()
    for place in range(len(content)):
        broken = bytearray(content)
        broken[place] ^= 1 << (place % 8)
        path.write_bytes(bytes(broken))
        try:
            found = read_table(path)
        except RecordError:
            continue
        assert (found.columns, found.about["task"], found.about["classes"]) == (COLUMNS, "reading", ["no", "yes"]), (
            place
        )


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_table_cut_short(tmp_path, share):
    path = tmp_path / "a.parquet"
    write_table(path, Table(COLUMNS, {}), types=TYPES)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(RecordError):
        read_table(path)
