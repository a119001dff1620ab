"""The training rows of a student: the same for every explainer. Larger subsets contain the smaller ones."""

import hashlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int


def subset(ids: Sequence[str], *, size: int, seed: int) -> Int[np.ndarray, " chosen"]:
    """The indices of `size` rows. They depend on the seed and the ids, never on the order of the rows."""
    order = sorted(range(len(ids)), key=lambda row: hashlib.sha256(f"{seed}\n{ids[row]}".encode()).digest())
    return np.array(order[:size], dtype=np.int64)


def balanced_counts(counts: Sequence[int], size: int) -> list[int]:
    """The number of rows of each class in a subset of `size` rows, as balanced as `counts` allow.

    Every class contributes the same number, or all its rows; the others make up for what is missing. The largest class
    never contributes more than all others together. Two classes are therefore equal, and the total may be below `size`.
    """
    chosen = [0] * len(counts)
    remaining = size
    while remaining > 0:
        open_classes = [index for index, count in enumerate(counts) if chosen[index] < count]
        if not open_classes:
            break
        share = max(remaining // len(open_classes), 1)
        for index in open_classes[: remaining if remaining < len(open_classes) else None]:
            step = min(share, counts[index] - chosen[index])
            chosen[index] += step
            remaining -= step
    largest = max(range(len(counts)), key=lambda index: chosen[index], default=None)
    if largest is not None:
        other_count = sum(chosen) - chosen[largest]
        chosen[largest] = min(chosen[largest], other_count) if other_count else chosen[largest]
    return chosen


def balanced_subset(ids: Sequence[str], labels: Sequence[int], *, size: int, seed: int) -> Int[np.ndarray, " chosen"]:
    """Like `subset`, with the classes in `labels` as balanced as possible (`balanced_counts`)."""
    names = sorted(set(labels))
    members = {name: [row for row, label in enumerate(labels) if label == name] for name in names}
    counts = balanced_counts([len(members[name]) for name in names], size)
    chosen = []
    for name, count in zip(names, counts, strict=True):
        chosen_members = subset([ids[row] for row in members[name]], size=count, seed=seed)
        chosen += [members[name][index] for index in chosen_members]
    order = subset([ids[row] for row in chosen], size=len(chosen), seed=seed)
    return np.array([chosen[index] for index in order], dtype=np.int64)


def draw_subset(
    ids: Sequence[str], *, size: int, seed: int, labels: Sequence[int] | None = None
) -> Int[np.ndarray, " chosen"]:
    """The indices of a student's rows; balanced by class if `labels` are passed."""
    if labels is None:
        return subset(ids, size=size, seed=seed)
    return balanced_subset(ids, labels, size=size, seed=seed)
