"""Atomic writing: content goes to a draft, which then replaces the target in one step."""

import contextlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from safetensors import SafetensorError

from didact.errors import DataError, OptionError, RecordError
from didact.files.paths import kind_at, reason_of, shorten_path
from didact.viz import GENERATOR


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically. If two processes write the same path, the file is entirely from one of them."""
    with atomic_file(path) as draft, draft.open("wb") as file:
        file.write(content)


def write_text(path: Path, content: str) -> None:
    """Write a text as UTF-8, atomically.

    Raises `DataError` for an unpaired surrogate, as Python makes of command-line bytes that are not UTF-8.
    """
    try:
        encoded = content.encode()
    except UnicodeEncodeError as error:
        excerpt = content[max(0, error.start - 20) : error.start + 20]
        raise DataError(
            f"Could not write {path}: the text {excerpt!r} contains characters that are not valid Unicode. "
            "Write it in UTF-8."
        ) from None
    write_bytes(path, encoded)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A draft file that replaces `path` if the block succeeds. Use it for content too large for memory.

    All files of didact are written here. A link is kept, and its target is replaced. Devices, pipes, sockets and
    folders are never replaced: they raise `OptionError`. A failed write raises `RecordError`.
    """
    target = regular_file(path)
    draft = _draft_path(target)
    try:
        yield draft
        _sync(draft)
        draft.replace(target)
    except OSError as error:
        raise RecordError(f"Could not write {path}: {error.strerror or error}. What was there is unchanged.") from error
    finally:
        with contextlib.suppress(OSError):  # a name that is too long has already raised an error
            draft.unlink(missing_ok=True)


def regular_file(path: Path) -> Path:
    """The file to write: `path`, or the target of a link. Raises `OptionError` unless it is a regular or new file."""
    target = _resolved(path, "file")
    mode = target.stat().st_mode if target.exists() else None
    # /dev/shm is a file system in memory with regular files.
    if str(path.absolute()).startswith(("/dev/", "/proc/")) and not str(path.absolute()).startswith("/dev/shm/"):
        raise OptionError(
            f"{path} is not a regular file, and output needs one. Name a file; --json prints to stdout instead."
        )
    if mode is None and path.is_symlink():
        raise OptionError(f"{path} is a link to {target}, which does not exist. Remove the link, or name that file.")
    if mode is not None and stat.S_ISDIR(mode):
        raise OptionError(f"{str(path)!r} is a folder, not a file. Name a file in it.")
    if mode is not None and not stat.S_ISREG(mode):
        raise OptionError(
            f"{path} is a {_SPECIAL_FILES[stat.S_IFMT(mode)]}, and output does not replace it. Name a regular file."
        )
    return target


def _resolved(path: Path, kind: str) -> Path:
    """The path, or the target of a link. Raises `OptionError` for long names, circular links and null characters."""
    try:
        target = path.resolve() if path.is_symlink() else path
        target.exists()
        if "\0" in str(path):
            raise ValueError("a name cannot hold a null character")
    except (OSError, RuntimeError, ValueError) as error:
        raise OptionError(f"Could not write {shorten_path(path)}: {reason_of(error)}. Choose another {kind}.") from None
    return target


_SPECIAL_FILES: Final = {
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}


def check_new_file(
    path: Path,
    *,
    reads: object = None,
    overwrite: bool = False,
    replaces: Callable[[Path], bool] | None = None,
) -> Path:
    """Check that a file can be written to `path` without losing anything. Returns the path.

    Call it before long computations. `reads` is the input of the command, which must be another file. An existing file
    may be replaced with `overwrite`, or if `replaces` returns True for it: it is an earlier output of the same kind. A
    file of a run, a model or a study is replaced only by its own kind. Raises `OptionError` if the file must not be
    written, `RecordError` if it cannot.
    """
    if str(path) == "-":
        raise OptionError("'-' is not a file. Output needs a file with a name; --json prints to stdout instead.")
    if not path.name:
        raise OptionError(f"{str(path)!r} is a folder, not a file. Name a file in it.")
    target = regular_file(path)
    if (
        isinstance(reads, str | Path)
        and target.exists()
        and kind_at(Path(reads)) != "nothing"
        and target.samefile(reads)
    ):
        raise OptionError(f"{str(path)!r} is the input and would be overwritten. Name another file for the output.")
    if target.exists():
        is_earlier_output = replaces is not None and replaces(target)
        owner, is_inside = _owner_of(target) or (None, False)
        if owner is not None and (is_inside or not is_earlier_output):
            raise OptionError(f"{path} belongs to {owner} and would be overwritten. Name another file for the output.")
        if not is_earlier_output and not overwrite:
            hint = "" if replaces is None else " and is not an earlier output of this kind"
            raise OptionError(
                f"{path} exists already{hint}. Name another file, or allow it to be replaced (--overwrite)."
            )
    _check_writable(target)
    return path


def check_different(**paths: Path | None) -> None:
    """Raise `OptionError` if two outputs are the same file. Keywords are the names of their options."""
    resolved = {name: path.resolve() for name, path in paths.items() if path is not None}
    for name, path in resolved.items():
        duplicate = next((other for other in resolved if other != name and resolved[other] == path), None)
        if duplicate is not None:
            raise OptionError(f"--{name} and --{duplicate} are the same file, {path}. Name two files.")


def check_output_folder(path: Path) -> Path:
    """Check that files can be written into this folder, which may exist. Returns the path."""
    if kind_at(path) in ("file", "special"):
        raise OptionError(f"{path} is a file, not a folder. Name a folder.")
    _check_writable(path / "file")
    return path


def is_didact_page(path: Path) -> bool:
    """Whether a file is an HTML page that didact wrote."""
    try:
        with path.open("rb") as file:
            return GENERATOR.encode() in file.read(4096)
    except OSError:
        return False


def _owner_of(path: Path) -> tuple[str, bool] | None:
    """The run, model, study or explainer that a file belongs to, and whether it is in a subfolder of a run."""
    for depth, folder in enumerate(list(path.absolute().parents)[:3]):
        marker_count = sum(
            (folder / name).exists() for name in ("comparison.json", "plan.toml", "results.parquet", "cells")
        )
        if marker_count > 1:  # a single one may be the user's own file
            return f"the run {folder}", depth > 0
    folder = path.absolute().parent
    for marker, owner in (("didact.json", "model"), ("study.json", "study")):
        if (folder / marker).is_file():
            return f"the {owner} {folder}", False
    return (f"the learned explainer {folder}", False) if _is_explainer(folder) else None


def _is_replaceable(folder: Path) -> bool:
    """Whether a folder may be replaced: it is a model, a learned explainer, or empty."""
    return (folder / "didact.json").is_file() or _is_explainer(folder) or not any(folder.iterdir())


def _is_explainer(folder: Path) -> bool:
    try:
        return "explainer" in json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, TypeError, RecursionError):
        return False


@contextmanager
def atomic_folder(path: Path, *, overwrite: bool = False, is_in_run: bool = False) -> Iterator[Path]:
    """A draft folder that becomes `path` if the block succeeds, and is removed if it fails.

    `is_in_run` is for folders inside a run, which only didact names: any existing content is replaced. Raises
    `OptionError` as `check_new_folder` does, and `RecordError` if the folder cannot be written.
    """
    path = check_new_folder(path, overwrite=overwrite, is_in_run=is_in_run)
    draft = _draft_path(path)
    try:
        draft.mkdir()
        yield draft
        for file in draft.rglob("*"):
            _sync(file)
        if overwrite:
            _replace(draft, path)
        else:
            draft.rename(path)  # fails if another process has created it meanwhile
    except (OSError, SafetensorError) as error:  # safetensors has its own error for a full disk
        raise RecordError(f"Could not write {path}: {reason_of(error)}. What was there is unchanged.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_new_folder(path: Path, *, overwrite: bool = False, is_in_run: bool = False) -> Path:
    """Check that a folder can be created at `path`. Returns the absolute path.

    Call it before long computations. With `overwrite` the folder may exist if it is empty or was made by didact. Raises
    `OptionError` if the folder must not be written, `RecordError` if it cannot.
    """
    path = _resolved(path, "folder").absolute()
    exists = path.exists()
    if exists and not overwrite:
        raise OptionError(f"{path} exists already. Choose another folder, or allow it to be replaced (--overwrite).")
    if exists and not path.is_dir():
        raise OptionError(f"{path} is a file, not a folder. Choose another path.")
    if exists and not is_in_run and not _is_replaceable(path):
        raise OptionError(
            f"{path} was not made by didact: it contains neither didact.json (of a model) nor the config.json of a "
            "learned explainer. --overwrite replaces only such folders. Choose another folder."
        )
    _check_writable(path)
    return path


def ensure_parent(path: Path) -> Path:
    """Create the folder of a path. Returns the path."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"Could not create the folder {path.parent}: {error.strerror or error}.") from error
    return path


def remove_stale_drafts(folder: Path, *, inside: Sequence[str] = ()) -> None:
    """Remove drafts of killed processes from `folder`, and from its subfolders `inside`.

    Drafts exist only for moments, so a draft older than an hour is stale. Other files in the folders are not touched.
    """
    searches = [folder.glob("*.tmp"), *((folder / name).rglob("*.tmp") for name in inside)]
    for draft in sorted(path for search in searches for path in search if _DRAFT_NAME.search(path.name)):
        try:
            is_old = time.time() - draft.stat().st_mtime > _STALE_AFTER
        except OSError:  # removed by another run meanwhile
            continue
        if is_old and draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        elif is_old:
            draft.unlink(missing_ok=True)


def _check_writable(path: Path) -> None:
    """Raise `RecordError` if nothing can be created next to `path`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = _draft_path(path)
        probe.mkdir()
        probe.rmdir()
    except (OSError, ValueError) as error:
        raise RecordError(f"Could not write {shorten_path(path)}: {reason_of(error)}. Choose another path.") from error


def _replace(draft: Path, path: Path) -> None:
    """Move the draft to `path`. If that fails, restore what was there."""
    if not path.exists():
        draft.rename(path)
        return
    backup = _draft_path(path)
    path.rename(backup)
    try:
        draft.rename(path)
    except OSError:
        backup.rename(path)
        raise
    shutil.rmtree(backup, ignore_errors=True)


def _sync(file: Path) -> None:
    if file.is_file():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


_DRAFT_NAME: Final = re.compile(r"\.\d+\.[0-9a-f]{8}\.tmp$")  # the names that `_draft_path` makes
_STALE_AFTER: Final = 3600.0  # seconds


def _draft_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
