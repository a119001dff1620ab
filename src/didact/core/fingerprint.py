"""A cache of the fingerprints of models, valid while none of their tensors changes."""

from typing import Any
from weakref import WeakKeyDictionary

from didact.core.teacher import Teacher

_CACHE: WeakKeyDictionary[Teacher, tuple[Any, str]] = WeakKeyDictionary()


def cached_fingerprint(teacher: Teacher) -> str | None:
    """The fingerprint of a model, cached until a tensor is changed or replaced; None if it depends on answers.

    torch does not count changes through `.data`. Call `invalidate_fingerprint` after them.
    """
    if teacher.is_identified_by_answers:
        return None
    state = tuple((tensor.data_ptr(), tensor._version) for tensor in teacher.tensors())  # int8 layers cannot change
    identity = (state, teacher.max_length, getattr(teacher, "truncate", None))
    cached = _CACHE.get(teacher)
    if cached is None or cached[0] != identity:
        cached = _CACHE[teacher] = (identity, teacher.fingerprint(()))
    return cached[1]


def invalidate_fingerprint(teacher: Teacher) -> None:
    """Drop the cached fingerprint, so that the next call computes it again.

    Weights can change unnoticed, and results on disk are named after the fingerprint.
    """
    _CACHE.pop(teacher, None)
