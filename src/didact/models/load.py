"""From a name, a folder or a live model to a teacher."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoImageProcessor, AutoTokenizer, PreTrainedModel

from didact.core.human import HumanTeacher
from didact.core.model import Model
from didact.core.task import Task, task_named
from didact.core.teacher import Teacher
from didact.errors import OptionError, RecordError, UnsupportedError
from didact.models.build import architecture_of, base_folder, hub_errors
from didact.models.huggingface import HuggingFaceModel, task_of
from didact.models.native import native_from

RECORD = "didact.json"


def load_teacher(
    source: "str | Path | tuple[PreTrainedModel, Any] | Teacher",
    *,
    task: str | Task | None = None,
    classes: Sequence[str] | None = None,
    device: str | torch.device | None = None,
    max_length: int | None = None,
    truncate: bool = False,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Teacher:
    """A teacher from a folder, a hub name, a live `(model, tokenizer)` pair, or `human`.

    A live pair is left as it was found: its mode, device, attention and gradients. A teacher is returned as it is.
    `task` and `classes` are only needed where the model does not say: a classifier of text pairs looks like one of
    single texts.
    """
    kind = task_named(task) if isinstance(task, str) else task
    if isinstance(source, tuple):
        model, tokenizer = source
        return HuggingFaceModel(model, tokenizer, task=kind, classes=classes, max_length=max_length, truncate=truncate)
    if not isinstance(source, str | Path):
        if isinstance(source, Teacher):
            return source
        raise OptionError(
            f"A teacher cannot be made of {type(source).__name__}. Give a folder, a hub name, a (model, tokenizer) "
            "pair, or wrap a function: didact.teacher_from_function(…)."
        )
    if str(source) == "human":
        if kind is None:
            raise OptionError(
                "The teacher 'human' needs to know its task, and classes if it has any: task=…, classes=…."
            )
        return HumanTeacher(kind, classes)
    teacher = _from_disk(str(source), kind, classes, max_length, truncate, revision, trust_remote_code)
    return teacher.to(device) if device is not None else teacher


def _from_disk(
    source: str,
    task: Task | None,
    classes: Sequence[str] | None,
    max_length: int | None,
    truncate: bool,
    revision: str | None,
    trust_remote_code: bool,
) -> Model:
    record = read_record(Path(source))
    if record.get("kind") == "native":
        model: Model = native_from(Path(source))
        model.truncate = model.truncate or truncate
    else:
        folder = base_folder(source)
        options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
        with hub_errors(source):
            head = architecture_of(folder, **options)
            network = _class_of(head, source).from_pretrained(folder, dtype=torch.float32, **options).eval()
            if "task" in record:
                task = task or task_named(record["task"])
            task = task or task_of(network)
            tokenizer = (AutoTokenizer if task.is_text else AutoImageProcessor).from_pretrained(folder, **options)
        max_length = max_length or record.get("max_length")
        truncate = truncate or bool(record.get("truncate"))
        model = HuggingFaceModel(
            network, tokenizer, task=task, classes=classes, name=source, max_length=max_length, truncate=truncate
        )
    model.name = source
    model.record = record
    return model


def read_record(folder: Path) -> dict[str, Any]:
    """What `didact train` wrote about a model; empty for models from elsewhere."""
    path = folder / RECORD
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise RecordError(f"{path} cannot be read ({error}). Train the model again, or restore the file.") from error


def _class_of(head: str, source: str) -> Any:
    found = getattr(transformers, head, None) if head.endswith(_HEADS) else None
    if found is None:
        raise UnsupportedError(
            f"Model {source!r} was saved as {head or 'an unnamed architecture'}, which has no head for one of our "
            "tasks. Name a model for sequence classification, question answering or image classification, or train "
            f"one from it: didact train --model {source} --data DATA."
        )
    return found


_HEADS = ("ForSequenceClassification", "ForQuestionAnswering", "ForImageClassification")
