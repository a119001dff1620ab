"""Class names, and the class index of each label as it is written in the data."""

from collections.abc import Sequence
from typing import Any

from didact.data import fields
from didact.data.fields import FieldError
from didact.data.rows import Faults
from didact.data.table import Table
from didact.errors import OptionError


def raw_label(value: Any, column: str) -> int | str:
    """A label as it is written: a text or an integer. Raises `FieldError` for anything else."""
    value = fields.to_builtin(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():  # a DataFrame stores integers next to missing values as floats
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return fields.checked_text(value, column)
    raise FieldError(column, f"must be a class, got {fields.short_repr(value)}; scores need task='regression'")


def class_indices(
    tables: Sequence[Table], column: str, classes: Sequence[str] | None, name: str
) -> tuple[tuple[str, ...], dict[int | str, int]]:
    """The class names, and the index of each label as it is written.

    `classes` are the names that the caller states. Without them they come from the table (a `ClassLabel`), or from the
    sorted labels. Raises `DataError` with all labels that are not valid.
    """
    faults = Faults()
    first_locations: dict[int | str, str] = {}  # of each label
    kind: type | None = None
    for table in tables:
        for index, record in enumerate(table.records):
            if record.get(column) is None:
                continue
            try:
                value = raw_label(record[column], column)
            except FieldError as error:
                faults.add(f"{table.location(index)}: {error}")
                continue
            kind = kind or type(value)
            if type(value) is not kind:
                first = next(iter(first_locations.items()))
                faults.add(
                    f"{table.location(index)}: field {column!r} holds {value!r}, but labels are "
                    f"{'texts' if kind is str else 'integers'} elsewhere ({first[0]!r}, {first[1]})"
                )
            first_locations.setdefault(value, table.location(index))
    faults.raise_if_any(name)
    declared = next((table.classes[column] for table in tables if column in table.classes), None)
    uses_missing_marker = classes is None and declared is not None  # a ClassLabel writes -1 for a missing label
    classes = classes if classes is not None else declared
    if classes is None:
        all_integers = all(map(_is_integer, first_locations))
        order = sorted(first_locations, key=(lambda label: int(label)) if all_integers else str)
        return tuple(map(str, order)), {label: index for index, label in enumerate(order)}
    names = tuple(map(str, classes))
    if len(set(names)) != len(names):
        raise OptionError(f"classes= names a class twice: {', '.join(names)}.")
    by_name = {label: names.index(str(label)) for label in first_locations if str(label) in names}
    by_index = {label: int(label) for label in first_locations if _is_integer(label) and 0 <= int(label) < len(names)}
    index_of = by_name if len(by_name) >= len(by_index) else by_index
    for label, location in first_locations.items():
        if label not in index_of and not (uses_missing_marker and label == -1):
            faults.add(
                f"{location}: field {column!r} holds {label!r}, which is not one of the classes "
                f"{fields.join_names(names)}"
            )
    faults.raise_if_any(name)
    return names, index_of


def _is_integer(label: int | str) -> bool:
    return isinstance(label, int) or (label.lstrip("-").isdecimal() and label.count("-") <= 1 and len(label) < 20)
