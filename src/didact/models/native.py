"""The base class of native models: reading rows, checking options, saving and loading."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from didact.core.model import Batch, Model, Row, TokenMask, TokenVectors, check_lengths, check_readable
from didact.core.task import TASKS, Task, task_named
from didact.errors import OptionError, RecordError, ShapeError, UnsupportedError
from didact.models import MODELS
from didact.models.frozen_words import LEARNED, FrozenWordEmbeddings
from didact.models.tokenizer import READERS, PatchReader, PieceReader, Reader, reader_from
from didact.option_types import check_option_types

UNIFORM: Final = "uniform"
_LATER_OPTIONS: Final = (("attention", LEARNED), ("layers", 0))  # with their defaults; `layers` of a bag of words


class NativeModel(Model):
    """A small model of didact's own. `options` are the keyword arguments that it was built with."""

    library = "native"

    architecture: ClassVar[str]
    version: ClassVar[int] = 1  # part of every key: increase it if the same options and weights give other numbers

    def __init__(self, task: Task, classes: Sequence[str] | None, reader: Reader, **options: Any) -> None:
        super().__init__()
        if not _supports(self.architecture, task):
            alternatives = [name for name in MODELS if _supports(name, task)]
            raise UnsupportedError(
                f"Model {self.architecture!r} does not support {task}. Choose {' or '.join(map(repr, alternatives))}, "
                "or a Hugging Face model."
            )
        if type(self).__module__.startswith("didact."):
            for name, value in options.items():
                _check_option(self.architecture, name, value)
        else:  # of another package: its annotations define the types
            check_option_types(options, type(self), of=f"model {self.architecture!r}")
        self.task = task
        self.classes = None if classes is None else tuple(classes)
        self.reader = reader
        # Later options are left out at their defaults, so that models saved before them keep their fingerprint.
        self.options = {name: value for name, value in options.items() if (name, value) not in _LATER_OPTIONS}
        self.name = self.architecture
        self.outputs = task.width(self.classes)

    @property
    def pretrained(self) -> Literal["nothing", "words"]:  # type: ignore[override]
        return "nothing" if self.options.get("embeddings", LEARNED) == LEARNED else "words"

    @property
    def is_portable(self) -> bool:  # type: ignore[override]
        """False if the embeddings come from a local folder, which another machine may not have."""
        words = getattr(self, "words", None)
        return not (isinstance(words, FrozenWordEmbeddings) and Path(words.base).is_dir())

    def _kind(self) -> str:
        return f"native, {self.architecture}"

    def encode(self, rows: Sequence[Row]) -> Batch:
        """Rows as one batch on the CPU. Raises an error for rows with the wrong number of texts, or too long."""
        if isinstance(self.reader, PatchReader):
            return self.reader.encode(rows)
        allowed = range(self.task.fewest_texts, len(self.task.segments) + 1)
        wrong = next((row for row in rows if len(row.texts) not in allowed), None)
        if wrong is not None:
            raise ShapeError(
                f"The task of model {self.name!r} is {self.task}, which reads {' and '.join(self.task.segments)}; "
                f"row {wrong.id!r} has {len(wrong.texts)} texts."
            )
        batch = self.reader.encode(rows, max_length=self.max_length if self.truncate else None)
        unit = "tokens" if isinstance(self.reader, PieceReader) else "words (with special tokens)"
        check_lengths(batch.lengths.tolist(), self.max_length, name=self.name, unit=unit)
        check_readable(batch, self.task, name=self.name)
        return batch

    def facts(self) -> Mapping[str, object]:
        """Everything besides the weights that decides an output. `save` writes it as config.json."""
        config = {
            "architecture": self.architecture,
            "options": self.options,
            "task": self.task.name,
            "classes": self.classes,
            "reader": self.reader.facts(),
            "truncate": self.truncate,
            "max_length": self.max_length,
        }
        if self.version != 1:  # left out for version 1, as before there were versions
            config |= {"version": self.version}
        words = getattr(self, "words", None)
        return config | {"table": words.hash} if isinstance(words, FrozenWordEmbeddings) else config

    words: nn.Module
    layers: nn.ModuleList

    @property
    def layers_in_order(self) -> Sequence[nn.Module]:
        return tuple(self.layers)

    def special_token_id(self, name: str) -> int:
        if isinstance(self.reader, PatchReader):
            raise UnsupportedError(f"Baseline {name!r} is a token, and {self.name!r} reads images. Choose 'zero'.")
        token = self.reader.special_token_id(name)
        if token is None:
            raise UnsupportedError(
                f"Baseline {name!r} needs a token that model {self.name!r} does not have. Choose baseline 'zero'."
            )
        return token

    def token_name(self, token: int) -> str:
        return "[CLS]" if isinstance(self.reader, PatchReader) else self.reader.token_name(token)

    def save(self, folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps(self.facts(), indent=1, ensure_ascii=False), encoding="utf-8")
        save_file(
            {name: tensor.cpu().contiguous() for name, tensor in self.state_dict().items()},
            folder / "model.safetensors",
        )


def load_native(folder: Path) -> NativeModel:
    """Load a native model from a folder, in evaluation mode. Raises a `RecordError` if a file is missing or damaged."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        _check_config(config)
        model = build_native(config)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(
            f"{folder / 'config.json'} is missing or damaged ({error}). Train the model again."
        ) from error
    try:
        model.load_state_dict(load_file(folder / "model.safetensors"))
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise RecordError(f"The weights in {folder} are damaged, or do not fit its config.json: {error}") from error
    return model.eval()


def build_native(config: Mapping[str, Any], vectors: Tensor | None = None) -> NativeModel:
    """A model as described by `config` (see `facts`), with random weights from torch's generator.

    `vectors`: frozen word embeddings of a student that uses those of its teacher.
    """
    model_class: type[NativeModel] = MODELS.load(config["architecture"])
    reader = reader_from(config["reader"])
    if vectors is not None and isinstance(reader, PieceReader):
        reader = replace(reader, vectors=vectors)
    model = model_class(task_named(config["task"]), config["classes"], reader, **config["options"])
    model.truncate = config["truncate"]
    model.max_length = config.get("max_length", model.max_length)
    words = getattr(model, "words", None)
    if isinstance(words, FrozenWordEmbeddings) and words.hash != config.get("table"):
        raise RecordError(
            f"A {model.architecture!r} was trained with the word embeddings of {words.base!r} (hash "
            f"{config.get('table')}), which have changed since (now {words.hash}). Restore the base, or train the "
            "model again."
        )
    return model


def _supports(architecture: str, task: Task) -> bool:
    """True if the registry lists the task for the architecture, or a task that it resembles."""
    supported = MODELS[architecture].tasks
    return task.name in supported or any(
        name in supported and task.resembles(supported_task) for name, supported_task in TASKS.items()
    )


def _check_config(config: Any) -> None:
    """Raise a `ValueError` that names the first field of a config.json with a value of the wrong type."""
    if not isinstance(config, dict):
        raise ValueError("it contains no object")
    classes, max_length = config.get("classes"), config.get("max_length", 1)
    reader_config = config.get("reader")
    reader_config = reader_config if isinstance(reader_config, dict) else {}
    checks = [
        ("architecture", isinstance(config.get("architecture"), str), "text"),
        ("task", isinstance(config.get("task"), str), "text"),
        ("options", isinstance(config.get("options"), dict), "an object"),
        ("classes", classes is None or _is_string_list(classes), "a list of texts, or null"),
        ("truncate", isinstance(config.get("truncate"), bool), "true or false"),
        ("max_length", type(max_length) is int and max_length >= 1, "an integer >= 1"),
        ("reader", bool(reader_config), "an object"),
        ("reader.kind", reader_config.get("kind") in READERS, " or ".join(map(repr, READERS))),
        ("reader.special", isinstance(reader_config.get("special", True), bool), "true or false"),
        ("reader.vocabulary", _is_string_list(reader_config.get("vocabulary", [])), "a list of texts"),
    ]
    for field, is_valid, requirement in checks:
        if not is_valid:
            raise ValueError(f"field {field!r} must be {requirement}")


def _is_string_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _check_option(architecture: str, name: str, value: object) -> None:
    """Raise an `OptionError` for a value that an option of our own architectures does not accept."""
    if name == "dropout":
        is_valid, requirement = isinstance(value, int | float) and 0 <= value < 1, "from 0 to below 1"
    elif name == "mix":
        is_valid, requirement = isinstance(value, bool), "true or false"
    elif name == "pool":
        choices = {"pool": ("attention", "mean"), "cnn": ("max", "mean")}.get(architecture, ("mean", "first"))
        is_valid, requirement = value in choices, " or ".join(map(repr, choices))
    elif (architecture, name) == ("pool", "layers"):
        is_valid, requirement = type(value) is int and value >= 0, "0 or more"
    elif name == "attention":
        is_valid, requirement = value in (LEARNED, UNIFORM), f"{LEARNED!r} or {UNIFORM!r}"
    elif name == "embeddings":
        # "base" stands for the teacher's base, and `student_init` replaces it by its name.
        is_valid = isinstance(value, str) and value not in ("", "base")
        requirement = (
            f"{LEARNED!r}, 'teacher' for a student, or the base model whose frozen word embeddings it uses "
            "(minilm, a folder, a name)"
        )
    else:
        is_valid, requirement = isinstance(value, int) and not isinstance(value, bool) and value >= 1, "at least 1"
    if not is_valid:
        raise OptionError(f"Option {name!r} of {architecture!r} must be {requirement}, not {value!r}.")


def mean_over(states: TokenVectors, mask: TokenMask) -> Float[Tensor, "batch dim"]:
    """The mean state over the marked positions of each row; zero for a row without any."""
    weights = mask.to(states.dtype)[..., None]
    return (states * weights).sum(1) / weights.sum(1).clamp_min(1)
