"""What all native models share: how they read rows, answer, and are kept."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from jaxtyping import Bool, Float
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from didact.core.batch import Batch
from didact.core.model import Model, check_lengths, check_readable
from didact.core.row import Row
from didact.core.task import READING, Task, task_named
from didact.errors import OptionError, RecordError, ShapeError, UnsupportedError
from didact.models import MODELS
from didact.models.tokenizer import MASK, PADDING, PatchReader, Reader, WordTokenizer, reader_from


class NativeModel(Model):
    """A small model of our own. Its options are the keyword arguments it was built with."""

    architecture: ClassVar[str]

    def __init__(self, task: Task, classes: Sequence[str] | None, reader: Reader, **options: Any) -> None:
        super().__init__()
        if task.name not in MODELS[self.architecture].tasks:
            able = [name for name, entry in MODELS.items() if task.name in entry.tasks]
            raise UnsupportedError(
                f"Model {self.architecture!r} cannot do {task}. Choose {' or '.join(map(repr, able))}, "
                "or a Hugging Face model."
            )
        for name, value in options.items():
            _check_option(self.architecture, name, value)
        self.task = task
        self.classes = None if classes is None else tuple(classes)
        self.reader = reader
        self.options = options
        self.name = self.architecture
        self.outputs = len(self.classes) if self.classes is not None else 2 if task is READING else 1

    def encode(self, rows: Sequence[Row]) -> Batch:
        if isinstance(self.reader, PatchReader):
            return self.reader.encode(rows)
        allowed = range(self.task.fewest_texts, len(self.task.segments) + 1)
        wrong = next((row for row in rows if len(row.texts) not in allowed), None)
        if wrong is not None:
            raise ShapeError(
                f"Model {self.name!r} does {self.task}, which reads {' and '.join(self.task.segments)}; "
                f"row {wrong.id!r} has {len(wrong.texts)} texts."
            )
        batch = self.reader.encode(rows, longest=self.max_length if self.truncate else None)
        check_lengths(batch.lengths.tolist(), self.max_length, name=self.name, unit="words (with special tokens)")
        check_readable(batch, self.task, name=self.name)
        return batch

    def facts(self) -> Mapping[str, Any]:
        return {
            "architecture": self.architecture,
            "options": self.options,
            "task": self.task.name,
            "classes": self.classes,
            "reader": self.reader.facts(),
            "truncate": self.truncate,
            "max_length": self.max_length,
        }

    layers: nn.ModuleList

    @property
    def layers_in_order(self) -> Sequence[nn.Module]:
        return tuple(self.layers)

    def filler(self, name: str) -> int:
        if isinstance(self.reader, PatchReader):
            raise UnsupportedError(f"Baseline {name!r} is a token, and {self.name!r} reads images. Choose 'zero'.")
        return {"pad": PADDING, "mask": MASK}[name]

    def token_name(self, token: int) -> str:
        return self.reader.vocabulary[token] if isinstance(self.reader, WordTokenizer) else "[CLS]"

    def save(self, folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps(self.facts(), indent=1, ensure_ascii=False), encoding="utf-8")
        save_file(
            {name: tensor.contiguous() for name, tensor in self.state_dict().items()}, folder / "model.safetensors"
        )


def native_from(folder: Path) -> NativeModel:
    """The native model kept in a folder."""
    try:
        facts = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind: type[NativeModel] = MODELS.load(facts["architecture"])
        model = kind(task_named(facts["task"]), facts["classes"], reader_from(facts["reader"]), **facts["options"])
        model.truncate = facts["truncate"]
        model.max_length = facts.get("max_length", model.max_length)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(
            f"{folder / 'config.json'} is missing or damaged ({error}). Train the model again."
        ) from error
    try:
        model.load_state_dict(load_file(folder / "model.safetensors"))
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise RecordError(f"The weights in {folder} are damaged, or do not fit its config.json: {error}") from error
    return model.eval()


def _check_option(model: str, name: str, value: object) -> None:
    """Counts are whole numbers from 1, shares go from 0 to below 1, switches are true or false."""
    if name == "dropout":
        good, wanted = isinstance(value, int | float) and 0 <= value < 1, "from 0 to below 1"
    elif name == "mix":
        good, wanted = isinstance(value, bool), "true or false"
    elif name == "pool":
        good, wanted = value in ("mean", "first"), "'mean' or 'first'"
    else:
        good, wanted = isinstance(value, int) and not isinstance(value, bool) and value >= 1, "at least 1"
    if not good:
        raise OptionError(f"Option {name!r} of {model!r} must be {wanted}, not {value!r}.")


def mean_over(
    states: Float[Tensor, "batch token dim"], mask: Bool[Tensor, "batch token"]
) -> Float[Tensor, "batch dim"]:
    """The mean state of the marked positions; zero where none is marked."""
    weights = mask.to(states.dtype)[..., None]
    return (states * weights).sum(1) / weights.sum(1).clamp_min(1)
