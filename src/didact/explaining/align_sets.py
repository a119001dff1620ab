"""Sets of explanations side by side: what they are called, and whether they are about the same rows. No torch."""

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
    """Explanations, and where they came from."""

    maps: Explanations
    file: str  # its name without ending; empty for one in memory

    @classmethod
    def of(cls, one: Explanations | str | Path, level: str | None) -> "ExplanationSet":
        maps = one if isinstance(one, Explanations) else Explanations.load(one)
        file = "" if isinstance(one, Explanations) else Path(one).stem
        if level == "word":
            maps = maps.words()
        elif level == "token" and maps.options.get("level") == "word":
            raise OptionError(
                f"{file or maps.method!r} has scores of words, and words cannot be taken apart again. "
                "Compare words (level='word'), or explain it anew with level='token'."
            )
        return cls(maps, file)


def check_sets(several: Sequence[object]) -> None:
    """An error for what is neither a set nor a file of one."""
    for one in several:
        if not isinstance(one, Explanations | str | Path):
            raise OptionError(
                f"Explanations are sets, or files of them, not {type(one).__name__}. What another tool holds in memory "
                "is read first: didact.read_explanations(object, rows)."
            )


def label_sets(groups: Mapping[str, Sequence[ExplanationSet]]) -> dict[str, dict[str, Explanations]]:
    """Each set under its method, with what tells it from others of that method in its group.

    That is the options in which they differ; then the teacher, the file, or a number.
    """
    differing: dict[str, set[str]] = {}
    for part in groups.values():
        for one, other in product(part, part):
            if one.maps.method == other.maps.method:
                mine, theirs = one.maps.options, other.maps.options
                names = {name for name in mine if name not in theirs or mine[name] != theirs[name]}
                differing.setdefault(one.maps.method, set()).update(names)
    found = {}
    for group, part in groups.items():
        labels = [_spec(one.maps, differing[one.maps.method]) for one in part]
        named = [
            label if labels.count(label) == 1 else _told_apart(one, label, _alike(part, labels, label))
            for one, label in zip(part, labels, strict=True)
        ]
        unique = [name if named.count(name) == 1 else f"{name} #{place + 1}" for place, name in enumerate(named)]
        found[group] = {name: one.maps for name, one in zip(unique, part, strict=True)}
    return found


def _spec(maps: Explanations, names: set[str]) -> str:
    return str(Spec(maps.method, {name: value for name, value in maps.options.items() if name in names}))


def _alike(part: Sequence[ExplanationSet], labels: Sequence[str], label: str) -> list[ExplanationSet]:
    return [one for one, name in zip(part, labels, strict=True) if name == label]


def _told_apart(one: ExplanationSet, label: str, alike: Sequence[ExplanationSet]) -> str:
    if len({other.maps.teacher for other in alike}) == len(alike):
        return f"{label}, {one.maps.teacher}"
    if one.file and [other.file for other in alike].count(one.file) == 1:
        return one.file
    return f"{label} #{alike.index(one) + 1}"


def match_rows(part: Mapping[str, Explanations]) -> dict[str, Explanations]:
    """The sets of a group with the rows of its first, in its order."""
    name, first = next(iter(part.items()))
    if not len(first):
        raise ShapeError(f"{name!r} explains no rows.")
    found = {}
    for label, maps in part.items():
        places = {row: place for place, row in enumerate(maps.ids)}
        if len(places) < len(maps):
            twice = next(row for place, row in enumerate(maps.ids) if places[row] != place)
            raise DataError(f"Rows are matched by id, and {label!r} has id {twice!r} more than once.")
        known = set(first.ids)
        missing = [f"{row!r} is not in {label!r}" for row in first.ids if row not in places]
        extra = [f"{row!r} is not in {name!r}" for row in maps.ids if row not in known]
        if missing or extra:
            raise DataError(
                f"Methods are compared on the same rows: {name!r} explains {len(first):,} and {label!r} {len(maps):,}, "
                f"of which {len(first) - len(missing):,} are the same. Explain the same rows, or choose them with "
                "maps.select(indices).",
                missing + extra,
            )
        ordered = maps if maps.ids == first.ids else maps.select([places[row] for row in first.ids])
        other = [row for row, one, two in zip(first.ids, first.texts, ordered.texts, strict=True) if one != two]
        if other:
            raise DataError(f"{len(other):,} rows have other texts in {label!r} than in {name!r}:", other)
        found[label] = ordered
    return found


def without_special(maps: Explanations) -> Explanations:
    """The same without units that stand in no text: special tokens can be neither marked nor taken away."""
    inside = maps.segments >= 0
    if maps.is_image or inside.all():
        return maps
    counts = np.bincount(row_of_units(maps.bounds)[inside], minlength=len(maps))
    columns = {name: getattr(maps, name)[inside] for name in UNIT_COLUMNS if name != "tokens"}
    tokens = tuple(compress(maps.tokens, inside.tolist()))
    return maps.derive(bounds=bounds_of(counts), tokens=tokens, **columns)
