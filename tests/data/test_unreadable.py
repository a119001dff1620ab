"""Paths that cannot be opened: no right to read, a name that is too long, a device. One error each, which names it.

Tests may run as root, whom no mode stops, so opening and listing are made to fail instead.
"""

from pathlib import Path

import pytest

from didact.data.load import load_data
from didact.data.stream import stream_rows
from didact.errors import DidactError, OptionError, RecordError
from didact.explainers import is_learned
from didact.explainers.learned import load_explainer
from didact.explaining.read_explanations import read_explanations
from didact.files.paths import kind_at, shorten_path
from didact.files.store import Store
from didact.learning.train import train_teacher
from didact.models.load import load_teacher

LINES = "".join(f'{{"text": "text {number}", "label": {number % 2}}}\n' for number in range(8))


@pytest.fixture
def forbid(monkeypatch):
    """Makes opening or listing a path fail as it does without the right to."""
    forbidden: set[str] = set()

    def guarded(real):
        def call(path, *arguments, **options):
            if str(path) in forbidden:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *arguments, **options)

        return call

    monkeypatch.setattr(Path, "open", guarded(Path.open))
    monkeypatch.setattr(Path, "iterdir", guarded(Path.iterdir))
    return lambda *paths: forbidden.update(map(str, paths))


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.parquet", "x.npz", "x.jsonl.gz"])
def test_a_data_file(name, tmp_path, forbid):
    path = tmp_path / name
    path.write_text(LINES)
    forbid(path)
    with pytest.raises(DidactError, match=f"{name} cannot be read: permission denied"):
        load_data(path)


def test_a_streamed_file(tmp_path, forbid):
    path = tmp_path / "x.jsonl"
    path.write_text(LINES)
    forbid(path)
    with pytest.raises(DidactError, match="cannot be read: permission denied"):
        stream_rows(path, size=4)


def test_a_data_folder(tmp_path, forbid):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text(LINES)
    forbid(tmp_path / "data")
    with pytest.raises(DidactError, match="data cannot be read: permission denied"):
        load_data(tmp_path / "data")


@pytest.mark.parametrize("name", ["didact.json", "config.json", "model.safetensors"])
def test_a_model_folder(name, tmp_path, forbid):
    folder = tmp_path / "model"
    train_teacher(
        "planted/sentiment(teach=20, explain=5, train=5, dev=5, test=5)",
        "native(width=16, layers=1)",
        out=folder,
        epochs=1,
        progress=False,
    )
    forbid(folder / name)
    with pytest.raises(OptionError, match=f"{name} cannot be read: permission denied"):
        load_teacher(folder)


def test_a_learned_explainer(tmp_path, forbid):
    (tmp_path / "config.json").write_text("{}")
    forbid(tmp_path / "config.json")
    with pytest.raises(OptionError, match="cannot be read: permission denied"):
        load_explainer(tmp_path)


def test_foreign_explanations(tmp_path, forbid):
    (tmp_path / "x.jsonl").write_text("{}")
    forbid(tmp_path / "x.jsonl")
    with pytest.raises(OptionError, match="cannot be read: permission denied"):
        read_explanations(tmp_path / "x.jsonl", ["a"])


def test_a_folder_in_the_place_of_a_record(tmp_path):
    (tmp_path / "key.json").mkdir()
    for ask in (Store(tmp_path).load, Store(tmp_path).is_done):
        with pytest.raises(RecordError, match=r"(?i)could not read .*is a directory"):
            ask("key")


@pytest.mark.parametrize("name", ["a" * 5000, "a/" * 2500, "a\0b"])
def test_names_that_no_file_can_have(name):
    assert kind_at(name) == "nothing"
    for load in (load_data, load_teacher, load_explainer, lambda path: read_explanations(path, ["a"])):
        with pytest.raises(DidactError) as caught:
            load(name)
        assert len(str(caught.value)) < 2500
    assert not is_learned("a" * 5000)


@pytest.mark.parametrize("load", [load_data, load_teacher])
def test_a_device_is_no_data_and_no_model(load):
    with pytest.raises(DidactError, match="/dev/null"):
        load("/dev/null")


def test_long_names_are_cut_in_the_middle():
    assert shorten_path("a" * 200) == "a" * 200
    assert shorten_path("a" * 300 + "b" * 300).endswith("b" * 90 + " (600 characters)")
