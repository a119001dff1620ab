"""Task, classes, maximum length and layers of a Hugging Face model, from its head and configuration."""

from collections.abc import Sequence
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from didact.core.task import CLASSIFICATION, PAIR, REGRESSION, TASKS, Task, task_named
from didact.errors import OptionError, UnsupportedError


def task_of(model: PreTrainedModel) -> Task:
    """The task of a model's head. Raises an `UnsupportedError` for heads that didact does not support."""
    head = type(model).__name__
    config = model.config
    candidates = [task for task in TASKS.values() if head.endswith(task.head)]
    if candidates and not head.endswith(Task.head):
        return candidates[0]
    if candidates:
        problem_type = getattr(config, "problem_type", None)
        if problem_type == "multi_label_classification" and problem_type not in {
            task.problem_type for task in candidates
        }:
            raise UnsupportedError(
                f"The configuration of {head} says problem_type='multi_label_classification': several labels at once "
                "have no single predicted class. Wrap one label as a classifier of two classes: "
                "didact.teacher_from_function(…). If each text has one label only, set model.config.problem_type to "
                "'single_label_classification'."
            )
        if problem_type == "regression" and config.num_labels > 1:
            raise UnsupportedError(
                f"{head} is a regression with {config.num_labels} outputs. didact supports one output."
            )
        if problem_type == "regression" or (problem_type is None and config.num_labels == 1):
            return REGRESSION
        if problem_type in (by_problem_type := {task.problem_type: task for task in candidates if task.problem_type}):
            return by_problem_type[problem_type]
        # A head for pairs looks like one for single texts. Only the names of its classes can show the difference.
        return PAIR if any("entail" in str(name).lower() for name in config.id2label.values()) else CLASSIFICATION
    if "ForTokenClassification" in head:
        return task_named("token_classification")  # raises an error with the reason
    if any(mark in head for mark in ("LMHead", "ForCausalLM", "ForConditionalGeneration")):
        return task_named("generation")  # raises an error with the reason
    raise UnsupportedError(
        f"{head} has no head for a task. Load a model for sequence classification, question answering or "
        "image classification, or train one from it: didact train --model NAME --data DATA."
    )


def check_architecture(model: PreTrainedModel) -> None:
    """Raise an `UnsupportedError` for architectures that the adapter cannot run from their embeddings up."""
    config = model.config
    reason = None
    if getattr(config, "is_encoder_decoder", False):
        reason = "both its encoder and its decoder read the text"
    if type(model).__name__.endswith("ForImageClassification"):
        embeddings = getattr(model.base_model, "embeddings", None)
        if not hasattr(embeddings, "patch_embeddings") or not isinstance(getattr(config, "patch_size", None), int):
            reason = "it has no square patches (base_model.embeddings.patch_embeddings, config.patch_size)"
    if reason is not None:
        raise UnsupportedError(
            f"Models of type {config.model_type!r} are not supported as white boxes: {reason}. "
            "Wrap its predictions instead: didact.teacher_from_function(…)."
        )


def fitting_task(model: PreTrainedModel, task: Task | None) -> Task:
    """The requested task if the head supports it; by default the task of the head."""
    head_task = task_of(model)
    if task is None or task == head_task:
        return head_task
    if (task.head, task.problem_type) == (head_task.head, head_task.problem_type):
        return task
    raise OptionError(f"{type(model).__name__} has a head for {head_task} and does not support {task}.")


def class_names(model: PreTrainedModel, task: Task, classes: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names of the outputs: `classes`, by default those of the configuration. None if the task has no classes."""
    if not task.has_classes:
        return None
    config_names = [str(model.config.id2label[index]) for index in range(model.config.num_labels)]
    if classes is not None and len(classes) != len(config_names):
        raise OptionError(f"Got {len(classes)} class names, but the model has {len(config_names)} outputs.")
    output_names = tuple(config_names if classes is None else classes)
    if len(set(output_names)) < len(output_names):
        raise OptionError(
            f"Two outputs of the model have the same name: {', '.join(output_names)}. Name its outputs, "
            "load_teacher(…, classes=[…]), or correct id2label in its config.json."
        )
    return output_names


def max_input_length(model: PreTrainedModel, tokenizer: Any, requested: int | None) -> int:
    """The requested number of tokens, by default the limit of model and tokenizer.

    Raises an `OptionError` if the model cannot read that many, or if only special tokens would fit.
    """
    limit = getattr(model.config, "max_position_embeddings", None) or 0
    limit = limit if limit > 0 else 1_000_000  # XLNet has -1: no limit
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if isinstance(table, nn.Embedding) and table.padding_idx is not None:
        limit -= table.padding_idx + 1  # RoBERTa's positions start after its padding index
    limit = min(limit, getattr(tokenizer, "model_max_length", None) or limit)
    if requested is None:
        return int(limit)
    if requested > limit:
        raise OptionError(f"max_length is {requested}, but the model reads at most {limit} tokens.")
    special_tokens = (
        tokenizer.num_special_tokens_to_add(pair=True) if hasattr(tokenizer, "num_special_tokens_to_add") else 0
    )
    if requested <= special_tokens:
        raise OptionError(f"max_length {requested} leaves no room for words next to {special_tokens} special tokens.")
    return requested


def transformer_layers(model: PreTrainedModel) -> Sequence[nn.Module]:
    """The transformer layers: the module list with as many entries as the configuration has layers (ALBERT: groups)."""
    lists = [module for module in model.base_model.modules() if isinstance(module, nn.ModuleList) and len(module)]
    for layer_count in (
        getattr(model.config, "num_hidden_layers", None),
        getattr(model.config, "num_hidden_groups", None),
    ):
        for layers in lists:
            if len(layers) == layer_count:
                return tuple(layers)
    raise UnsupportedError(
        f"didact finds no list of layers in {type(model).__name__}: this architecture is not supported."
    )
