"""An executor that runs jobs one after another in this process, for small plans, debugging and tests."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

from didact.core.threads import torch_threads
from didact.execution.base import Job, JobResult, JobRunner, Manifest, open_runner


@dataclass(frozen=True)
class InProcess:
    """Runs jobs in this process. Torch uses the manifest's number of threads while jobs run."""

    open_runner: Callable[[Path], JobRunner] = open_runner
    runs_elsewhere: bool = False
    shares_explaining: bool = False

    def max_concurrency(self) -> int:
        return 1

    def run(self, manifest: Manifest, jobs: Iterable[Job]) -> Generator[JobResult, None, None]:
        runner = self.open_runner(manifest.path)
        with torch_threads(runner.threads):
            for job in jobs:
                yield runner.run(job.key)
