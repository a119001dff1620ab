"""Work on explanations as plain files, so that processes of other machines can share it: packed here, done there.

Nothing is pickled. A teacher travels as the folder it is saved in, a method by its name and options or as the folder of
what it learned, rows and known answers as tables. Whatever cannot travel so is explained where it is.
"""

import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors.numpy
import torch
from safetensors import SafetensorError

from didact.core.model import Model
from didact.core.outputs import Outputs
from didact.core.row import Row, fingerprint_of
from didact.core.task import task_named
from didact.errors import DidactError, UnsupportedError, error_of, kind_of
from didact.experiment.engines.far import PARCELS
from didact.experiment.explain import Asked, Work
from didact.experiment.parts import Recorder
from didact.experiment.whole_rows import read_whole_rows, write_whole_rows
from didact.explainers import EXPLAINERS
from didact.explainers.build import Built, build_explainer
from didact.explainers.learned import (
    Learned,
    config_of,
    fingerprint_of_weights,
    load_explainer,
    save_explainer,
)
from didact.models.frozen import FrozenWords
from didact.models.huggingface import HuggingFaceModel
from didact.models.load import RECORD, load_teacher
from didact.models.native import NativeModel
from didact.models.pretrained import quietly
from didact.records.atomic import with_folder, write_bytes
from didact.records.explanations import Explanations
from didact.records.parquet import from_parquet, to_parquet
from didact.records.sealed import read_json, write_json
from didact.records.store import canonical, key_of
from didact.render.progress import Progress

_SAID: Final = ("architectures", "dtype")  # what transformers writes into a configuration when it saves it
_ASKED: Final = 8  # rows that a copy of a teacher must answer as the teacher does

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parcel:
    """The names of all files of some work; `order` is the one that tells of the others."""

    order: str
    files: tuple[str, ...]


# -- here -------------------------------------------------------------------------------------------------------------


class Packer:
    """Packs one work after another into a temporary folder; what they share is written once."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._teachers: dict[str, dict[str, Any] | None] = {}

    @property
    def folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=PARCELS))
        return self._folder

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None
        self._teachers.clear()

    def packed(self, work: Work, background: Sequence[Row]) -> Parcel | None:
        """The work as files; None if it cannot travel."""
        if not is_heavy(work.built):
            return None
        method = self._method(work.built)
        teacher = None if method is None else self._teacher(work)
        if method is None or teacher is None:
            return None
        order = {
            "teacher": teacher, "method": method, "asked": vars(work.asked), "batch_size": work.batch_size,
            "rows": self._rows(work.rows, work.fingerprints["data"]), "outputs": self._outputs(work),
            "background": self._rows(background, fingerprint_of(background)),
            "threads": torch.get_num_threads(), "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        }  # fmt: skip
        name = f"orders/{key_of(order)}.json"
        write_json(with_folder(self.folder / name), order)
        told = [order[one] for one in ("rows", "background", "outputs")]
        told += [teacher["folder"], method["folder"]]
        return Parcel(name, (name, *(file for one in dict.fromkeys(told) if one for file in self._below(str(one)))))

    def _below(self, name: str) -> list[str]:
        """The file of this name, or the files in the folder."""
        path = self.folder / name
        files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
        return [one.relative_to(self.folder).as_posix() for one in files]

    def _method(self, built: Built) -> dict[str, Any] | None:
        explainer, is_recorded = built.explainer, isinstance(built.explainer, Recorder)
        if isinstance(explainer, Recorder):
            explainer = explainer.explainer
        elif not built.is_known:
            return None
        folder = None
        if isinstance(explainer, Learned) and explainer.is_ready:
            if all(entry.target != _where(explainer) for entry in EXPLAINERS.values()):
                return None
            folder = f"explainers/{key_of({'config': config_of(explainer), 'is': fingerprint_of_weights(explainer)})}"
            if not (self.folder / folder).is_dir():
                save_explainer(explainer, with_folder(self.folder / folder))
        return {"name": built.name, "options": dict(built.options), "folder": folder, "is_recorded": is_recorded}

    def _rows(self, rows: Sequence[Row], fingerprint: str) -> str:
        name = f"rows/{fingerprint}.parquet"
        if not (self.folder / name).is_file():
            write_whole_rows(self.folder / name, rows)
        return name

    def _outputs(self, work: Work) -> str | None:
        """The answers that are known, in the order of the rows. Those of a reading teacher are never used."""
        if work.outputs is None or work.teacher.task.name == "reading":
            return None
        places = {name: place for place, name in enumerate(work.outputs.ids)}
        values = np.ascontiguousarray(work.outputs.values[[places[row.id] for row in work.rows]], dtype=np.float64)
        content = safetensors.numpy.save({"values": values})
        name = f"outputs/{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
        write_bytes(with_folder(self.folder / name), content)
        return name

    def _teacher(self, work: Work) -> dict[str, Any] | None:
        teacher = work.teacher
        if not isinstance(teacher, NativeModel | HuggingFaceModel) or teacher.device.type not in ("cpu", "cuda"):
            return None
        if teacher.is_spread:  # over what this machine has; others may have less
            return None
        fingerprint = work.fingerprints["teacher"]
        if fingerprint not in self._teachers:
            found = self._saved(teacher, fingerprint, work.rows[:_ASKED])
            if found is None:
                log.info("%s explains here: a saved copy of it would not be the same.", teacher.name)
            self._teachers[fingerprint] = found
        return self._teachers[fingerprint]

    def _saved(
        self, teacher: NativeModel | HuggingFaceModel, fingerprint: str, rows: Sequence[Row]
    ) -> dict[str, Any] | None:
        """Where the teacher was saved, and how it is opened; None if a copy differs from it in anything."""
        words = getattr(teacher, "words", None)
        if isinstance(words, FrozenWords) and Path(words.base).is_dir():
            return None  # its embeddings are in a folder that other machines may not have
        config = teacher.facts()["config"] if isinstance(teacher, HuggingFaceModel) else {}
        about = {
            "folder": f"teachers/{fingerprint}", "name": teacher.name, "fingerprint": fingerprint,
            "task": teacher.task.name, "classes": None if teacher.classes is None else list(teacher.classes),
            "max_length": teacher.max_length, "truncate": teacher.truncate, "device": teacher.device.type,
            "said": {name: config.get(name) for name in _SAID if config},
        }  # fmt: skip
        folder = self.folder / str(about["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with _as_it_was(teacher), quietly():
                teacher.save(folder)
            if isinstance(teacher, NativeModel):
                write_json(folder / RECORD, {"kind": "native"})
            copy = _opened(self.folder, about)
            is_same = type(copy) is type(teacher) and copy.fingerprint() == fingerprint
            is_same = is_same and np.array_equal(copy.predict(rows).values, teacher.predict(rows).values)
        except (DidactError, OSError, RuntimeError, TypeError, ValueError, SafetensorError) as error:
            shutil.rmtree(folder, ignore_errors=True)  # there may be no room for it
            log.info("%s cannot be saved and opened again: %s", teacher.name, error)
            return None
        return about if is_same else None


def is_heavy(built: Built) -> bool:
    """Whether the method asks the teacher anything: what costs nothing is not worth a journey."""
    return built.name not in EXPLAINERS or not EXPLAINERS[built.name].cost.startswith("nothing")


def unpacked(work: Work, said: Mapping[str, Any]) -> Explanations:
    """The explanations that came back, as this process would have made them; an error there is raised here."""
    if "error" in said:
        raise error_of(said["error"], said["message"])
    maps = from_parquet(said["maps"], Path("what a cluster sent"))
    if isinstance(work.built.explainer, Recorder):
        work.built.explainer.take(maps, safetensors.numpy.load(said["parts"])["values"])
    return maps


@contextmanager
def _as_it_was(teacher: Model) -> Iterator[None]:
    """Saving leaves no trace in a live model's configuration."""
    config = teacher.model.config if isinstance(teacher, HuggingFaceModel) else None
    before = {name: getattr(config, name, None) for name in _SAID}
    try:
        yield
    finally:
        if config is not None:
            for name, value in before.items():
                setattr(config, name, value)


def _where(explainer: Any) -> str:
    return f"{type(explainer).__module__}:{type(explainer).__name__}"


# -- there ------------------------------------------------------------------------------------------------------------


class Bench:
    """Where a process of another machine explains shards. A teacher is loaded once for all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Wrapped for each bench, so that what it holds goes when it goes.
        self.order = lru_cache(maxsize=4)(self._order)
        self.teacher = lru_cache(maxsize=1)(self._teacher)
        self.rows = lru_cache(maxsize=4)(self._rows)
        self.work = lru_cache(maxsize=1)(self._work)

    def explained(self, order: str, start: int, stop: int) -> dict[str, Any]:
        """The rows from `start` to `stop`: their explanations as Parquet, or what didact says against it."""
        told = self.order(order)
        before = torch.get_default_dtype()
        torch.set_num_threads(told["threads"])
        torch.set_default_dtype(getattr(torch, told["dtype"]))
        try:
            work = self.work(order)  # it was made before, where it was packed: what fails here is this machine's fault
            try:
                with torch.inference_mode(False), Progress("", total=stop - start, shown=False) as bar:
                    maps = work.explained(work.rows[start:stop], bar)
            except DidactError as error:
                return {"error": kind_of(error), "message": str(error)}
        finally:
            torch.set_default_dtype(before)
        found: dict[str, Any] = {"maps": to_parquet(maps)}
        if isinstance(work.built.explainer, Recorder):
            values = np.ascontiguousarray(work.built.explainer.values_of(maps))  # else it is kept transposed
            found["parts"] = safetensors.numpy.save({"values": values})
        return found

    def _order(self, name: str) -> dict[str, Any]:
        return read_json(self.folder / name, advice="Run the same command again.")

    def _work(self, name: str) -> Work:
        order = self.order(name)
        method, rows, background = order["method"], self.rows(order["rows"]), self.rows(order["background"])
        teacher = self.teacher(canonical(order["teacher"]))
        outputs = None
        if order["outputs"] is not None:
            values = safetensors.numpy.load_file(self.folder / order["outputs"])["values"]
            outputs = Outputs(teacher.task, tuple(row.id for row in rows), values)
        if method["folder"] is None:
            explainer: Any = build_explainer(method["name"], **method["options"]).explainer
        else:
            explainer = load_explainer(self.folder / method["folder"])
        if method["is_recorded"]:
            explainer = Recorder(explainer)
        built = Built(explainer, method["name"], method["options"])
        work = Work(teacher, rows, Asked(**order["asked"]), built, order["batch_size"], outputs)
        with torch.inference_mode(False), work.in_precision():
            explainer.prepare(teacher, background)
        return work

    def _teacher(self, about: str) -> Model:
        told = json.loads(about)
        teacher = _opened(self.folder, told)
        if teacher.fingerprint() != told["fingerprint"]:
            raise UnsupportedError(
                f"A node of the cluster reads the teacher {told['name']!r} otherwise than the calling process. Install "
                "the same versions of torch and transformers on all of them."
            )
        return teacher

    def _rows(self, name: str) -> tuple[Row, ...]:
        return read_whole_rows(self.folder / name)


# -- on both sides ----------------------------------------------------------------------------------------------------


def _opened(folder: Path, about: Mapping[str, Any]) -> Model:
    """The teacher that was saved below this folder, called what it is called."""
    with quietly():
        teacher = load_teacher(
            folder / about["folder"], task=task_named(about["task"]), classes=about["classes"],
            max_length=about["max_length"], truncate=about["truncate"], device=about["device"],
            check=False,  # the calling process did
        )  # fmt: skip
    assert isinstance(teacher, Model)
    if isinstance(teacher, HuggingFaceModel):
        for name, value in about["said"].items():
            setattr(teacher.model.config, name, value)
    teacher.name = about["name"]
    return teacher
