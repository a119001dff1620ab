"""One call tells how far explanation methods agree with one another, over rows, teachers and seeds. No torch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from didact.errors import DataError, OptionError, ShapeError
from didact.experiment.agreement import Agreement
from didact.metrics.agreement import agreement, compared, parsed
from didact.records.explanations import Explanations
from didact.registry import Spec

LEVELS: Final = ("token", "word")
TOGETHER: Final = "all"  # the name of the one group of everything


def agree(
    explanations: Explanations | Iterable[Explanations | str | Path],
    measure: str = "kendall",
    *,
    by: str = "auto",
    level: str | None = None,
    groups: str | Sequence[str] | None = None,
) -> Agreement:
    """How far methods agree about the same rows, all pairs of them.

    `explanations` are sets or files of them; rows are matched by id. `measure` is one of kendall, spearman, pearson,
    weighted_tau, top_overlap(k=0.1), top_tau(k=0.1), sign. `by`: `size` compares scores without their signs, `signed`
    as they are; `auto` is `size` for all but `sign`. `level="word"` joins the pieces of words first, so that models
    with other tokenizers can be compared.

    Methods are compared within a group and rows of all groups are pooled. By default a group is what explains one
    teacher on one task: give the explanations of several seeds, and their rows are pooled. `groups` names a group for
    each set instead; `groups="all"` compares everything with everything.
    """
    return agreements(explanations, [measure], by=by, level=level, groups=groups)[0]


def agreements(
    explanations: Explanations | Iterable[Explanations | str | Path],
    measures: Sequence[str],
    *,
    by: str = "auto",
    level: str | None = None,
    groups: str | Sequence[str] | None = None,
) -> list[Agreement]:
    """`agree` for several measures: sets are read and matched once."""
    asked = check_asked(measures, by=by, level=level)
    given = [explanations] if isinstance(explanations, str | Path | Explanations) else list(explanations)
    if len(given) < 2:
        raise ShapeError(f"Agreement is between methods: give at least two explanations, not {len(given)}.")
    sets = [_Set.of(one, level) for one in given]
    parts = {name: _matched(part) for name, part in _labelled(_grouped(sets, groups)).items()}
    methods = tuple(dict.fromkeys(label for part in parts.values() for label in part))
    unsigned = list(dict.fromkeys(one.maps.method for one in sets if one.maps.kind != "signed"))
    notes = {"size": _notes(parts)}
    notes["signed"] = (*notes["size"], *([f"Without signs: {', '.join(unsigned)}."] if unsigned else []))
    firsts = [(name, next(iter(part.values()))) for name, part in parts.items()]
    common: dict[str, Any] = {
        "methods": methods,
        "level": "word" if all(one.maps.options.get("level") == "word" for one in sets) else "token",
        "present": np.concatenate([[[label in parts[name] for label in methods]] * len(maps) for name, maps in firsts]),
        "ids": tuple(row for _, maps in firsts for row in maps.ids),
        "tasks": tuple(maps.task for _, maps in firsts for _ in maps.ids),
        "groups": tuple(name for name, maps in firsts for _ in maps.ids),
        "lengths": np.concatenate([np.diff(maps.bounds) for _, maps in firsts]),
    }
    return [
        Agreement(
            measure=str(spec),
            by=kind,
            values=np.concatenate([_values(part, methods, spec, by) for part in parts.values()]),
            notes=notes[kind],
            **common,
        )
        for spec, kind in asked
    ]


def check_asked(measures: Sequence[str], *, by: str = "auto", level: str | None = None) -> list[tuple[Spec, str]]:
    """Each measure with what it compares (`signed` or `size`), if all that is asked for is known."""
    if level not in (None, *LEVELS):
        raise OptionError(f"Option 'level' is 'token' or 'word', not {level!r}.")
    if not measures:
        raise OptionError("Name a measure of agreement: kendall.")
    return [(spec, compared(spec, by)) for spec in map(parsed, measures)]


def _values(
    part: Mapping[str, Explanations], methods: Sequence[str], spec: Spec, by: str
) -> Float[np.ndarray, "row method method"]:
    """The measure on a group's rows; NaN for methods that it does not have."""
    own = agreement(list(part.values()), spec, by=by, names=list(part))
    found = np.full((len(own), len(methods), len(methods)), np.nan)
    places = [methods.index(label) for label in part]
    found[np.ix_(range(len(own)), places, places)] = own
    return found


# -- which sets belong together, and what they are called -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Set:
    maps: Explanations
    file: str  # its name without ending; empty for one in memory

    @classmethod
    def of(cls, one: Explanations | str | Path, level: str | None) -> "_Set":
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


def _grouped(sets: Sequence[_Set], groups: str | Sequence[str] | None) -> dict[str, list[_Set]]:
    """Sets by the name of their group: what explains one teacher on one task, unless told otherwise."""
    if isinstance(groups, str):
        groups = [groups] * len(sets)
    if groups is None:
        names = _teachers(sets)
    elif len(groups) == len(sets):
        names = [str(name) for name in groups]
    else:
        raise OptionError(f"{len(sets)} sets of explanations need {len(sets)} names of groups, not {len(groups)}.")
    found: dict[str, list[_Set]] = {}
    for one, name in zip(sets, names, strict=True):
        found.setdefault(name, []).append(one)
    for name, part in found.items():
        if len(part) < 2:
            raise ShapeError(
                f"{part[0].maps!r} is the only set of group {name!r}, so there is nothing to compare it with; the "
                f"groups are {', '.join(found)}. A group is what explains one teacher on one task. To compare across "
                f"them, say groups={TOGETHER!r} (--together)."
            )
    return found


def _teachers(sets: Sequence[_Set]) -> list[str]:
    """The teacher of each set, with its task or fingerprint where names alone do not tell teachers apart."""
    keys = [(one.maps.teacher, one.maps.task, one.maps.fingerprints.get("teacher", "")) for one in sets]
    names = []
    for teacher, task, mark in keys:
        namesakes = [key for key in keys if key[0] == teacher]
        parts = [teacher or "unnamed"]
        parts += [task] if any(key[1] != task for key in namesakes) else []
        parts += [mark[:8] or "unmarked"] if any(key[1] == task and key[2] != mark for key in namesakes) else []
        names.append(", ".join(parts))
    return names


def _labelled(groups: Mapping[str, Sequence[_Set]]) -> dict[str, dict[str, Explanations]]:
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
        found[group] = {
            label if labels.count(label) == 1 else _told_apart(one, label, _alike(part, labels, label)): one.maps
            for one, label in zip(part, labels, strict=True)
        }
    return found


def _spec(maps: Explanations, names: set[str]) -> str:
    return str(Spec(maps.method, {name: value for name, value in maps.options.items() if name in names}))


def _alike(part: Sequence[_Set], labels: Sequence[str], label: str) -> list[_Set]:
    return [one for one, name in zip(part, labels, strict=True) if name == label]


def _told_apart(one: _Set, label: str, alike: Sequence[_Set]) -> str:
    if len({other.maps.teacher for other in alike}) == len(alike):
        return f"{label}, {one.maps.teacher}"
    if one.file and [other.file for other in alike].count(one.file) == 1:
        return one.file
    return f"{label} #{alike.index(one) + 1}"


def _matched(part: Mapping[str, Explanations]) -> dict[str, Explanations]:
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
        found[label] = maps if maps.ids == first.ids else maps.select([places[row] for row in first.ids])
    return found


def _notes(groups: Mapping[str, Mapping[str, Explanations]]) -> tuple[str, ...]:
    """What a reader would not guess: other targets, other options under one name, methods missing from a group."""
    said = []
    targets = [zip(*(maps.targets for maps in part.values()), strict=True) for part in groups.values()]
    other = sum(len(set(told)) > 1 for rows in targets for told in rows)
    if other:
        said.append(f"Not all methods explain the same target: rows in which they differ: {other:,}.")
    for label in dict.fromkeys(label for part in groups.values() for label in part):
        several = [part[label] for part in groups.values() if label in part]
        if any(maps.options != several[0].options for maps in several):
            said.append(f"{label!r} has other options in other groups.")
        if len(several) < len(groups):
            said.append(f"{label!r} is in {len(several)} of {len(groups)} groups.")
    return tuple(said)
