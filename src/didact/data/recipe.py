"""`Recipe`: the files of one real data set, its repository on the hub, its rows and its splits."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from didact.core.dataset import Dataset
from didact.core.row import Row
from didact.core.task import Task
from didact.data import cut as cuts

# Recipes import these names from here.
from didact.data.cut import REST as REST
from didact.data.cut import Cut as Cut
from didact.data.files import read_table
from didact.data.rows import read_rows
from didact.data.sources import from_dataset
from didact.data.table import Record as Record
from didact.data.table import Table
from didact.errors import DataError, MissingExtraError

VARIABLE: Final = "DIDACT_DATA"
_LINES: Final = (".jsonl.gz", ".jsonl")
_HUB_ERRORS: Final = (OSError, ValueError, RuntimeError, KeyError)  # what `datasets` raises for a set it cannot load
CONVERTED: Final = "refs/convert/parquet"  # the hub's own Parquet copy of a data set with a loading script
TRAIN_AND_TEST: Final = {"train": "train", "test": "test"}
ALL_THREE: Final = {"train": "train", "validation": "validation", "test": "test"}


@dataclass(frozen=True)
class Hub:
    """A data set on the hub. `splits` maps official splits to the hub's. Several `configs` are concatenated."""

    repo: str
    revision: str
    columns: tuple[str, ...]
    splits: Mapping[str, str]
    configs: tuple[str, ...] = ("default",)

    def fetch(self, official_splits: Iterable[str]) -> dict[str, list[Table]]:
        """Load one table per config for each official split."""
        try:
            import datasets
        except ImportError:
            raise MissingExtraError(f"{self.repo} is downloaded from the hub: pip install 'didact[hub]'.") from None
        hub_splits = {official: self.splits[official] for official in official_splits}
        tables: dict[str, list[Table]] = {official: [] for official in hub_splits}
        for config in self.configs:
            location: dict[str, object] = {"name": config}
            if self.revision == CONVERTED:  # this branch has folders config/split, but no list of configs
                location = {"data_files": {split: f"{config}/{split}/*.parquet" for split in hub_splits.values()}}
            loaded = datasets.load_dataset(self.repo, revision=self.revision, **location)
            for official, split in hub_splits.items():
                tables[official].append(self._checked(loaded, config, split))
        return tables

    def _checked(self, loaded: Mapping[str, object], config: str, split: str) -> Table:
        name = f"{self.repo} {config} {split}"
        if split not in loaded:
            raise DataError(f"{name}: the hub has no such split. It has {', '.join(map(str, loaded))}.")
        table = from_dataset(name, loaded[split])
        missing = [column for column in self.columns if column not in table.columns]
        if missing:
            raise DataError(
                f"{name} at revision {self.revision}: expected the columns {', '.join(self.columns)}, but "
                f"{', '.join(map(repr, missing))} is not among {', '.join(table.columns)}. The set has "
                "changed on the hub: use a local folder, or report it to the developers of didact."
            )
        return table


@dataclass(frozen=True)
class Recipe:
    """Everything specific to one data set. The first of `cuts` whose official splits all exist is used."""

    name: str
    task: Task
    read: Callable[[Record], Row | None]
    cuts: tuple[Cut, ...]
    classes: tuple[str, ...] | None = None
    segments: tuple[str, ...] = ("text",)
    hub: Hub | None = None
    read_hub: Callable[[Record], Row | None] | None = None  # for hubs with other columns
    not_on_hub: str = ""
    folders: tuple[str, ...] = ("",)  # in the folder of the set; several are concatenated
    endings: tuple[str, ...] = _LINES
    grouped_by: int | None = None  # rows with the same text of this number stay in one split
    notes: tuple[str, ...] = ()

    def load(self, data_dir: str | Path | None = None, *, name: str | None = None) -> Dataset:
        """Load the data set from its folder if that exists, otherwise from the hub."""
        folder = self._folder(data_dir)
        tables, cut, read, source = self._from_hub(data_dir) if folder is None else self._from_folder(folder)
        rows, notes = read_rows(self.name, tables, read)
        splits, dropped = cuts.apply_cut(cut, rows, grouped_by=self.grouped_by)
        all_notes = (f"Read from {source}.", f"Cut: {cuts.describe(cut)}.", *self.notes, *notes, *dropped)
        return Dataset(name or self.name, self.task, splits, self.classes, self.segments, all_notes)

    @property
    def official_splits(self) -> tuple[str, ...]:
        """Every official split that one of the cuts uses."""
        return tuple(dict.fromkeys(official for cut in self.cuts for official in cut))

    def _folder(self, data_dir: str | Path | None) -> Path | None:
        root = data_dir or os.environ.get(VARIABLE)
        if not root:
            return None
        folder = Path(root) / self.name
        if folder.is_dir():
            return folder
        if data_dir:
            raise DataError(
                f"There is no folder {folder}, so {self.name} cannot be read from data_dir.", self._advice(data_dir)
            )
        return None

    def _from_folder(self, folder: Path) -> "tuple[dict[str, list[Table]], Cut, Callable[[Record], Row | None], str]":
        paths = {
            official: [self._file(folder / subfolder, official) for subfolder in self.folders]
            for official in self.official_splits
        }
        available = {official for official, files in paths.items() if all(path.is_file() for path in files)}
        cut = next((cut for cut in self.cuts if available.issuperset(cut)), None)
        if cut is None:
            needs = ", or else ".join(" and ".join(cut) for cut in self.cuts)
            missing = [str(path) for files in paths.values() for path in files if not path.is_file()]
            raise DataError(
                f"{self.name} needs the splits {needs}. These files are missing"
                + (" (.jsonl works, too):" if self.endings == _LINES else ":"),
                missing,
            )
        tables = {official: [read_table(path) for path in paths[official]] for official in cut}
        return tables, cut, self.read, f"folder {self.name}"

    def _file(self, folder: Path, official: str) -> Path:
        choices = [folder / f"{official}{ending}" for ending in self.endings]
        return next((path for path in choices if path.is_file()), choices[0])

    def _from_hub(
        self, data_dir: str | Path | None
    ) -> "tuple[dict[str, list[Table]], Cut, Callable[[Record], Row | None], str]":
        if self.hub is None:
            raise DataError(f"{self.name} is not here.", self._advice(data_dir))
        cut = next(cut for cut in self.cuts if set(cut) <= set(self.hub.splits))
        try:
            tables = self.hub.fetch(cut)
        except MissingExtraError as error:
            raise DataError(f"{self.name} is not here.", self._advice(data_dir)) from error
        except DataError:
            raise
        except _HUB_ERRORS as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise DataError(
                f"{self.name} is not in a local folder, and loading it from the hub failed ({reason}).",
                self._advice(data_dir),
            ) from error
        return tables, cut, self.read_hub or self.read, f"the hub, {self.hub.repo} at revision {self.hub.revision}"

    def _advice(self, data_dir: str | Path | None) -> list[str]:
        """What to do for each source of the data."""
        files = " and ".join(
            f"{Path(self.name) / subfolder / official}{self.endings[0]}"
            for subfolder in self.folders
            for official in self.cuts[-1]
        )
        variable = os.environ.get(VARIABLE)
        searched = (
            f" (searched {data_dir or variable})"
            if data_dir or variable
            else f" (data_dir was not passed, {VARIABLE} is not set)"
        )
        local = (
            f"From a folder: put {files} into it, and pass it as data_dir=… or in the variable {VARIABLE}{searched}."
        )
        if self.hub is None:
            return [local, f"Not from the hub: {self.not_on_hub}"]
        return [local, f"From the hub ({self.hub.repo}): pip install 'didact[hub]', and go online."]
