"""Nothing is ever half written, and damage is seen."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from didact.errors import OptionError, RecordError
from didact.files.atomic import atomic_folder, write_text
from didact.files.store import Store, StoredRecord, key_of


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class TestAtomic:
    def test_a_failed_write_leaves_what_was_there(self, tmp_path, monkeypatch):
        path = tmp_path / "file"
        write_text(path, "old")

        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(RecordError, match="No space left on device. What was there is unchanged"):
            write_text(path, "new")
        assert path.read_text() == "old"
        assert names(tmp_path) == ["file"]

    def test_a_folder_appears_whole_or_not_at_all(self, tmp_path):
        def fail_half_way():
            with atomic_folder(tmp_path / "run") as draft:
                (draft / "half").write_text("x")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail_half_way()
        assert names(tmp_path) == []
        with atomic_folder(tmp_path / "deep" / "run") as draft:
            (draft / "whole").write_text("x")
            assert not (tmp_path / "deep" / "run").exists()
        assert names(tmp_path / "deep") == ["run"]

    def test_a_folder_is_replaced_only_when_allowed(self, tmp_path):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "didact.json").write_text("x")
        with pytest.raises(OptionError, match="exists already.*overwrite"), atomic_folder(tmp_path / "run"):
            pass
        with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "run", overwrite=True):
            raise ZeroDivisionError
        assert names(tmp_path / "run") == ["didact.json"]
        with atomic_folder(tmp_path / "run", overwrite=True) as draft:
            (draft / "new").write_text("x")
        assert names(tmp_path / "run") == ["new"]
        assert names(tmp_path) == ["run"]

    def test_what_another_made_meanwhile_is_not_moved(self, tmp_path):
        def too_late():
            with atomic_folder(tmp_path / "run") as draft:
                (draft / "mine").write_text("x")
                (tmp_path / "run").mkdir()
                (tmp_path / "run" / "theirs").write_text("x")

        with pytest.raises(RecordError, match="What was there is unchanged"):
            too_late()
        assert names(tmp_path) == ["run"]
        assert names(tmp_path / "run") == ["theirs"]

    def test_a_file_in_the_way_is_a_clear_error(self, tmp_path):
        (tmp_path / "file").write_text("x")
        with pytest.raises(RecordError, match="Could not write"), atomic_folder(tmp_path / "file" / "run"):
            pass

    def test_a_file_is_never_replaced_by_a_folder(self, tmp_path):
        (tmp_path / "file").write_text("precious")
        with pytest.raises(OptionError, match="is a file"), atomic_folder(tmp_path / "file", overwrite=True):
            pass
        assert (tmp_path / "file").read_text() == "precious"
        assert names(tmp_path) == ["file"]

    def test_what_was_there_comes_back_when_the_move_fails(self, tmp_path, monkeypatch):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "didact.json").write_text("x")
        move = Path.rename

        def fail(self, target):
            if self.name.endswith(".tmp") and (self / "new").exists():
                raise OSError(5, "Input/output error")
            return move(self, target)

        monkeypatch.setattr(Path, "rename", fail)

        def replace():
            with atomic_folder(tmp_path / "run", overwrite=True) as draft:
                (draft / "new").write_text("x")

        with pytest.raises(RecordError, match="What was there is unchanged"):
            replace()
        assert names(tmp_path) == ["run"]
        assert names(tmp_path / "run") == ["didact.json"]


class TestStore:
    def test_keys_hash_every_entry_in_any_order(self):
        assert key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1})
        assert len({key_of({"a": 1}), key_of({"a": 2}), key_of({"b": 1}), key_of({"a": "1"})}) == 4

    def test_keeps_and_gives_back(self, tmp_path):
        store = Store(tmp_path / "cells")
        record = StoredRecord("k1", "done", {"accuracy": 0.5, "name": "ä"})
        assert not store.is_done("k1")
        store.save(record)
        assert store.load("k1") == record
        assert store.is_done("k1")
        assert list(store) == ["k1"]

    def test_a_failure_is_a_record_that_is_not_done(self, tmp_path):
        store = Store(tmp_path)
        store.save(StoredRecord("k1", "failed", {"error": "boom"}))
        assert store.load("k1").payload["error"] == "boom"
        assert not store.is_done("k1")

    def test_same_record_same_bytes(self, tmp_path):
        one, two = Store(tmp_path / "1"), Store(tmp_path / "2")
        one.save(StoredRecord("k", "done", {"a": 1, "b": 2}))
        two.save(StoredRecord("k", "done", {"b": 2, "a": 1}))
        assert (tmp_path / "1" / "k.json").read_bytes() == (tmp_path / "2" / "k.json").read_bytes()

    @pytest.mark.parametrize("damage", [lambda text: text[:-20], lambda text: text.replace("0.5", "0.6"), lambda _: ""])
    def test_damage_is_seen(self, tmp_path, damage):
        store = Store(tmp_path)
        store.save(StoredRecord("k1", "done", {"accuracy": 0.5}))
        path = tmp_path / "k1.json"
        path.write_text(damage(path.read_text()))
        assert not store.is_done("k1")
        with pytest.raises(RecordError, match=r"k1.json is damaged.*computed again"):
            store.load("k1")

    def test_a_record_under_another_name_is_not_trusted(self, tmp_path):
        store = Store(tmp_path)
        store.save(StoredRecord("k1", "done", {}))
        (tmp_path / "k1.json").rename(tmp_path / "k2.json")
        assert not store.is_done("k2")

    def test_missing_records_and_numbers_that_are_none(self, tmp_path):
        with pytest.raises(RecordError, match="no record k9"):
            Store(tmp_path).load("k9")
        with pytest.raises(ValueError, match="not JSON compliant"):
            Store(tmp_path).save(StoredRecord("k", "done", {"x": float("nan")}))
        assert names(tmp_path) == []

    def test_two_writers_leave_one_whole_record(self, tmp_path):
        store = Store(tmp_path)
        payloads = [{"numbers": [number] * 2000} for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda payload: store.save(StoredRecord("k", "done", payload)), payloads * 5))
        assert store.load("k").payload in payloads
        assert names(tmp_path) == ["k.json"]
        assert json.loads((tmp_path / "k.json").read_text())["checksum"]
