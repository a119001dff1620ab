"""The role of each column: as the caller states it, or inferred from usual column names and then reported.

The roles are the texts of the task (`text`; `first` and `second`; `question` and `passage`; `source` and `target`),
`image`, `label`, `id`, `rationale` and `alignments`. A score or an answer is the `label` of its task. Data with
counterfactual pairs have `revised_text` (`revised_first` and `revised_second` for pairs) and `revised_label`.
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from didact.core.row import Label, Revision, Row, Span
from didact.core.task import PAIR, TASKS, Task, task_named
from didact.core.tasks.columns import PAIRS, PASSAGES, TEXTS
from didact.data import fields
from didact.data.fields import FieldError
from didact.data.labels import class_indices, raw_label
from didact.data.table import Record, Table
from didact.errors import DataError, OptionError
from didact.field_types import OPTIONAL_ROLES

_ID_COLUMNS: Final = ("id", "idx", "guid", "uid", "example_id", "row_id")
_ID_PATTERN: Final = re.compile(r"(?i:(^|[_\-. ])(id|idx|guid|uid|uuid)$)|[a-z]I[dD]$")
_RATIONALE_COLUMNS: Final = ("rationale", "rationales")

# Names that `columns=` accepts for roles, besides the names of the roles themselves.
_ALIASES: Final = (
    {names[index]: role for names in PAIRS for index, role in enumerate(PAIR.segments)}
    | dict.fromkeys(PASSAGES, "passage")
    | {"src": "source", "mt": "target", "score": "label", "answers": "label", "answer": "label"}
)


@dataclass(frozen=True)
class Layout:
    """The task, and the column of each role. Roles without a column are absent."""

    task: Task
    roles: Mapping[str, str]

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that hold the texts, in the order of the task."""
        order = dict.fromkeys((*self.task.segments, "text"))
        return tuple(self.roles[role] for role in order if role in self.roles)


def layout_of(
    table: Table,
    *,
    task: str | Task | None,
    columns: Mapping[str, str | None] | None,
    other_tables: Sequence[Table] | None = (),
) -> tuple[Layout, list[str]]:
    """How to read `table`, and notes on what was inferred.

    A column such as `review_id` becomes the id if its values are unique in `table` and in each of `other_tables`. Pass
    `other_tables=None` if more records will follow: uniqueness is then unknown, and no such column is used.
    """
    requested_task = task if isinstance(task, Task) or task is None else task_named(task)
    explicit = _explicit_roles(table, columns or {}, requested_task)
    resolved_task = requested_task or _infer(table, explicit)
    roles: dict[str, str] = {role: column for role, column in explicit.items() if column is not None}
    guessed: dict[str, str] = {}
    if not any(role in roles for role in resolved_task.inputs):
        guessed |= _guess_inputs(table, resolved_task)
    taken = {*roles.values(), *guessed.values()}
    for role, names in _optional_columns(resolved_task).items():
        if role in explicit:
            continue
        column_found = next((name for name in names if name in table.columns and name not in taken), None)
        if role == "id" and column_found is None and other_tables is not None:
            column_found = _id_column([table, *other_tables], taken)
        if column_found is not None:
            guessed[role] = column_found
            taken.add(column_found)
        elif role == "label":
            _refuse_misspelt_label(table, names, taken)
    # Without such a column, another table or a later record may still have an `id`.
    layout = Layout(resolved_task, ({} if "id" in explicit else {"id": "id"}) | guessed | roles)
    _refuse_incomplete_pair(table, layout)
    notes = []
    if requested_task is None:
        notes.append(f"Task {resolved_task} was inferred from the columns.")
    uncertain = {role: column for role, column in guessed.items() if column != role}
    if uncertain:
        uses = "; ".join(f"column {column!r} is used as {role}" for role, column in uncertain.items())
        example = next(iter(uncertain))
        notes.append(f"{uses[0].upper()}{uses[1:]}. {_columns_hint(example)} chooses others.")
    if "label" not in layout.roles:
        unused = [column for column in table.columns if column not in layout.roles.values()]
        hint = ""
        if unused and "label" not in explicit:
            hint = f" Columns not used: {fields.join_names(unused)}. {_columns_hint('label')} names one of them."
        notes.append(f"No labels found: rows have no gold label.{hint}")
    return layout, notes


def _columns_hint(*roles: str) -> str:
    """How to state columns, in Python and on the command line."""
    python = ", ".join(f"{role!r}: …" for role in roles)
    return f"columns={{{python}}} (on the command line --columns {','.join(f'{role}=…' for role in roles)})"


def _id_column(tables: Sequence[Table], taken: set[str]) -> str | None:
    """The first column with a name like an id (`review_id`, `reviewID`, `ID`) and a unique value in each row."""
    for column in tables[0].columns:
        if column in taken or not _ID_PATTERN.search(column):
            continue
        if all(_are_unique_ids([record.get(column) for record in table.records]) for table in tables):
            return column
    return None


def _are_unique_ids(values: Sequence[Any]) -> bool:
    if not all(isinstance(value, int | str) and not isinstance(value, bool) for value in values):
        return False
    texts = [str(value).strip() for value in values]
    return all(texts) and len(set(texts)) == len(texts)


def check_columns(table: Table, layout: Layout) -> None:
    """Raise `DataError` if the table lacks a column that the first table of the data set has."""
    for role, column in layout.roles.items():
        if column not in table.columns and role != "id":
            raise _missing_column(table, role, column)


def reader(
    tables: Sequence[Table], layout: Layout, classes: Sequence[str] | None, name: str
) -> tuple[Callable[[Record], Row | None], tuple[str, ...] | None]:
    """A function that turns a record into a row, and the class names (None if the task has no classes)."""
    roles, task = layout.roles, layout.task
    index_of: dict[int | str, int] = {}
    names: tuple[str, ...] | None = None
    if task.has_classes and "label" in roles:
        names, index_of = class_indices(tables, roles["label"], classes, name)
    elif task.has_classes and classes is not None:
        names = tuple(map(str, classes))
    elif classes is not None:
        raise OptionError(f"Task {task} has no classes. Leave out classes=, or choose another task.")

    def label(record: Record, texts: tuple[str, ...]) -> Label | None:
        column = roles.get("label")
        if column is None:
            return None
        if task.label_kind == "answers":
            return fields.answers(record, column, texts) or None
        if record.get(column) is None:
            return None
        return index_of.get(raw_label(record[column], column)) if task.has_classes else fields.number(record, column)

    def read(record: Record) -> Row:
        row_id = fields.row_id(record, roles["id"]) if "id" in roles else ""
        if not task.is_text:
            pixels = fields.image(record, roles["image"])
            boxes = fields.boxes(record, roles["rationale"], pixels.shape) if "rationale" in roles else None
            return Row(row_id, image=pixels, label=label(record, ()), rationale=boxes)
        texts = tuple(fields.text(record, column) for column in layout.texts)
        spans = fields.rationale(record, roles["rationale"], texts) if "rationale" in roles else None
        pairs = _alignments(record, roles["alignments"], texts) if "alignments" in roles else None
        revision = _revision(record, layout, texts, index_of)
        gold = label(record, texts)
        return Row(row_id, texts, label=gold, rationale=spans, alignments=pairs, revision=revision)

    return read, names


def _revision(
    record: Record, layout: Layout, texts: tuple[str, ...], index_of: Mapping[int | str, int]
) -> Revision | None:
    """The edited version of the row; None without one. A text without a revised version stays as it is.

    The label is the class index of `revised_label` in `index_of`.
    """
    roles, task = layout.roles, layout.task
    columns = [roles.get(f"revised_{role}") for role in (task.segments if len(texts) > 1 else ("text",))]
    values = [None if column is None else record.get(column) for column in columns]
    if all(value is None or value == "" for value in values):
        return None
    revised = tuple(
        text if column is None or value in (None, "") else fields.checked_text(value, column)
        for text, column, value in zip(texts, columns, values, strict=True)
    )
    column = roles.get("revised_label")
    if column is None or record.get(column) in (None, "") or not index_of:
        return Revision(revised)
    label = raw_label(record[column], column)
    if label not in index_of:
        classes = fields.join_names(list(map(str, index_of)))
        raise FieldError(column, f"holds {label!r}, which is not one of the labels {classes}")
    return Revision(revised, index_of[label])


def _optional_columns(task: Task) -> dict[str, tuple[str, ...]]:
    roles = {"label": task.label_columns, "id": _ID_COLUMNS, "rationale": _RATIONALE_COLUMNS}
    if task.has_alignments:
        roles["alignments"] = ("alignments",)
    if task.is_text and task.has_classes:
        revised = [f"revised_{role}" for role in (*task.segments, "label")]
        roles |= {role: (role,) for role in revised}
    return roles


def _explicit_roles(table: Table, columns: Mapping[str, str | None], task: Task | None) -> dict[str, str | None]:
    """The columns that the caller states, by role. Aliases of roles are resolved."""
    tasks = [task] if task else list(TASKS.values())
    valid_roles = {*OPTIONAL_ROLES, *(role for candidate in tasks for role in candidate.inputs)}
    roles: dict[str, str | None] = {}
    for name, column in columns.items():
        role = name if name in valid_roles else _ALIASES.get(name, name)
        if role not in valid_roles:
            near = difflib.get_close_matches(name, valid_roles, n=1)
            raise OptionError(
                f"columns={{{name!r}: …}} (--columns {name}=…) names no role{f' of task {task}' if task else ''}. "
                + (f"Did you mean {near[0]!r}? " if near else "")
                + f"Roles: {', '.join(sorted(valid_roles))}."
            )
        if column is not None and column not in table.columns:
            raise _missing_column(table, role, column)
        roles[role] = column
    return roles


def _infer(table: Table, explicit: Mapping[str, str | None]) -> Task:
    """The task that the columns fit."""
    single_text_tasks = [task for task in TASKS.values() if task.segments == ("text",)]  # tried last, in their order
    order = [*(task for task in reversed(TASKS.values()) if task not in single_text_tasks), *single_text_tasks]
    for task in order:
        if any(explicit.get(role) for role in task.inputs if role != "text" or task in single_text_tasks):
            return task
    for task in order:
        if task.fits(set(table.columns)):
            return task
    problem = f"{table.name}: no column has a usual name for a text, a pair of texts, a question or an image."
    raise _column_error(table, problem, _close_matches(table.columns, TEXTS), "Say which is which", "text", "label")


def _guess_inputs(table: Table, task: Task) -> dict[str, str]:
    options = task.usual_inputs
    for option in options:
        if all(name in table.columns for name in option.values()):
            return option
    usual = " or ".join(" and ".join(map(repr, option.values())) for option in options)
    near = _close_matches(table.columns, [name for option in options for name in option.values()])
    problem = f"{table.name}: task {task} needs {usual}."
    raise _column_error(table, problem, near, "Say which is which", *task.inputs)


def _close_matches(columns: Sequence[str], usual: Sequence[str], *, cutoff: float = 0.7) -> str:
    """Columns whose names are close to a usual one, as `'reviw' (review?)`."""
    near = {name: difflib.get_close_matches(name.lower(), usual, n=1, cutoff=cutoff) for name in columns}
    return ", ".join(f"{name!r} ({match[0]}?)" for name, match in near.items() if match)


def _refuse_misspelt_label(table: Table, names: Sequence[str], taken: set[str]) -> None:
    """Raise `DataError` if a column looks like a misspelt label. Labels are optional, so it would go unnoticed."""
    near = _close_matches([column for column in table.columns if column not in taken], names, cutoff=0.75)
    if near:
        raise DataError(
            f"{table.name}: no column is named {' or '.join(map(repr, names))}, but there is {near}. Rename it, or "
            f"pass {_columns_hint('label')}; columns={{'label': None}} (--columns label=none) loads the rows "
            "without labels."
        )


def _refuse_incomplete_pair(table: Table, layout: Layout) -> None:
    missing = [role for role in layout.task.segments if role not in layout.roles]
    if missing and "text" not in layout.roles:
        problem = f"{table.name}: task {layout.task} also needs a column for {' and '.join(map(repr, missing))}."
        raise _column_error(table, problem, "", "Name it", missing[0])


def _missing_column(table: Table, role: str, column: str) -> DataError:
    near = ", ".join(map(repr, difflib.get_close_matches(column, table.columns, n=3, cutoff=0.5)))
    return _column_error(table, f"{table.name} has no column {column!r} (for {role}).", near, "Name another", role)


def _column_error(table: Table, problem: str, near: str, advice: str, *roles: str) -> DataError:
    """An error with the problem, the columns with the nearest names, all columns, and how to state one."""
    nearest = f"Nearest: {near}. " if near else ""
    return DataError(f"{problem} {nearest}Columns: {', '.join(table.columns)}. {advice}: {_columns_hint(*roles)}.")


def _alignments(record: Record, column: str, texts: Sequence[str]) -> tuple[tuple[Span, Span], ...] | None:
    value = fields.parse_list(record.get(column), column)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        raise FieldError(column, f"must be pairs [question span, passage span], got {fields.short_repr(value)}")
    return tuple(
        (fields.span(first, texts, column, segment=0), fields.span(second, texts, column, segment=1))
        for first, second in value
    )
