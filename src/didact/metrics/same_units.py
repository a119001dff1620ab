"""Checks that methods explain the same units of the same rows."""

from collections.abc import Sequence

import numpy as np

from didact.errors import ShapeError
from didact.results.explanations import Explanations


def check_same_units(explanations: Sequence[Explanations], names: Sequence[str]) -> None:
    """Raise `ShapeError`, with the first such row, if two methods did not score the same units."""
    if len(explanations) < 2:
        raise ShapeError(f"Agreement is between methods: pass at least two explanations, got {len(explanations)}.")
    first = explanations[0]
    for other, name in zip(explanations[1:], names[1:], strict=True):
        if other.ids != first.ids:
            raise ShapeError(f"{names[0]!r} and {name!r} do not explain the same rows in the same order.")
        row = _first_difference(first, other)
        if row is None:
            continue
        first_row, other_row = first[row], other[row]
        if first_row.texts != other_row.texts:
            raise ShapeError(
                f"{names[0]!r} and {name!r} explain different texts under the same id: row {first_row.id!r} reads "
                f"{_excerpt(first_row.texts)} here and {_excerpt(other_row.texts)} there."
            )
        raise ShapeError(
            f"{names[0]!r} and {name!r} score different units: row {first_row.id!r} has {len(first_row)} here "
            f"({_excerpt(first_row.tokens)}) "
            f"and {len(other_row)} there ({_excerpt(other_row.tokens)}). Join pieces to words (level='word'), or "
            "explain both with "
            "the same tokenizer and the same options level and special."
        )


def _first_difference(first: Explanations, other: Explanations) -> int | None:
    if first.task != other.task:
        raise ShapeError(f"{first!r} and {other!r} are of tasks {first.task} and {other.task}: compare them apart.")
    differs = np.array(
        [first_texts != other_texts for first_texts, other_texts in zip(first.texts, other.texts, strict=True)],
        dtype=bool,
    )
    differs |= np.diff(first.bounds) != np.diff(other.bounds)
    stop = int(np.flatnonzero(differs)[0]) if differs.any() else len(first)  # rows before it are comparable
    units = int(first.bounds[stop])
    units_differ = first.segments[:units] != other.segments[:units]
    units_differ |= (first.offsets[:units] != other.offsets[:units]).any(1)
    if units_differ.any():
        return int(np.searchsorted(first.bounds, np.flatnonzero(units_differ)[0], side="right")) - 1
    return stop if stop < len(first) else None


def _excerpt(texts: Sequence[str]) -> str:
    words = " | ".join(texts)
    return repr(words if len(words) <= 40 else words[:39] + "…")
