"""How commands speak: JSON for machines, tables for people, messages on stderr."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on stdout; what is not a number becomes null."""
    typer.echo(json.dumps(_plain(document), ensure_ascii=False, indent=1, allow_nan=False))


@contextmanager
def going_on(hint: str = "Stopped. Give the same command again to go on.") -> Iterator[None]:
    """Ctrl-C ends the command with 130, and says what was kept or how to go on."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        say(f"didact: {str(stopped) or hint}")
        raise typer.Exit(130) from None


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number == 0)  # names are copied and typed: never cut them
    for row in rows:
        # As Text, so that square brackets in data are never read as markup.
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    console().print(table)


def figure(value: float, form: str) -> str:
    """A number for people; a dash where there is none."""
    return format(value, form) if math.isfinite(value) else "–"


def interval(line: Mapping[str, Any], form: str) -> str:
    """The interval of a line from `low` to `high`; a dash where there is none, as of one row alone."""
    low, high = line["low"], line["high"]
    return f"[{low:{form}}, {high:{form}}]" if math.isfinite(low) and math.isfinite(high) else "–"


def console() -> Any:
    from rich.console import Console

    return Console(soft_wrap=False, highlight=False)


def say(message: str) -> None:
    """A line for people, on stderr."""
    typer.echo(message, err=True)


def say_notes(notes: Iterable[str]) -> None:
    """What a reader should know about the data, on stderr: `note: …`, one to a line."""
    for note in notes:
        say(f"note: {note}")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_metrics(metrics: Mapping[str, Any]) -> None:
    """One measure to a line; what several networks reached, one below another."""
    for name, value in metrics.items():
        lines = value if isinstance(value, list) else [value]
        for number, one in enumerate(lines):
            typer.echo(f"{name if number == 0 else '':>16}  {_written(one)}")


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_written(one)}" for name, one in value.items())
    return f"{value:.4f}" if isinstance(value, float) else str(value)
