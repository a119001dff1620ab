"""Scores of the components that a learned explainer weighs, computed once and stored. Needs no torch."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from didact.errors import OptionError, RecordError, ShapeError
from didact.files.atomic import ensure_parent
from didact.files.checksummed import check_tensors, write_tensors
from didact.results.explanations import Explanations

_AGAIN: Final = "Run the same command again to compute the scores again."


@dataclass(frozen=True, eq=False)
class ComponentScores:
    """One logit per unit and component. `maps` has the units; its scores weigh all components equally."""

    maps: Explanations
    names: tuple[str, ...]
    values: Float[np.ndarray, "unit component"]

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.maps.scores), len(self.names)):
            raise ShapeError(
                f"{len(self.maps.scores)} units and {len(self.names)} components do not match scores of shape "
                f"{self.values.shape}."
            )

    def __len__(self) -> int:
        return len(self.maps)

    def select(self, rows: Sequence[int]) -> "ComponentScores":
        """The scores of these rows, in this order."""
        bounds = self.maps.bounds
        units = [np.arange(bounds[row], bounds[row + 1]) for row in rows]
        return ComponentScores(self.maps.select(list(rows)), self.names, self.values[np.concatenate(units)])

    def save(self, path: Path) -> None:
        """Write two files: the explanations as .parquet and the values as .safetensors."""
        metadata = {"names": json.dumps(list(self.names), ensure_ascii=False)}
        content = save({"values": np.ascontiguousarray(self.values, dtype=np.float32)}, metadata=metadata)
        write_tensors(ensure_parent(path.with_suffix(".safetensors")), content)
        self.maps.save(path.with_suffix(".parquet"))  # written last: its presence means that the other is complete

    @staticmethod
    def is_readable_file(path: Path) -> bool:
        """Whether both files exist, are intact and match each other."""
        try:
            return bool(ComponentScores.load(path).names)
        except (OptionError, RecordError):
            return False

    @classmethod
    def load(cls, path: Path) -> "ComponentScores":
        if not path.with_suffix(".parquet").is_file():
            raise RecordError(f"There are no component scores in {path}.")
        explanations = Explanations.load(path.with_suffix(".parquet"))
        try:
            check_tensors(path.with_suffix(".safetensors"), advice=_AGAIN)
            with safe_open(path.with_suffix(".safetensors"), framework="numpy") as file:
                return cls(explanations, tuple(json.loads(file.metadata()["names"])), file.get_tensor("values"))
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, ShapeError) as error:
            raise RecordError(f"{path.with_suffix('.safetensors')} is damaged: {error}. {_AGAIN}") from error
