"""Writing that is either done or not: into a draft first, then moved into place."""

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
    """Replace the file at once. Two processes may write the same path; one of them wins, whole."""
    with atomic_file(path) as draft, draft.open("wb") as file:
        file.write(content)


def write_text(path: Path, content: str) -> None:
    """The text as UTF-8. Half a surrogate pair, as a terminal makes it of bytes that are not UTF-8, is an error."""
    try:
        encoded = content.encode()
    except UnicodeEncodeError as error:
        excerpt = content[max(0, error.start - 20) : error.start + 20]
        raise DataError(
            f"Could not write {path}: the text {excerpt!r} holds characters that are not valid Unicode. "
            "Write it in UTF-8."
        ) from None
    write_bytes(path, encoded)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A draft file that becomes `path` when the block ends well: for what is too large to hold in memory.

    Every file that didact writes is written here. A link stays, and the file it names is replaced. A device, a pipe, a
    socket or a folder is never replaced.
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
        with contextlib.suppress(OSError):  # a name too long was told already
            draft.unlink(missing_ok=True)


def regular_file(path: Path) -> Path:
    """The file to write: `path` itself, or what a link leads to. An error if that is no regular file."""
    target = _resolved(path, "file")
    mode = target.stat().st_mode if target.exists() else None
    # /dev/shm is a file system in memory, where files are regular.
    if str(path.absolute()).startswith(("/dev/", "/proc/")) and not str(path.absolute()).startswith("/dev/shm/"):
        raise OptionError(
            f"{path} is no regular file, and output is written as one. Name a file; --json prints to stdout instead."
        )
    if mode is None and path.is_symlink():
        raise OptionError(f"{path} is a link to {target}, which does not exist. Remove the link, or name that file.")
    if mode is not None and stat.S_ISDIR(mode):
        raise OptionError(f"{str(path)!r} is a folder, and a file is to be written there. Name the file too.")
    if mode is not None and not stat.S_ISREG(mode):
        raise OptionError(
            f"{path} is a {_SPECIAL_FILES[stat.S_IFMT(mode)]}, which output never replaces. Name a regular file."
        )
    return target


def _resolved(path: Path, kind: str) -> Path:
    """The path, or what a link leads to. An error for a name too long, links in a circle, a null character."""
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
    """The path, if a file can be written there and nothing is lost by it: asked before hours of work, not after.

    `reads` is what the command reads. A file that exists is replaced with `overwrite`, or if `replaces` says that it is
    an earlier output of the same kind. A file of a run, a model or a study is replaced only by its own kind.
    """
    if str(path) == "-":
        raise OptionError("'-' is no file: output goes to a file with a name. --json prints to stdout instead.")
    if not path.name:
        raise OptionError(f"{str(path)!r} is a folder, and a file is to be written there. Name the file too.")
    target = regular_file(path)
    if (
        isinstance(reads, str | Path)
        and target.exists()
        and kind_at(Path(reads)) != "nothing"
        and target.samefile(reads)
    ):
        raise OptionError(f"{str(path)!r} is what is read, and would be written over. Name another file to write.")
    if target.exists():
        is_earlier_output = replaces is not None and replaces(target)
        owner, is_inside = _owner_of(target) or (None, False)
        if owner is not None and (is_inside or not is_earlier_output):
            raise OptionError(f"{path} belongs to {owner}, and would be lost. Name another file to write.")
        if not is_earlier_output and not overwrite:
            hint = "" if replaces is None else ", and is no earlier output of this kind"
            raise OptionError(
                f"{path} exists already{hint}. Name another file, or allow it to be replaced (--overwrite)."
            )
    _check_writable(target)
    return path


def check_different(**paths: Path | None) -> None:
    """An error if two outputs are the same file. Keywords are the names of their options."""
    resolved = {name: path.resolve() for name, path in paths.items() if path is not None}
    for name, path in resolved.items():
        duplicate = next((other for other in resolved if other != name and resolved[other] == path), None)
        if duplicate is not None:
            raise OptionError(f"--{name} and --{duplicate} are the same file, {path}. Name two files.")


def check_output_folder(path: Path) -> Path:
    """The path, if files can be written into a folder there, which may exist."""
    if kind_at(path) in ("file", "special"):
        raise OptionError(f"{path} is a file, and a folder is to be written there. Name a folder.")
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
    """The run, model, study or explainer that a file is a part of, and whether it is in a folder inside a run."""
    for depth, folder in enumerate(list(path.absolute().parents)[:3]):
        marker_count = sum(
            (folder / name).exists() for name in ("comparison.json", "plan.toml", "results.parquet", "cells")
        )
        if marker_count > 1:  # one of them alone may be the user's
            return f"the run {folder}", depth > 0
    folder = path.absolute().parent
    for marker, owner in (("didact.json", "model"), ("study.json", "study")):
        if (folder / marker).is_file():
            return f"the {owner} {folder}", False
    return (f"the learned explainer {folder}", False) if _is_explainer(folder) else None


def _is_replaceable(folder: Path) -> bool:
    """Whether nothing of the user's is lost with a folder: it is a model, a learned explainer, or empty."""
    return (folder / "didact.json").is_file() or _is_explainer(folder) or not any(folder.iterdir())


def _is_explainer(folder: Path) -> bool:
    try:
        return "explainer" in json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, TypeError, RecursionError):
        return False


@contextmanager
def atomic_folder(path: Path, *, overwrite: bool = False, is_in_run: bool = False) -> Iterator[Path]:
    """A draft folder that becomes `path` when the block ends well, and vanishes when it does not.

    `is_own` is for a folder inside a run, that only didact names: whatever is there is replaced.
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
            draft.rename(path)  # fails if somebody else made it meanwhile
    except (OSError, SafetensorError) as error:  # safetensors has its own error for a disk that is full
        raise RecordError(f"Could not write {path}: {reason_of(error)}. What was there is unchanged.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_new_folder(path: Path, *, overwrite: bool = False, is_in_run: bool = False) -> Path:
    """The absolute path, if a folder can be made there: asked before hours of work, not after.

    With `overwrite` a folder may be there if it is empty or didact made it.
    """
    path = _resolved(path, "folder").absolute()
    exists = path.exists()
    if exists and not overwrite:
        raise OptionError(f"{path} exists already. Choose another folder, or allow it to be replaced (--overwrite).")
    if exists and not path.is_dir():
        raise OptionError(f"{path} is a file, and a folder is to be written there. Choose another place.")
    if exists and not is_in_run and not _is_replaceable(path):
        raise OptionError(
            f"{path} was not made by didact: it holds neither didact.json (of a model) nor the config.json of a "
            "learned explainer. --overwrite replaces only such folders. Choose another folder."
        )
    _check_writable(path)
    return path


def ensure_parent(path: Path) -> Path:
    """The path, whose folder is there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"Could not make the folder {path.parent}: {error.strerror or error}.") from error
    return path


def remove_stale_drafts(folder: Path, *, inside: Sequence[str] = ()) -> None:
    """Remove drafts that a killed run left. A draft lives for moments, so old ones belong to nobody.

    The folder may hold other people's files: only what is named as our drafts are, there and in the folders `inside`,
    is looked at.
    """
    searches = [folder.glob("*.tmp"), *((folder / name).rglob("*.tmp") for name in inside)]
    for draft in sorted(path for search in searches for path in search if _DRAFT_NAME.search(path.name)):
        try:
            is_old = time.time() - draft.stat().st_mtime > _STALE_AFTER
        except OSError:  # gone by now: another run's
            continue
        if is_old and draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        elif is_old:
            draft.unlink(missing_ok=True)


def _check_writable(path: Path) -> None:
    """An error if nothing can be made beside `path`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = _draft_path(path)
        probe.mkdir()
        probe.rmdir()
    except (OSError, ValueError) as error:
        raise RecordError(f"Could not write {shorten_path(path)}: {reason_of(error)}. Choose another place.") from error


def _replace(draft: Path, path: Path) -> None:
    """Move the draft into place; if that fails, what was there comes back."""
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


_DRAFT_NAME: Final = re.compile(r"\.\d+\.[0-9a-f]{8}\.tmp$")  # as `_draft` names them
_STALE_AFTER: Final = 3600.0  # seconds after which a draft is nobody's


def _draft_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
