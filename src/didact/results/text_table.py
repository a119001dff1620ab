"""A table of rich as plain text. Nothing is cut, since names and numbers are read and typed."""

import io
from typing import Any


def render_text(table: Any) -> str:
    """The lines of the table, without spaces at their ends."""
    from rich.console import Console

    output = io.StringIO()
    Console(file=output, width=10_000, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in output.getvalue().rstrip().splitlines())
