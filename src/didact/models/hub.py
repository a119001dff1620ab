"""Names of models: folders that must exist, and the Hugging Face hub, asked briefly and quietly."""

import difflib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from didact.errors import UnknownNameError
from didact.files.paths import kind_at, short

_TRIES: Final = 2  # the first, and one retry
_WAIT: Final = 1.0  # seconds before the retry
_REFUSALS: Final = range(400, 500)  # the hub answered: transformers says what is wrong
_LONGEST: Final = 200  # characters; the hub allows 96 for each of owner and name
_BUSY: Final = (408, 429)


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
            f"There is no folder {short(name)!r}.{_nearest(folder)} Name the folder that didact train --out or "
            "save_pretrained wrote, or a model on the Hugging Face hub (name, or owner/name)."
        )


def looks_like_path(name: str) -> bool:
    """Whether a name that is no folder was meant as one: no name on the hub looks so, or its parent is a folder."""
    if name.startswith((".", "~", os.sep, "/")) or name.count("/") > 1 or "\\" in name or name.endswith("/"):
        return True
    return len(name) > _LONGEST or ("/" in name and kind_at(Path(name).parent) == "folder")


def _nearest(folder: Path) -> str:
    """A folder of a similar name beside the one that is not there."""
    if kind_at(folder.parent) != "folder":
        return ""
    beside = sorted(entry.parent.name for entry in folder.parent.glob("*/config.json"))
    close = difflib.get_close_matches(folder.name, beside, n=1)
    return f" Did you mean {str(folder.parent / close[0])!r}?" if close else ""


def unreachable(name: str, revision: str | None = None) -> str:
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
            if code in _REFUSALS and code not in _BUSY:
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
