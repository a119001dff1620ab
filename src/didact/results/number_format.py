"""Formatting of numbers and lists of names, shared by tables, charts and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

UNKNOWN = "–"


def minus(text: str) -> str:
    """Replace hyphens with minus signs."""
    return text.replace("-", "−")


def join_names(names: Sequence[str]) -> str:
    """Join names as in "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True)
class NumberFormat:
    """A format: values times `scale` with `digits` decimals. A number that rounds to zero has no sign; None becomes –.

    `suffix` follows values, not differences. `ascii_minus` writes a hyphen instead of a minus sign, for terminals and
    files.
    """

    scale: float = 1.0
    digits: int = 2
    suffix: str = ""
    ascii_minus: bool = False

    def plain(self, value: float | None) -> str:
        """Format a value."""
        return UNKNOWN if value is None else self._digits(value, "") + self.suffix

    def signed(self, value: float | None) -> str:
        """Format a difference with its sign."""
        return UNKNOWN if value is None else self._digits(value, "+")

    def interval(self, low: float | None, high: float | None, *, signed: bool = True) -> str:
        """Format an interval for sentences: "low to high"."""
        if low is None or high is None:
            return "no interval"
        format_number = self.signed if signed else self.plain
        return f"{format_number(low)} to {format_number(high)}"

    def brackets(self, low: float | None, high: float | None) -> str:
        """Format an interval for tables: "[low, high]"."""
        return "no interval" if low is None or high is None else f"[{self.signed(low)}, {self.signed(high)}]"

    def _digits(self, value: float, sign: str) -> str:
        text = f"{value * self.scale:{sign}.{self.digits}f}"
        text = text if float(text) else text.lstrip("+-")
        return text if self.ascii_minus else minus(text)
