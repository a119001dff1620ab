"""`load_teacher`: a teacher from a name, a folder, a live model or a pipeline."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from didact.core.adapt import as_teacher
from didact.core.classes import check_class_names
from didact.core.human import HumanTeacher
from didact.core.model import Model
from didact.core.task import Task, task_named
from didact.core.teacher import Predictor, Teacher
from didact.errors import OptionError, UnsupportedError
from didact.files.checksummed import damaged_error, hash_of_file
from didact.files.paths import check_readable, kind_at
from didact.models.accelerate_hooks import AUTO, check_accelerate
from didact.models.hub import check_folder
from didact.models.native import load_native
from didact.results.documents import VERSION_KEY, load_document

if TYPE_CHECKING:
    from transformers import Pipeline, PreTrainedModel

RECORD = "didact.json"
RECORD_VERSION = 1  # version of its schema
WEIGHTS = "weights"  # its entry with a SHA-256 hash of each file of weights
_RESTORE = "Train the model again, or restore the file."
_DEVICES = "cpu, cuda, cuda:1 and so on, mps"
_MAX_REASON_LENGTH = 120  # characters; longer messages of torch are replaced


@dataclass(frozen=True)
class HeadOptions:
    """The task, classes and length to load a model with. None: as the model itself says."""

    task: Task | None
    classes: Sequence[str] | None
    max_length: int | None
    truncate: bool


def load_teacher(
    source: "str | Path | tuple[PreTrainedModel, Any] | Pipeline | Predictor",
    *,
    task: str | Task | None = None,
    classes: Sequence[str] | None = None,
    device: str | torch.device | None = None,
    max_length: int | None = None,
    truncate: bool = False,
    revision: str | None = None,
    trust_remote_code: bool = False,
    check: bool = True,
) -> Teacher:
    """Load the model to explain: from a folder, a hub name, a live model, a pipeline, or people's labels.

    Args:
        source: A folder, a name on the Hugging Face hub, a pair `(model, tokenizer)`, a transformers pipeline for text
            classification, `"human"` for the labels of the data, or any object with `name`, `task`, `classes` and
            `predict`. A live model keeps its mode, device, attention implementation and gradients. A teacher is
            returned as it is.
        task: Needed only if the model does not say. A classifier of text pairs looks like one of single texts.
        classes: Class names in the order of the outputs. Needed only if the model does not say.
        device: `"cpu"`, `"cuda"`, … or `"auto"`, which spreads a Hugging Face model over all devices (accelerate).
        max_length: Maximum number of tokens per row. Defaults to the model's own.
        truncate: Cut longer rows. Otherwise they are an error.
        revision: Revision of a model on the hub.
        trust_remote_code: Run code that comes with the model.
        check: Compare the model's answers, embeddings and attention with transformers' own on two short rows, and
            refuse a model that would be explained wrongly. False skips this at your own risk.

    Returns:
        A `Teacher`: a `Model` if gradients are available, else a black box.

    Raises:
        UnsupportedError: didact cannot explain this architecture. The message says why, and what works instead.

    Examples:
        ```python
        teacher = didact.load_teacher("runs/demo/teacher")
        print(teacher.classes, teacher.predict(["a good film"]).probabilities)
        ```
    """
    if max_length is not None and (not isinstance(max_length, int) or max_length < 1):
        raise OptionError(f"max_length (--max-length) must be an integer >= 1, got {max_length!r}.")
    if task is not None and not isinstance(task, str | Task):
        raise OptionError(f"task must be the name of a task, got {task!r}.")
    check_class_names(classes)
    parsed_task = task_named(task) if isinstance(task, str) else task
    head_options = HeadOptions(parsed_task, classes, max_length, truncate)
    source = _unwrapped(source)
    if isinstance(source, tuple):
        if device is not None:
            raise OptionError(
                "A live model stays on its device. Move it yourself, model.to(device), and leave device out."
            )
        model = _from_pair(source, head_options)
        return _self_checked(model) if check else model
    if not isinstance(source, str | Path):
        if isinstance(source, Predictor):
            if device is not None:
                raise OptionError(
                    f"The teacher {source.name!r} is already loaded and stays on its device. Leave device out, or move "
                    "the teacher yourself: teacher.to(device)."
                )
            return as_teacher(source)
        raise OptionError(
            f"{type(source).__name__} cannot be a teacher. Pass a folder, a hub name, a (model, tokenizer) pair, a "
            "text-classification pipeline, or wrap a function: didact.teacher_from_function(…)."
        )
    if str(source) == "human":
        if parsed_task is None:
            raise OptionError("The teacher 'human' needs task=…, and classes=… if the task has classes.")
        return HumanTeacher(parsed_task, classes)
    dispatch = str(device) == AUTO
    if dispatch:
        check_accelerate()
    torch_device = None if device is None or dispatch else checked_device(device)
    teacher = _load_saved(
        str(source), head_options, dispatch=dispatch, revision=revision, trust_remote_code=trust_remote_code
    )
    teacher = teacher if torch_device is None else teacher.to(torch_device)
    return _self_checked(teacher) if check else teacher


def _from_pair(pair: tuple[Any, ...], head_options: HeadOptions) -> Model:
    """A live model with its tokenizer as a teacher."""
    from transformers import PreTrainedModel

    from didact.models.huggingface import HuggingFaceModel

    if len(pair) != 2 or not isinstance(pair[0], PreTrainedModel):
        raise OptionError("A live pair must be (model, tokenizer), with a transformers model.")
    return HuggingFaceModel(*pair, **vars(head_options))


def _self_checked(model: Model) -> Model:
    """The model, after its `self_check`, which raises an error if didact would compute other answers."""
    model.self_check()
    return model


def _unwrapped(source: Any) -> Any:
    """A pipeline as (model, tokenizer), a compiled model as its original. A model without tokenizer raises an error."""
    if isinstance(source, tuple) and source:
        return uncompiled_model(source[0]), *source[1:]
    if isinstance(source, str | Path | tuple) or "transformers" not in sys.modules:
        return source
    source = uncompiled_model(source)
    from transformers import Pipeline, PreTrainedModel

    if isinstance(source, PreTrainedModel):
        raise OptionError(
            f"A {type(source).__name__} cannot be a teacher by itself: it reads tokens, and rows are texts. Pass it "
            "with its tokenizer (or image processor): load_teacher((model, tokenizer))."
        )
    if not isinstance(source, Pipeline):
        return source
    if source.task != "text-classification":
        raise UnsupportedError(
            f"A pipeline for {source.task!r} cannot be a teacher; one for 'text-classification' can. If its model has "
            "a head for a task of didact, pass both: load_teacher((pipeline.model, pipeline.tokenizer))."
        )
    return uncompiled_model(source.model), source.tokenizer


def uncompiled_model(model: Any) -> Any:
    """The original of a compiled model, whose graph would bypass our attention function; other models unchanged."""
    original = getattr(model, "_orig_mod", None)
    return original if type(model).__name__ == "OptimizedModule" and isinstance(original, nn.Module) else model


def _load_saved(source: str, head_options: HeadOptions, *, dispatch: bool, **options: Any) -> Model:
    """Load a model by name or folder: a native one, or one of transformers. Checks the checksums of its weights."""
    record = read_record(Path(source))
    if not record:
        check_folder(source)  # before transformers is imported, which takes seconds
    _check_weights(Path(source), record.pop(WEIGHTS, {}))
    if record.get("kind") == "native":
        if dispatch:
            raise OptionError(
                f"Device 'auto' spreads Hugging Face models over several devices, and {source!r} is a small native "
                "model. Name its device: cpu, cuda or mps."
            )
        model: Model = load_native(Path(source))
        _check_native(model, source, head_options)
        model.max_length = head_options.max_length or model.max_length
        model.truncate = model.truncate or head_options.truncate
    else:
        from didact.models.pretrained import load_trained

        head_options = replace(
            head_options,
            task=head_options.task or (task_named(record["task"]) if "task" in record else None),
            max_length=head_options.max_length or record.get("max_length"),
            truncate=head_options.truncate or bool(record.get("truncate")),
        )
        model = load_trained(source, head_options, dispatch=dispatch, **options)
    model.name = source
    model.record = record
    return model


def read_record(folder: Path) -> dict[str, Any]:
    """The record that `didact train` wrote beside a model. Empty for other models."""
    path = folder / RECORD
    if kind_at(folder) == "folder":
        check_readable(folder)
    if kind_at(path) != "file":
        return {}
    try:
        return load_document(path, RECORD_VERSION, _without_version, advice=_RESTORE)
    except FileNotFoundError:  # removed in the meantime
        return {}


def _without_version(record: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in record.items() if name != VERSION_KEY}


def _check_weights(folder: Path, stored: Mapping[str, str]) -> None:
    """Raise an error if the checksum of a file of weights has changed. Missing files raise when they are loaded."""
    for name, checksum in stored.items():
        path = folder / name
        if kind_at(path) == "file":
            check_readable(path)
            if hash_of_file(path) != checksum:
                raise damaged_error(path, f"its checksum differs from the one in {RECORD}", _RESTORE)


def checked_device(device: str | torch.device) -> torch.device:
    """The device, after a test that this machine and this build of torch have it. Else raises an `OptionError`."""
    parsed = parse_device(device)
    try:
        torch.empty(0, device=parsed)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        # For a device type that it was not built with, torch prints a long text about its installation.
        reason = reason if len(reason) < _MAX_REASON_LENGTH else "this machine or this build of torch does not have it"
        raise OptionError(f"Device {str(device)!r} cannot be used here: {reason}. Leave it out for the CPU.") from error
    return parsed


def parse_device(device: str | torch.device) -> torch.device:
    """The device of that name, whether or not this machine has it."""
    if str(device) == AUTO:
        raise OptionError(
            "Device 'auto' spreads a trained model over several devices, but training needs one. Name it: cpu, "
            "cuda or mps."
        )
    try:
        parsed = torch.device(device)
    except RuntimeError as error:
        raise OptionError(
            f"Device {str(device)!r} cannot be used here: there is no such device. Leave it out for the CPU, or name "
            f"one of {_DEVICES}."
        ) from error
    if parsed.type == "meta":
        raise OptionError("Device 'meta' cannot be used here: it stores no numbers. Leave it out for the CPU.")
    return torch.device("cpu") if parsed.type == "cpu" else parsed  # there is only one, so its index does not matter


def default_device() -> str:
    """The device type that torch prefers: the accelerator if there is one, else the CPU."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return "cpu" if accelerator is None else accelerator.type


def _check_native(model: Model, source: str, head_options: HeadOptions) -> None:
    """Raise an `OptionError` if the requested task, classes or length do not fit a saved native model."""
    if head_options.task is not None and head_options.task != model.task:
        raise OptionError(f"The task of model {source!r} is {model.task}, not {head_options.task}.")
    if head_options.classes is not None and tuple(head_options.classes) != model.classes:
        raise OptionError(f"Model {source!r} has the classes {model.classes}, not {tuple(head_options.classes)}.")
    length = head_options.max_length
    if length is not None and not 1 <= length <= model.max_length:
        raise OptionError(
            f"max_length {length} does not suit model {source!r}, which reads 1 to {model.max_length} tokens."
        )
