"""A folder that lies elsewhere, known by its URL (s3://bucket/run): read, written and listed, without secrets in words.

Every system that fsspec knows will do. Who may do what is for the environment and for profiles to say, never for a URL.
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

# What a finished run leaves beside its folders; the last says that all is there.
RUN_FILES: Final = ("plan.toml", "results.parquet", "measured.json", "comparison.json", "run.json")
_INSTALL_HINTS: Final = {"s3": 'pip install "didact[s3]"', "s3a": 'pip install "didact[s3]"'}
# Where folders are but parts of names: nothing has to be made before a file is written.
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
    """Whether a run's place is elsewhere. A place may start with `s3:/` only by mistake, which is told."""
    text = str(location)
    if re.match(r"(s3a?|gs|gcs|memory|file|az|abfss?):/(?!/)", text):
        reason = "a path keeps one slash of two: give it as text" if isinstance(location, Path) else "it lacks a slash"
        raise OptionError(f"{text!r} is neither a folder nor a URL; {reason}, as in {text.replace(':/', '://', 1)!r}.")
    return isinstance(location, str) and "://" in text


def check_url(url: str) -> str:
    """The URL, if it names a place and says nothing that must not be written down."""
    parts = urlsplit(url)
    if parts.password is not None or (parts.username and parts.scheme in ("s3", "s3a", "gs", "gcs")):
        raise OptionError(
            f"The URL {redact_secrets(url)} holds a name or a password, which would be seen in every list of "
            "processes. Leave it out: environment variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or a profile "
            "(AWS_PROFILE) say who you are."
        )
    if parts.query or parts.fragment:
        raise OptionError(
            f"The URL {parts.scheme}://{parts.netloc}{parts.path} goes on with ? or #. Give the plain place; the "
            "environment and profiles say the rest."
        )
    if not (parts.netloc or parts.path.strip("/")):
        raise OptionError(f"{url!r} names no place. Write it as s3://bucket/run.")
    return url.rstrip("/")


def redact_secrets(text: str) -> str:
    """What a library said, without what the environment keeps secret and without passwords in URLs."""
    text = re.sub(r"//[^/\s]*@", "//…@", text)
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) > 7:
            text = text.replace(value, "…")
    return text


class RemoteFolder:
    """Files by name, below one URL. What fails is a `RecordError`; s3fs tries again by itself before that.

    An object is written whole or not at all on S3 and its like. Elsewhere half of one may be left, so whoever reads
    checks what it holds.
    """

    def __init__(self, url: str) -> None:
        self.url = check_url(url)
        self.protocol = urlsplit(url).scheme
        self._system, root = _open_filesystem(self.url, self.protocol)
        self._root = root.rstrip("/")

    def check(self) -> None:
        """An error if nothing can be written, read or listed there: asked before hours of work, not after."""
        name = f".didact-{secrets.token_hex(4)}"
        try:
            self._write(name, b"didact\n")
            self._system.invalidate_cache()
            content = self._system.cat_file(self._path(name))
            self._list("cells")
        except Exception as error:  # of whatever library serves this URL
            raise self._access_error(error) from None
        if content != b"didact\n":
            raise RecordError(f"{self.url} did not give back what was written there. Choose another place.")
        with suppress(Exception):  # who may write and not delete can work all the same
            self._system.rm_file(self._path(name))

    def read(self, name: str) -> bytes | None:
        """What a file holds; None if there is none."""
        return self.read_all([name]).get(name)

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        """What small files hold, several at a time; those that are missing are left out."""
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
        """Write a file of any size."""

        def put() -> None:
            self._make_folder(name)
            self._system.put_file(str(path), self._path(name))

        self._call(f"write {name} into", put, is_read=False)

    def download(self, name: str, path: Path) -> bool:
        """Write a file of any size here, whole or not at all; False if there is none there."""
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
        """Call the library, which tries again by itself. That a file to read is missing is for the caller to handle."""
        try:
            return call()
        except Exception as error:  # of whatever library serves this URL
            if is_read and isinstance(error, FileNotFoundError):
                raise
            raise self._io_error(action, error) from None

    def _io_error(self, action: str, error: Exception) -> RecordError:
        return RecordError(f"Could not {action} {self.url}: {_reason(error)}")

    def _access_error(self, error: Exception) -> DidactError:
        """Why nothing can be kept there, and what to do."""
        reason = _reason(error)
        if type(error).__name__ in _CREDENTIAL_ERRORS:
            credentials = "AWS_PROFILE, or by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            credentials = (
                credentials
                if self.protocol in _INSTALL_HINTS
                else "what its library reads (environment variables, a file of settings)"
            )
            return OptionError(
                f"{self.url} cannot be used: {reason} Say who you are by {credentials}; never in the URL."
            )
        if isinstance(error, FileNotFoundError):
            return OptionError(f"{self.url} cannot be used: {reason} Make the bucket first, or mend its name.")
        if isinstance(error, PermissionError):
            return OptionError(
                f"{self.url} cannot be used: {reason} Whoever runs this must be allowed to list, read and write there."
            )
        return RecordError(
            f"{self.url} cannot be reached: {reason} Look at the connection and, for a server of your own, at "
            "AWS_ENDPOINT_URL; then give the same command again."
        )


def local_cache_dir(url: str) -> Path:
    """Where the files of a store are kept on this machine."""
    from didact.files.store import key_of

    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "didact" / "stores" / key_of({"url": check_url(url)})


def fetch_run(url: str) -> Path:
    """A folder of this machine with what a finished run left in a store, as far as tables and reports need it.

    It is not the cache in which a run on that store works: that may be ahead of the store.
    """
    remote = RemoteFolder(url)
    contents = remote.read_all(RUN_FILES)
    if "comparison.json" not in contents:
        raise OptionError(
            f"{remote.url} holds no finished comparison, or is not there. Run `didact compare … --out {remote.url}` "
            "first (the same command goes on where it was stopped)."
        )
    folder = local_cache_dir(url)
    folder = folder.with_name(f"{folder.name}-read")
    for name in RUN_FILES:
        if name in contents:
            write_bytes(ensure_parent(folder / name), contents[name])
        else:
            (folder / name).unlink(missing_ok=True)
    for name, size in remote.list("measured").items():
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
        raise OptionError(
            f"{url} cannot be opened: {_reason(error)} Known are paths, s3://, gs:// and file://."
        ) from None
    except Exception as error:  # a profile that does not exist, a file of settings that is broken
        raise OptionError(f"{url} cannot be opened: {_reason(error)}") from None
    return system, str(root)


def _reason(error: Exception) -> str:
    message = " ".join(redact_secrets(str(error)).split())[:300] or type(error).__name__
    return message if message.endswith(".") else f"{message}."
