"""Writing that is either done or not: into a draft first, then moved into place."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from didact.errors import RecordError


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
def new_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A draft folder that becomes `path` when the block ends well, and vanishes when it does not."""
    if path.exists() and not overwrite:
        raise RecordError(f"{path} exists already. Choose another folder, or allow it to be replaced (overwrite).")
    draft = _draft(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir()
        yield draft
        if path.exists():
            old = _draft(path)
            path.rename(old)
            draft.rename(path)
            shutil.rmtree(old)
        else:
            draft.rename(path)
    except OSError as error:
        raise RecordError(f"Could not write {path}: {error.strerror or error}. Nothing was left there.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _draft(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
