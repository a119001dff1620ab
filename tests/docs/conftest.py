"""The world in which the examples of the pages are run: everything they name is there, and all of it is small."""

import functools
import importlib
import json
import shutil

import pytest
import torch

import tiny

SIZES = {"teach": 60, "explain": 12, "train": 90, "dev": 10, "test": 12}
TASKS = ("sentiment", "graded", "inference", "quality", "reading", "shapes")
TEACHER = "native(layers=2, width=16, heads=2)"
HUB = "distilbert-base-uncased-finetuned-sst-2-english"  # here a folder of that name


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """What takes time to make, once: a teacher on disk, a Hugging Face model, a real data set, a run."""
    from didact.data.load import load_data
    from didact.learning.train import train_teacher

    place = tmp_path_factory.mktemp("world")
    options = ", ".join(f"{name}={size}" for name, size in SIZES.items())
    data = load_data(f"planted/sentiment({options})")
    train_teacher(data, TEACHER, epochs=4, progress=False, out=place / "runs" / "teacher")
    shutil.copytree(place / "runs" / "teacher", place / "runs" / "demo" / "teacher")
    save_hub_model(place)
    _write_sst(place / "data" / "sst")
    lines = [{"text": f"a {word} film of {number}", "label": word} for number in range(20) for word in ("good", "bad")]
    (place / "reviews.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    table = "".join(f"r{number},{line['text']},{line['label']}\n" for number, line in enumerate(lines))
    (place / "reviews.csv").write_text(f"review_id,comment,verdict\n{table}", encoding="utf-8")
    return place


def save_hub_model(place):
    """A stand-in for the model that pages take from the hub: a tiny one, in a folder of its name."""
    model, tokenizer = tiny.huggingface("distilbert", labels=2)
    model.config.id2label = {0: "NEGATIVE", 1: "POSITIVE"}
    model.save_pretrained(place / HUB)
    tokenizer.save_pretrained(place / HUB)
    return place / HUB


@pytest.fixture
def hub_model(small_scale):
    return save_hub_model(small_scale)


def _write_sst(folder):
    """A stand-in for the real set: as many rows as its cut asks for, and two more."""
    folder.mkdir(parents=True)
    for split, count in (("train", 1502), ("validation", 2), ("test", 2)):
        rows = [
            {"id": f"{split}-{number}", "text": f"a good film {split} {number}", "label": 1, "phrases": [[1, 2, 4]]}
            for number in range(count)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def world(made, small_scale):
    """A folder of its own to run a page in, with what its examples name."""
    shutil.copytree(made, small_scale, dirs_exist_ok=True)
    return small_scale


@pytest.fixture
def small_scale(tmp_path, monkeypatch):
    """An empty folder to run pages in; planted data and training are small."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIDACT_DATA", str(tmp_path / "data"))
    for task in TASKS:
        module = importlib.import_module(f"didact.data.planted.{task}")
        monkeypatch.setattr(module, task, functools.partial(getattr(module, task), **SIZES))
    _train_little(monkeypatch)
    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)


def _train_little(monkeypatch):
    """Two epochs for everyone who learns, a small bootstrap, and all cells in this process."""
    from didact.comparing import compare
    from didact.comparing.config import CompareConfig
    from didact.execution.in_process import InProcess
    from didact.learned import l2e, smat
    from didact.learning import train

    monkeypatch.setattr(compare, "_executor", lambda *_: InProcess())
    real = CompareConfig.of.__func__

    def small(kind, entries, **others):
        little = {
            "epochs": 1,
            "batch_size": 8,
            **({} if entries.keys() & {"sizes", "train_sizes"} else {"train_sizes": [20]}),
        }
        return real(kind, little | {name: value for name, value in entries.items() if value is not None}, **others)

    monkeypatch.setattr(CompareConfig, "of", classmethod(small))
    for module, name, little in (
        (train, "train_teacher", {"epochs": 2}),
        (smat, "learn_smat", {"training": {"epochs": 1, "batch_size": 4}, "size": 10}),
        (l2e, "learn_l2e", {"training": {"epochs": 1}, "initialisations": 1}),
    ):
        _with(monkeypatch, module, name, little)


def _with(monkeypatch, module, name, options):
    """The function as it is, but for these options."""
    real = getattr(module, name)

    @functools.wraps(real)
    def call(*given, **named):
        return real(*given, **(named | options))

    monkeypatch.setattr(module, name, call)
