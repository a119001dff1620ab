"""Progress on stderr: a bar with the time left in a terminal, otherwise a plain line every 30 seconds."""

import sys
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any


class Progress:
    """A progress bar: `with Progress("training", total=500) as progress: progress.advance()`.

    If the total is unknown (`total=None`), the time left is not shown. `stream` is a text stream, by default stderr.
    """

    EVERY = 30.0

    def __init__(self, title: str, *, total: int | None, shown: bool = True, stream: Any = None) -> None:
        self.title, self.total, self.shown = title, total if total is None else max(total, 1), shown
        self.stream = stream or sys.stderr
        self.done = self.skipped = 0
        self.note = ""
        self._bar: Any = None
        self._start = self._last_report = time.monotonic()

    def __enter__(self) -> "Progress":
        self._start = self._last_report = time.monotonic()
        if self.shown and self.stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            has_total = self.total is not None
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%" if has_total else "{task.completed:,.0f} so far"),
                TimeElapsedColumn(),
                *((_time_left_column(self),) if has_total else ()),
                TextColumn("{task.fields[note]}"),
                console=Console(file=self.stream),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total, note="")
        return self

    def advance(self, steps: int = 1, *, note: str | None = None) -> None:
        """Count steps as done. `note` is shown after the progress."""
        self.done += steps
        self.note = self.note if note is None else note
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, note=self.note)
        elif self.shown and time.monotonic() - self._last_report >= self.EVERY:
            self._last_report = time.monotonic()
            print(f"{self.title}: {self._progress_text()} {self.note}".rstrip(), file=self.stream, flush=True)

    def skip(self, steps: int) -> None:
        """Count steps from an earlier run as done, without using them to estimate the time left."""
        self.skipped += steps
        self.done += steps
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)

    def time_left(self) -> str:
        """The estimated time left, from the steps since the start; empty before the first step."""
        if self.total is None or self.done == self.skipped:
            return ""
        elapsed = time.monotonic() - self._start
        seconds = elapsed / (self.done - self.skipped) * max(self.total - self.done, 0)
        return f"{_format_duration(seconds)} left"

    def _progress_text(self) -> str:
        if self.total is None:
            return f"{self.done:,} after {_format_duration(time.monotonic() - self._start)}"
        return f"{self.done} of {self.total}, {self.time_left()}"

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def announce(lines: Iterable[str], *, shown: bool = True, stream: Any = None) -> None:
    """Print lines to stderr, alongside progress bars."""
    if shown:
        for line in lines:
            print(line, file=stream or sys.stderr, flush=True)


def _time_left_column(progress: Progress) -> Any:
    """The column with the time left. Rich's own forgets steps after 30 seconds and counts skipped steps as speed."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Left(ProgressColumn):
        def render(self, _: Any) -> Text:
            return Text(progress.time_left())

    return Left()


def _format_duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
