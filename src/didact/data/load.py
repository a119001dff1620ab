"""`load_data`: data by name, from files or from memory."""

import inspect
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from didact.core.classes import check_class_names
from didact.core.dataset import ALL, Dataset, Split
from didact.core.row import Row
from didact.core.task import Task
from didact.data import DATASETS, cut
from didact.data.columns import check_columns, layout_of, reader
from didact.data.files import ENDINGS
from didact.data.recipe import Recipe
from didact.data.rows import read_rows
from didact.data.sources import SPLIT_ALIASES, UNSPLIT, tables_of
from didact.errors import DataError, OptionError
from didact.files.paths import kind_at, shorten_path
from didact.registry import Spec, checked_options, parse_spec, unknown_name_message

_LOG = logging.getLogger(__name__)


def load_data(
    source: Any,
    *,
    task: str | Task | None = None,
    columns: Mapping[str, str | None] | None = None,
    classes: Sequence[str] | None = None,
    data_dir: str | Path | None = None,
    seed: int = 0,
    **options: Any,
) -> Dataset:
    """Load a data set by name, from a file or folder, or from a table in memory.

    Args:
        source: A name (`"imdb"`, `"planted/sentiment(cues=2)"`; `didact data list` prints all), a path to a file or to
            a folder with one file per split, a pandas DataFrame, a `datasets.Dataset` or `DatasetDict`, or a mapping
            from split names to any of these.
        task: classification, pair, regression, reading or image. Inferred if missing.
        columns: The column of each role, as in `{"text": "comment", "label": "verdict"}`. Inferred if missing.
        classes: Class names in the order of the model's outputs. Inferred if missing.
        data_dir: Folder with the real data sets. Defaults to the environment variable DIDACT_DATA.
        seed: Seed of planted data. It never changes how data of your own are split, so a model trained yesterday has
            not seen today's test rows.
        **options: Options of a data set that was named, such as `cues=2`.

    Returns:
        A `Dataset` with the splits teach, explain, train, dev and test. Its `notes` say what was inferred.

    Raises:
        DataError: The source cannot be read. The message names the file, the line and the fault.

    Examples:
        ```python
        data = didact.load_data("reviews.csv", columns={"text": "comment", "label": "verdict"})
        print(data, data.notes)
        ```
    """
    _check_arguments(task, columns, classes, data_dir, seed)
    if isinstance(source, str) and source.partition("(")[0].strip() in DATASETS:
        conflicting = [
            name for name, value in (("task", task), ("columns", columns), ("classes", classes)) if value is not None
        ]
        if conflicting:
            raise OptionError(
                f"{source} has its own {' and '.join(conflicting)}. These arguments are for data of your own."
            )
        data = _from_registry(source, options, data_dir=data_dir, seed=seed)
    else:
        if options:
            raise OptionError(
                f"Data of your own have no option {next(iter(options))!r}. Only named data sets have options."
            )
        if isinstance(source, str):
            source = Path(source)
        if isinstance(source, Path):
            _check_path(source)
        data = _from_user_data(source, task=task, columns=columns, classes=classes)
    for note in data.notes:
        _LOG.info("%s: %s", data.name, note)
    return data


def _from_registry(source: str, options: Mapping[str, object], *, data_dir: str | Path | None, seed: int) -> Dataset:
    spec = parse_spec(source)
    repeated = [name for name in options if name in spec.options]
    if repeated:
        raise OptionError(f"Option {repeated[0]!r} is given twice: in {source!r} and by keyword.")
    build = DATASETS.load(spec.name)
    merged_options = checked_options({**spec.options, **options}, build, of=spec.name)
    built = build(**({"seed": seed} if "seed" in inspect.signature(build).parameters else {}) | merged_options)
    return built.load(data_dir, name=str(Spec(spec.name, merged_options))) if isinstance(built, Recipe) else built


def _from_user_data(
    source: Any,
    *,
    task: str | Task | None,
    columns: Mapping[str, str | None] | None,
    classes: Sequence[str] | None,
) -> Dataset:
    name, tables = tables_of(source)
    cut_rule = cut.default_cut(list(tables), SPLIT_ALIASES, UNSPLIT)
    first, *other_tables = tables.values()
    layout, notes = layout_of(first, task=task, columns=columns, other_tables=other_tables)
    for table in tables.values():
        check_columns(table, layout)
    read, names = reader(list(tables.values()), layout, classes, name)
    rows, row_notes = read_rows(name, {split: [table] for split, table in tables.items()}, read)
    all_rows = Split(ALL, rows[UNSPLIT]) if list(tables) == [UNSPLIT] else None
    splits, split_notes, no_splits_reason = _apply_cut(cut_rule, rows, layout.task, can_fail=all_rows is not None)
    notes = [*(note for table in tables.values() for note in table.notes), *notes, *row_notes]
    return Dataset(
        name, layout.task, splits, names, layout.texts, (*notes, *split_notes), all_rows=all_rows,
        split_notes=tuple(split_notes), no_splits_reason=no_splits_reason,
    )  # fmt: skip


def _apply_cut(
    cut_rule: cut.Cut, rows: Mapping[str, list[Row]], task: Task, *, can_fail: bool
) -> tuple[dict[str, Split], list[str], str]:
    """The splits, notes on them, and why the cut failed (empty if it did not).

    With `can_fail`, a failed cut gives no splits instead of an error: a file too small to split can still be explained.
    """
    try:
        splits, dropped = cut.apply_cut(cut_rule, rows, grouped_by=task.grouped_by)
    except DataError as error:
        if not can_fail:
            raise
        return {}, [f"No splits: {error}"], str(error)
    is_cut = any(not isinstance(goal, str) for goal in cut_rule.values())
    return splits, [*([f"Cut: {cut.describe(cut_rule)}."] if is_cut else []), *dropped], ""


def _check_arguments(task: Any, columns: Any, classes: Any, data_dir: Any, seed: Any) -> None:
    if task is not None and not isinstance(task, str | Task):
        raise OptionError(f"task must be the name of a task, such as 'pair', not {task!r}.")
    if columns is not None and not isinstance(columns, Mapping):
        raise OptionError(f"columns must map roles to columns, such as {{'text': 'comment'}}, not {columns!r}.")
    for role, column in (columns or {}).items():
        if not isinstance(role, str) or not isinstance(column, str | None):
            raise OptionError(f"columns must map roles to column names or None, but {role!r} is {column!r}.")
    check_class_names(classes)
    if data_dir is not None and not isinstance(data_dir, str | Path):
        raise OptionError(f"data_dir must be a folder, not {data_dir!r}.")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**31:
        raise OptionError(f"seed must be an integer from 0 to 2^31 - 1, got {seed!r}.")


def _check_path(path: Path) -> None:
    kind = kind_at(path)
    if kind == "nothing":
        raise _not_found(shorten_path(path))
    if kind == "special":
        raise DataError(f"{path} is a device, a pipe or a socket. Data are read from files: save them to one.")


def _not_found(source: str) -> DataError:
    """The error for a source that is neither a path nor a name."""
    return DataError(
        f"{source!r} is neither an existing file or folder nor the name of a data set.",
        [
            f"As a path: it does not exist. Files end in {', '.join(ENDINGS)}.",
            f"As a name: {unknown_name_message('data set', source.partition('(')[0].strip(), list(DATASETS))}",
        ],
    )
