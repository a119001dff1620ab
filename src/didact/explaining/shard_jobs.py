"""Shards of explanations as jobs: what a worker must know, the runner that explains, and who hands the shards out.

Nothing is pickled. The teacher comes by its name or folder, the method by its name and options or as the folder of what
it learned, rows and known answers as tables.
"""

import os
import secrets
import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from didact.core.encode import device_of
from didact.core.explainer import Explainer
from didact.core.function import FunctionTeacher
from didact.core.model import Model
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.errors import DidactError, OptionError, error_of, kind_of
from didact.execution.base import Executor, Job, JobKind, JobResult, JobStatus, Manifest
from didact.explainers import EXPLAINERS
from didact.explainers.build import Built, build_explainer
from didact.explainers.learned import Learned, load_explainer, save_explainer
from didact.explaining.explain import Asked, Work, model_fingerprint
from didact.explaining.input_rows import rows_of
from didact.explaining.row_io import read_answers, read_whole_rows, write_whole_rows
from didact.explaining.saved_teacher import TeacherSource, save_copy
from didact.explaining.shard_store import ShardStore, shard_settings
from didact.records.atomic import with_folder
from didact.records.explanations import Explanations
from didact.records.sealed import read_json, write_json
from didact.records.store import canonical, key_of
from didact.render.progress import Progress

# -- on both sides ----------------------------------------------------------------------------------------------------


class ShardExplainer:
    """Explains one shard after another. `work` has no rows yet."""

    def __init__(self, work: Work, background: Sequence[Row] | None) -> None:
        self.work, self.background = work, background
        self._is_prepared = False

    @property
    def fingerprint(self) -> str | None:
        """The teacher's fingerprint; a function has one of its answers, shard by shard."""
        teacher = self.work.teacher
        if isinstance(teacher, FunctionTeacher):
            return None
        return model_fingerprint(teacher) if isinstance(teacher, Model) else teacher.name

    @property
    def fingerprints(self) -> dict[str, str]:
        """What each shard says of its teacher."""
        return {"teacher": self.fingerprint or "function"}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Everything beside the rows that decides the scores."""
        facts = self.work.facts(self.background or [])
        return shard_settings(self.work.teacher, self.fingerprint, facts, batch_size=self.work.batch_size)

    def explain(self, rows: Sequence[Row], answers: Outputs | None = None) -> Explanations:
        work = replace(self.work, rows=rows_of(self.work.teacher, rows), outputs=answers)
        work.check()
        with torch.inference_mode(False), Progress("", total=len(rows), shown=False) as bar:
            self._prepare(work.rows)
            shard = work.explained(rows, bar)
        return replace(shard, fingerprints=self.fingerprints)

    def _prepare(self, rows: Sequence[Row]) -> None:
        """With the background, once. A method that needs none may yet want to see a row: the first one."""
        explainer = self.work.built.explainer
        if isinstance(explainer, Explainer) and not self._is_prepared:
            with self.work.in_precision():
                explainer.prepare(self.work.teacher, self.background or rows[:1])
        self._is_prepared = True


@dataclass(frozen=True)
class ExplainerSource:
    """How a worker builds the method: from its name and options, or from the folder of what it learned."""

    name: str
    options: Mapping[str, Any]
    folder: str | None = None

    def build(self, base: Path) -> Built:
        if self.folder is None:
            return build_explainer(self.name, **self.options)
        return Built(load_explainer(base / self.folder), self.name, self.options)


# -- in a worker ------------------------------------------------------------------------------------------------------


class ExplainRunner:
    """Explains the shards of a manifest. A key is the name of a shard's file; its rows are beside the manifest."""

    def __init__(self, manifest: Path) -> None:
        self.folder = manifest.parent
        self.content: dict[str, Any] = read_json(manifest, advice="Run the same command again.")
        self.threads: int = self.content["threads"]

    def run(self, key: str) -> JobResult:
        """Explain a shard and keep it, or say what stands in the way."""
        try:
            rows = read_whole_rows(self.folder / key)
            values = read_answers(self.folder / key)
            task = self.explainer.work.teacher.task
            answers = None if values is None else Outputs(task, tuple(row.id for row in rows), values)
            shard = self.explainer.explain(rows, answers)
            shard.save(with_folder(self.folder / self.content["shards"] / key))
        except DidactError as error:
            return JobResult(key, JobStatus.REFUSED, error=str(error), error_kind=kind_of(error))
        except Exception as error:  # of a model or a method
            message = f"{type(error).__name__}: {error}"
            return JobResult(key, JobStatus.FAILED, error=message, traceback=traceback.format_exc())
        return JobResult(key, JobStatus.DONE)

    @cached_property
    def explainer(self) -> ShardExplainer:
        content = self.content
        torch.set_default_dtype(getattr(torch, content["dtype"]))
        source = TeacherSource(**content["teacher"])
        teacher = source.open(self.folder)
        built = ExplainerSource(**content["explainer"]).build(self.folder)
        background = None if content["background"] is None else read_whole_rows(self.folder / content["background"])
        work = Work(teacher, (), Asked(**content["common"]), built, content["batch_size"])
        explainer = ShardExplainer(work, background)
        if key_of(explainer.settings) != content["settings"]:
            raise DidactError(
                f"A worker reads the teacher {source.source!r} or the method otherwise than the calling process: one "
                "of them was changed meanwhile, or the worker's machine has other versions of torch and transformers. "
                "Give the same command again, or explain without workers."
            )
        return explainer


# -- in the calling process -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PendingShard:
    """A shard that a worker explains: the first and last row, and how many rows."""

    first: str
    last: str
    count: int


class ShardQueue:
    """The shards of a store that workers are to explain, and what they read, in a folder below `root`."""

    def __init__(
        self, explainer: ShardExplainer, teacher: TeacherSource, store: ShardStore, folder: Path, root: Path
    ) -> None:
        self.explainer, self.teacher, self.store, self.folder, self.root = explainer, teacher, store, folder, root
        self.waiting: dict[str, _PendingShard] = {}

    def write_manifest(self) -> Manifest:
        """Write what all shards have in common."""
        work, background = self.explainer.work, self.explainer.background
        path = with_folder(self.folder / "manifest.json")
        if background is not None:
            write_whole_rows(self.folder / "background.parquet", background)
        settings = self.explainer.settings
        content = {
            "kind": JobKind.EXPLAIN,
            "teacher": asdict(self.teacher),
            "explainer": asdict(self._explainer_source(work.built)),
            "common": vars(work.asked),
            "batch_size": work.batch_size,
            "threads": settings["threads"],
            "dtype": settings["dtype"],
            "settings": key_of(settings),
            "background": None if background is None else "background.parquet",
            "shards": os.path.relpath(self.store.folder, self.folder),
        }
        write_json(path, content)
        return Manifest(path, self.root, settings["threads"], on_gpu=device_of(work.teacher).type == "cuda")

    @cached_property
    def _inputs(self) -> tuple[str, ...]:
        """The files that every shard reads."""
        folders = [self.folder] if self.teacher.name is None else [self.folder, self.folder / self.teacher.source]
        paths = [path.resolve() for folder in folders for path in folder.rglob("*") if path.is_file()]
        return tuple(sorted(path.relative_to(self.root.resolve()).as_posix() for path in paths))

    def job(self, file: Path, rows: Sequence[Row], answers: Outputs | None = None) -> Job:
        """The job that explains these rows into this file of the store."""
        common = self._inputs
        places = {} if answers is None else {name: place for place, name in enumerate(answers.ids)}
        values = None if answers is None else answers.values[[places[row.id] for row in rows]]
        write_whole_rows(self.folder / file.name, rows, values)
        self.waiting[file.name] = _PendingShard(rows[0].id, rows[-1].id, len(rows))
        relative = [path.resolve().relative_to(self.root.resolve()) for path in (self.folder / file.name, file)]
        return Job(file.name, (*common, relative[0].as_posix()), (relative[1].as_posix(),))

    def finish(self, result: JobResult, resume: Callable[[], str]) -> int:
        """Keep a shard that is back, and say how many rows it has. A shard that failed is an error."""
        shard = self.waiting.pop(result.key)
        (self.folder / result.key).unlink(missing_ok=True)
        if result.status is JobStatus.REFUSED:
            raise error_of(result.error_kind, result.error)
        if result.status is not JobStatus.DONE:
            hint = "Memory may have run out: fewer workers, a smaller shard or batch_size need less. "
            hint = hint if "SIGKILL" in result.error else ""
            raise DidactError(
                f"{self.explainer.work.built.name!r} could not explain the {shard.count:,} rows from {shard.first!r} "
                f"to {shard.last!r}. {result.error}\n{hint}{resume()}"
            )
        result.write_files(self.root)
        return shard.count

    def _explainer_source(self, built: Built) -> ExplainerSource:
        explainer, folder = built.explainer, None
        if isinstance(explainer, Learned) and explainer.is_ready:
            folder = "explainer"
            save_explainer(explainer, self.folder / folder)
        for name, value in built.options.items():
            try:
                canonical({name: value})
            except (TypeError, ValueError) as error:
                raise OptionError(
                    f"Option {name!r} is a {type(value).__name__}, and workers are told plain values alone. Give one, "
                    "or workers=0."
                ) from error
        return ExplainerSource(built.name, dict(built.options), folder)


class SharedExplaining:
    """Lets an executor explain the shards of a comparison. The teacher is saved once, for all methods.

    What is as fast here, or cannot be given by name or folder, is left to this process.
    """

    def __init__(self, executor: Executor, root: Path) -> None:
        self.executor, self.root = executor, root
        # As drafts are named: the sweep of a later run removes what a killed one left.
        self.folder = root / "explanations" / f"jobs.{os.getpid()}.{secrets.token_hex(4)}.tmp"
        self._teachers: dict[str, TeacherSource | None] = {}
        self._count = 0

    def __enter__(self) -> "SharedExplaining":
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def fill(self, work: Work, background: Sequence[Row], store: ShardStore, progress: bool) -> bool:
        """Explain the shards that the store lacks. False if this process is to explain them."""
        files = {start: work.shard_file(store, start) for start in work.starts}
        missing = [start for start, file in files.items() if store.load(file) is None]
        if len(missing) < 2 or not _is_costly(work.built) or not _is_named(work.built):
            return False
        if self.executor.max_concurrency() < 2 or (teacher := self._saved(work)) is None:
            return False
        self._count += 1
        folder = self.folder / f"{self._count:04d}"
        source = replace(teacher, source=os.path.relpath(self.folder / teacher.source, folder))
        queue = ShardQueue(
            ShardExplainer(replace(work, rows=(), outputs=None), background), source, store, folder, self.root
        )
        manifest = queue.write_manifest()
        answers = None if work.teacher.task.name == "reading" else work.outputs  # spans are always asked for
        jobs = (queue.job(files[start], work.rows[start : start + work.shard], answers) for start in missing)
        with Progress(f"explaining with {work.built.name}", total=len(work.rows), shown=progress) as bar:
            bar.skip(sum(len(work.rows[start : start + work.shard]) for start in files if start not in missing))
            with closing(self.executor.run(manifest, jobs)) as results:
                for result in results:
                    bar.advance(queue.finish(result, store.progress))
        return True

    def _saved(self, work: Work) -> TeacherSource | None:
        fingerprint = work.fingerprints["teacher"]
        if fingerprint not in self._teachers:
            self._teachers[fingerprint] = save_copy(work.teacher, fingerprint, self.folder, work.rows)
        return self._teachers[fingerprint]


def _is_costly(built: Built) -> bool:
    """Whether the method asks the teacher anything."""
    return built.name not in EXPLAINERS or not EXPLAINERS[built.name].cost.startswith("nothing")


def _is_named(built: Built) -> bool:
    """Whether a worker can build the method: not if it is an object of a class that is not registered."""
    return built.is_known and built.name in EXPLAINERS
