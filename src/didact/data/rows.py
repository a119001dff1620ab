"""Rows from tables, all or none: one error reports all faults."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from didact.core.row import Row
from didact.data.fields import FieldError
from didact.data.table import Record, Table
from didact.errors import DataError


class Faults:
    """The first ten faults, and the number of all."""

    def __init__(self) -> None:
        self.first: list[str] = []
        self.total = 0

    def add(self, fault: str) -> None:
        self.total += 1
        if self.total <= DataError.SHOWN:
            self.first.append(fault)

    def raise_if_any(self, name: str) -> None:
        if self.total:
            count = "1 fault" if self.total == 1 else f"{self.total:,} faults"
            raise DataError(f"{name} has {count}, and none of it was loaded:", self.first, total=self.total)


def read_rows(
    name: str, tables: Mapping[str, Sequence[Table]], read: Callable[[Record], Row | None]
) -> tuple[dict[str, list[Row]], list[str]]:
    """The rows of each official split, and notes. `read` returns None for a record that is left out on purpose.

    Rows without an id get one from split and line. Raises `DataError` with all faults, such as repeated ids.
    """
    faults = Faults()
    rows: dict[str, list[Row]] = {}
    notes: list[str] = []
    for split, split_tables in tables.items():
        locations: dict[str, str] = {}
        rows[split] = []
        for number, table in enumerate(split_tables, 1):
            for index, record in enumerate(table.records):
                try:
                    row = read(record)
                except FieldError as error:
                    faults.add(f"{table.location(index)}: {error}")
                    continue
                except (
                    LookupError,
                    TypeError,
                    ValueError,
                    AttributeError,
                ) as error:  # the record has another structure
                    faults.add(
                        f"{table.location(index)}: not the structure that {name} has ({type(error).__name__}: {error})"
                    )
                    continue
                if row is None:
                    continue
                if not row.id:
                    id_parts = (split or "row", number if len(split_tables) > 1 else None, table.numbers[index])
                    row = dataclasses.replace(row, id="-".join(str(item) for item in id_parts if item is not None))
                if row.id in locations:
                    faults.add(f"{table.location(index)}: the id {row.id!r} was already used, {locations[row.id]}")
                locations[row.id] = table.location(index)
                rows[split].append(row)
        omitted = sum(map(len, split_tables)) - len(rows[split])
        if omitted and not faults.total:
            notes.append(f"{split}: {omitted:,} of {sum(map(len, split_tables)):,} records left out on purpose.")
    faults.raise_if_any(name)
    return rows, notes + _make_ids_unique(rows)


def _make_ids_unique(rows: dict[str, list[Row]]) -> list[str]:
    """If two splits use one id for different rows, prefix every id with the name of its split. Returns notes."""
    owners: dict[str, Row] = {}
    all_rows = [row for split_rows in rows.values() for row in split_rows]
    if all(owners.setdefault(row.id, row) is row or owners[row.id].content == row.content for row in all_rows):
        return []
    for split, split_rows in rows.items():
        rows[split] = [dataclasses.replace(row, id=f"{split}/{row.id}") for row in split_rows]
    return ["Splits use the same ids for different rows, so each id now starts with the name of its split."]
