"""Real sets from the Hugging Face hub, through the package `datasets` (extra `hub`). Parquet only, never a script."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from didact.data.sources import from_dataset
from didact.data.table import Table
from didact.errors import DataError, MissingExtraError

CONVERTED: Final = "refs/convert/parquet"  # the hub's own Parquet copy of a set that has a loading script
TRAIN_AND_TEST: Final = {"train": "train", "test": "test"}
ALL_THREE: Final = {"train": "train", "validation": "validation", "test": "test"}


@dataclass(frozen=True)
class Hub:
    """Where a set lies on the hub. `splits` maps official splits to the hub's; several `configs` are joined."""

    repo: str
    revision: str
    columns: tuple[str, ...]
    splits: Mapping[str, str]
    configs: tuple[str, ...] = ("default",)

    def fetch(self, officials: Iterable[str]) -> dict[str, list[Table]]:
        """One table per config for each official split."""
        try:
            import datasets
        except ImportError:
            raise MissingExtraError(f"{self.repo} comes from the hub: pip install 'didact[hub]'.") from None
        wanted = {official: self.splits[official] for official in officials}
        found: dict[str, list[Table]] = {official: [] for official in wanted}
        for config in self.configs:
            place: dict[str, object] = {"name": config}
            if self.revision == CONVERTED:  # that branch has folders config/split, but names no configs
                place = {"data_files": {split: f"{config}/{split}/*.parquet" for split in wanted.values()}}
            loaded = datasets.load_dataset(self.repo, revision=self.revision, **place)
            for official, split in wanted.items():
                found[official].append(self._checked(loaded, config, split))
        return found

    def _checked(self, loaded: Mapping[str, object], config: str, split: str) -> Table:
        where = f"{self.repo} {config} {split}"
        if split not in loaded:
            raise DataError(f"{where}: the hub has no such split, only {', '.join(map(str, loaded))}.")
        table = from_dataset(where, loaded[split])
        missing = [column for column in self.columns if column not in table.columns]
        if missing:
            raise DataError(
                f"{where} at revision {self.revision}: expected the columns {', '.join(self.columns)}, but "
                f"{', '.join(map(repr, missing))} is not among {', '.join(table.columns)}. The set has "
                "changed on the hub: use a local folder, or tell us."
            )
        return table
