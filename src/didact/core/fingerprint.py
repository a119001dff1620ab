"""Hashes that tell teachers apart: of a model's weights, or of what anything else answers."""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from torch import Tensor

from didact.core.function import FunctionTeacher
from didact.core.human import HumanTeacher
from didact.core.model import Model
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.teacher import Teacher
from didact.files.store import key_of

_REMEMBERED: WeakKeyDictionary[Model, tuple[Any, str]] = WeakKeyDictionary()


def teacher_fingerprint(teacher: Teacher, rows: Sequence[Row], outputs: Outputs | None = None) -> str:
    """A hash of a model, computed now; of other teachers, of their answers to these rows (`outputs`, if known).

    A change of weights through `.data` leaves no trace that torch counts, so the remembered hash is not used.
    """
    if isinstance(teacher, Model):
        return teacher.fingerprint()
    if isinstance(teacher, FunctionTeacher):
        return teacher.fingerprint(rows, outputs)
    if isinstance(teacher, HumanTeacher):
        return teacher.name  # its answers are the rows' labels, which rows are known by
    outputs = teacher.predict(rows) if outputs is None else outputs
    classes = None if teacher.classes is None else list(teacher.classes)
    answers = None if outputs.answers is None else [list(texts) for texts in outputs.answers]
    values = np.round(outputs.values, 6).tolist()
    return key_of({"task": teacher.task.name, "classes": classes, "values": values, "answers": answers})


def remembered_fingerprint(teacher: Teacher) -> str | None:
    """A model's hash, remembered while none of its tensors is changed or replaced; None for a function.

    A function is known by its answers alone. Other teachers go by their name.
    """
    if not isinstance(teacher, Model):
        return None if isinstance(teacher, FunctionTeacher) else teacher.name
    tensors = [value for value in teacher.state_dict(keep_vars=True).values() if isinstance(value, Tensor)]
    state = tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)  # int8 layers cannot be changed in place
    facts = (state, teacher.max_length, teacher.truncate)
    known = _REMEMBERED.get(teacher)
    if known is None or known[0] != facts:
        known = _REMEMBERED[teacher] = (facts, teacher.fingerprint())
    return known[1]


def forget_fingerprint(teacher: Teacher) -> None:
    """Have the next hash computed anew: weights can be changed unseen, and what is kept for long is named after it."""
    if isinstance(teacher, Model):
        _REMEMBERED.pop(teacher, None)
