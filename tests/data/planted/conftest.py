"""The default planted sets, drawn once for all tests."""

from collections.abc import Callable
from functools import cache

import pytest

from didact.data import DATASETS
from didact.data.planted.dataset import PlantedDataset

TASKS = ("sentiment", "inference", "quality", "reading", "shapes")


@cache
def _drawn(task: str) -> PlantedDataset:
    return DATASETS.load(f"planted/{task}")()


@pytest.fixture(scope="session")
def planted() -> Callable[[str], PlantedDataset]:
    return _drawn


@pytest.fixture(params=TASKS)
def data(request: pytest.FixtureRequest) -> PlantedDataset:
    """Each planted set in turn, with its default options."""
    return _drawn(request.param)


@pytest.fixture(params=TASKS)
def generator(request: pytest.FixtureRequest) -> Callable[..., PlantedDataset]:
    return DATASETS.load(f"planted/{request.param}")
