"""Shards of a stream, explained one after another: in this process, or in others that are started by module.

`python -m didact.experiment.shards MANIFEST` speaks as `didact.experiment.worker` does. Nothing is pickled: the teacher
and the method are given by name or folder, rows as files beside the manifest.
"""

import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from didact.core.encode import device_of
from didact.core.explainer import Explainer
from didact.core.function import FunctionTeacher
from didact.core.model import Model
from didact.core.row import Row
from didact.core.task import Task
from didact.core.teacher import Teacher
from didact.errors import DidactError, OptionError, kind_of
from didact.experiment import worker
from didact.experiment.explain import Work, model_fingerprint, resolve
from didact.experiment.rows import rows_of
from didact.experiment.whole_rows import read_whole_rows, write_whole_rows
from didact.models.load import load_teacher
from didact.records.atomic import with_folder
from didact.records.sealed import read_json, write_json
from didact.records.store import canonical, key_of
from didact.registry import plain
from didact.render.progress import Progress


@dataclass(frozen=True)
class Order:
    """What is done to every shard."""

    method: Any
    options: Mapping[str, Any]
    preset: str | None
    batch_size: int | None
    seed: int | None


class Bench:
    """A teacher, a method, and one shard after another."""

    def __init__(self, teacher: Teacher, order: Order, background: Sequence[Row] | None) -> None:
        asked, built = resolve(
            teacher, order.method, order.options, preset=order.preset, batch_size=order.batch_size, seed=order.seed
        )
        if background is None and isinstance(built.explainer, Explainer) and built.explainer.compares:
            raise OptionError(
                f"{built.name!r} compares with other rows, and a stream has none to choose from beforehand. Give some "
                "(background_rows=…, --background)."
            )
        self.work = Work(teacher, (), asked, built, order.batch_size or 64)
        self.name, self.is_known = built.name, built.is_known
        self._background, self._is_prepared = background, False
        # Threads, device and batches decide the last digits.
        self.facts = {
            "teacher": self.teacher,
            "threads": torch.get_num_threads(),
            "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
            "device": device_of(teacher).type,
            "batch_size": self.work.batch_size,
            **self.work.facts(background or []),
        }

    @property
    def teacher(self) -> str | None:
        """The teacher's fingerprint; a function has one of its answers, shard by shard."""
        teacher = self.work.teacher
        if isinstance(teacher, FunctionTeacher):
            return None
        return model_fingerprint(teacher) if isinstance(teacher, Model) else teacher.name

    @property
    def fingerprints(self) -> dict[str, str]:
        """What each shard says of its teacher."""
        return {"teacher": self.teacher or "function"}

    def explain(self, rows: Sequence[Row], place: Path) -> None:
        """Explain a shard into its file."""
        work = replace(self.work, rows=rows_of(self.work.teacher, rows))
        work.check()
        with torch.inference_mode(False), Progress("", total=len(rows), shown=False) as bar:
            self._prepare(work.rows)
            maps = work.explained(rows, bar)
        replace(maps, fingerprints=self.fingerprints).save(place)

    def _prepare(self, rows: Sequence[Row]) -> None:
        """With the background, once. A method that needs none may yet want to see a row: the first it is asked for."""
        explainer = self.work.built.explainer
        if isinstance(explainer, Explainer) and not self._is_prepared:
            with self.work.in_precision():
                explainer.prepare(self.work.teacher, self._background or rows[:1])
        self._is_prepared = True


# -- here, for others -------------------------------------------------------------------------------------------------


def write_manifest(
    folder: Path, bench: Bench, order: Order, *, teacher: str, loading: Mapping[str, Any],
    background: Sequence[Row] | None, kept: Path,
) -> Path:  # fmt: skip
    """All that a process must know to explain shards into the folder `kept` as this bench does."""
    told = {
        "teacher": teacher,
        "loading": {name: _told(value) for name, value in loading.items()},
        "order": {**vars(order), "method": str(order.method), "options": _plain(order.options)},
        "threads": bench.facts["threads"],
        "dtype": bench.facts["dtype"],
        "facts": key_of(bench.facts),
        "background": None if background is None else "background.parquet",
        "kept": str(kept),
    }
    path = with_folder(folder / "manifest.json")
    if background is not None:
        write_whole_rows(folder / "background.parquet", background)
    write_json(path, told)
    return path


def _told(value: Any) -> Any:
    """Something that `load_teacher` takes, as JSON has it."""
    if isinstance(value, Task):
        return value.name
    return str(value) if isinstance(value, torch.device) else list(value) if isinstance(value, tuple) else value


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: plain(value) for name, value in options.items()}
    for name, value in found.items():
        try:
            canonical({name: value})
        except (TypeError, ValueError) as error:
            raise OptionError(
                f"Option {name!r} is a {type(value).__name__}, and workers are told plain values alone. Give one, or "
                "workers=0."
            ) from error
    return found


# -- there ------------------------------------------------------------------------------------------------------------


class Desk:
    """Where a process explains the shards that it is asked for. A key is the name of a shard's file."""

    def __init__(self, manifest: Path) -> None:
        self.folder = manifest.parent
        self.told: dict[str, Any] = read_json(manifest, advice="Run the same command again.")
        self.threads: int = self.told["threads"]

    def work(self, key: str) -> dict[str, Any]:
        """Explain a shard and keep it; or tell what stands in the way."""
        try:
            self._bench.explain(read_whole_rows(self.folder / key), Path(self.told["kept"]) / key)
        except DidactError as error:
            return {"status": "refused", "kind": kind_of(error), "error": str(error)}
        except Exception as error:  # of a model or a method: raised where the shard was asked for
            return {"status": "failed", "error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        return {"status": "done"}

    @cached_property
    def _bench(self) -> Bench:
        told = self.told
        torch.set_default_dtype(getattr(torch, told["dtype"]))
        teacher = load_teacher(told["teacher"], **told["loading"], check=False)  # the calling process did
        background = None if told["background"] is None else read_whole_rows(self.folder / told["background"])
        bench = Bench(teacher, Order(**told["order"]), background)
        if key_of(bench.facts) != told["facts"]:
            raise DidactError(
                f"A worker reads the teacher {told['teacher']!r} or the method otherwise than the calling process: one "
                "of them was changed meanwhile. Give the same command again, or explain without workers."
            )
        return bench


if __name__ == "__main__":
    worker.main(sys.argv[1], Desk)
