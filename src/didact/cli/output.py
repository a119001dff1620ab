"""Prints the output of commands: JSON for machines, tables for people, messages on stderr."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import typer

from didact.results.documents import plain

PROSE_LENGTH: Final = 24  # longer cells are prose, which wraps
PROSE_WIDTH: Final = 16  # minimum width of a column of prose
GAP: Final = 3  # characters between columns


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document on stdout. NaN and infinity become null."""
    typer.echo(json.dumps(plain(document), ensure_ascii=False, indent=1, allow_nan=False))


@contextmanager
def exit_on_interrupt(hint: str = "Stopped. Run the same command again to resume.") -> Iterator[None]:
    """On Ctrl-C, print the message of the interrupt or the hint, and exit with 130."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        echo_stderr(f"didact: {str(stopped) or hint}")
        raise typer.Exit(130) from None


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, keys: int = 1) -> None:
    """Print a table that fits the terminal. A wide table is split; each piece repeats the first `keys` columns.

    Names and numbers are never cut or wrapped, because people copy them. Prose wraps at words.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    # Text objects, because rich reads square brackets in strings as markup.
    cells = [[cell if isinstance(cell, Text) else Text(str(cell)) for cell in row] for row in rows]
    terminal = console()
    is_prose = [any(_is_prose(row[number].plain) for row in cells) for number in range(len(columns))]
    widths = [
        max([_heading_width(column), *(PROSE_WIDTH if is_prose[number] else row[number].cell_len for row in cells)])
        for number, column in enumerate(columns)
    ]
    pieces = split_columns(widths, terminal.width, keys=min(keys, len(columns)))
    for piece in pieces:
        free = terminal.width + 1 - sum(widths[number] + GAP for number in piece)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for number in piece:
            extra = max(0, len(columns[number]) - widths[number])
            extra = extra if extra <= free else 0  # a heading wraps only if it must
            free -= extra
            width = widths[number] + extra
            table.add_column(columns[number], width=None if is_prose[number] else width, min_width=width)
        for row in cells:
            table.add_row(*(row[number] for number in piece))
        console(max(terminal.width, terminal.width - free)).print(table)


def split_columns(widths: Sequence[int], width: int, *, keys: int = 1) -> list[list[int]]:
    """Split columns into tables that fit `width`, if single columns do. Returns the column numbers of each table."""
    shared = list(range(keys))
    used = sum(widths[number] + GAP for number in shared) - 1
    pieces: list[list[int]] = [[]]
    remaining = width - used
    for number in range(keys, len(widths)):
        needed = widths[number] + GAP
        if needed > remaining and pieces[-1]:
            pieces.append([])
            remaining = width - used
        pieces[-1].append(number)
        remaining -= needed
    return [[*shared, *piece] for piece in pieces]


def _is_prose(text: str) -> bool:
    """True if a cell may wrap: long text with spaces. Intervals are shorter, names have no spaces."""
    return len(text) > PROSE_LENGTH and text.count(" ") >= 3


def _heading_width(column: str) -> int:
    """The minimum width of a heading, which wraps at words."""
    return max((len(word) for word in column.split()), default=0)


def format_number(value: float | None, form: str) -> str:
    """Format a number; a dash for None and NaN."""
    return "–" if value is None or not math.isfinite(value) else format(value, form)


def format_interval(low: float | None, high: float | None, form: str) -> str:
    """Format an interval; a dash if an end is undefined, as for a single row."""
    ends = format_number(low, form), format_number(high, form)
    return "–" if "–" in ends else f"[{ends[0]}, {ends[1]}]"


def console(width: int | None = None) -> Any:
    from rich.console import Console

    return Console(soft_wrap=False, highlight=False, width=width)


def echo_stderr(message: str) -> None:
    """Print a line on stderr."""
    typer.echo(message, err=True)


def echo_notes(notes: Iterable[str]) -> None:
    """Print notes about the data on stderr: `note: …`, one per line."""
    for note in notes:
        echo_stderr(f"note: {note}")


def print_metrics(metrics: Mapping[str, Any]) -> None:
    """Print one metric per line. A list continues on the following lines."""
    for name, value in metrics.items():
        lines = value if isinstance(value, list) else [value]
        for number, line in enumerate(lines):
            typer.echo(f"{name if number == 0 else '':>16}  {_format_value(line)}")


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format_value(item)}" for name, item in value.items())
    return f"{value:.4f}" if isinstance(value, float) else str(value)
