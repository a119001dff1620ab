"""Remote folders by URL (s3://bucket/run): read, write and list files on every file system that fsspec supports.

Credentials come from the environment or a profile, never from the URL, and are removed from messages.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from didact.errors import DidactError, MissingExtraError, OptionError, RecordError
from didact.files.atomic import ensure_parent, write_bytes

T = TypeVar("T")

# The files of a finished run, besides its folders. The last is written when all others are.
RUN_FILES: Final = ("plan.toml", "results.parquet", "measured.json", "comparison.json", "run.json")
_INSTALL_HINTS: Final = {"s3": 'pip install "didact[s3]"', "s3a": 'pip install "didact[s3]"'}
# Stores in which folders are prefixes of names and need not be created.
_OBJECT_STORES: Final = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory")
_S3_SETTINGS: Final = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 5}}
_CREDENTIAL_ERRORS: Final = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "DefaultCredentialsError",
)
_SECRET_NAME: Final = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL", re.IGNORECASE)


def is_url(location: object) -> bool:
    """Whether the location of a run is a URL. Raises `OptionError` for a URL with one slash (`s3:/`)."""
    text = str(location)
    if re.match(r"(s3a?|gs|gcs|memory|file|az|abfss?):/(?!/)", text):
        reason = "a Path keeps only one slash, so pass a str" if isinstance(location, Path) else "a slash is missing"
        raise OptionError(f"{text!r} is neither a folder nor a URL: {reason}. Write {text.replace(':/', '://', 1)!r}.")
    return isinstance(location, str) and "://" in text


def check_url(url: str) -> str:
    """The URL without a slash at its end. Raises `OptionError` for credentials, a query or no location."""
    parts = urlsplit(url)
    if parts.password is not None or (parts.username and parts.scheme in ("s3", "s3a", "gs", "gcs")):
        raise OptionError(
            f"The URL {redact_secrets(url)} contains a user name or password, which every list of processes "
            "would show. Remove it, and set environment variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or a "
            "profile (AWS_PROFILE) instead."
        )
    if parts.query or parts.fragment:
        raise OptionError(
            f"The URL {parts.scheme}://{parts.netloc}{parts.path} has a part after ? or #. Remove it; set options in "
            "the environment or a profile."
        )
    if not (parts.netloc or parts.path.strip("/")):
        raise OptionError(f"{url!r} has no location. Write it as s3://bucket/run.")
    return url.rstrip("/")


def redact_secrets(text: str) -> str:
    """The message of a library without secrets from the environment and without credentials in URLs."""
    text = re.sub(r"//[^/\s]*@", "//…@", text)
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) > 7:
            text = text.replace(value, "…")
    return text


class RemoteFolder:
    """Files by name below one URL. Failures raise `RecordError`; s3fs retries before that.

    Object stores such as S3 write a file completely or not at all. Other systems may leave part of a file, so readers
    verify checksums.
    """

    def __init__(self, url: str) -> None:
        self.url = check_url(url)
        self.protocol = urlsplit(url).scheme
        self._system, root = _open_filesystem(self.url, self.protocol)
        self._root = root.rstrip("/")

    def check(self) -> None:
        """Write, read and list a test file before long computations. Raises an error with advice if this fails."""
        name = f".didact-{secrets.token_hex(4)}"
        try:
            self._write(name, b"didact\n")
            self._system.invalidate_cache()
            content = self._system.cat_file(self._path(name))
            self._list("cells")
        except Exception as error:  # any error of the library for this URL
            raise self._access_error(error) from None
        if content != b"didact\n":
            raise RecordError(f"{self.url} did not return what was written to it. Choose another location.")
        with suppress(Exception):  # permission to delete is not needed
            self._system.rm_file(self._path(name))

    def read(self, name: str) -> bytes | None:
        """The content of a file, or None if it does not exist."""
        return self.read_all([name]).get(name)

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of small files, read concurrently. Missing files are left out."""
        paths = {self._path(name): name for name in names}
        if not paths:
            return {}
        contents = self._call("read from", lambda: self._system.cat(list(paths), recursive=False, on_error="return"))
        contents_by_name = {}
        for path, name in paths.items():
            content = contents.get(path, FileNotFoundError(name))
            if isinstance(content, FileNotFoundError):
                continue
            if isinstance(content, Exception):
                raise self._io_error(f"read {name} in", content) from None
            contents_by_name[name] = bytes(content)
        return contents_by_name

    def write(self, name: str, content: bytes) -> None:
        self._call(f"write {name} into", lambda: self._write(name, content), is_read=False)

    def upload(self, path: Path, name: str) -> None:
        """Copy a local file of any size to the remote folder."""

        def put() -> None:
            self._make_folder(name)
            self._system.put_file(str(path), self._path(name))

        self._call(f"write {name} into", put, is_read=False)

    def download(self, name: str, path: Path) -> bool:
        """Copy a remote file of any size to `path`, atomically. Returns False if it does not exist."""
        draft = ensure_parent(path).with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        try:
            self._call(f"read {name} in", lambda: self._system.get_file(self._path(name), str(draft)))
            draft.replace(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise RecordError(f"Could not write {path}: {error.strerror or error}.") from error
        finally:
            draft.unlink(missing_ok=True)
        return True

    def list(self, folder: str = "") -> dict[str, int]:
        """The sizes of all files below a folder, by name."""
        try:
            return self._call("list", lambda: self._list(folder))
        except FileNotFoundError:
            return {}

    def _list(self, folder: str) -> dict[str, int]:
        self._system.invalidate_cache()
        entries = self._system.find(self._path(folder), detail=True)
        return {path[len(self._root) + 1 :]: int(info.get("size") or 0) for path, info in entries.items()}

    def _write(self, name: str, content: bytes) -> None:
        self._make_folder(name)
        self._system.pipe_file(self._path(name), content)

    def _make_folder(self, name: str) -> None:
        folder = self._path(name).rpartition("/")[0]
        if self.protocol not in _OBJECT_STORES:
            self._system.makedirs(folder, exist_ok=True)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _call(self, action: str, call: Callable[[], T], *, is_read: bool = True) -> T:
        """Call the library, which retries. Errors become `RecordError`, except `FileNotFoundError` while reading."""
        try:
            return call()
        except Exception as error:  # any error of the library for this URL
            if is_read and isinstance(error, FileNotFoundError):
                raise
            raise self._io_error(action, error) from None

    def _io_error(self, action: str, error: Exception) -> RecordError:
        return RecordError(f"Could not {action} {self.url}: {_reason(error)}")

    def _access_error(self, error: Exception) -> DidactError:
        """An error that says why the location cannot be used, and what to do."""
        reason = _reason(error)
        if type(error).__name__ in _CREDENTIAL_ERRORS:
            credentials = "AWS_PROFILE, or by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            credentials = (
                credentials
                if self.protocol in _INSTALL_HINTS
                else "the environment variables or configuration file of its library"
            )
            return OptionError(
                f"{self.url} cannot be used: {reason} Set credentials by {credentials}, never in the URL."
            )
        if isinstance(error, FileNotFoundError):
            return OptionError(f"{self.url} cannot be used: {reason} Create the bucket first, or correct its name.")
        if isinstance(error, PermissionError):
            return OptionError(
                f"{self.url} cannot be used: {reason} The user needs permission to list, read and write there."
            )
        return RecordError(
            f"{self.url} cannot be reached: {reason} Check the connection and, for your own server, "
            "AWS_ENDPOINT_URL. Then run the same command again."
        )


def local_cache_dir(url: str) -> Path:
    """The local cache folder of a remote run."""
    from didact.files.store import key_of

    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "didact" / "stores" / key_of({"url": check_url(url)})


def fetch_run(url: str, *, with_answers: bool = False) -> Path:
    """Download the files of a finished run that tables and reports need. Returns the local folder.

    With `with_answers`, the answers of the teacher and of all students are downloaded, too. This is not the cache of a
    run in progress, which may be ahead of the remote folder. Raises `OptionError` if the run is not finished or does
    not exist.
    """
    remote = RemoteFolder(url)
    contents = remote.read_all(RUN_FILES)
    if "comparison.json" not in contents:
        raise OptionError(
            f"{remote.url} does not exist or contains no finished comparison. Run `didact compare … --out "
            f"{remote.url}` first (the same command resumes a stopped run)."
        )
    folder = local_cache_dir(url)
    folder = folder.with_name(f"{folder.name}-read")
    for name in RUN_FILES:
        if name in contents:
            write_bytes(ensure_parent(folder / name), contents[name])
        else:
            (folder / name).unlink(missing_ok=True)
    sizes = remote.list("measured")
    if with_answers:
        rows = {name: size for name, size in remote.list("classroom").items() if name.startswith("classroom/rows-")}
        sizes |= remote.list("cells") | rows
    for name, size in sizes.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            remote.download(name, path)
    return folder


def _open_filesystem(url: str, protocol: str) -> tuple[Any, str]:
    try:
        import fsspec

        options: dict[str, object] = {"config_kwargs": _S3_SETTINGS} if protocol in _INSTALL_HINTS else {}
        system, root = fsspec.core.url_to_fs(url, skip_instance_cache=True, **options)
    except ImportError as error:
        raise MissingExtraError(
            f"{url} needs a package that is not installed: {_INSTALL_HINTS.get(protocol) or _reason(error)}"
        ) from None
    except ValueError as error:
        raise OptionError(f"{url} cannot be opened: {_reason(error)} Use a path, s3://, gs:// or file://.") from None
    except Exception as error:  # such as a missing profile or a broken configuration file
        raise OptionError(f"{url} cannot be opened: {_reason(error)}") from None
    return system, str(root)


def _reason(error: Exception) -> str:
    message = " ".join(redact_secrets(str(error)).split())[:300] or type(error).__name__
    return message if message.endswith(".") else f"{message}."
