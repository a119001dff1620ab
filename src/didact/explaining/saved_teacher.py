"""Describes how workers load the teacher: by name or folder, or from a copy that was saved for them."""

import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors import SafetensorError

from didact.core.model import Model, require_model
from didact.core.row import Row
from didact.core.task import Task
from didact.core.teacher import Teacher
from didact.errors import DidactError
from didact.files.checksummed import write_json
from didact.models.load import RECORD, load_teacher

_SAVED_FIELDS: Final = ("architectures", "dtype")  # fields of a configuration that transformers sets when it saves
_CHECKED_ROWS: Final = 8  # rows on which a copy must answer exactly like the teacher

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TeacherSource:
    """The arguments of `load_teacher`. A saved copy has a `name`, and its folder is relative to the manifest's folder.

    `aligned` copies the weights to fresh memory, like those of a model built in this process. Weights that are mapped
    from a file keep the alignment of the file, which can change the last digits of a product.
    """

    source: str
    loading: Mapping[str, Any]
    name: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    aligned: bool = False

    @classmethod
    def of(cls, source: str, loading: Mapping[str, object]) -> "TeacherSource":
        return cls(source, {name: _plain(value) for name, value in loading.items()})

    def open(self, folder: Path) -> Teacher:
        """Load the teacher, without the checks that the calling process has run."""
        if self.name is None:
            return load_teacher(self.source, **self.loading, check=False)
        with _quietly(bool(self.config)):
            teacher = load_teacher(folder / self.source, **self.loading, check=False)
        teacher.name = self.name
        config = _config_of(teacher)
        for name, value in self.config.items():
            setattr(config, name, value)
        for tensor in teacher.tensors() if self.aligned else ():
            tensor.data = tensor.data.clone()
        return teacher


def save_copy(teacher: Teacher, fingerprint: str, folder: Path, rows: Sequence[Row]) -> TeacherSource | None:
    """Save a copy of the teacher in a subfolder. None if it cannot be saved, or if the copy differs.

    Saving can lose hooks, subclasses and tokenizers, and a fingerprint does not cover all of these. So the copy must
    have the same class and give bitwise equal answers to some rows, as one batch and one by one.
    """
    live_config = _config_of(teacher)
    if not teacher.is_portable or teacher.device.type not in ("cpu", "cuda"):
        return None
    teacher = require_model(teacher, "save")
    config = {} if live_config is None else teacher.facts()["config"]
    loading = {
        "task": teacher.task.name,
        "classes": None if teacher.classes is None else list(teacher.classes),
        "max_length": teacher.max_length,
        "truncate": teacher.truncate,
        "device": teacher.device.type,
    }
    written = {name: config.get(name) for name in _SAVED_FIELDS if config}
    copy = TeacherSource(f"teacher-{fingerprint}", loading, teacher.name, written, _is_aligned(teacher))
    path = folder / copy.source
    path.mkdir(parents=True, exist_ok=True)
    try:
        with _config_restored(teacher), _quietly(live_config is not None):
            teacher.save(path)
        if teacher.library == "native":
            write_json(path / RECORD, {"kind": "native"})
        if _is_same(copy.open(folder), teacher, fingerprint, rows[:_CHECKED_ROWS]):
            return copy
        log.info("%s explains in this process: a saved copy of it would differ.", teacher.name)
    except (DidactError, OSError, RuntimeError, TypeError, ValueError, SafetensorError) as error:
        log.info("%s cannot be saved and loaded again: %s", teacher.name, error)
    shutil.rmtree(path, ignore_errors=True)
    return None


def _is_same(copy: Teacher, teacher: Model, fingerprint: str, rows: Sequence[Row]) -> bool:
    if type(copy) is not type(teacher) or copy.fingerprint(()) != fingerprint:
        return False
    batches = [rows, *([row] for row in rows)]
    return all(np.array_equal(copy.predict(batch).values, teacher.predict(batch).values) for batch in batches)


def _is_aligned(teacher: Model) -> bool:
    return all(tensor.data_ptr() % 64 == 0 for tensor in teacher.tensors())


def _quietly(is_hugging_face: bool) -> AbstractContextManager[None]:
    """Hide the progress bars of transformers. Workers of other teachers do not import transformers."""
    if not is_hugging_face:
        return nullcontext()
    from didact.models.pretrained import quiet_transformers

    return quiet_transformers()


def _config_of(teacher: Teacher) -> Any:
    """The configuration of a Hugging Face model; None for other teachers."""
    model: Any = teacher
    return model.model.config if teacher.library == "huggingface" else None


@contextmanager
def _config_restored(teacher: Model) -> Iterator[None]:
    """Restore the fields that saving writes into the configuration of a live model."""
    config = _config_of(teacher)
    original = {name: getattr(config, name, None) for name in _SAVED_FIELDS}
    try:
        yield
    finally:
        if config is not None:
            for name, value in original.items():
                setattr(config, name, value)


def _plain(value: Any) -> Any:
    """An argument of `load_teacher` as a JSON value."""
    if isinstance(value, Task):
        return value.name
    return str(value) if isinstance(value, torch.device) else list(value) if isinstance(value, tuple) else value
