"""The state of an unfinished SMaT training, as one file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from didact.errors import RecordError
from didact.files.checksummed import check_tensors, write_tensors
from didact.learning.hypergradient import Route
from didact.learning.smat_options import SmatEpoch


@dataclass(frozen=True)
class Checkpoint:
    """Finished epochs, steps of the outer optimiser, notes, route, and all tensors that training changes, by name."""

    history: list[SmatEpoch]
    steps: int
    notes: list[str]
    route: Route
    tensors: Mapping[str, Tensor]

    def save(self, path: Path) -> None:
        metadata = {
            "history": [asdict(epoch) for epoch in self.history],
            "steps": self.steps,
            "notes": self.notes,
            "route": self.route,
        }
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        write_tensors(path, save(tensors, metadata={"about": json.dumps(metadata)}))

    @classmethod
    def load(cls, path: Path, device: torch.device) -> "Checkpoint":
        """Read a checkpoint. Raises a `RecordError` if the file is damaged."""
        try:
            check_tensors(path, advice="")
            with safe_open(path, framework="pt", device=str(device)) as file:
                metadata = json.loads(file.metadata()["about"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            history = [SmatEpoch(**epoch) for epoch in metadata["history"]]
            return cls(history, metadata["steps"], metadata["notes"], metadata["route"], tensors)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise RecordError(str(error)) from error

    def with_prefix(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with the prefix, named without it."""
        return {name[len(prefix) :]: tensor for name, tensor in self.tensors.items() if name.startswith(prefix)}
