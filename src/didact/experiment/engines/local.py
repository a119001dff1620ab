"""Processes of this machine, started by module and not forked, so that notebooks and live models are left alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from didact.experiment.engines import Told
from didact.experiment.engines.crew import Crew, Said


@dataclass(frozen=True)
class Local:
    """`workers` processes of `threads` threads each, started from a module that speaks as `worker` does."""

    workers: int
    threads: int
    module: str = "didact.experiment.worker"

    def at_once(self) -> int:
        return self.workers

    def run(self, manifest: Path, keys: Sequence[str]) -> Iterator[Told]:
        crew = Crew(self.module, manifest, workers=min(self.workers, len(keys)), threads=self.threads)
        try:
            for key in keys:
                crew.ask(key)
            crew.finish()
            for _ in keys:
                yield _told(crew.next())
        finally:
            crew.close()


def _told(said: Said) -> Told:
    if said.answer is None:
        return Told(said.key, "died", said.ending)
    return Told(said.key, said.answer["status"], said.answer.get("error", ""), said.answer.get("value"))
