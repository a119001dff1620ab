"""What a Hugging Face model's head and configuration say: task, classes, length and layers. The rest is refused."""

from collections.abc import Sequence
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from didact.core.task import CLASSIFICATION, PAIR, REGRESSION, TASKS, Task, task_named
from didact.errors import OptionError, UnsupportedError


def task_of(model: PreTrainedModel) -> Task:
    """The task a model's head was made for; heads that didact does not serve are refused by name."""
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
            raise UnsupportedError(f"{head} rates {config.num_labels} things at once; a regression has one output.")
        if problem_type == "regression" or (problem_type is None and config.num_labels == 1):
            return REGRESSION
        if problem_type in (by_problem_type := {task.problem_type: task for task in candidates if task.problem_type}):
            return by_problem_type[problem_type]
        # The head looks the same for one text and for two; only the names of its classes can tell.
        return PAIR if any("entail" in str(name).lower() for name in config.id2label.values()) else CLASSIFICATION
    if "ForTokenClassification" in head:
        return task_named("token_classification")  # raises, with the reason
    if any(mark in head for mark in ("LMHead", "ForCausalLM", "ForConditionalGeneration")):
        return task_named("generation")  # raises, with the reason
    raise UnsupportedError(
        f"{head} has no head that answers a task. Load a model for sequence classification, question answering or "
        "image classification, or train one from it: didact train --model NAME --data DATA."
    )


def check_architecture(model: PreTrainedModel) -> None:
    """Refuse, with the reason, what the adapter has no way into."""
    config = model.config
    reason = None
    if getattr(config, "is_encoder_decoder", False):
        reason = "an encoder and a decoder read the text twice"
    if type(model).__name__.endswith("ForImageClassification"):
        embeddings = getattr(model.base_model, "embeddings", None)
        if not hasattr(embeddings, "patch_embeddings") or not isinstance(getattr(config, "patch_size", None), int):
            reason = "didact finds no square patches in it (base_model.embeddings.patch_embeddings, config.patch_size)"
    if reason is not None:
        raise UnsupportedError(
            f"Models of type {config.model_type!r} are not supported as white boxes: {reason}. "
            "Wrap its predictions instead: didact.teacher_from_function(…)."
        )


def fitting_task(model: PreTrainedModel, task: Task | None) -> Task:
    """The task of the model's head, or the one asked for where the head can do it."""
    head_task = task_of(model)
    if task is None or task == head_task:
        return head_task
    if (task.head, task.problem_type) == (head_task.head, head_task.problem_type):
        return task
    raise OptionError(f"{type(model).__name__} has a head for {head_task}, and cannot do {task}.")


def class_names(model: PreTrainedModel, task: Task, classes: Sequence[str] | None) -> tuple[str, ...] | None:
    if not task.has_classes:
        return None
    config_names = [str(model.config.id2label[index]) for index in range(model.config.num_labels)]
    if classes is not None and len(classes) != len(config_names):
        raise OptionError(f"{len(classes)} class names were given, but the model has {len(config_names)} outputs.")
    output_names = tuple(config_names if classes is None else classes)
    if len(set(output_names)) < len(output_names):
        raise OptionError(
            f"The model names a class twice: {', '.join(output_names)}. Name its outputs, "
            "load_teacher(…, classes=[…]), or correct id2label in its config.json."
        )
    return output_names


def max_input_length(model: PreTrainedModel, tokenizer: Any, requested: int | None) -> int:
    limit = getattr(model.config, "max_position_embeddings", None) or 0
    limit = limit if limit > 0 else 1_000_000  # XLNet says -1: as many as there are
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if isinstance(table, nn.Embedding) and table.padding_idx is not None:
        limit -= table.padding_idx + 1  # RoBERTa counts positions from behind its padding index
    limit = min(limit, getattr(tokenizer, "model_max_length", None) or limit)
    if requested is None:
        return int(limit)
    if requested > limit:
        raise OptionError(f"max_length {requested} was asked for, but the model reads {limit} tokens at most.")
    special_tokens = (
        tokenizer.num_special_tokens_to_add(pair=True) if hasattr(tokenizer, "num_special_tokens_to_add") else 0
    )
    if requested <= special_tokens:
        raise OptionError(f"max_length {requested} leaves no room for words beside {special_tokens} special tokens.")
    return requested


def transformer_layers(model: PreTrainedModel) -> Sequence[nn.Module]:
    """The transformer layers: the list that has as many as the configuration says, or ALBERT's groups."""
    lists = [module for module in model.base_model.modules() if isinstance(module, nn.ModuleList) and len(module)]
    for layer_count in (
        getattr(model.config, "num_hidden_layers", None),
        getattr(model.config, "num_hidden_groups", None),
    ):
        for layers in lists:
            if len(layers) == layer_count:
                return tuple(layers)
    raise UnsupportedError(f"The layers of {type(model).__name__} were not found; this architecture is not supported.")
