"""Rich tables as plain text."""

import io
from typing import Any


def render_text(table: Any) -> str:
    """The table as text without trailing spaces. No cell is cut, since users read and type names and numbers."""
    from rich.console import Console

    output = io.StringIO()
    Console(file=output, width=10_000, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in output.getvalue().rstrip().splitlines())
