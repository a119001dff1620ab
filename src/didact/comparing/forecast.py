"""What a comparison will take: runs, what is done already, and the time. No torch."""

import io
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Stage:
    """One part of the work, and the seconds it takes."""

    name: str
    count: int
    unit: str
    seconds: float


@dataclass(frozen=True)
class Forecast:
    """What a comparison takes from here on. `summary` says it in a few lines; `spent` is what finding out took.

    `stages` are the parts of the work without what is done already.

    `runs` are those of the whole plan and `done` those that the folder holds already; None where that is not known.
    """

    summary: tuple[str, ...]
    stages: tuple[Stage, ...]
    runs: int
    done: int | None
    workers: int
    spent: float
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """The seconds of what is left to do."""
        return sum(stage.seconds for stage in self.stages)

    def to_document(self) -> dict[str, object]:
        """Plain JSON."""
        return asdict(self) | {"seconds": self.seconds}

    def table(self) -> str:
        """For people: the plan, a line for each part of the work, and what else is to be known."""
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_footer=True)
        table.add_column("work", Text("total"), no_wrap=True)
        table.add_column("amount", "", justify="right")
        table.add_column("time", Text(in_words(self.seconds)), justify="right")
        for stage in self.stages:
            table.add_row(Text(stage.name), Text(f"{stage.count:,} {stage.unit}"), Text(in_words(stage.seconds)))
        console = Console(file=io.StringIO(), width=10_000, highlight=False)  # names are copied: none is cut
        console.print(table)
        text: str = console.file.getvalue()  # type: ignore[attr-defined]
        lines = [line.rstrip() for line in text.rstrip().splitlines()]
        return "\n".join([*self.summary, *lines, *self.remarks()])

    def remarks(self) -> list[str]:
        """What must be read with the table."""
        done = "unknown" if self.done is None else f"{self.done:,}"
        return [
            f"Runs: {self.runs:,}, done already: {done}; {self.workers} at a time.",
            *self.notes,
            f"Estimated in {in_words(self.spent)} from short measurements on this machine; nothing was stored.",
        ]


def in_words(seconds: float) -> str:
    """A time for people: 40 s, 12 min, 2.5 h."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
