"""Hugging Face models by name: a base with a new head, or a trained model."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig
from transformers.utils import logging

from didact.core.dataset import Dataset
from didact.core.task import TASKS, Task
from didact.errors import RecordError, UnknownNameError, UnsupportedError
from didact.models import MODELS
from didact.models.accelerate_hooks import AUTO
from didact.models.heads import task_of
from didact.models.hub import base_folder, hub_errors, unreachable_reason
from didact.models.huggingface import HuggingFaceModel
from didact.models.load import HeadOptions


def new_head(base: str, data: Dataset, *, max_length: int | None, truncate: bool, **options: Any) -> HuggingFaceModel:
    """The pretrained `base` with a new head for the data, whose random weights come from torch's generator."""
    source = base_folder(base)
    with hub_errors(base):
        options |= _local_files_option(source, options)
        model = auto_class(data.task).from_pretrained(
            source, dtype=torch.float32, ignore_mismatched_sizes=True, **head_config(data.task, data.classes), **options
        )
        tokenizer = load_tokenizer(source, data.task, base, **options)
    return HuggingFaceModel(
        model, tokenizer, task=data.task, classes=data.classes, name=base, max_length=max_length, truncate=truncate
    )


def load_trained(source: str, head_options: HeadOptions, *, dispatch: bool = False, **options: Any) -> HuggingFaceModel:
    """A model that was saved with its head. With `dispatch`, accelerate distributes it over all devices."""
    if source in MODELS and not Path(source).is_dir():
        raise UnknownNameError(
            f"{source!r} is an architecture, not a trained model. Train one, didact train --model {source} --data DATA "
            "--out FOLDER, and name its folder."
        )
    with hub_errors(source, natives=False):
        options |= _local_files_option(source, options)
        config = AutoConfig.from_pretrained(source, **options)
        architecture = str((config.architectures or [""])[0])
        task = next((task for task in TASKS.values() if architecture.endswith(task.head)), None)
        model_class = getattr(transformers, architecture, None)
        if model_class is None and task is not None and options.get("trust_remote_code"):
            model_class = auto_class(task)  # finds the class in the code of the model
        if task is None or model_class is None:
            raise UnsupportedError(
                f"Model {source!r} was saved as {architecture or 'an unnamed architecture'}, which has no head for one "
                "of our tasks. Name a model for sequence classification, question answering or image classification, "
                f"or train one from it: didact train --model {source} --data DATA."
            )
        placement = {"device_map": AUTO} if dispatch else {}
        model, loading_info = model_class.from_pretrained(
            source, dtype=torch.float32, output_loading_info=True, **placement, **options
        )
        if loading_info["missing_keys"]:
            missing = ", ".join(sorted(loading_info["missing_keys"])[:3])
            raise RecordError(
                f"The weights of {source!r} lack {missing}, which would be random. A teacher needs all its weights."
            )
        task = head_options.task or task_of(model)
        tokenizer = load_tokenizer(source, task, source, **options)
    return HuggingFaceModel(model.eval(), tokenizer, name=source, **vars(replace(head_options, task=task)))


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Let transformers log only errors inside the context, and show no progress bars."""
    verbosity, had_progress_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_progress_bars:
            logging.enable_progress_bar()


def _local_files_option(source: str, options: Mapping[str, Any]) -> dict[str, object]:
    """`local_files_only` if the hub does not answer, so that only the local cache is used."""
    return {"local_files_only": True} if unreachable_reason(source, options.get("revision")) else {}


def auto_class(task: Task) -> Any:
    """The Auto class of transformers for models with a head for the task."""
    return getattr(transformers, f"AutoModel{task.head}")


def load_tokenizer(source: str, task: Task, name: str, **options: Any) -> Any:
    """The tokenizer or image processor. `name` is for messages.

    Raises an `UnsupportedError` for the empty tokenizer that transformers makes if the files are missing.
    """
    if not task.is_text:
        return transformers.AutoImageProcessor.from_pretrained(source, **options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        raise UnsupportedError(
            f"Model {name!r} has no tokenizer beside it. Save one there: tokenizer.save_pretrained(…)."
        )
    return tokenizer


def head_config(task: Task, classes: Sequence[str] | None) -> Mapping[str, object]:
    """The entries of a transformers configuration for a head of the task."""
    # Without classes, the default names of transformers replace those of the base's own head.
    names = dict(enumerate(classes or [f"LABEL_{index}" for index in range(task.width(None))]))
    head = {"num_labels": len(names), "id2label": names, "label2id": {name: index for index, name in names.items()}}
    return head | ({"problem_type": task.problem_type} if task.problem_type else {})
