"""Labels sets of explanations and matches their rows. Needs no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, product
from pathlib import Path
from typing import Final

import numpy as np

from didact.errors import DataError, OptionError, ShapeError
from didact.registry import Spec
from didact.results.explanations import Explanations
from didact.results.ragged import bounds_of, row_of_units
from didact.results.words import UNIT_COLUMNS

LEVELS: Final = ("token", "word")


@dataclass(frozen=True, eq=False)
class ExplanationSet:
    """Explanations and the file they were read from."""

    explanations: Explanations
    file: str  # its name without suffix; empty for explanations in memory

    @classmethod
    def of(cls, source: Explanations | str | Path, level: str | None) -> "ExplanationSet":
        explanations = source if isinstance(source, Explanations) else Explanations.load(source)
        file = "" if isinstance(source, Explanations) else Path(source).stem
        if level == "word":
            explanations = explanations.words()
        elif level == "token" and explanations.options.get("level") == "word":
            raise OptionError(
                f"{file or explanations.method!r} has scores of words, which cannot be split into "
                "tokens. Compare words (level='word'), or explain again with level='token'."
            )
        return cls(explanations, file)


def check_sets(sources: Sequence[object]) -> None:
    """Raise an error for anything that is neither `Explanations` nor the path of a file."""
    for source in sources:
        if not isinstance(source, Explanations | str | Path):
            raise OptionError(
                f"Expected Explanations or the path of a file, got {type(source).__name__}. Read an object of another "
                "tool first: didact.read_explanations(object, rows)."
            )


def label_sets(groups: Mapping[str, Sequence[ExplanationSet]]) -> dict[str, dict[str, Explanations]]:
    """Label each set by its method, and by what distinguishes it from others of that method in its group.

    That is the options in which they differ; if these are equal, the teacher, the file, or a number.
    """
    differing: dict[str, set[str]] = {}
    for sets in groups.values():
        for item, other in product(sets, sets):
            if item.explanations.method == other.explanations.method:
                item_options, other_options = item.explanations.options, other.explanations.options
                names = {
                    name
                    for name in item_options
                    if name not in other_options or item_options[name] != other_options[name]
                }
                differing.setdefault(item.explanations.method, set()).update(names)
    labelled_groups = {}
    for group, sets in groups.items():
        labels = [_label(item.explanations, differing[item.explanations.method]) for item in sets]
        distinct = [
            label if labels.count(label) == 1 else _distinguish(item, label, _namesakes(sets, labels, label))
            for item, label in zip(sets, labels, strict=True)
        ]
        unique = [name if distinct.count(name) == 1 else f"{name} #{index + 1}" for index, name in enumerate(distinct)]
        labelled_groups[group] = {name: item.explanations for name, item in zip(unique, sets, strict=True)}
    return labelled_groups


def _label(explanations: Explanations, names: set[str]) -> str:
    return str(
        Spec(explanations.method, {name: value for name, value in explanations.options.items() if name in names})
    )


def _namesakes(sets: Sequence[ExplanationSet], labels: Sequence[str], label: str) -> list[ExplanationSet]:
    return [item for item, name in zip(sets, labels, strict=True) if name == label]


def _distinguish(item: ExplanationSet, label: str, candidates: Sequence[ExplanationSet]) -> str:
    if len({other.explanations.teacher for other in candidates}) == len(candidates):
        return f"{label}, {item.explanations.teacher}"
    if item.file and [other.file for other in candidates].count(item.file) == 1:
        return item.file
    return f"{label} #{candidates.index(item) + 1}"


def match_rows(group: Mapping[str, Explanations]) -> dict[str, Explanations]:
    """Match the rows of all sets by id, in the order of the first set.

    Raises `DataError` if the sets explain different rows or texts, or if an id occurs twice.
    """
    name, first = next(iter(group.items()))
    if not len(first):
        raise ShapeError(f"{name!r} explains no rows.")
    matched = {}
    for label, explanations in group.items():
        indices = {row: index for index, row in enumerate(explanations.ids)}
        if len(indices) < len(explanations):
            duplicate = next(row for index, row in enumerate(explanations.ids) if indices[row] != index)
            raise DataError(f"Rows are matched by id, but {label!r} has id {duplicate!r} more than once.")
        expected = set(first.ids)
        missing = [f"{row!r} is not in {label!r}" for row in first.ids if row not in indices]
        extra = [f"{row!r} is not in {name!r}" for row in explanations.ids if row not in expected]
        if missing or extra:
            raise DataError(
                f"Methods are compared on the same rows: {name!r} explains {len(first):,} rows, {label!r} "
                f"{len(explanations):,}, and they share {len(first) - len(missing):,}. Explain the same rows, or "
                "choose them with explanations.select(indices).",
                missing + extra,
            )
        ordered = (
            explanations if explanations.ids == first.ids else explanations.select([indices[row] for row in first.ids])
        )
        changed = [
            row
            for row, first_texts, texts in zip(first.ids, first.texts, ordered.texts, strict=True)
            if first_texts != texts
        ]
        if changed:
            raise DataError(f"{len(changed):,} rows have other texts in {label!r} than in {name!r}:", changed)
        matched[label] = ordered
    return matched


def without_special(explanations: Explanations) -> Explanations:
    """Drop special tokens: people cannot mark them, and metrics cannot remove them."""
    inside = explanations.segments >= 0
    if explanations.is_image or inside.all():
        return explanations
    counts = np.bincount(row_of_units(explanations.bounds)[inside], minlength=len(explanations))
    columns = {name: getattr(explanations, name)[inside] for name in UNIT_COLUMNS if name != "tokens"}
    tokens = tuple(compress(explanations.tokens, inside.tolist()))
    return explanations.derive(bounds=bounds_of(counts), tokens=tokens, **columns)
