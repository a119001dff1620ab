"""Fixtures for every room."""

import os
from pathlib import Path

import pytest

# Two test processes on two cores: one thread each, and the same for every process a test starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No test asks the hub, but for those marked `network`.
if os.environ.get("DIDACT_NETWORK") is None:
    os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real data sets; tests that ask for it carry the mark `realdata`."""
    folder = Path(os.environ.get("DIDACT_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"real data are not at {folder}: set DIDACT_DATA to the folder that holds them")
    return folder
