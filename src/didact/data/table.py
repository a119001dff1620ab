"""Records from any source, each with its location for error messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Record: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Records of one source. `numbers` are 1-based: lines of a text file, otherwise rows."""

    name: str
    columns: tuple[str, ...]
    records: Sequence[Record]
    numbers: Sequence[int]
    unit: str = "row"
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # class names that a column declares
    notes: tuple[str, ...] = ()  # what was detected while reading

    def location(self, index: int) -> str:
        return f"{self.name} {self.unit} {self.numbers[index]}"

    def __len__(self) -> int:
        return len(self.records)
