"""Cells and shards of explanations where the run's folder may not be seen: files come as bytes, results go as bytes.

Each machine unpacks a file once, for all processes there, into a temporary folder of the run. Each process reads the
files once, for all its cells or shards.
"""

import contextlib
import importlib
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from didact import __version__
from didact.errors import UnsupportedError
from didact.records.atomic import with_folder, write_bytes

_NAME: Final = "didact-far-"
PARCELS: Final = "didact-parcels-"  # where a calling process packs what its shards need
_OLD: Final = 7 * 24 * 3600.0  # seconds after which an untouched folder is nobody's: its run was killed
_Desk = tuple[Path, Any]
_kept: dict[tuple[str, str], Any] = {}  # of this process; only the latest


@dataclass(frozen=True)
class Errand:
    """What all cells of a manifest, or all shards of an order, have in common.

    `module` has a `Desk` as `didact.experiment.worker` does, or a `Bench` as `didact.experiment.parcel` does.
    """

    run: str
    manifest: str
    module: str
    version: str = __version__


def do_cell(errand: Errand, key: str, files: Mapping[str, Any], fetch: Callable[[Any], bytes]) -> dict[str, Any]:
    """Do one cell. `files` has by name all it reads; `fetch` gives the bytes of those that are not here yet.

    Gives what the desk says, and under `kept` the files that it wrote.
    """
    root = _unpacked(errand, files, fetch)
    cells, desk = _once((errand.run, errand.manifest), lambda: _desk(errand, root))
    said: dict[str, Any] = desk.work(key)
    kept = {}
    for path in sorted(cells.glob("*")):
        kept[path.name] = path.read_bytes()
        path.unlink()
    return {**said, "kept": kept}


def do_shard(
    errand: Errand, start: int, stop: int, files: Mapping[str, Any], fetch: Callable[[Any], bytes]
) -> dict[str, Any]:
    """Explain the rows from `start` to `stop` of an order. Gives what the bench says."""
    root = _unpacked(errand, files, fetch)
    bench = _once((errand.run, errand.module), lambda: importlib.import_module(errand.module).Bench(root))
    said: dict[str, Any] = bench.explained(errand.manifest, start, stop)
    return said


def _unpacked(errand: Errand, files: Mapping[str, Any], fetch: Callable[[Any], bytes]) -> Path:
    """The run's folder on this machine, with these files in it."""
    if errand.version != __version__:
        raise UnsupportedError(
            f"This run is of didact {errand.version}, and a node of the cluster has didact {__version__}. Install the "
            "same version on all of them."
        )
    root = folder_of(errand.run)
    _sweep(root)
    for name, content in files.items():
        if not (root / name).is_file():
            write_bytes(with_folder(root / name), fetch(content))
    return root


def folder_of(run: str) -> Path:
    """Where this machine unpacks the files of a run."""
    return Path(tempfile.gettempdir()) / f"{_NAME}{run}"


def forget(run: str) -> None:
    """Remove what the run left on this machine."""
    shutil.rmtree(folder_of(run), ignore_errors=True)


def _once(name: tuple[str, str], make: Callable[[], Any]) -> Any:
    """What this process works at, made once. What it worked at before is let go, with all that it holds."""
    if name not in _kept:
        _kept.clear()
        _kept[name] = make()
    return _kept[name]


def _desk(errand: Errand, root: Path) -> _Desk:
    """A new place to do cells, and the folder they are written to."""
    own = root / f"desk-{os.getpid()}-{secrets.token_hex(4)}"
    own.mkdir()
    for shared in ("classroom", "explanations"):
        (own / shared).symlink_to(root / shared, target_is_directory=True)
    desk = importlib.import_module(errand.module).Desk(own / "classroom" / errand.manifest)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(desk.threads)
    return own / "cells", desk


def _sweep(root: Path) -> None:
    """Say that this run's folder is in use; when it is new, remove those of runs that were killed long ago."""
    try:
        os.utime(root)
    except FileNotFoundError:
        root.mkdir(mode=0o700, exist_ok=True)
        for other in (*root.parent.glob(f"{_NAME}*"), *root.parent.glob(f"{PARCELS}*")):
            with contextlib.suppress(OSError):  # gone by now, or another user's
                if time.time() - other.stat().st_mtime > _OLD:
                    shutil.rmtree(other, ignore_errors=True)
