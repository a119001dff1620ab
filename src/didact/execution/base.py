"""Jobs and the executors that run them. A job is a key in a manifest; its files say the rest."""

import importlib
from collections.abc import Generator, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from didact.files.atomic import ensure_parent, write_bytes
from didact.files.checksummed import read_json


class JobKind(StrEnum):
    """What the jobs of a manifest do."""

    TRAIN = "train"  # train a student
    EXPLAIN = "explain"  # explain a shard of rows


class JobStatus(StrEnum):
    """How a job ended."""

    DONE = "done"
    FAILED = "failed"  # it raised; a student that failed is a record, too
    REFUSED = "refused"  # didact refused it: the caller raises the same error
    DIED = "died"  # every process that tried it died
    UNWRITABLE = "unwritable"  # its result could not be written


@dataclass(frozen=True)
class Job:
    """One unit of work: its key in the manifest, and the files it reads and writes, relative to the manifest's root.

    Files are listed in the order in which they must be written. Executors that share the disk need no list.
    """

    key: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """A sealed JSON file that says what its jobs have in common: their kind, threads and whatever the kind needs.

    Every path in it is relative to its folder. `threads` and `on_gpu` are what a job takes.
    """

    path: Path
    root: Path
    threads: int = 1
    on_gpu: bool = False


@dataclass(frozen=True)
class JobResult:
    """How a job ended. `files` are what it wrote on a machine that does not share this one's disk."""

    key: str
    status: JobStatus
    value: float | None = None  # of a student: its simulability
    error: str = ""
    error_kind: str = ""  # of a refusal: the name of the error's class
    traceback: str = ""  # may hold hosts and process ids, which differ from run to run
    files: Mapping[str, bytes] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """The result as JSON has it, without files."""
        return {name: value for name, value in asdict(self).items() if name != "files"}

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> "JobResult":
        return cls(**{**document, "status": JobStatus(document["status"])})

    def write_files(self, root: Path) -> None:
        """Write what came from another machine to where the job would have written it."""
        for name, content in self.files.items():
            write_bytes(ensure_parent(root / name), content)


@runtime_checkable
class Executor(Protocol):
    """Runs jobs in any order. Closing the iterator stops the work.

    `runs_elsewhere` tells whether jobs may run on other machines, which do not find this one's relative paths.
    `shares_explaining` tells whether explanations of a comparison are worth making as jobs.
    """

    @property
    def runs_elsewhere(self) -> bool: ...

    @property
    def shares_explaining(self) -> bool: ...

    def max_concurrency(self) -> int: ...

    def run(self, manifest: Manifest, jobs: Iterable[Job]) -> Generator[JobResult, None, None]:
        """Take jobs as there is room for them, and yield each result when it is there."""


@runtime_checkable
class JobRunner(Protocol):
    """Runs the jobs of one manifest, one after another, in the process it was made in.

    It is made from the folder of the manifest and from what the manifest says.
    """

    threads: int

    def run(self, key: str) -> JobResult: ...


# kind of jobs -> the class that runs them, imported on first use
RUNNERS: Final[Mapping[JobKind, str]] = {
    JobKind.TRAIN: "didact.comparing.training:TrainRunner",
    JobKind.EXPLAIN: "didact.explaining.shard_jobs:ExplainRunner",
}


def open_runner(manifest: Path) -> JobRunner:
    """The runner for the jobs of a manifest."""
    content = read_json(manifest, advice="Run the same command again.")
    module, name = RUNNERS[JobKind(content["kind"])].split(":")
    runner: JobRunner = getattr(importlib.import_module(module), name)(manifest.parent, content)
    return runner
