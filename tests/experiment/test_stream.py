"""Explanations of data that are read some rows at a time: the same scores, in order, in one file."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import didact
from didact.cli.main import app
from didact.data.load import load_data
from didact.data.stream import stream_rows
from didact.errors import DataError, DidactError, OptionError, RecordError
from didact.experiment.stream import explain_stream
from didact.learning.train import train_teacher
from didact.records.explanations import Explanations

DATA = "planted/sentiment(teach=40, explain=10, train=10, dev=8, test=30)"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A teacher on disk, and rows as a Parquet file whose row groups are not shards."""
    folder = tmp_path_factory.mktemp("stream")
    data = load_data(DATA)
    train_teacher(data, "native(width=16, layers=1, heads=2)", epochs=1, progress=False, out=folder / "model")
    rows = [{"id": row.id, "text": row.texts[0], "label": data.classes[row.label]} for row in data["test"]]
    pq.write_table(pyarrow.Table.from_pylist(rows), folder / "rows.parquet", row_group_size=7)
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with gzip.open(folder / "rows.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, rows)))
    return folder, data


def same(one: Explanations, other: Explanations) -> None:
    assert one.ids == other.ids
    assert one.tokens == other.tokens
    assert (one.predictions, one.targets) == (other.predictions, other.targets)
    np.testing.assert_allclose(one.scores, other.scores, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl", "rows.jsonl.gz"])
def test_a_stream_gives_what_explain_gives_in_the_same_order(world, tmp_path, name):
    folder, data = world
    teacher = didact.load_teacher(str(folder / "model"))
    found = explain_stream(teacher, folder / name, "gradient_input", out=tmp_path / "maps.parquet", shard=8)
    assert (found.rows, found.shards, found.kept) == (30, 4, 0)
    same(Explanations.load(found.path), didact.explain(teacher, data["test"], "gradient_input"))
    parts = list(Explanations.shards(found.path))
    assert [len(part) for part in parts] == [8, 8, 8, 6]
    assert not (tmp_path / "maps.parquet.parts").exists()


def test_rows_texts_and_records_are_streamed_from_anything(world):
    _, data = world
    rows = list(data["test"])
    assert [row for part in stream_rows(iter(rows), size=7) for row in part] == rows
    texts = list(stream_rows((row.texts[0] for row in rows), size=20))
    assert [len(part) for part in texts] == [20, 10]
    assert texts[1][0].id == "row-21"
    records = ({"sentence": row.texts[0]} for row in rows)
    assert next(stream_rows(records, size=3))[2].texts == rows[2].texts


def test_a_file_written_at_once_is_one_shard(world, tmp_path):
    folder, data = world
    maps = didact.explain(didact.load_teacher(str(folder / "model")), data["test"][:5], "gradient_input")
    maps.save(tmp_path / "maps.parquet")
    (only,) = Explanations.shards(tmp_path / "maps.parquet")
    same(only, maps)


def test_a_stopped_stream_goes_on_to_the_same_bytes(world, tmp_path, monkeypatch):
    folder, _ = world
    teacher = didact.load_teacher(str(folder / "model"))
    asked = {"method": "gradient_input", "shard": 8}
    whole = explain_stream(teacher, folder / "rows.parquet", out=tmp_path / "whole.parquet", **asked)

    from didact.experiment import stream

    real, done = stream._Desk.done, []

    def broken(self, rows, place):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(place)
        return real(self, rows, place)

    monkeypatch.setattr(stream._Desk, "done", broken)
    with pytest.raises(KeyboardInterrupt):
        explain_stream(teacher, folder / "rows.parquet", out=tmp_path / "maps.parquet", **asked)
    assert not (tmp_path / "maps.parquet").exists()
    monkeypatch.setattr(stream._Desk, "done", real)
    again = explain_stream(teacher, folder / "rows.parquet", out=tmp_path / "maps.parquet", **asked)
    assert (again.kept, again.shards) == (2, 4)
    assert again.path.read_bytes() == whole.path.read_bytes()


def test_other_options_or_other_rows_are_not_taken_from_a_stopped_run(world, tmp_path):
    folder, data = world
    teacher = didact.load_teacher(str(folder / "model"))
    rows = list(data["test"])

    def stops():
        yield from rows[:16]
        raise RuntimeError("the line is dead")

    with pytest.raises(RuntimeError):
        explain_stream(teacher, stops(), "gradient_input", out=tmp_path / "m.parquet", shard=8)
    other = explain_stream(teacher, iter(rows), "gradient_input", out=tmp_path / "m.parquet", shard=8, absolute=True)
    assert other.kept == 0

    with pytest.raises(RuntimeError):
        explain_stream(teacher, stops(), "gradient_input", out=tmp_path / "n.parquet", shard=8)
    moved = explain_stream(teacher, iter(rows[1:]), "gradient_input", out=tmp_path / "n.parquet", shard=8)
    assert moved.kept == 0
    same(Explanations.load(moved.path), didact.explain(teacher, rows[1:], "gradient_input"))


def test_a_damaged_shard_is_seen_in_the_parts_and_in_the_file(world, tmp_path):
    folder, _ = world
    teacher = didact.load_teacher(str(folder / "model"))
    found = explain_stream(teacher, folder / "rows.parquet", "random", out=tmp_path / "maps.parquet", shard=8)
    content = bytearray(found.path.read_bytes())
    content[len(content) // 2] ^= 255
    found.path.write_bytes(content)
    with pytest.raises(RecordError, match="damaged"):
        Explanations.load(found.path)


@pytest.mark.slow
def test_workers_give_the_same_bytes_as_one_process(world, tmp_path):
    folder, _ = world
    asked = {"method": "lime(samples=20)", "shard": 8}
    one = explain_stream(str(folder / "model"), folder / "rows.parquet", out=tmp_path / "one.parquet", **asked)
    two = explain_stream(
        str(folder / "model"), folder / "rows.parquet", out=tmp_path / "two.parquet", workers=2, **asked
    )
    assert one.path.read_bytes() == two.path.read_bytes()


@pytest.mark.slow
def test_a_killed_command_goes_on_to_the_same_file(world, tmp_path):
    folder, _ = world
    command = [
        sys.executable, "-m", "didact.cli.main", "explain", "--model", str(folder / "model"), "--data",
        str(folder / "rows.parquet"), "--method", "lime(samples=2000)", "--stream", "--shard", "4",
    ]  # fmt: skip
    subprocess.run([*command, "--out", str(tmp_path / "whole.parquet")], check=True, capture_output=True)
    running = subprocess.Popen([*command, "--out", str(tmp_path / "maps.parquet")], stderr=subprocess.DEVNULL)
    parts = tmp_path / "maps.parquet.parts"
    until = time.monotonic() + 60
    while len(list(parts.glob("*.parquet"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert not (tmp_path / "maps.parquet").exists()
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "maps.parquet"), "--json"], check=True, capture_output=True, text=True
    )
    assert json.loads(done.stdout)["kept"] >= 2
    assert (tmp_path / "maps.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


@pytest.mark.parametrize(("data", "said"), [
    ("nowhere.parquet", "cannot be streamed"),
    ("rows.csv", "Files that can: .parquet"),
    ([1, 2], "holds a int, where a record"),
    (7, "something to iterate over"),
    ([{"id": "a", "text": "x"}, {"id": "a", "text": "y"}], "already used"),
    ([], "nothing to explain"),
])  # fmt: skip
def test_what_cannot_be_streamed_is_told(world, tmp_path, monkeypatch, data, said):
    folder, _ = world
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("text\nx\n")
    with pytest.raises(DataError, match=said):
        explain_stream(str(folder / "model"), data, "random", out=tmp_path / "maps.parquet")
    assert not (tmp_path / "maps.parquet").exists()


def test_an_id_that_comes_again_in_another_shard_is_refused(world, tmp_path):
    folder, data = world
    rows = [*data["test"], data["test"][0]]
    with pytest.raises(DataError, match="share an id"):
        explain_stream(str(folder / "model"), iter(rows), "random", out=tmp_path / "maps.parquet", shard=8)


def test_what_cannot_be_asked_of_a_stream_is_told(world, tmp_path):
    folder, data = world
    teacher = didact.load_teacher(str(folder / "model"))
    with pytest.raises(OptionError, match="Workers load the teacher themselves"):
        explain_stream(teacher, data["test"], "random", out=tmp_path / "maps.parquet", workers=2)
    with pytest.raises(OptionError, match="compares with other rows"):
        explain_stream(teacher, data["test"], "gradient_shap", out=tmp_path / "maps.parquet")
    result = CliRunner().invoke(app, ["explain", "--model", "m", "--data", "d", "--stream"])
    assert isinstance(result.exception, DidactError)
    assert "--stream explains --data with one method into --out" in str(result.exception)


def test_labels_matter_only_where_they_are_explained(world, tmp_path):
    folder, data = world
    teacher = didact.load_teacher(str(folder / "model"))
    records = [{"id": row.id, "text": row.texts[0], "label": "strange"} for row in data["test"]]
    explain_stream(teacher, iter(records), "gradient_input", out=tmp_path / "m.parquet")
    with pytest.raises(DataError, match="none of the classes"):
        explain_stream(teacher, iter(records), "gradient_input", out=tmp_path / "n.parquet", target="gold")
    gold = explain_stream(teacher, folder / "rows.parquet", "gradient_input", out=tmp_path / "g.parquet", target="gold")
    same(Explanations.load(gold.path), didact.explain(teacher, data["test"], "gradient_input", target="gold"))


def test_only_the_first_rows_of_a_stream(world, tmp_path):
    folder, data = world
    teacher = didact.load_teacher(str(folder / "model"))
    found = explain_stream(teacher, iter(data["test"]), "random", out=tmp_path / "m.parquet", shard=8, rows=11)
    assert Explanations.load(found.path).ids == data["test"].ids[:11]
