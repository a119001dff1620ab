"""Who does the cells of a run: processes of this machine (`local`), this very process (`here`), a cluster (`ray`).

An engine takes a manifest and keys, and tells of each cell when it is done. Cells keep their own records, so an engine
may die at any moment. To add one: a module with an `Engine`, and a name in `compare`. One that is a context manager,
too, is opened before anything is loaded and closed after the last cell. One that is a `Helper`, too, explains.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from didact.core.row import Row
    from didact.experiment.explain import Work
    from didact.records.explanations import Explanations


@dataclass(frozen=True)
class Told:
    """What an engine says of one cell: done, failed (recorded), died (with its process), unwritable (the store)."""

    key: str
    status: str
    error: str = ""
    value: float | None = None
    trace: str = ""  # what else is known of an error, with hosts and numbers that differ from run to run


@runtime_checkable
class Engine(Protocol):
    """Does cells in any order, so many of them at once. Closing the iterator stops the work."""

    def at_once(self) -> int: ...

    def run(self, manifest: Path, keys: Sequence[str]) -> Iterator[Told]: ...


@runtime_checkable
class Helper(Protocol):
    """Explains shards elsewhere, as this process would."""

    def shards(
        self, work: "Work", background: "Sequence[Row]", starts: Sequence[int]
    ) -> "Generator[tuple[int, Explanations], None, None] | None":
        """The shards that begin with these rows, in any order; None if they are better explained here.

        Closing the generator stops the work.
        """

    def shards_at_once(self, work: "Work", background: "Sequence[Row]") -> int:
        """How many shards would be explained at a time, where there are enough; 1 if they are better explained here."""
