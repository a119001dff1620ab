"""What is at a path. Handles missing permissions and names that no file can have."""

import stat
from pathlib import Path
from typing import Literal

from didact.errors import OptionError

Kind = Literal["file", "folder", "special", "nothing"]


def kind_at(path: Path | str) -> Kind:
    """What is at a path. Names that are too long or contain a null character are "nothing".

    Raises `OptionError` without permission to look.
    """
    try:
        mode = Path(path).stat().st_mode
    except PermissionError as error:
        raise unreadable_path_error(path, error) from None
    except (OSError, ValueError):
        return "nothing"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "special"


def check_readable(path: Path) -> None:
    """Raise `OptionError` if a file, or a file directly in a folder, cannot be opened."""
    try:
        if kind_at(path) == "folder":
            for entry in sorted(path.iterdir()):
                if kind_at(entry) == "file":
                    check_readable(entry)
        else:
            path.open("rb").close()
    except OSError as error:
        raise unreadable_path_error(path, error) from None


def unreadable_path_error(path: Path | str, error: OSError) -> OptionError:
    """The error for a path that cannot be read, with the reason."""
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    advice = " Ask its owner for permission to read it." if isinstance(error, PermissionError) else ""
    return OptionError(f"{shorten_path(path)} cannot be read: {reason}.{advice}")


def reason_of(error: Exception) -> str:
    """The reason that the operating system or a library reports."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def shorten_path(path: Path | str) -> str:
    """The path for a message: a path of more than 200 characters is cut in the middle."""
    text = str(path)
    return text if len(text) <= 200 else f"{text[:90]}…{text[-90:]} ({len(text):,} characters)"
