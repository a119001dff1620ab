"""Resolves the option `target` (`predicted`, `gold`, `contrast`, a class) to the number of each row to explain."""

from collections.abc import Sequence
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.batch import Batch
from didact.core.human import HumanTeacher
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.target import Scale, Target
from didact.core.teacher import Differentiable, Teacher
from didact.errors import DataError, OptionError, UnknownNameError
from didact.registry import unknown_name_message

TARGETS: Final = ("predicted", "gold", "contrast")
ALL: Final = "all"  # every class; `explain` resolves it to single classes
SCALES: Final = ("logit", "probability", "log_probability")


class ClassIndex(int):
    """The index of a class, even if another class has this number as its name."""


def resolve_target(
    teacher: Teacher,
    rows: Sequence[Row],
    batch: Batch,
    logits: Float[Tensor, "batch *output"],
    *,
    target: str | int = "predicted",
    scale: str | None = None,
) -> Target:
    """The number of the output to explain, for each row.

    `target` is `predicted`, `gold`, `contrast` (the predicted class against the second most likely) or a class by name
    or index. A string is an index only if no class has this name. Regression has a single output. `logits` are those
    of `batch`; `scale` defaults to the teacher's. Raises `OptionError` for targets that the task does not have, and
    `DataError` if `gold` lacks labels.
    """
    target_scale = _resolve_scale(scale, teacher)
    task = teacher.task
    if not task.has_classes and target not in ("predicted", "gold"):
        raise OptionError(f"Target {target!r} needs classes, and task {task} has none. Choose 'predicted' or 'gold'.")
    has_logits = not task.is_per_token or logits.ndim == 3  # per token; a black box answers in characters
    if task.is_score or (target == "predicted" and has_logits):
        return task.predicted_target(logits, scale=target_scale)
    if target in ("predicted", "gold"):
        answers = _gold_answers(teacher, rows) if target == "gold" else teacher.predict(rows)
        return task.target_of(answers, batch, scale=target_scale).to(logits.device)
    if target == "contrast":
        if logits.shape[-1] < 2:
            raise OptionError("Target 'contrast' needs at least two classes.")
        first, second = logits.topk(2).indices.unbind(-1)
        return Target.contrast(first, second, scale=target_scale, activation=task.activation)
    labels = torch.full((len(batch),), _class_index(teacher, target), device=logits.device)
    return Target.label(labels, scale=target_scale, activation=task.activation)


def _resolve_scale(scale: str | None, teacher: Teacher) -> Scale:
    if scale is None:
        return teacher.default_scale
    if scale not in SCALES:
        raise OptionError(f"Option 'scale' must be one of {', '.join(map(repr, SCALES))}, got {scale!r}.")
    return scale  # type: ignore[return-value]


def _gold_answers(teacher: Teacher, rows: Sequence[Row]) -> Outputs:
    labels = HumanTeacher(teacher.task, teacher.classes)
    unlabelled = [row.id for row in rows if not labels.knows(row)]
    if unlabelled:
        raise DataError(
            f"Target 'gold' (also set by preset l2e) needs labels, and {len(unlabelled)} of {len(rows)} rows "
            "have none for this task. Choose target='predicted', or remove these rows:",
            unlabelled,
        )
    return labels.predict(rows)


def unsupported_option(teacher: Teacher, option: str, value: object) -> str | None:
    """Why the teacher does not support the value of an option that all methods share; None if it does."""
    if option in ("baseline", "replace") and not isinstance(teacher, Differentiable):
        return (
            f"Option {option!r} needs embeddings, and a function has none. Set what replaces a removed word with "
            "teacher_from_function(…, absent='[MASK]')."
        )
    if option == "scale" and value is not None and teacher.task.is_score and value != "logit":
        return f"A {teacher.task} teacher has one output and no probabilities. Leave scale={value!r} out."
    if option == "scale" and value == "logit" and teacher.default_scale == "probability":
        return f"{teacher.name!r} returns probabilities, not logits. Choose 'probability' or 'log_probability'."
    return None


def _class_index(teacher: Teacher, target: str | int) -> int:
    assert teacher.classes is not None
    if target == ALL and ALL not in teacher.classes:
        raise OptionError(
            "Target 'all' works only with didact.explain(…, target='all') and didact explain --target all. Here "
            f"one target is explained: {', '.join([*TARGETS, *teacher.classes])}."
        )
    if isinstance(target, str) and target in teacher.classes:
        return teacher.classes.index(target)
    if str(target).isdecimal() and int(target) < len(teacher.classes):
        index, name = int(target), str(target)
        is_ambiguous = name in teacher.classes and teacher.classes.index(name) != index
        if is_ambiguous and not isinstance(target, ClassIndex):
            raise OptionError(
                f"target={index} is ambiguous: the class named {name!r} (index {teacher.classes.index(name)}), or "
                f"the class at index {index}, {teacher.classes[index]!r}. Pass the name in quotes: target={name!r} or "
                f"target={teacher.classes[index]!r}."
            )
        return index
    raise UnknownNameError(unknown_name_message("target or class", str(target), [*TARGETS, *teacher.classes]))


def target_names(teacher: Teacher, rows: Sequence[Row], batch: Batch, target: Target) -> list[str]:
    """The explained target of each row in words: a class, `one against another`, `value` or the text of a span."""
    if target.kind == "value" or target.first is None:
        return ["value"] * len(rows)
    first = target.first.tolist()
    second = target.second.tolist() if target.second is not None else first
    if target.kind == "span":
        offsets = batch.offsets.tolist()
        return [
            row.texts[1][offsets[index][start][0] : offsets[index][end][1]]
            for index, (row, start, end) in enumerate(zip(rows, first, second, strict=True))
        ]
    assert teacher.classes is not None
    names = teacher.classes
    if target.kind == "contrast":
        return [f"{names[class_index]} against {names[foil]}" for class_index, foil in zip(first, second, strict=True)]
    return [names[class_index] for class_index in first]
