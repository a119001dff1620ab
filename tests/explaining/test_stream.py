"""Explanations of data that are read some rows at a time: the same scores, in order, in one file."""

import contextlib
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import datasets
import numpy as np
import pyarrow
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import didact
from didact.cli.main import app
from didact.core.explanation import Explanation
from didact.data.ids import SeenIds
from didact.data.load import load_data
from didact.data.stream import stream_rows
from didact.errors import DataError, DidactError, OptionError, RecordError
from didact.execution import process_pool
from didact.explainers import EXPLAINERS
from didact.explainers.build import build_explainer
from didact.explainers.controls import Random
from didact.explaining.job import ExplainJob
from didact.explaining.stream import explain_stream
from didact.learning.train import train_teacher
from didact.results.explanations import Explanations
from didact.viz.progress import Progress
from processes import waited

pytestmark = pytest.mark.filterwarnings("ignore::didact.errors.ExplanationWarning")  # few samples, for speed

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
    assert None not in one.labels
    assert one.labels == other.labels
    assert (one.probabilities > 0.1).all()
    np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl", "rows.jsonl.gz"])
def test_a_stream_gives_what_explain_gives_in_the_same_order(world, tmp_path, name):
    folder, data = world
    teacher = didact.load_teacher(str(folder / "model"))
    found = explain_stream(teacher, folder / name, "gradient_input", out=tmp_path / "maps.parquet", shard=8)
    assert (found.rows, found.shards, found.reused) == (30, 4, 0)
    same(Explanations.load(found.path), didact.explain(teacher, data["test"], "gradient_input"))
    parts = list(Explanations.shards(found.path))
    assert [len(part) for part in parts] == [8, 8, 8, 6]
    assert not (tmp_path / "maps.parquet.shards").exists()


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

    real, done = ExplainJob.explain, []

    def broken(self, rows, *more):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(rows)
        return real(self, rows, *more)

    monkeypatch.setattr(ExplainJob, "explain", broken)
    with pytest.raises(KeyboardInterrupt, match=r"2 shards are saved in .*maps.parquet.shards; run the same again"):
        explain_stream(teacher, folder / "rows.parquet", out=tmp_path / "maps.parquet", **asked)
    assert not (tmp_path / "maps.parquet").exists()
    monkeypatch.setattr(ExplainJob, "explain", real)
    again = explain_stream(teacher, folder / "rows.parquet", out=tmp_path / "maps.parquet", **asked)
    assert (again.reused, again.shards) == (2, 4)
    assert again.path.read_bytes() == whole.path.read_bytes()


def test_two_at_once_into_one_file_do_not_disturb_each_other(world, tmp_path):
    folder, data = world
    teacher = didact.load_teacher(str(folder / "model"))
    out = tmp_path / "m.parquet"

    def rows():
        yield from data["test"][:8]
        with pytest.raises(RecordError, match=r"Another run is writing .*m.parquet. Wait until it has finished"):
            explain_stream(teacher, data["test"], "gradient_input", out=out, shard=8)
        yield from data["test"][8:]

    assert explain_stream(teacher, rows(), "gradient_input", out=out, shard=8).shards == 4
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_time_left_is_told_where_the_number_of_rows_is_known(world, tmp_path, monkeypatch, capsys, workers):
    folder, data = world
    monkeypatch.setattr(Progress, "EVERY", 0.0)

    def said(source, **options):
        asked = {"out": tmp_path / "m.parquet", "shard": 8, "workers": workers, "progress": True, "overwrite": True}
        explain_stream(str(folder / "model"), source, "random", **asked, **options)
        return capsys.readouterr().err

    assert "16 of 30, " in said(folder / "rows.parquet")
    assert "8 of 20, " in said(folder / "rows.parquet", rows=20)
    assert "8 of 30, " in said(data["test"])
    assert "8 of 8, " in said(DATA, split="dev")
    assert re.search(r"random: 8 after \d+ s\n", said(folder / "rows.jsonl"))
    assert "8 of 30, " in said(folder / "rows.jsonl", total=30)


def test_what_was_kept_says_nothing_of_the_time_left(world, tmp_path, monkeypatch):
    folder, data = world
    skipped = []
    monkeypatch.setattr(Progress, "skip", lambda _, steps: skipped.append(steps))
    teacher = didact.load_teacher(str(folder / "model"))

    def stops():
        yield from data["test"][:16]
        raise RuntimeError("the line is dead")

    asked = {"method": "random", "shard": 8, "out": tmp_path / "m.parquet"}
    with pytest.raises(RuntimeError):
        explain_stream(teacher, stops(), **asked)
    explain_stream(teacher, data["test"], **asked)
    assert skipped == [8, 8]


class TestGoingOn:
    """What a run leaves behind when it is stopped, and what is made of it."""

    @pytest.fixture
    def stopped(self, world, tmp_path):
        """Explain all rows; or stop after so many, by Ctrl-C, and give what was said."""
        folder, data = world

        def run(teacher=None, *, after=None, **options):
            def rows():
                yield from data["test"][:after]
                if after is not None:
                    raise KeyboardInterrupt

            asked = {"out": tmp_path / "m.parquet", "shard": 4, "method": "gradient_input"} | options
            if after is None:
                return explain_stream(teacher or str(folder / "model"), rows(), **asked)
            with pytest.raises(KeyboardInterrupt) as told:
                explain_stream(teacher or str(folder / "model"), rows(), **asked)
            return str(told.value)

        return run

    def test_with_the_teacher_by_another_path(self, world, tmp_path, stopped):
        folder, _ = world
        stopped(after=12)
        found = stopped(f"{folder}/../{folder.name}/model")
        assert (found.reused, found.shards) == (3, 8)
        assert Explanations.load(found.path).teacher == f"{folder}/../{folder.name}/model"
        assert list(tmp_path.iterdir()) == [found.path]

    def test_what_killed_runs_left_is_cleared_away(self, tmp_path, stopped):
        stopped(after=12)
        left = tmp_path / "m.parquet.shards"
        (left / "jobs-1-abcd").mkdir()
        (left / "jobs-1-abcd" / "manifest.json").touch()
        (left / "000000007-x-y.parquet.1.0123abcd.tmp").touch()
        (left / "lock").touch()
        assert stopped().reused == 3
        assert list(tmp_path.iterdir()) == [tmp_path / "m.parquet"]

    def test_not_with_other_batches_or_threads(self, stopped):
        stopped(after=12)
        stopped(after=12, batch_size=3)
        stopped(after=12, threads=2)
        assert stopped(batch_size=5).reused == 0

    def test_not_with_weights_that_were_changed_unseen(self, world, stopped):
        teacher = didact.load_teacher(str(world[0] / "model"))
        stopped(teacher, after=12)
        teacher.head.weight.data += 1.0
        assert stopped(teacher).reused == 0

    def test_ctrl_c_before_the_first_row_tells_what_runs_before_have_kept(self, stopped):
        assert "No shard is finished yet" in stopped(after=0)
        assert "3 shards are saved" in stopped(after=12)
        assert "No shard is finished yet" in stopped(after=0, threads=2)
        assert "3 shards are saved" in stopped(after=0)

    def test_a_plain_explanation_into_the_same_file_takes_nothing_away(self, world, tmp_path, stopped):
        folder, data = world
        stopped(after=12)
        teacher = didact.load_teacher(str(folder / "model"))
        didact.explain(teacher, data["test"][:5], "gradient_input", out=tmp_path / "m.parquet")
        assert stopped(overwrite=True).reused == 3


def test_what_is_read_is_not_written_over(world, tmp_path):
    folder, _ = world
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes((folder / "rows.jsonl").read_bytes())
    with pytest.raises(OptionError, match=r"rows.jsonl' is the input and would be overwritten"):
        explain_stream(str(folder / "model"), rows, "random", out=tmp_path / "." / "rows.jsonl")
    for more in ((), ("--stream",)):
        asked = ["explain", "--model", str(folder / "model"), "--data", str(rows), "--out", str(rows), *more]
        result = CliRunner().invoke(app, asked)
        assert isinstance(result.exception, OptionError), result.output
    assert rows.read_bytes() == (folder / "rows.jsonl").read_bytes()


SMALL = {
    "gradient_shap": "gradient_shap(samples=8, background=4)", "deep_shap": "deep_shap(background=4)",
    "lime": "lime(samples=20)", "kernel_shap": "kernel_shap(samples=20)",
    "shapley_sampling": "shapley_sampling(permutations=2)", "blend": "blend(members='occlusion + gradient_norm')",
}  # fmt: skip
# method -> why this teacher, of sentences, has no such explanations
ELSEWHERE = {
    "attention": "only models that pool by attention have one of their own",
    "attention_alignment": "there is no question to align",
    "l2e": "it must be learned",
}


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if name not in ELSEWHERE])
@pytest.mark.slow
def test_every_method_explains_in_shards_as_it_does_at_once(world, tmp_path, name):
    folder, data = world
    method, rows = SMALL.get(name, name), data["test"][:6]
    if name == "truth":
        rows = [replace(row, rationale_weights=(1.0,) * len(row.rationale)) for row in rows]
    teacher = didact.load_teacher(str(folder / "model"))
    others = {"background_rows": data["explain"]} if build_explainer(method).explainer.needs_background else {}
    asked = {"out": tmp_path / "m.parquet", "shard": 3}
    if others:
        with pytest.raises(OptionError, match="compares with background rows"):
            explain_stream(teacher, rows, method, **asked)
    found = explain_stream(teacher, rows, method, **asked, **others)
    same(Explanations.load(found.path), didact.explain(teacher, rows, method, **others))


def test_what_compares_with_other_rows():
    """Told by each method itself; who adds one that prepares itself is asked for a background, unless it says no."""
    named = {name for name in EXPLAINERS if name != "attention" and build_explainer(name).explainer.needs_background}
    assert named == {"gradient_shap", "deep_shap", "lexicon"}
    assert build_explainer("blend(members='occlusion + lexicon')").explainer.needs_background
    assert not build_explainer("blend(members='occlusion + lime')").explainer.needs_background


@pytest.fixture(scope="module")
def learned(world, tmp_path_factory):
    folder, data = world
    place = tmp_path_factory.mktemp("learned") / "smat"
    didact.learn_smat(
        didact.load_teacher(str(folder / "model")), data, out=place, progress=False, size=10,
        training={"epochs": 1, "batch_size": 4},
    )  # fmt: skip
    return place


@pytest.mark.parametrize("workers", [0, 1])
def test_one_that_was_learned_explains_in_shards_as_it_does_at_once(world, learned, tmp_path, workers):
    folder, data = world
    found = explain_stream(
        str(folder / "model"), data["test"], learned, out=tmp_path / "m.parquet", shard=8, workers=workers
    )
    teacher = didact.load_teacher(str(folder / "model"))
    same(Explanations.load(found.path), didact.explain(teacher, data["test"], str(learned)))


def test_a_method_learned_for_another_teacher_is_told(world, learned, tmp_path):
    _, data = world
    train_teacher(data, "native(width=16, layers=1, heads=2)", epochs=1, seed=1, progress=False, out=tmp_path / "other")
    with pytest.warns(UserWarning, match="was learned for another teacher"):
        explain_stream(str(tmp_path / "other"), data["test"], learned, out=tmp_path / "m.parquet")


def test_a_length_that_cannot_be_told_is_no_error(world, tmp_path):
    folder, data = world

    class Loader:
        def __len__(self):
            raise TypeError("an iterable has no length")

        def __iter__(self):
            return iter(data["test"])

    assert explain_stream(str(folder / "model"), Loader(), "random", out=tmp_path / "m.parquet").rows == 30


@pytest.mark.parametrize(("told", "total"), [(30, 30), (0, None), (None, None)])
def test_how_many_rows_the_hub_tells(monkeypatch, told, total):
    splits = None if told is None else {"train": SimpleNamespace(num_examples=told)}

    class StreamResult(list):
        info = SimpleNamespace(splits=splits)

    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: StreamResult([{"text": "good"}]))
    found = stream_rows("owner/name", size=2, task="classification")
    assert found.total == total
    assert [row.texts for part in found for row in part] == [("good",)]


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
    assert other.reused == 0

    with pytest.raises(RuntimeError):
        explain_stream(teacher, stops(), "gradient_input", out=tmp_path / "n.parquet", shard=8)
    moved = explain_stream(teacher, iter(rows[1:]), "gradient_input", out=tmp_path / "n.parquet", shard=8)
    assert moved.reused == 0
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


class TestThreads:
    """The number of threads decides last digits: it is that of the call, not of the process it happens in."""

    def test_bytes_do_not_depend_on_the_threads_of_the_process(self, world, tmp_path):
        folder, _ = world
        made, before = [], torch.get_num_threads()
        try:
            for count in (1, 3):
                torch.set_num_threads(count)
                out = tmp_path / f"{count}.parquet"
                with counted() as seen:
                    explain_stream(str(folder / "model"), folder / "rows.parquet", "gradient_input", out=out, shard=8)
                assert (seen, torch.get_num_threads()) == ([1] * 4, count)
                made.append(out.read_bytes())
        finally:
            torch.set_num_threads(before)
        assert made[0] == made[1]

    def test_threads_are_given_back_after_an_error_too(self, world, tmp_path):
        folder, _ = world
        before = torch.get_num_threads()
        with pytest.raises(DataError):
            explain_stream(str(folder / "model"), [1], "random", out=tmp_path / "m.parquet", threads=before + 1)
        assert torch.get_num_threads() == before

    def test_shards_of_another_number_of_threads_are_not_taken(self, world, tmp_path):
        folder, data = world
        asked = {"method": "gradient_input", "shard": 8, "out": tmp_path / "m.parquet"}

        def stops():
            yield from data["test"][:16]
            raise RuntimeError("the line is dead")

        for threads, kept in ((2, 0), (1, 2)):
            with pytest.raises(RuntimeError):
                explain_stream(str(folder / "model"), stops(), threads=1, **asked)
            found = explain_stream(str(folder / "model"), iter(data["test"]), threads=threads, **asked)
            assert found.reused == kept


@contextlib.contextmanager
def counted():
    """The numbers of threads that shards are explained with."""
    real, seen = ExplainJob.explain, []

    def explain(self, rows, *more):
        seen.append(torch.get_num_threads())
        return real(self, rows, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExplainJob, "explain", explain)
        yield seen


# Explains as the real one does, but for what the first row of a shard says.
WORKER = """
import json, os, sys
from pathlib import Path
from didact.execution import worker
from didact.explaining import shard_jobs
from didact.files.checksummed import read_json

class Runner(shard_jobs.ExplainRunner):
    def run(self, key):
        (Path({notes!r}) / str(os.getpid())).write_text(key)
        {body}
        return super().run(key)

worker.main(sys.argv[1], lambda manifest: Runner(manifest.parent, read_json(manifest, advice="")))
"""


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """Workers that do something else before a shard; gives the folder with their numbers."""

    def made(body: str) -> Path:
        notes = tmp_path / "notes"
        notes.mkdir()
        (tmp_path / "quick_shards.py").write_text(WORKER.format(notes=str(notes), body=body))
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        monkeypatch.setattr("didact.explaining.stream._MODULE", "quick_shards")
        return notes

    return made


@pytest.mark.slow
class TestWorkers:
    @pytest.mark.parametrize("method", ["lime(samples=20)", "kernel_shap(samples=20)"])
    def test_any_number_of_them_gives_the_same_bytes(self, world, tmp_path, method):
        folder, _ = world
        made, before = [], torch.get_num_threads()
        torch.set_num_threads(4)
        try:
            for workers in (0, 1, 3):
                out = tmp_path / f"{workers}.parquet"
                asked = {"shard": 4, "workers": workers, "out": out}
                explain_stream(str(folder / "model"), folder / "rows.parquet", method, **asked)
                made.append(out.read_bytes())
        finally:
            torch.set_num_threads(before)
        assert made[0] == made[1] == made[2]
        assert not list(tmp_path.glob("*.parts"))

    def test_what_decides_the_scores_reaches_them(self, world, tmp_path):
        """Options beside the name, classes of the data, a background and the kind of numbers."""
        folder, data = world
        asked = {
            "method": "gradient_shap(background=2)", "samples": 3, "target": "gold", "level": "word", "shard": 8,
            "seed": 5, "background_rows": data["train"], "loading": {"max_length": 32, "truncate": True},
        }  # fmt: skip
        made = []
        torch.set_default_dtype(torch.float64)
        try:
            for workers in (0, 2):
                out = tmp_path / f"{workers}.parquet"
                explain_stream(str(folder / "model"), folder / "rows.parquet", out=out, workers=workers, **asked)
                made.append(out.read_bytes())
        finally:
            torch.set_default_dtype(torch.float32)
        assert made[0] == made[1]

    @pytest.mark.parametrize("way", ["script", "stdin"])
    def test_a_script_needs_no_main(self, world, tmp_path, way):
        folder, _ = world
        code = f"""
import didact
found = didact.explain_stream(
    {str(folder / "model")!r}, {str(folder / "rows.parquet")!r}, "random", out="m.parquet", shard=8, workers=2
)
print(found.rows)
"""
        (tmp_path / "script.py").write_text(code)
        given = (
            {"args": [sys.executable, "script.py"]} if way == "script" else {"args": [sys.executable], "input": code}
        )
        done = subprocess.run(**given, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.strip()) == (0, "30"), done.stderr

    def test_one_that_dies_is_tried_again(self, world, tmp_path, quick):
        folder, _ = world
        notes = quick(f"if len(list(Path({str(tmp_path / 'notes')!r}).iterdir())) == 1: os.kill(os.getpid(), 9)")
        asked = {"shard": 8, "out": tmp_path / "m.parquet", "workers": 1}
        found = explain_stream(str(folder / "model"), folder / "rows.parquet", "random", **asked)
        assert (found.rows, found.shards) == (30, 4)
        assert len(list(notes.iterdir())) == 2

    def test_rows_over_which_they_always_die_are_named_and_the_rest_is_kept(self, world, tmp_path, quick, monkeypatch):
        folder, data = world
        quick('if key.startswith("000000002"): print("out of memory", flush=True); os.kill(os.getpid(), 9)')
        asked = {"method": "random", "shard": 8, "out": tmp_path / "m.parquet"}
        ids = data["test"].ids
        with pytest.raises(DidactError) as told:
            explain_stream(str(folder / "model"), folder / "rows.parquet", workers=1, **asked)
        said = str(told.value)
        assert f"the 8 rows from {ids[16]!r} to {ids[23]!r}" in said
        assert "signal 9 (SIGKILL)" in said
        assert "Memory may have run out" in said
        assert "out of memory" in said
        assert "2 shards are saved" in said
        assert sorted(one.name[:9] for one in (tmp_path / "m.parquet.shards").iterdir()) == ["000000000", "000000001"]
        monkeypatch.undo()
        assert explain_stream(str(folder / "model"), folder / "rows.parquet", **asked).reused == 2

    def test_memory_is_blamed_for_kills_alone(self, world, tmp_path, quick):
        folder, _ = world
        quick("os._exit(3)")
        asked = {"out": tmp_path / "m.parquet", "workers": 1}
        with pytest.raises(DidactError, match=r"ended with code 3(?!.*Memory)"):
            explain_stream(str(folder / "model"), folder / "rows.parquet", "random", **asked)

    def test_what_a_method_raises_is_told_with_its_rows(self, world, tmp_path, quick):
        folder, _ = world
        quick("self.job.method.explainer.forward = None")
        with pytest.raises(DidactError, match=r"could not explain the 30 rows from .* TypeError"):
            explain_stream(
                str(folder / "model"), folder / "rows.parquet", "random", out=tmp_path / "m.parquet", workers=1
            )
        assert not (tmp_path / "m.parquet.shards").exists()

    def test_what_didact_refuses_is_the_same_error_as_without_them(self, world, tmp_path):
        folder, data = world
        rows = [*data["test"][:8], replace(data["test"][8], texts=("word " * 5000,))]
        told = []
        for workers in (0, 1):
            with pytest.raises(DidactError) as refused:
                explain_stream(
                    str(folder / "model"), rows, "random", out=tmp_path / "m.parquet", shard=4, workers=workers
                )
            told.append(str(refused.value))
        assert told[0] == told[1]

    def test_reading_waits_for_them(self, world, tmp_path, quick):
        """No more than two shards for each worker are in hand, however fast rows come."""
        folder, data = world
        quick("import time; time.sleep(0.3)")
        most = []

        def rows():
            for number, row in enumerate(data["test"]):
                most.append(number // 2 - len(list((tmp_path / "m.parquet.shards").glob("*.parquet"))))
                yield row

        explain_stream(str(folder / "model"), rows(), "random", out=tmp_path / "m.parquet", shard=2, workers=2)
        assert max(most) <= 2 * 2 + 1

    def test_they_end_with_their_parent(self, world, tmp_path):
        folder, _ = world
        running = subprocess.Popen(
            [
                *command(folder, "lime(samples=200000)"), "--out", str(tmp_path / "m.parquet"), "--workers", "2",
            ],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            assert waited(lambda: len(children(running.pid)) == 2)
            workers = children(running.pid)
        finally:
            running.kill()
            running.wait()
        assert waited(lambda: not any(Path(f"/proc/{one}").exists() for one in workers))

    @pytest.mark.parametrize("workers", [0, 2])
    def test_an_interrupt_is_a_sentence(self, world, tmp_path, workers):
        folder, _ = world
        running = subprocess.Popen(
            [
                *command(folder, "lime(samples=2000)"), "--out", str(tmp_path / "m.parquet"),
                "--workers", str(workers),
            ],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert waited(lambda: len(list((tmp_path / "m.parquet.shards").glob("*.parquet"))) >= 1)
        below = children(running.pid)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
        assert running.returncode == 130, said
        assert re.fullmatch(
            r"didact: Stopped\. \d shards? (is|are) saved in .*m\.parquet\.shards; run the same again to resume\.\n",
            said,
        )
        assert not any(Path(f"/proc/{one}").exists() for one in below)

    def test_what_they_finished_is_told_even_if_they_could_not_tell_it(self, world, tmp_path, monkeypatch):
        folder, _ = world

        def interrupted(*_, **__):
            assert waited(lambda: any((tmp_path / "m.parquet.shards").glob("*.parquet")))
            raise KeyboardInterrupt

        for name in ("wait", "as_completed"):
            monkeypatch.setattr(process_pool, name, interrupted)
        with pytest.raises(
            KeyboardInterrupt, match=r"Stopped\. 1 shard is saved in .*; run the same again to resume\."
        ):
            explain_stream(
                str(folder / "model"), folder / "rows.parquet", "random", out=tmp_path / "m.parquet", workers=1
            )

    def test_an_object_is_not_taken_over(self, world, tmp_path):
        folder, data = world

        def stops():
            yield from data["test"][:8]
            raise KeyboardInterrupt

        def flat(_, batch, __):
            return Explanation(batch.units.float(), batch.mask, batch.units, "signed")

        with pytest.raises(
            KeyboardInterrupt, match=r"Stopped\. 'flat' is an object and not a name, so a new run starts"
        ):
            explain_stream(str(folder / "model"), stops(), flat, out=tmp_path / "m.parquet", shard=8)


def command(folder, method):
    return [
        sys.executable, "-m", "didact.cli.main", "explain", "--model", str(folder / "model"), "--data",
        str(folder / "rows.parquet"), "--method", method, "--stream", "--shard", "4",
    ]  # fmt: skip


def children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except OSError:
        return []


@pytest.mark.slow
def test_a_killed_command_goes_on_to_the_same_file(world, tmp_path):
    folder, _ = world
    asked = command(folder, "lime(samples=2000)")
    subprocess.run([*asked, "--out", str(tmp_path / "whole.parquet")], check=True, capture_output=True)
    running = subprocess.Popen([*asked, "--out", str(tmp_path / "maps.parquet")], stderr=subprocess.DEVNULL)
    parts = tmp_path / "maps.parquet.shards"
    until = time.monotonic() + 60
    while len(list(parts.glob("*.parquet"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert not (tmp_path / "maps.parquet").exists()
    done = subprocess.run(
        [*asked, "--out", str(tmp_path / "maps.parquet"), "--json"], check=True, capture_output=True, text=True
    )
    assert json.loads(done.stdout)["kept"] >= 2
    assert not parts.exists()
    assert (tmp_path / "maps.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


@pytest.mark.parametrize(("data", "said"), [
    ("nowhere.parquet", "There is no file nowhere.parquet"),
    ("rows.csv", "Files that can: .parquet"),
    ("dd/nope.jsonl", "There is no file dd/nope.jsonl"),
    ("dd/nope.csv.gz", "There is no file dd/nope.csv.gz"),
    ("dd/nope.json", "There is no file dd/nope.json"),
    ("here/nope", "There is no file here/nope"),
    ("./nope", "There is no file ./nope"),
    ("/nope", "There is no file /nope"),
    (Path("owner/name"), "There is no file owner/name"),
    ("here", "here is a folder"),
    ("imbd", "Did you mean 'imdb'"),
    ("planted/sentimant(cues=2)/x", "Did you mean 'planted/sentiment'"),
    ([1, 2], "must contain records, rows or texts, got int"),
    (7, "from an iterable"),
    ([{"id": "a", "text": "x"}, {"id": "a", "text": "y"}], "already used"),
    ([], "nothing to explain"),
])  # fmt: skip
def test_what_cannot_be_streamed_is_told(world, tmp_path, monkeypatch, data, said):
    folder, _ = world
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("didact.data.stream._from_hub", None)  # never asked
    (tmp_path / "rows.csv").write_text("text\nx\n")
    (tmp_path / "here").mkdir()
    with pytest.raises(DataError, match=said):
        explain_stream(str(folder / "model"), data, "random", out=tmp_path / "maps.parquet")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["here", "rows.csv"]


def test_what_is_not_there_is_told_before_a_teacher_is_looked_for(tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        explain_stream("no/teacher", "nope.jsonl", "random", out=tmp_path / "m.parquet")


def test_a_name_on_the_hub_is_asked_of_the_hub(world, tmp_path, monkeypatch):
    folder, data = world
    asked = []

    def hub(name, split):
        asked.append((name, split))
        return [{"text": row.texts[0], "label": row.label} for row in data["test"]], None, {"label": data.classes[::-1]}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("didact.data.stream._from_hub", hub)
    explain_stream(str(folder / "model"), "owner/name-1.5", "random", out=tmp_path / "m.parquet", split="half")
    assert asked == [("owner/name-1.5", "half")]
    (rows,) = stream_rows("owner/name-1.5", size=100, split="half", classes=data.classes)
    assert [row.label for row in rows] == [1 - row.label for row in data["test"]]  # by the names that the hub knows


def test_a_data_set_of_ours_is_streamed_by_its_split(world, tmp_path, monkeypatch):
    folder, data = world
    monkeypatch.setattr("didact.data.stream._from_hub", None)
    teacher = didact.load_teacher(str(folder / "model"))
    asked = {"out": tmp_path / "m.parquet", "shard": 4, "target": "gold"}
    found = explain_stream(teacher, DATA, "gradient_input", split="dev", **asked)
    same(Explanations.load(found.path), didact.explain(teacher, data["dev"], "gradient_input", target="gold"))
    result = CliRunner().invoke(
        app, [*command(folder, "random")[3:], "--data", DATA, "--out", str(tmp_path / "n.parquet")]
    )
    assert result.exit_code == 0, result.output
    assert Explanations.load(tmp_path / "n.parquet").ids == data["test"].ids
    with pytest.raises(DidactError, match="There is no split of .* named 'tset'"):
        explain_stream(teacher, DATA, "random", split="tset", out=tmp_path / "o.parquet")
    with pytest.raises(OptionError, match="has the task pair, not classification"):
        explain_stream(teacher, DATA.replace("sentiment", "inference"), "random", out=tmp_path / "o.parquet")


def test_labels_of_a_data_set_of_ours_are_in_the_order_that_is_asked_for(world):
    _, data = world
    (rows,) = stream_rows(DATA, size=100, split="test", classes=data.classes[::-1])
    assert [row.label for row in rows] == [1 - row.label for row in data["test"]]
    with pytest.raises(OptionError, match="The data's classes are negative, positive, and the model's are a, b"):
        stream_rows(DATA, size=100, split="test", classes=("a", "b"))
    (rows,) = stream_rows(DATA, size=100, split="test", classes=("a", "b"), labels=False)
    assert {row.label for row in rows} == {None}, "labels that are not needed, and that the model does not know"
    (rows,) = stream_rows(DATA, size=100, split="test", classes=data.classes[::-1], labels=False)
    assert [row.label for row in rows] == [1 - row.label for row in data["test"]]


def test_an_id_that_comes_again_in_another_shard_is_told_when_it_is_read(world, tmp_path):
    folder, data = world
    first = data["test"][0]

    def rows():
        yield from data["test"][:20]
        yield first
        yield from data["test"][20:24]
        raise AssertionError("read on")

    with pytest.raises(DataError, match=rf"generator row 21: the id '{first.id}' was already used"):
        explain_stream(str(folder / "model"), rows(), "random", out=tmp_path / "maps.parquet", shard=5)


def test_rows_without_a_name_are_named_by_their_place(world, tmp_path):
    folder, data = world
    rows = [replace(row, id="") for row in [*data["test"], *data["test"]]]
    found = explain_stream(str(folder / "model"), iter(rows), "random", out=tmp_path / "m.parquet", shard=8)
    assert Explanations.load(found.path).ids == tuple(f"row-{number}" for number in range(1, 61))


def test_seen_ids_are_those_of_a_set():
    draw = np.random.default_rng(0)
    for size in (1, 7, 64):
        ids, known = SeenIds(), set()
        for _ in range(300):
            new = [str(one) for one in draw.integers(0, 300 * size * 5, size)]
            again = next((place for place, one in enumerate(new) if one in known or one in new[:place]), None)
            assert ids.first_repeated(new) == again
            if again is None:
                known |= set(new)
        assert sum(map(len, ids._runs)) == len(known)
        assert len(ids._runs) <= 1 + np.log2(300)


def test_what_cannot_be_asked_of_a_stream_is_told(world, tmp_path):
    folder, data = world
    teacher = didact.load_teacher(str(folder / "model"))
    with pytest.raises(OptionError, match="Workers load the teacher themselves"):
        explain_stream(teacher, data["test"], "random", out=tmp_path / "maps.parquet", workers=2)
    with pytest.raises(OptionError, match="Workers build the explainer themselves"):
        explain_stream(str(folder / "model"), data["test"], Random(), out=tmp_path / "maps.parquet", workers=2)
    with pytest.raises(OptionError, match="compares with background rows"):
        explain_stream(teacher, data["test"], "gradient_shap", out=tmp_path / "maps.parquet")
    result = CliRunner().invoke(app, ["explain", "--model", "m", "--data", "d", "--stream"])
    assert isinstance(result.exception, DidactError)
    assert "--stream needs --data, --out and at most one method" in str(result.exception)


def test_labels_matter_only_where_they_are_explained(world, tmp_path):
    folder, data = world
    teacher = didact.load_teacher(str(folder / "model"))
    records = [{"id": row.id, "text": row.texts[0], "label": "strange"} for row in data["test"]]
    explain_stream(teacher, iter(records), "gradient_input", out=tmp_path / "m.parquet")
    assert set(Explanations.load(tmp_path / "m.parquet").labels) == {None}
    with pytest.raises(OptionError, match=r"rows 1 to 30: The data's classes are strange, .* --classes strange,none"):
        explain_stream(teacher, iter(records), "gradient_input", out=tmp_path / "n.parquet", target="gold")
    gold = explain_stream(teacher, folder / "rows.parquet", "gradient_input", out=tmp_path / "g.parquet", target="gold")
    same(Explanations.load(gold.path), didact.explain(teacher, data["test"], "gradient_input", target="gold"))


def test_only_the_first_rows_of_a_stream(world, tmp_path):
    folder, data = world
    teacher = didact.load_teacher(str(folder / "model"))
    found = explain_stream(teacher, iter(data["test"]), "random", out=tmp_path / "m.parquet", shard=8, rows=11)
    assert Explanations.load(found.path).ids == data["test"].ids[:11]
