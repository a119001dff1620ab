"""Planted sets of a few hundred rows, drawn once for all tests. The default sizes are in `test_defaults.py`."""

from collections.abc import Callable
from functools import cache

import pytest

from didact.data import DATASETS
from didact.data.planted.dataset import PlantedDataset

TASKS = tuple(name.removeprefix("planted/") for name in DATASETS if name.startswith("planted/"))


@cache
def _drawn(task: str) -> PlantedDataset:
    return DATASETS.load(f"planted/{task}")(teach=60, explain=20, train=20, dev=20, test=120)


@pytest.fixture(scope="session")
def planted() -> Callable[[str], PlantedDataset]:
    return _drawn


@pytest.fixture(params=TASKS)
def data(request: pytest.FixtureRequest) -> PlantedDataset:
    """Each planted set in turn."""
    return _drawn(request.param)


@pytest.fixture(params=TASKS)
def generator(request: pytest.FixtureRequest) -> Callable[..., PlantedDataset]:
    return DATASETS.load(f"planted/{request.param}")
