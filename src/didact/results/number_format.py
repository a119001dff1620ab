"""How numbers and lists of names are written for people. Tables, charts and sentences all take it from here."""

from collections.abc import Sequence
from dataclasses import dataclass

UNKNOWN = "–"


def minus(text: str) -> str:
    """With a proper minus sign."""
    return text.replace("-", "−")


def join_names(names: Sequence[str]) -> str:
    """a, b and c"""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True)
class NumberFormat:
    """A value times `scale` with so many `digits`. What rounds to zero has no sign; None is written as –.

    `suffix` follows values, not differences. With `ascii_minus` a negative number begins with a hyphen, as terminals
    and files have it.
    """

    scale: float = 1.0
    digits: int = 2
    suffix: str = ""
    ascii_minus: bool = False

    def plain(self, value: float | None) -> str:
        """A value."""
        return UNKNOWN if value is None else self._digits(value, "") + self.suffix

    def signed(self, value: float | None) -> str:
        """A difference, with its sign."""
        return UNKNOWN if value is None else self._digits(value, "+")

    def interval(self, low: float | None, high: float | None, *, signed: bool = True) -> str:
        """low to high, as sentences write it."""
        if low is None or high is None:
            return "no interval"
        format_number = self.signed if signed else self.plain
        return f"{format_number(low)} to {format_number(high)}"

    def brackets(self, low: float | None, high: float | None) -> str:
        """[low, high], as tables write it."""
        return "no interval" if low is None or high is None else f"[{self.signed(low)}, {self.signed(high)}]"

    def _digits(self, value: float, sign: str) -> str:
        text = f"{value * self.scale:{sign}.{self.digits}f}"
        text = text if float(text) else text.lstrip("+-")
        return text if self.ascii_minus else minus(text)
