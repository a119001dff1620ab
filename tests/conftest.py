"""Fixtures for every room."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest

import typecheck

jaxtyping.jaxtyped = typecheck.jaxtyped  # type: ignore[assignment]

pytest_plugins = ["school"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage", "--disable-default-apps", "--disable-extensions",
)  # fmt: skip

# Two test processes on two cores: one thread each, and the same for every process a test starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell ignores SIGINT in what it runs in the background, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# No test asks the hub, but for those marked `network`.
if os.environ.get("DIDACT_NETWORK") is None:
    os.environ["HF_HUB_OFFLINE"] = "1"

# Each of these takes a minute: begun last, one process would work on while the other has nothing left.
_LONGEST = ("test_stranger.py", "test_golden.py", "test_killed_runs.py", "test_ray_executor.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in _LONGEST)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real data sets; tests that ask for it carry the mark `realdata`."""
    folder = Path(os.environ.get("DIDACT_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"real data are not at {folder}: set DIDACT_DATA to the folder that holds them")
    return folder


@pytest.fixture(scope="session")
def real_model() -> Callable[[str], str]:
    """The folder of a real model by its name; tests that ask for it carry the mark `realmodel`."""
    shared = Path(__file__).parents[2] / "shared" / "models"
    folders = [Path(os.environ.get("DIDACT_MODELS") or shared), Path.home() / ".cache" / "didact-models"]

    def find(name: str) -> str:
        for folder in folders:
            if (folder / name / "config.json").is_file():
                return str(folder / name)
        pytest.skip(f"the real model {name!r} is not in {' or '.join(map(str, folders))}: set DIDACT_MODELS")

    return find


@pytest.fixture(scope="module")
def unchecked() -> Iterator[None]:
    """No checks of annotations: for whole commands, whose code other tests run with checks. It halves their time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests of a process."""
    playwright = pytest.importorskip("playwright.sync_api", reason="tests marked browser need playwright")
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip(f"there is no browser: install one of {', '.join(_NAMES)}, or leave out tests marked browser")
    try:
        subprocess.run([path, "--version"], capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"the browser {path} does not start: {error}")
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=path, args=list(_FLAGS))
        yield found
        found.close()


@pytest.fixture(autouse=True)
def forget_local_names() -> Iterator[None]:
    """What a test names with a decorator is gone after it."""
    yield
    if (decorators := sys.modules.get("didact.decorators")) is not None:
        for registry in (decorators.EXPLAINERS, decorators.METRICS, decorators.STRATEGIES, decorators.MODELS):
            registry.local.clear()
