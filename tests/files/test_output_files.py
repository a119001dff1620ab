"""What output may replace: earlier output of the same kind, and nothing that cannot be had again."""

import json
import os
import socket
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from didact.cli.main import app
from didact.errors import DataError, OptionError, RecordError
from didact.files.atomic import (
    atomic_file,
    atomic_folder,
    check_different,
    check_new_file,
    check_new_folder,
    check_output_folder,
    is_didact_page,
    write_bytes,
    write_text,
)
from didact.reports.build import report
from didact.results.explanations_parquet import is_explanations
from reports.folders import write_run
from scored import maps_of


def special(kind: str, folder: Path) -> Path:
    """Something that is no regular file."""
    path = folder / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/null")
    else:
        path.mkdir()
    return path


class TestSpecialFiles:
    @pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
    def test_what_is_no_regular_file_is_never_replaced(self, kind, tmp_path):
        path = special(kind, tmp_path)
        before = path.stat().st_mode, path.is_symlink()
        for write in (lambda: write_bytes(path, b"x"), lambda: write_text(path, "x"), lambda: check_new_file(path)):
            with pytest.raises(OptionError, match="Name a regular file|is a folder"):
                write()
        with pytest.raises(OptionError), atomic_file(path):
            pass
        assert (path.stat().st_mode, path.is_symlink()) == before
        assert sorted(one.name for one in tmp_path.iterdir()) == [kind]

    @pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no file system in memory")
    def test_a_file_system_in_memory_holds_regular_files(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            path = check_new_file(Path(folder) / "scores.json")
            write_text(path, "{}")
            assert path.read_text() == "{}"

    @pytest.mark.parametrize("path", ["/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "-"])
    def test_stdout_and_devices_are_refused_with_advice(self, path):
        with pytest.raises(OptionError, match="--json prints to stdout"):
            check_new_file(Path(path))

    def test_a_link_stays_and_its_target_is_replaced(self, tmp_path):
        (tmp_path / "real").mkdir()
        target, link = tmp_path / "real" / "file", tmp_path / "link"
        target.write_text("old")
        link.symlink_to(target)
        write_text(link, "new")
        assert link.is_symlink()
        assert target.read_text() == "new"
        assert [one.name for one in (tmp_path / "real").iterdir()] == ["file"]

    def test_a_link_to_nothing_leaves_a_choice(self, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path / "gone")
        with pytest.raises(OptionError, match="which does not exist. Remove the link, or name that file"):
            write_text(tmp_path / "link", "x")
        assert not (tmp_path / "gone").exists()

    def test_links_in_a_circle_are_an_error(self, tmp_path):
        (tmp_path / "a").symlink_to(tmp_path / "b")
        (tmp_path / "b").symlink_to(tmp_path / "a")
        with pytest.raises(OptionError, match="Could not write"):
            write_text(tmp_path / "a", "x")

    def test_a_linked_folder_is_followed(self, tmp_path):
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        with atomic_folder(tmp_path / "link", overwrite=True) as draft:
            (draft / "new").write_text("x")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real" / "new").is_file()


class TestNames:
    @pytest.mark.parametrize("name", ["a" * 300, "a\0b"])
    def test_names_that_no_file_can_have(self, name, tmp_path):
        for check in (check_new_file, check_new_folder, lambda path: write_text(path, "x")):
            with pytest.raises((OptionError, RecordError), match="Could not write"):
                check(tmp_path / name)

    def test_text_that_is_no_unicode(self, tmp_path):
        with pytest.raises(DataError, match="not valid Unicode"):
            write_text(tmp_path / "file", "a\udcff")
        assert not any(tmp_path.iterdir())


class TestExistingFiles:
    def test_a_file_of_somebody_else_needs_leave(self, tmp_path):
        path = tmp_path / "notes.txt"
        path.write_text("precious")
        with pytest.raises(OptionError, match="exists already.*--overwrite"):
            check_new_file(path, replaces=is_explanations)
        with pytest.raises(OptionError, match="notes.txt exists already. Name another file"):
            check_new_file(path)  # pictures do not say who made them, so nothing is said of it either
        assert check_new_file(path, overwrite=True) == path
        assert path.read_text() == "precious"

    def test_earlier_output_of_the_same_kind_is_replaced(self, tmp_path):
        maps = maps_of([1.0, 2.0])
        maps.save(tmp_path / "maps")
        maps.to_html(tmp_path / "page")
        assert check_new_file(tmp_path / "maps", replaces=is_explanations)
        assert check_new_file(tmp_path / "page", replaces=is_didact_page)
        with pytest.raises(OptionError, match="exists already"):
            check_new_file(tmp_path / "maps", replaces=is_didact_page)
        with pytest.raises(OptionError, match="exists already"):
            check_new_file(tmp_path / "page", replaces=is_explanations)

    def test_files_of_a_run_are_never_replaced(self, tmp_path):
        run = write_run(tmp_path / "run")
        inside = next((run / "explanations").glob("*.parquet")) if (run / "explanations").is_dir() else None
        for path in (run / "comparison.json", run / "plan.toml", inside):
            if path is None or not path.exists():
                continue
            before = path.read_bytes()
            with pytest.raises(OptionError, match="belongs to the run"):
                check_new_file(path, overwrite=True, replaces=is_explanations)
            assert path.read_bytes() == before

    @pytest.mark.parametrize("marker", ["didact.json", "study.json", "config.json"])
    def test_files_of_models_studies_and_explainers_are_never_replaced(self, marker, tmp_path):
        path = tmp_path / marker
        path.write_text(json.dumps({"explainer": "mix"}))
        with pytest.raises(OptionError, match="belongs to the"):
            check_new_file(path, overwrite=True)

    def test_two_outputs_are_two_files(self, tmp_path):
        (tmp_path / "y").symlink_to(tmp_path / "x")
        check_different(out=tmp_path / "x", html=tmp_path / "z", other=None)
        for twin in (tmp_path / "x", tmp_path / "y", tmp_path / "." / "x"):
            with pytest.raises(OptionError, match="--out and --html are the same file"):
                check_different(out=tmp_path / "x", html=twin)

    def test_a_folder_of_figures_is_no_file(self, tmp_path):
        (tmp_path / "file").write_text("x")
        with pytest.raises(OptionError, match="is a file, not a folder"):
            check_output_folder(tmp_path / "file")
        assert check_output_folder(tmp_path)


class TestFolders:
    def test_only_folders_of_ours_are_replaced(self, tmp_path):
        folder = tmp_path / "project"
        folder.mkdir()
        assert check_new_folder(folder, overwrite=True)  # empty: nothing is lost
        (folder / "keep.txt").write_text("precious")
        (folder / "config.json").write_text("{}")
        with pytest.raises(OptionError, match=r"not made by didact: it contains neither didact\.json"):
            check_new_folder(folder, overwrite=True)
        (folder / "config.json").write_text('{"explainer": "mix"}')
        assert check_new_folder(folder, overwrite=True)
        (folder / "config.json").unlink()
        (folder / "didact.json").write_text("{}")
        assert check_new_folder(folder, overwrite=True)


class TestReport:
    def test_the_page_is_never_written_over_the_run(self, tmp_path):
        run = write_run(tmp_path / "run")
        before = (run / "comparison.json").read_bytes()
        result = CliRunner().invoke(app, ["report", str(run), "--out", str(run / "comparison.json"), "--overwrite"])
        assert isinstance(result.exception, OptionError)
        assert (run / "comparison.json").read_bytes() == before

    def test_figures_in_the_place_of_a_file_are_refused_before_the_page(self, tmp_path):
        run = write_run(tmp_path / "run")
        (tmp_path / "file").write_text("precious")
        with pytest.raises(OptionError, match="is a file, not a folder"):
            report(run, tmp_path / "page.html", figures=tmp_path / "file")
        assert not (tmp_path / "page.html").exists()

    def test_a_page_may_be_written_again(self, tmp_path):
        run = write_run(tmp_path / "run")
        for _ in range(2):
            assert report(run) == run / "report.html"
            assert report(run, tmp_path / "page.html") == tmp_path / "page.html"
        (tmp_path / "page.html").write_text("<!doctype html>mine")
        with pytest.raises(OptionError, match="exists already"):
            report(run, tmp_path / "page.html")
        assert report(run, tmp_path / "page.html", overwrite=True)
