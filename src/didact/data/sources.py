"""Tables from everything that `load_data` accepts: paths, DataFrames, Hugging Face data sets, mappings of these."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from didact.data.files import data_files, read_table, stem_of
from didact.data.table import Table
from didact.errors import DataError
from didact.files.paths import kind_at, shorten_path, unreadable_path_error

UNSPLIT = ""  # the split name of data without splits


def tables_of(source: Any) -> tuple[str, dict[str, Table]]:
    """A name for the data, and one table per split."""
    if isinstance(source, Path):
        return stem_of(source) if source.is_file() else source.name, _from_path(source)
    if isinstance(source, Mapping):
        if not source:
            raise DataError("The mapping of splits is empty. Map split names to files, DataFrames or data sets.")
        return "data", {str(split): _single_table(str(split), value) for split, value in source.items()}
    return "data", {UNSPLIT: _single_table("data", source)}


def _single_table(split: str, source: Any) -> Table:
    """One table from one source without splits."""
    if isinstance(source, str | Path):
        path = Path(source)
        if kind_at(path) != "file":
            raise DataError(f"There is no file {shorten_path(path)!r} for split {split!r}. Check the path.")
        return read_table(path)
    kind = type(source)
    origin = kind.__module__.partition(".")[0]
    if origin == "pandas" and hasattr(source, "to_dict") and hasattr(source, "columns"):
        return _from_frame(split, source)
    if origin == "datasets" and hasattr(source, "features") and hasattr(source, "num_rows"):
        return from_dataset(split, source)
    raise DataError(
        f"{kind.__module__}.{kind.__qualname__} cannot be read as data. Pass a name, a path, a pandas DataFrame, a "
        "datasets.Dataset or DatasetDict, or a mapping from split names to these."
    )


def _from_path(path: Path) -> dict[str, Table]:
    if path.is_file():
        return {UNSPLIT: read_table(path)}
    try:
        files = list(data_files(path))
    except OSError as error:
        raise unreadable_path_error(path, error) from None
    if not files:
        raise DataError(
            f"Folder {path} holds no file that didact reads. Name files after splits: train.jsonl, test.jsonl, … "
            "Image files and folders of them are not read: save images as an .npz archive of the arrays 'images' and "
            "'labels'."
        )
    if len(files) == 1 and stem_of(files[0]) not in SPLIT_ALIASES:
        return {UNSPLIT: read_table(files[0])}
    stems = [stem_of(file) for file in files]
    repeated = sorted({stem for stem in stems if stems.count(stem) > 1})
    if repeated:
        raise DataError(f"Folder {path} holds split {repeated[0]!r} more than once: keep one of its files.")
    return {stem: read_table(file) for stem, file in zip(stems, files, strict=True)}


def _from_frame(name: str, frame: Any) -> Table:
    columns = tuple(map(str, frame.columns))
    if len(set(columns)) != len(columns):
        raise DataError(f"The DataFrame for {name} names a column twice: {', '.join(columns)}.")
    values = frame.set_axis(columns, axis=1).astype(object)
    records = values.where(frame.notna().to_numpy(), None).to_dict("records")
    return _check_not_empty(Table(f"{name} (frame)", columns, records, range(1, len(records) + 1)))


def from_dataset(name: str, dataset: Any) -> Table:
    """The table of a `datasets.Dataset`, with the class names of its features."""
    classes = {column: tuple(kind.names) for column, kind in dataset.features.items() if getattr(kind, "names", None)}
    records = list(dataset.with_format(None))
    return _check_not_empty(
        Table(name, tuple(dataset.column_names), records, range(1, len(records) + 1), classes=classes)
    )


def _check_not_empty(table: Table) -> Table:
    if not table.records:
        raise DataError(f"{table.name} holds no rows.")
    return table


# Split names that are recognised, and ours for each.
SPLIT_ALIASES = {
    "teach": "teach",
    "explain": "explain",
    "train": "train",
    "training": "train",
    "dev": "dev",
    "validation": "dev",
    "valid": "dev",
    "val": "dev",
    "test": "test",
}
