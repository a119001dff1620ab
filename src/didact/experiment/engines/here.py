"""The cells one after another in this process: for small plans, debugging and tests."""

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from didact.experiment.engines import Told


@dataclass(frozen=True)
class Here:
    """No other process is started; torch's number of threads is the plan's while this lasts."""

    module: str = "didact.experiment.worker"

    def at_once(self) -> int:
        return 1

    def run(self, manifest: Path, keys: Sequence[str]) -> Iterator[Told]:
        desk = importlib.import_module(self.module).Desk(manifest)
        before = torch.get_num_threads()
        torch.set_num_threads(desk.threads)
        try:
            for key in keys:
                said = desk.work(key)
                yield Told(key, said["status"], said.get("error", ""), said.get("value"))
        finally:
            torch.set_num_threads(before)
