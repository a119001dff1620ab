"""Where a run is kept: in a folder, or in a folder that is kept in step with a store elsewhere."""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

from didact.errors import OptionError, RecordError
from didact.records.remote import is_url


class Place:
    """A folder of this machine. What a store elsewhere would have to be asked or told is nothing here."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.folder = folder
        self.name = str(folder) if name is None else name  # for people

    def check(self) -> None:
        """An error if nothing can be written there: asked before hours of work, not after."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise RecordError(
                f"Could not write into {self.folder}: {error.strerror or error}. Choose another place."
            ) from error

    def use(self, *patterns: str) -> None:
        """The run is about to need files of these names, or to make them."""

    def share(self, keys: Iterable[str]) -> None:
        """The run is about to do these cells."""

    def ordered(self, keys: Sequence[str]) -> Sequence[str]:
        """The order in which cells are best done."""
        return keys

    def __enter__(self) -> "Place":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """The run has ended, well or not."""


def place_of(out: str | Path, cache: str | Path | None = None, *, progress: bool = False) -> Place:
    """The place that was asked for: a path, or a URL with a folder on this machine to work in."""
    if is_url(out):
        from didact.experiment.mirror import Mirror

        return Mirror(str(out), None if cache is None else Path(cache), progress=progress)
    if cache is not None:
        raise OptionError(f"{out} is a folder of this machine and needs no cache. Leave it out, or give a URL as out.")
    return Place(Path(out))
