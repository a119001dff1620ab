"""A school small enough for tests: planted data of a few rows, and teachers that learnt next to nothing.

A plugin of all folders (conftest.py names it), so torch is imported by those who use it.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from didact.core.dataset import Dataset
    from didact.core.model import Model

SIZES = "teach=40, explain=10, train=30, dev=8, test=16"
TINY = "native(width=16, layers=1, heads=2)"


@lru_cache
def planted(name: str) -> "Dataset":
    from didact.data.load import load_data

    return load_data(f"planted/{name}({SIZES})")


@lru_cache
def taught(name: str) -> "Model":
    return trained(name)


def trained(name: str, **options: object) -> "Model":
    from didact.learning.train import train_teacher

    return train_teacher(planted(name), TINY, epochs=2, progress=False, **options)


@pytest.fixture
def school():
    """Teacher and data of a planted task."""
    return lambda name="sentiment": (taught(name), planted(name))


@pytest.fixture
def compare(tmp_path):
    """`didact.compare` on a small scale: in this process, one epoch, 12 rows, two seeds; a folder of its own."""

    from didact.comparing import compare as module

    def run(teacher=None, data=None, explainers=("gradient_norm",), students=("same/attention",), **options):
        if teacher is None:
            teacher, data = taught("sentiment"), planted("sentiment")
        small = {"train_sizes": [12], "seeds": 2, "workers": 0, "training": {"epochs": 1}, "eval_rows": 0}
        small["balance"] = False  # these teachers may give one answer to nearly all rows
        return module.compare(teacher, data, explainers, students, **{"out": tmp_path / "run"} | small | options)

    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A teacher on disk, for commands, and the name of its data."""
    place = tmp_path_factory.mktemp("teacher") / "native"
    trained("sentiment", out=place)
    return place
