"""CSV files whose texts spreadsheets do not evaluate as formulas."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER: Final = r"[+−-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NUMBERS: Final = re.compile(rf"{_NUMBER}(?: \[{_NUMBER}, {_NUMBER}\])?")


def without_formula(text: str) -> str:
    """Prefix the text with an apostrophe if a spreadsheet would evaluate it.

    Numbers are unchanged, alone or with an interval in brackets: "-2.5", "+0.3 [-0.1, +0.7]".
    """
    return f"'{text}" if text.startswith(_FORMULA_STARTS) and not _NUMBERS.fullmatch(text) else text


def csv_text(lines: Iterable[Sequence[Any]]) -> str:
    """Format lines of cells as CSV. None becomes an empty cell."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerows([without_formula(cell) if isinstance(cell, str) else cell for cell in line] for line in lines)
    return output.getvalue()
