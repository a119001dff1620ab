"""Packages that extend didact: an explainer and an architecture named by entry points, and one that is broken."""

import json
from typing import Literal

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import didact
from didact.cli.main import app
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.core.task import CLASSIFICATION
from didact.errors import OptionError, UnsupportedError
from didact.explainers import EXPLAINERS
from didact.models import MODELS, ModelEntry
from didact.models.build import native_model
from didact.models.pooling import PoolingModel
from didact.registry import Registry
from teachers import teacher
from tiny import rows


class Rarity(Explainer):
    """Short pieces count most.

    As a notebook has it: options without annotations.
    """

    def __init__(self, *, power=1.0, mode: Literal["all", "few"] = "all"):
        super().__init__()
        self.power, self.mode = power, mode

    def forward(self, teacher, batch, target):  # noqa: ARG002
        length = (batch.offsets[..., 1] - batch.offsets[..., 0]).clamp_min(1)
        return Explanation(length.double() ** -self.power * batch.units, batch.mask, batch.units, "magnitude")


class Noisy(PoolingModel):
    """A bag of words with noise: an architecture of another package, with options that are no counts."""

    architecture = "noisy"
    attends = False

    def __init__(
        self, task, classes, reader, *, width: int = 8, noise: float = 0.0, activation: str = "tanh", skip: int = 0,
        pool: str = "max", dropout: float = 0.0, length: int = 64, embeddings: str = "learned",
    ):  # fmt: skip
        super().__init__(
            task, classes, reader, width=width, noise=noise, activation=activation, skip=skip, pool=pool,
            dropout=dropout, length=length, embeddings=embeddings,
        )  # fmt: skip

    def _layers(self):
        return torch.nn.ModuleList([torch.nn.Tanh()])

    def _states(self, embeddings, sequence_masks):  # noqa: ARG002
        return [embeddings, self.layers[0](embeddings)]


class Point:
    def __init__(self, name, thing):
        self.name, self.value, self.thing = name, f"other_package:{name}", thing

    def load(self):
        if isinstance(self.thing, Exception):
            raise self.thing
        return self.thing


@pytest.fixture
def plugins(monkeypatch):
    """Entry points in a registry of ours, gone after the test."""

    def add(registry: Registry, *points: Point):
        for name, value in {"_entry_points": {point.name: point for point in points}}.items():
            monkeypatch.setitem(registry.__dict__, name, value)
        for name in ("_plugins", "_named_objects", "_broken"):
            monkeypatch.setattr(registry, name, {})

    return add


def test_a_class_is_a_method_with_options(plugins):
    plugins(EXPLAINERS, Point("rarity", Rarity), Point("broken", ImportError("No module named 'numba'")))
    subject = teacher("hf", "classification")
    maps = didact.explain(subject, ["a good film"], "rarity(power=2, mode=few)")
    assert maps.method == "rarity"
    assert maps.options["power"] == 2
    np.testing.assert_allclose(maps.scores, [1, 1 / 16, 1 / 16])
    assert didact.explain(subject, ["a good film"], Rarity()).method == "rarity"
    for text, message in (
        ("power=x", "'power' of 'rarity' must be a number"),
        ("mode=none", "must be 'all' or 'few', got None"),
    ):
        with pytest.raises(OptionError, match=message):
            didact.explain(subject, ["a good film"], f"rarity({text})")
    assert didact.explain(subject, ["a good film"], "gradient_norm").method == "gradient_norm"
    with pytest.raises(UnsupportedError, match="'broken' .*No module named 'numba'.*repair or remove that package"):
        didact.explain(subject, ["a good film"], "broken")


def test_methods_lists_what_works_and_says_what_does_not(plugins):
    plugins(EXPLAINERS, Point("rarity", Rarity), Point("broken", ImportError("No module named 'numba'")))
    listed = CliRunner().invoke(app, ["methods"])
    assert listed.exit_code == 0
    text = " ".join(listed.output.split())
    assert "Short pieces count most" in text
    assert "Not available: broken, of a package that cannot be loaded. ImportError: No module named 'numba'" in text
    document = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)
    assert "rarity" in {one["name"] for one in document["rows"]}
    assert document["broken"] == {"broken": "ImportError: No module named 'numba'"}
    shown = CliRunner().invoke(app, ["methods", "rarity"])
    assert "power" in shown.output


def test_an_architecture_has_options_of_its_own(plugins):
    plugins(MODELS, Point("noisy", ModelEntry(f"{__name__}:Noisy", ("classification",), "noise")))
    shared = {"task": CLASSIFICATION, "classes": ("a", "b"), "rows": rows(), "source": "rows", "split": "train"}
    model = native_model("noisy(noise=0.5, activation=relu, skip=0, pool=max)", **shared)
    assert {"noise": 0.5, "activation": "relu", "skip": 0, "pool": "max"}.items() <= model.options.items()
    assert len(model.predict(rows())) == 3
    with pytest.raises(OptionError, match="no option of model 'noisy' named 'noize'. Did you mean 'noise'"):
        native_model("noisy(noize=0.5)", **shared)
    with pytest.raises(OptionError, match="Option 'noise' of model 'noisy' must be a number, got 'loud'"):
        native_model("noisy(noise=loud)", **shared)
    with pytest.raises(OptionError, match="'layers' of 'native' must be at least 1, not 0"):
        native_model("native(layers=0)", **shared)
