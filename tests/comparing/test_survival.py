"""What a run does with damage, failures, full disks and Ctrl-C: nothing is lost, and it ends in the same bytes."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from didact.comparing import compare as module
from didact.comparing import training
from didact.comparing.cell import run_cell
from didact.comparing.training import TrainingStage
from didact.errors import RecordError, TrainingError
from didact.execution.process_pool import ProcessPool
from didact.files.store import Store
from didact.files.table_io import read_table
from didact.results.training_record import EpochRecord, TrainingRecord


def results(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "results.parquet").read_bytes(), (folder / "comparison.json").read_bytes()


@pytest.fixture
def counted(monkeypatch):
    """The keys of the cells that are done from now on."""
    found = []

    def watched(cell, run_inputs):
        found.append(cell.key)
        return run_cell(cell, run_inputs)

    monkeypatch.setattr(training, "run_cell", watched)
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where the run that nobody stopped is kept."""
    return tmp_path_factory.mktemp("kept") / "run"


@pytest.fixture
def whole(compare, tmp_path, kept):
    """A run that nobody stopped, of one seed."""
    if not kept.exists():
        compare(seeds=1, out=kept)
    shutil.copytree(kept, tmp_path / "whole")
    return tmp_path / "whole"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


class TestDamage:
    @pytest.mark.parametrize("ending", ["json", "parquet"])
    @pytest.mark.parametrize("harm", [cut, flip, Path.unlink])
    def test_of_a_cell_is_noticed_and_mended(self, compare, whole, counted, ending, harm):
        before = results(whole)
        path = sorted((whole / "cells").glob(f"*.{ending}"))[2]
        content = path.read_bytes()
        harm(path)
        compare(seeds=1, out=whole)
        assert counted == [path.stem]
        assert results(whole) == before
        if ending == "parquet":
            assert path.read_bytes() == content
        compare(seeds=1, out=whole)
        assert counted == [path.stem], "mended for good"

    @pytest.mark.parametrize("harm", [cut, flip, Path.unlink])
    @pytest.mark.parametrize("what", ["classroom/rows-*.parquet", "classroom/starts/*/start.json", "results.parquet"])
    def test_of_what_cells_read(self, compare, whole, what, harm):
        """All cells are done anew from the mended files."""
        before = results(whole)
        (path,) = whole.glob(what)
        harm(path)
        for one in (whole / "cells").iterdir():
            one.unlink()
        compare(seeds=1, out=whole)
        assert results(whole) == before

    def test_answers_of_another_cell_are_no_answers(self, compare, whole, counted):
        before = results(whole)
        first, second = sorted((whole / "cells").glob("*.parquet"))[:2]
        first.write_bytes(second.read_bytes())
        compare(seeds=1, out=whole)
        assert counted == [first.stem] or first.stem in counted
        assert results(whole) == before


class TestDrafts:
    def test_are_no_records_and_old_ones_are_swept_away(self, compare, whole):
        before = results(whole)
        record = sorted((whole / "cells").glob("*.json"))[0]
        drafts = [record.with_name(f"{record.name}.{number}.abcd1234.tmp") for number in (7, 8)]
        for draft in drafts:
            draft.write_bytes(record.read_bytes()[:50])
        folder = whole / "classroom" / "starts" / "x.9.abcd1234.tmp"
        folder.mkdir()
        (folder / "start.json").write_text("{")
        long_ago = time.time() - 7200
        os.utime(drafts[0], (long_ago, long_ago))
        os.utime(folder, (long_ago, long_ago))
        compare(seeds=1, out=whole)
        assert results(whole) == before
        assert not drafts[0].exists()
        assert not folder.exists()
        assert drafts[1].exists(), "it may be another run's"
        assert len(list(Store(whole / "cells"))) == 5

    def test_other_peoples_files_are_left_alone(self, compare, whole):
        """A run may be given any folder, also one with files of other programs."""
        files = [whole / "notes.tmp", whole / "other" / "cells.7.abcd1234.tmp", whole / "cells" / "mine.tmp"]
        for file in files:
            file.parent.mkdir(exist_ok=True)
            file.write_text("mine")
            os.utime(file, (0, 0))
        compare(seeds=1, out=whole)
        assert all(file.exists() for file in files)

    def test_none_is_left_by_a_run(self, whole):
        assert list(whole.rglob("*.tmp")) == []
        assert list(whole.rglob("*.shards*")) == []


class TestFailures:
    @pytest.fixture
    def failing(self, monkeypatch):
        """One cell raises, as long as the list is not empty."""
        reasons = ["the loss became nan"]

        def broken(cell, run_inputs):
            if cell.explainer == "gradient_norm" and cell.seed == 1 and reasons:
                raise TrainingError(reasons[0])
            return run_cell(cell, run_inputs)

        monkeypatch.setattr(training, "run_cell", broken)
        return reasons

    def test_are_records_and_tried_again(self, compare, tmp_path, failing):
        result = compare()
        (failed,) = result.failed
        assert (failed["explainer"], failed["seed"], failed["error"]) == ("gradient_norm", 1, "the loss became nan")
        record = Store(tmp_path / "run" / "cells").load(failed["key"])
        assert record.status == "failed"
        assert "Traceback" in record.payload["traceback"]
        assert "in broken" in record.payload["traceback"]
        assert len(result.rows) == 5
        assert (result.row("gradient_norm")["seeds"], result.row("random")["seeds"]) == (1, 2)
        assert "1 runs failed" in result.table()
        table = read_table(tmp_path / "run" / "results.parquet")
        assert sorted(table.columns["status"]) == ["done"] * 9 + ["failed"]
        failing.clear()
        again = compare()
        assert not again.failed
        compare(out=tmp_path / "whole")
        assert results(tmp_path / "run") == results(tmp_path / "whole")

    def test_of_all_cells_of_none_leave_a_table(self, compare, monkeypatch):
        def broken(cell, run_inputs):
            if cell.explainer == "none":
                raise ValueError("no luck")
            return run_cell(cell, run_inputs)

        monkeypatch.setattr(training, "run_cell", broken)
        result = compare(seeds=1)
        assert len(result.failed) == 1
        assert result.row("random")["gain"] is None
        assert "random" in result.table()
        assert "–" in result.table()

    def test_a_rate_that_is_far_too_high(self, compare):
        """Weights that are no numbers must not count as a student."""
        result = compare(seeds=1, training={"epochs": 3, "rate": 1e30})
        assert len(result.failed) == 5
        assert "learning rate" in result.failed[0]["error"]
        assert result.rows == ()
        assert "5 runs failed" in result.table()

    def test_losses_beyond_all_numbers_can_be_written(self, tmp_path):
        store, epoch = Store(tmp_path), EpochRecord(float("inf"), float("nan"), 0.5)
        TrainingRecord({}, epochs=(epoch,), key="k").save(store)
        assert TrainingRecord.load(store, "k").epochs == ({"loss": None, "dev_loss": None, "dev": 0.5},)


def fill(path: Path) -> None:
    """Write until nothing more fits."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1024))


class TestPlacesThatCannotBeWritten:
    @pytest.mark.parametrize("place", ["file", "file/below", "/proc/didact"])
    def test_are_refused_before_anything_is_loaded(self, compare, tmp_path, monkeypatch, place):
        (tmp_path / "file").write_text("")
        for name in ("load_plan_data", "load_plan_teacher"):
            monkeypatch.setattr(module, name, lambda *_: pytest.fail("something was loaded"))
        with pytest.raises(RecordError, match="Could not write into .*Choose another place"):
            compare(out=tmp_path / place)

    @pytest.mark.parametrize("step", range(2, 14, 3))
    def test_a_disk_that_fills_up(self, compare, whole, tmp_path, monkeypatch, step):
        """Whichever file is the first that does not fit: what is there is kept, and the same command goes on."""
        from didact.files import atomic

        written = []
        plain = os.fsync

        def full(descriptor):
            written.append(descriptor)
            if len(written) > step:
                raise OSError(errno.ENOSPC, "No space left on device")
            plain(descriptor)

        monkeypatch.setattr(atomic.os, "fsync", full)
        with pytest.raises(RecordError, match="No space left.*Finished work is in .*run the same command again"):
            compare(seeds=1)
        monkeypatch.undo()
        assert list((tmp_path / "run").rglob("*.tmp")) == []
        compare(seeds=1)
        assert results(tmp_path / "run") == results(whole)

    def test_a_disk_that_is_really_full(self, compare, whole, tmp_path, monkeypatch):
        disk = tmp_path / "disk"
        disk.mkdir()
        asked = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
        if subprocess.run(asked, check=False, capture_output=True).returncode:
            pytest.skip("a file system can only be mounted by root, with the right to do so")
        try:
            done = []

            def filling(cell, run_inputs):
                if len(done) == 2:
                    fill(disk / "filler")
                done.append(cell.key)
                return run_cell(cell, run_inputs)

            monkeypatch.setattr(training, "run_cell", filling)
            with pytest.raises(RecordError) as caught:
                compare(seeds=1, out=disk / "run")
            text = str(caught.value)
            for part in (
                "No space left",
                "2 of 5 cells are done",
                f"Finished work is in {disk / 'run'}",
                "same command again",
            ):
                assert part in text
            (disk / "filler").unlink()
            assert len(list((disk / "run" / "cells").glob("*.json"))) == 2
            compare(seeds=1, out=disk / "run")
            assert len(done) == 3 + 3, "two were kept, the third is done again"
            assert results(disk / "run") == results(whole)
        finally:
            subprocess.run(["umount", str(disk)], check=True)


class TestCtrlC:
    def test_says_what_is_kept_and_how_to_go_on(self, compare, whole, tmp_path, monkeypatch):
        done = []

        def stopped(cell, run_inputs):
            if len(done) == 2:
                raise KeyboardInterrupt
            done.append(cell.key)
            return run_cell(cell, run_inputs)

        monkeypatch.setattr(training, "run_cell", stopped)
        with pytest.raises(KeyboardInterrupt, match="2 of 5 cells are stored in .*Run the same command again"):
            compare(seeds=1)
        assert not (tmp_path / "run" / "results.parquet").exists()
        monkeypatch.undo()
        compare(seeds=1)
        assert results(tmp_path / "run") == results(whole)

    def test_without_a_folder_nothing_stays_behind(self, compare, monkeypatch, tmp_path):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

        def stopped(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(training, "run_cell", stopped)
        with pytest.raises(KeyboardInterrupt):
            compare(seeds=1, out=None)
        assert list(tmp_path.iterdir()) == []

    def test_a_temporary_folder_lives_as_long_as_its_comparison(self, compare, monkeypatch, tmp_path):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        result = compare(seeds=1, out=None)
        assert (result.folder / "results.parquet").is_file()
        folder = result.folder
        del result
        assert not folder.exists()


class TestBytes:
    def test_hold_no_times(self, whole, compare, tmp_path):
        names = set(read_table(whole / "results.parquet").columns)
        assert not names & {"seconds", "time", "host", "pid"}
        assert read_table(whole / "results.parquet").columns["key"] == sorted(
            read_table(whole / "results.parquet").columns["key"]
        )
        compare(seeds=1, out=tmp_path / "another")
        assert results(tmp_path / "another") == results(whole)
        record = json.loads(sorted((whole / "cells").glob("*.json"))[0].read_text())
        assert "seconds" in record["body"]["payload"], "times are kept, but with the cell"

    def test_a_run_with_nothing_to_do_writes_them_again(self, compare, whole, counted, monkeypatch):
        before = results(whole)
        monkeypatch.setattr(ProcessPool, "run", lambda *_: pytest.fail("a process was started"))
        compare(seeds=1, out=whole, workers=2)
        assert (results(whole), counted) == (before, [])


def test_progress_counts_what_was_done_before_but_not_its_time():
    import io

    from didact.viz.progress import Progress

    stream = io.StringIO()
    with Progress("teaching", total=100, stream=stream) as bar:
        bar.EVERY = 0.0
        bar._start -= 50.0
        bar.skip(90)
        bar.advance(5, note="best so far: lime")
    assert (bar.done, bar.skipped) == (95, 90)
    assert stream.getvalue() == "teaching: 95 of 100, 50 s left best so far: lime\n"


def test_the_summary_needs_every_cell(compare, monkeypatch):
    """An executor that forgets a cell is our mistake, and no table hides it."""
    monkeypatch.setattr(TrainingStage, "run", lambda *_, **__: None)
    with pytest.raises(RecordError, match="There is no record"):
        compare(seeds=1)
