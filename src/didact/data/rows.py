"""Tables become rows, all of them or none: every fault is gathered before anything is refused."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from didact.core.row import Row
from didact.data.fields import FieldError
from didact.data.table import Record, Table
from didact.errors import DataError


class Faults:
    """The first ten faults, and how many there were."""

    def __init__(self) -> None:
        self.first: list[str] = []
        self.total = 0

    def add(self, fault: str) -> None:
        self.total += 1
        if self.total <= DataError.SHOWN:
            self.first.append(fault)

    def refuse(self, name: str) -> None:
        if self.total:
            count = "1 fault" if self.total == 1 else f"{self.total:,} faults"
            raise DataError(f"{name} has {count}, and nothing of it was loaded:", self.first, total=self.total)


def read_rows(
    name: str, tables: Mapping[str, Sequence[Table]], read: Callable[[Record], Row | None]
) -> tuple[dict[str, list[Row]], list[str]]:
    """The rows of each official split, and notes. `read` may return None for a record that is left out on purpose."""
    faults = Faults()
    rows: dict[str, list[Row]] = {}
    notes: list[str] = []
    for split, parts in tables.items():
        places: dict[str, str] = {}
        rows[split] = []
        for part, table in enumerate(parts, 1):
            for index, record in enumerate(table.records):
                try:
                    row = read(record)
                except FieldError as error:
                    faults.add(f"{table.place(index)}: {error}")
                    continue
                except (LookupError, TypeError, ValueError, AttributeError) as error:  # a record of another form
                    faults.add(f"{table.place(index)}: not the form that {name} has ({type(error).__name__}: {error})")
                    continue
                if row is None:
                    continue
                if not row.id:
                    made = (split or "row", part if len(parts) > 1 else None, table.numbers[index])
                    row = dataclasses.replace(row, id="-".join(str(one) for one in made if one is not None))
                if row.id in places:
                    faults.add(f"{table.place(index)}: the id {row.id!r} was already used, {places[row.id]}")
                places[row.id] = table.place(index)
                rows[split].append(row)
        left = sum(map(len, parts)) - len(rows[split])
        if left and not faults.total:
            notes.append(f"{split}: {left:,} of {sum(map(len, parts)):,} records left out on purpose.")
    faults.refuse(name)
    return rows, notes + _tell_splits_apart(rows)


def _tell_splits_apart(rows: dict[str, list[Row]]) -> list[str]:
    """Where two splits use one id for different rows, put the split's name before every id."""
    owners: dict[str, Row] = {}
    every = [row for part in rows.values() for row in part]
    if all(owners.setdefault(row.id, row) is row or owners[row.id].content == row.content for row in every):
        return []
    for split, part in rows.items():
        rows[split] = [dataclasses.replace(row, id=f"{split}/{row.id}") for row in part]
    return ["Splits use the same ids for different rows, so each id now starts with the name of its split."]
