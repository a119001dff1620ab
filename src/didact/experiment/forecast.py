"""What a comparison will take: cells, time, memory and disk. `forecaster` finds it out. No torch."""

import io
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Stage:
    """One part of the work: so many things of a kind, and the seconds they take in all."""

    name: str
    count: int
    unit: str
    seconds: float


@dataclass(frozen=True)
class Forecast:
    """What a comparison will take from here on, in seconds and bytes; None where that is not known.

    `cells` are those of the plan and `kept` those that were done before; `at_once` are done at the same time, by
    `workers` processes beside the calling one. `memory_here` is what that one holds at most, `memory_worker` each of
    the others. `probed` are the seconds that finding out took.
    """

    stages: tuple[Stage, ...]
    cells: int
    kept: int
    at_once: int
    workers: int
    memory_here: int | None
    memory_worker: int | None
    all_memory: int | None
    disk: int
    free_disk: int | None
    probed: float
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    @property
    def memory(self) -> int | None:
        """Of all processes."""
        if self.memory_here is None or (self.workers and self.memory_worker is None):
            return None
        return self.memory_here + self.workers * (self.memory_worker or 0)

    def to_document(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self) | {"seconds": self.seconds, "memory": self.memory, "notes": list(self.notes)}

    def table(self) -> str:
        """For people: a line for each part of the work, and what else is to be known."""
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_footer=True)
        table.add_column("work", Text("in all"), no_wrap=True)
        table.add_column("how much", "", justify="right")
        table.add_column("time", Text(lasting(self.seconds)), justify="right")
        for stage in self.stages:
            table.add_row(Text(stage.name), Text(f"{stage.count:,} {stage.unit}"), Text(lasting(stage.seconds)))
        console = Console(file=io.StringIO(), width=10_000, highlight=False)  # names are read and typed: none is cut
        console.print(table)
        text: str = console.file.getvalue()  # type: ignore[attr-defined]
        return "\n".join([*(line.rstrip() for line in text.rstrip().splitlines()), *self.remarks()])

    def remarks(self) -> list[str]:
        """What must be read with the table."""
        done = f", {self.kept:,} of which are done" if self.kept else ""
        said = [f"Cells: {self.cells:,}{done}; {self.at_once} at a time."]
        if self.memory is not None:
            workers = f" here + {self.workers} × {size(self.memory_worker or 0)}" if self.workers else ""
            has = f"; this machine has {size(self.all_memory)}" if self.all_memory else ""
            said.append(f"Memory: {size(self.memory_here or 0)}{workers}{has}.")
            if self.all_memory and self.memory > self.all_memory:
                said.append("That is more than there is: take fewer workers (--workers) or smaller sizes.")
        free = f"; {size(self.free_disk)} are free" if self.free_disk is not None else ""
        said.append(f"Disk: {size(self.disk)}{free}.")
        if self.free_disk is not None and self.disk > self.free_disk:
            said.append("That is more than is free: choose another place (--out).")
        return [*said, *self.notes, f"Found out in {lasting(self.probed)} by probes on this machine; nothing is kept."]


def lasting(seconds: float) -> str:
    """A time for people."""
    if seconds < 99.5:
        return f"{seconds:.1f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def size(count: float) -> str:
    """Bytes for people."""
    for unit, power in (("GB", 1e9), ("MB", 1e6)):
        if count >= power:
            return f"{count / power:.1f} {unit}"
    return f"{count / 1e3:.0f} KB"
