"""Jobs and the protocol of executors. A job is a key in a manifest file, which describes the work."""

import importlib
from collections.abc import Generator, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from didact.files.atomic import ensure_parent, write_bytes
from didact.files.checksummed import read_json


class JobKind(StrEnum):
    """The kind of work that the jobs of a manifest do."""

    TRAIN = "train"  # train a student
    EXPLAIN = "explain"  # explain a shard of rows


class JobStatus(StrEnum):
    """How a job ended."""

    DONE = "done"
    FAILED = "failed"  # it raised; the failure is stored as a record
    REFUSED = "refused"  # didact refused it; the caller raises the same error
    DIED = "died"  # every process that tried it died
    UNWRITABLE = "unwritable"  # its result could not be written


@dataclass(frozen=True)
class Job:
    """One unit of work: its key in the manifest, and the files that it reads and writes, relative to the root.

    Output files are listed in the order in which they must be written. Executors that share the disk ignore the lists.
    """

    key: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """A JSON file with a checksum that describes jobs of one kind. Paths in it are relative to its folder.

    `threads` and `on_gpu` are the resources of one job. File names of jobs are relative to `root`.
    """

    path: Path
    root: Path
    threads: int = 1
    on_gpu: bool = False


@dataclass(frozen=True)
class JobResult:
    """The result of a job. `files` holds what it wrote, if it ran on a machine that does not share the disk."""

    key: str
    status: JobStatus
    value: float | None = None  # simulability of a trained student
    error: str = ""
    error_kind: str = ""  # class name of the error of a refused job
    traceback: str = ""  # may contain hosts and process ids, which vary
    files: Mapping[str, bytes] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """The result as plain JSON, without files."""
        return {name: value for name, value in asdict(self).items() if name != "files"}

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> "JobResult":
        return cls(**{**document, "status": JobStatus(document["status"])})

    def write_files(self, root: Path) -> None:
        """Write the files of another machine to where the job would have written them."""
        for name, content in self.files.items():
            write_bytes(ensure_parent(root / name), content)


@runtime_checkable
class Executor(Protocol):
    """Runs jobs in any order. Closing the iterator of `run` stops the work.

    `runs_elsewhere`: jobs may run on other machines, where relative paths of this one do not exist.
    `shares_explaining`: the explanations of a comparison are also computed as jobs.
    """

    @property
    def runs_elsewhere(self) -> bool: ...

    @property
    def shares_explaining(self) -> bool: ...

    def max_concurrency(self) -> int: ...

    def run(self, manifest: Manifest, jobs: Iterable[Job]) -> Generator[JobResult, None, None]:
        """Start jobs as capacity allows and yield each result as soon as it is complete."""


@runtime_checkable
class JobRunner(Protocol):
    """Runs the jobs of one manifest, one after another, in its process.

    It is constructed with the folder and the content of the manifest.
    """

    threads: int

    def run(self, key: str) -> JobResult: ...


# kind of jobs -> the class that runs them, imported on first use
RUNNERS: Final[Mapping[JobKind, str]] = {
    JobKind.TRAIN: "didact.comparing.training:TrainRunner",
    JobKind.EXPLAIN: "didact.explaining.shard_jobs:ExplainRunner",
}


def open_runner(manifest: Path) -> JobRunner:
    """Create the runner for the jobs of a manifest."""
    content = read_json(manifest, advice="Run the same command again.")
    module, name = RUNNERS[JobKind(content["kind"])].split(":")
    runner: JobRunner = getattr(importlib.import_module(module), name)(manifest.parent, content)
    return runner
