"""Runs shards of explanations as jobs: the runner in a worker, and the queue in the calling process.

Nothing is pickled. A worker gets the teacher as a name or folder, the method as a name with options or as the folder of
a learned explainer, and rows and known answers as tables.
"""

import logging
import os
import secrets
import shutil
import traceback
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from didact.core.outputs import Outputs
from didact.errors import DidactError, OptionError, error_from_name, error_name
from didact.execution.base import Executor, Job, JobKind, JobResult, JobStatus, Manifest
from didact.explainers import EXPLAINERS
from didact.explainers.build import ResolvedMethod, build_explainer
from didact.explainers.learned import LearnedExplainer, load_explainer, save_explainer
from didact.explaining.dataset import DatasetJob
from didact.explaining.job import ExplainJob
from didact.explaining.method_options import CommonOptions
from didact.explaining.row_io import load_rows, read_answers, save_rows
from didact.explaining.saved_teacher import TeacherSource, save_copy
from didact.explaining.shard_store import Shard, ShardStore
from didact.files.atomic import ensure_parent
from didact.files.checksummed import write_json
from didact.files.store import canonical_json, key_of
from didact.viz.progress import Progress

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExplainerSource:
    """How a worker builds the method: from its name and options, or from the folder of a learned explainer."""

    name: str
    options: Mapping[str, Any]
    folder: str | None = None

    def build(self, base: Path) -> ResolvedMethod:
        if self.folder is None:
            return build_explainer(self.name, **self.options)
        return ResolvedMethod(load_explainer(base / self.folder), self.name, self.options)


# -- in a worker ------------------------------------------------------------------------------------------------------


class ExplainRunner:
    """Explains the shards of a manifest. The key of a shard is its file name; its rows are next to the manifest."""

    def __init__(self, folder: Path, content: Mapping[str, Any]) -> None:
        self.folder, self.content = folder, content
        self.threads: int = content["threads"]

    def run(self, key: str) -> JobResult:
        """Explain and save one shard. Errors become part of the result."""
        try:
            rows = load_rows(self.folder / key)
            values = read_answers(self.folder / key)
            ids = tuple(row.id for row in rows)
            outputs = None if values is None else Outputs(self.job.teacher.task, ids, values)
            explanations = self.job.explain(rows, outputs)
            explanations.save(ensure_parent(self.folder / self.content["shards"] / key))
        except DidactError as error:
            return JobResult(key, JobStatus.REFUSED, error=str(error), error_kind=error_name(error))
        except Exception as error:  # raised by a model or a method
            message = f"{type(error).__name__}: {error}"
            return JobResult(key, JobStatus.FAILED, error=message, traceback=traceback.format_exc())
        return JobResult(key, JobStatus.DONE)

    @cached_property
    def job(self) -> ExplainJob:
        content = self.content
        torch.set_default_dtype(getattr(torch, content["dtype"]))
        source = TeacherSource(**content["teacher"])
        teacher = source.open(self.folder)
        built = ExplainerSource(**content["explainer"]).build(self.folder)
        background = None if content["background"] is None else load_rows(self.folder / content["background"])
        job = ExplainJob(teacher, CommonOptions(**content["common"]), built, content["batch_size"], background)
        if key_of(job.settings) != content["settings"]:
            raise DidactError(
                f"In a worker, the teacher {source.source!r} or the method differs from that of the calling process. "
                "Either changed in the meantime, or the worker's machine has other versions of torch and transformers. "
                "Run the same command again, or explain without workers."
            )
        return job


# -- in the calling process -------------------------------------------------------------------------------------------


class ShardQueue:
    """Lets workers explain shards of a store. What they read is in `folder`, below `root`."""

    def __init__(self, teacher: TeacherSource, store: ShardStore, folder: Path, root: Path) -> None:
        self.job, self.teacher, self.store, self.folder, self.root = store.job, teacher, store, folder, root
        self.waiting: dict[str, Shard] = {}

    def run(self, executor: Executor, shards: Iterable[Shard], bar: Progress) -> None:
        """Let workers explain the shards. A failed shard stops the run; finished shards stay in the store."""
        manifest = self.write_manifest()
        results = executor.run(manifest, map(self._shard_job, shards))
        with closing(results):  # an error counts the finished shards, so no worker may finish one after it
            for result in results:
                if result.traceback:
                    log.info("%s", result.traceback)
                bar.advance(self._finish(result))

    def write_manifest(self) -> Manifest:
        """Write what all shards share."""
        job, settings = self.job, self.job.settings
        path = ensure_parent(self.folder / "manifest.json")
        if job.background is not None:
            save_rows(self.folder / "background.parquet", job.background)
        content = {
            "kind": JobKind.EXPLAIN,
            "teacher": asdict(self.teacher),
            "explainer": asdict(self._explainer_source()),
            "common": asdict(job.common),
            "batch_size": job.batch_size,
            "threads": settings["threads"],
            "dtype": settings["dtype"],
            "settings": key_of(settings),
            "background": None if job.background is None else "background.parquet",
            "shards": os.path.relpath(self.store.folder, self.folder),
        }
        write_json(path, content)
        return Manifest(path, self.root, settings["threads"], on_gpu=settings["device"] == "cuda")

    @cached_property
    def _inputs(self) -> tuple[str, ...]:
        """The files that every job reads."""
        folders = [self.folder] if self.teacher.name is None else [self.folder, self.folder / self.teacher.source]
        paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return tuple(sorted(map(self._relative, paths)))

    def _relative(self, path: Path) -> str:
        return path.resolve().relative_to(self.root.resolve()).as_posix()

    def _shard_job(self, shard: Shard) -> Job:
        """Make the job that explains a shard and writes its file in the store."""
        common, file = self._inputs, self.store.file(shard)
        rows_file = self.folder / file.name
        save_rows(rows_file, shard.rows, None if shard.outputs is None else shard.outputs.values)
        self.waiting[file.name] = shard
        return Job(file.name, (*common, self._relative(rows_file)), (self._relative(file),))

    def _finish(self, result: JobResult) -> int:
        """Store a finished shard and return its number of rows. Raises the error of a failed one."""
        rows = self.waiting.pop(result.key).rows
        (self.folder / result.key).unlink(missing_ok=True)
        if result.status is JobStatus.REFUSED:
            raise error_from_name(result.error_kind, result.error)
        if result.status is not JobStatus.DONE:
            hint = "Memory may have run out: use fewer workers, or a smaller shard or batch_size. "
            hint = hint if "SIGKILL" in result.error else ""
            raise DidactError(
                f"{self.job.method.name!r} could not explain the {len(rows):,} rows from {rows[0].id!r} "
                f"to {rows[-1].id!r}. {result.error}\n{hint}{self.store.progress()}"
            )
        result.write_files(self.root)
        return len(rows)

    def _explainer_source(self) -> ExplainerSource:
        built, explainer, folder = self.job.method, self.job.method.explainer, None
        if isinstance(explainer, LearnedExplainer) and explainer.is_ready:
            folder = "explainer"
            save_explainer(explainer, self.folder / folder)
        for name, value in built.options.items():
            try:
                canonical_json({name: value})
            except (TypeError, ValueError) as error:
                raise OptionError(
                    f"Option {name!r} is a {type(value).__name__}, but workers need numbers, strings and lists. Give "
                    "such a value, or workers=0."
                ) from error
        return ExplainerSource(built.name, dict(built.options), folder)


class ShardDistributor:
    """Lets an executor explain the shards of a comparison. The teacher is saved once for all methods.

    The calling process explains what workers would not speed up, and what has no name or folder to build it from.
    """

    def __init__(self, executor: Executor, root: Path) -> None:
        self.executor, self.root = executor, root
        # The suffix marks a draft: a later run removes the drafts of a killed one.
        self.folder = root / "explanations" / f"jobs.{os.getpid()}.{secrets.token_hex(4)}.tmp"
        self._teachers: dict[str, TeacherSource | None] = {}
        self._count = 0

    def __enter__(self) -> "ShardDistributor":
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def explain_shards(self, dataset_job: DatasetJob, store: ShardStore, progress: bool) -> bool:
        """Explain the shards that the store lacks. False if this process should explain them."""
        if not _is_shareable(dataset_job.job.method) or self.executor.max_concurrency() < 2:
            return False
        missing = [shard for shard in dataset_job.shards() if store.load(store.file(shard)) is None]
        if len(missing) < 2 or (teacher := self._save_teacher(dataset_job)) is None:
            return False
        self._count += 1
        folder = self.folder / f"{self._count:04d}"
        source = replace(teacher, source=os.path.relpath(self.folder / teacher.source, folder))
        with Progress(dataset_job.job.title, total=len(dataset_job.rows), shown=progress) as bar:
            bar.skip(len(dataset_job.rows) - sum(len(shard.rows) for shard in missing))
            ShardQueue(source, store, folder, self.root).run(self.executor, missing, bar)
        return True

    def _save_teacher(self, dataset_job: DatasetJob) -> TeacherSource | None:
        fingerprint = dataset_job.fingerprints["teacher"]
        if fingerprint not in self._teachers:
            self._teachers[fingerprint] = save_copy(dataset_job.job.teacher, fingerprint, self.folder, dataset_job.rows)
        return self._teachers[fingerprint]


def _is_shareable(method: ResolvedMethod) -> bool:
    """True if the method runs the teacher and a worker can build it, which it cannot from an unregistered object."""
    return (
        method.is_reproducible and method.name in EXPLAINERS and not EXPLAINERS[method.name].cost.startswith("nothing")
    )
