"""Hashes that tell teachers apart, remembered while nothing of a teacher changes."""

from typing import Any
from weakref import WeakKeyDictionary

from didact.core.teacher import Teacher

_CACHE: WeakKeyDictionary[Teacher, tuple[Any, str]] = WeakKeyDictionary()


def cached_fingerprint(teacher: Teacher) -> str | None:
    """A model's hash, remembered while none of its tensors is changed or replaced; None if answers alone tell it.

    A change of weights through `.data` leaves no trace that torch counts: see `forget_fingerprint`.
    """
    if teacher.is_identified_by_answers:
        return None
    state = tuple((tensor.data_ptr(), tensor._version) for tensor in teacher.tensors())  # int8 layers cannot be changed
    identity = (state, teacher.max_length, getattr(teacher, "truncate", None))
    cached = _CACHE.get(teacher)
    if cached is None or cached[0] != identity:
        cached = _CACHE[teacher] = (identity, teacher.fingerprint(()))
    return cached[1]


def invalidate_fingerprint(teacher: Teacher) -> None:
    """Have the next hash computed anew: weights can be changed unseen, and what is kept for long is named after it."""
    _CACHE.pop(teacher, None)
