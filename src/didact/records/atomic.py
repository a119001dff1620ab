"""Writing that is either done or not: into a draft first, then moved into place."""

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from didact.errors import OptionError, RecordError


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file at once. Two processes may write the same path; one of them wins, whole."""
    draft = _draft(path)
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise RecordError(f"Could not write {path}: {error.strerror or error}. What was there is unchanged.") from error


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode())


@contextmanager
def write_through(path: Path) -> Iterator[Path]:
    """A draft file that becomes `path` when the block ends well: for what is too large to hold in memory."""
    draft = _draft(path)
    try:
        yield draft
        _sync(draft)
        draft.replace(path)
    except OSError as error:
        raise RecordError(f"Could not write {path}: {error.strerror or error}. What was there is unchanged.") from error
    finally:
        draft.unlink(missing_ok=True)


def check_new_file(path: Path, *, reads: object = None) -> Path:
    """The path, if a file can be written there and nothing is read from it: asked before hours of work, not after."""
    if isinstance(reads, str | Path) and path.exists() and Path(reads).exists() and path.samefile(reads):
        raise OptionError(f"{str(path)!r} is what is read, and would be written over. Name another file to write.")
    if not path.name or path.is_dir():
        raise OptionError(f"{str(path)!r} is a folder, and a file is to be written there. Name the file too.")
    _probe(path)
    return path


@contextmanager
def new_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A draft folder that becomes `path` when the block ends well, and vanishes when it does not."""
    path = check_new_folder(path, overwrite=overwrite)
    draft = _draft(path)
    try:
        draft.mkdir()
        yield draft
        for file in draft.rglob("*"):
            _sync(file)
        if overwrite:
            _replace(draft, path)
        else:
            draft.rename(path)  # fails if somebody else made it meanwhile
    except OSError as error:
        raise RecordError(f"Could not write {path}: {error.strerror or error}. What was there is unchanged.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_new_folder(path: Path, *, overwrite: bool = False) -> Path:
    """The absolute path, if a folder can be made there: asked before hours of work, not after."""
    path = path.absolute()
    if path.exists() and not overwrite:
        raise OptionError(f"{path} exists already. Choose another folder, or allow it to be replaced (--overwrite).")
    if path.exists() and not path.is_dir():
        raise OptionError(f"{path} is a file, and a folder is to be written there. Choose another place.")
    _probe(path)
    return path


def with_folder(path: Path) -> Path:
    """The path, whose folder is there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"Could not make the folder {path.parent}: {error.strerror or error}.") from error
    return path


def sweep(folder: Path, *, inside: Sequence[str] = ()) -> None:
    """Remove drafts that a killed run left. A draft lives for moments, so old ones belong to nobody.

    The folder may hold other people's files: only what is named as our drafts are, there and in the folders `inside`,
    is looked at.
    """
    places = [folder.glob("*.tmp"), *((folder / name).rglob("*.tmp") for name in inside)]
    for draft in sorted(path for place in places for path in place if _DRAFT.search(path.name)):
        try:
            is_old = time.time() - draft.stat().st_mtime > _OLD
        except OSError:  # gone by now: another run's
            continue
        if is_old and draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        elif is_old:
            draft.unlink(missing_ok=True)


def _probe(path: Path) -> None:
    """An error if nothing can be made beside `path`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = _draft(path)
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise RecordError(f"Could not write {path}: {error.strerror or error}. Choose another place.") from error


def _replace(draft: Path, path: Path) -> None:
    """Move the draft into place; if that fails, what was there comes back."""
    if not path.exists():
        draft.rename(path)
        return
    old = _draft(path)
    path.rename(old)
    try:
        draft.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _sync(file: Path) -> None:
    if file.is_file():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


_DRAFT: Final = re.compile(r"\.\d+\.[0-9a-f]{8}\.tmp$")  # as `_draft` names them
_OLD: Final = 3600.0  # seconds after which a draft is nobody's


def _draft(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
