"""The folder of a run on this machine."""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

from didact.errors import RecordError


class RunDirectory:
    """A folder of this machine. Its copy in a store, which a subclass keeps, is asked and told nothing here."""

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

    def pull(self, *patterns: str) -> None:
        """Fetch what the store has of files of these names."""

    def push(self, *patterns: str) -> None:
        """Bring finished files of these names to the store."""

    def pull_cells(self, keys: Iterable[str]) -> None:
        """Fetch the finished cells among these."""

    def push_cells(self, keys: Iterable[str]) -> None:
        """Bring these cells to the store."""

    def ordered(self, keys: Sequence[str]) -> Sequence[str]:
        """The order in which cells are best done."""
        return keys

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """The run has ended, well or not."""
