"""One call tells how far explanation methods agree with one another, over rows, teachers and seeds.

No torch, unless a teacher is asked (`prediction`).
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jaxtyping import Float

from didact.errors import OptionError, ShapeError
from didact.explaining.align_sets import LEVELS, ExplanationSet, check_sets, label_sets, match_rows
from didact.metrics.agreement import AGREEMENT, agreement, missing_teacher_message, parse_measure, resolve_by
from didact.registry import Spec
from didact.results.agreement import Agreement
from didact.results.explanations import Explanations
from didact.results.explanations_parquet import is_explanations_parquet

if TYPE_CHECKING:  # torch is imported only where a teacher is asked
    from didact.metrics.probe import Probe

SINGLE_GROUP: Final = "all"  # the name of the one group of everything


def agree(
    explanations: Explanations | Iterable[Any],
    measure: str = "kendall",
    *,
    by: str = "auto",
    level: str | None = None,
    groups: str | Sequence[str] | None = None,
    teacher: Any = None,
    data: Any = None,
    batch_size: int = 64,
) -> Agreement:
    """How far methods agree about the same rows, all pairs of them.

    `explanations` are sets or files of them (of other tools, too, which are read onto `data`: a data set, its name, or
    rows); rows are matched by id. `measure` is one of kendall, spearman, pearson, weighted_tau,
    top_overlap(k=0.1), top_tau(k=0.1), sign, prediction(k=0.3, replace=mask). `by`: `size` compares scores without
    their signs, `signed` as they are; `auto` is `size` for all but `sign` and `prediction`. `level="word"`
    joins the pieces of words first, so that models with other tokenizers can be compared. `prediction` asks the
    `teacher` that was explained (a teacher, a folder, a hub name) what it predicts from the units that methods choose,
    `batch_size` altered rows at a time.

    Methods are compared within a group and rows of all groups are pooled. By default a group is what explains one
    teacher on one task: give the explanations of several seeds, and their rows are pooled. `groups` names a group for
    each set instead; `groups="all"` compares everything with everything.
    """
    return agreements(
        explanations, [measure], by=by, level=level, groups=groups, teacher=teacher, data=data, batch_size=batch_size
    )[0]


def agreements(
    explanations: Explanations | Iterable[Any],
    measures: Sequence[str],
    *,
    by: str = "auto",
    level: str | None = None,
    groups: str | Sequence[str] | None = None,
    teacher: Any = None,
    data: Any = None,
    batch_size: int = 64,
) -> list[Agreement]:
    """`agree` for several measures: sets are read and matched once."""
    asked = check_measures(measures, by=by, level=level, has_teacher=teacher is not None)
    given = [explanations] if isinstance(explanations, str | Path | Explanations) else list(explanations)
    if len(given) < 2:
        raise ShapeError(f"Agreement is between methods: give at least two explanations, not {len(given)}.")
    check_sets(given)
    read, said = _opened(given, data, teacher)
    sets = [ExplanationSet.of(one, level) for one in read]
    parts = {name: match_rows(part) for name, part in label_sets(_grouped(sets, groups)).items()}
    methods = tuple(dict.fromkeys(label for part in parts.values() for label in part))
    unsigned = list(dict.fromkeys(one.maps.method for one in sets if one.maps.kind != "signed"))
    notes = {"size": (*said, *_notes(parts))}
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
    found = []
    for spec, kind in asked:
        entry = AGREEMENT[spec.name]
        probes = _probes(parts, spec, teacher, batch_size) if entry.needs_teacher else {}
        values = [_values(part, methods, spec, by, probes.get(name)) for name, part in parts.items()]
        told = tuple(dict.fromkeys(note for name, one in probes.items() for note in _asked(one, parts[name])))
        measured = Agreement(
            measure=str(spec), by=kind, values=np.concatenate(values), description=entry.about,
            undefined=entry.undefined, lowest=float(entry.bounds[0]), notes=(*notes[kind], *told), **common,
        )  # fmt: skip
        found.append(measured)
    return found


def check_measures(
    measures: Sequence[str], *, by: str = "auto", level: str | None = None, has_teacher: bool = False
) -> list[tuple[Spec, str]]:
    """Each measure with what it compares (`signed` or `size`), if all that is asked for is known and at hand."""
    if level not in (None, *LEVELS):
        raise OptionError(f"Option 'level' is 'token' or 'word', not {level!r}.")
    if not measures:
        raise OptionError("Name a measure of agreement: kendall.")
    asked = [(spec, resolve_by(spec, by)) for spec in map(parse_measure, measures)]
    for spec, _ in asked:
        if AGREEMENT[spec.name].needs_teacher and not has_teacher:
            raise OptionError(missing_teacher_message(spec))
    return asked


def _opened(given: Sequence[Any], data: Any, teacher: Any) -> tuple[Sequence[Any], list[str]]:
    """The sets, files of other tools among them, and what must be told of these. Only they need data, or torch."""
    if all(isinstance(one, Explanations) or is_explanations_parquet(Path(one)) for one in given):
        return given, []
    from didact.data.load import load_data
    from didact.explaining.read_explanations import open_sets
    from didact.models.load import load_teacher

    loaded = load_data(data) if isinstance(data, str | Path) else data
    return open_sets(given, loaded, None if teacher is None else load_teacher(teacher))


def _values(
    part: Mapping[str, Explanations], methods: Sequence[str], spec: Spec, by: str, probe: "Probe | None"
) -> Float[np.ndarray, "row method method"]:
    """The measure on a group's rows; NaN for methods that it does not have."""
    own = agreement(list(part.values()), spec, by=by, names=list(part), probe=probe)
    found = np.full((len(own), len(methods), len(methods)), np.nan)
    places = [methods.index(label) for label in part]
    found[np.ix_(range(len(own)), places, places)] = own
    return found


def _probes(
    parts: Mapping[str, Mapping[str, Explanations]], spec: Spec, teacher: Any, batch_size: int
) -> "dict[str, Probe]":
    """The teacher, ready to be asked about the rows of each group."""
    from didact.models.load import load_teacher

    teachers = {(maps.teacher, maps.fingerprints.get("teacher")) for part in parts.values() for maps in part.values()}
    if len(parts) > 1 and len(teachers) > 1:
        raise OptionError(
            f"Measure {str(spec)!r} asks the one teacher that was explained, and these sets explain {len(teachers)}, "
            f"in the groups {', '.join(parts)}. Compare the sets of one teacher at a time."
        )
    asks, known = AGREEMENT.load(spec.name)(**spec.options), load_teacher(teacher)
    return {name: asks.probe(known, next(iter(part.values())), batch_size=batch_size) for name, part in parts.items()}


def _asked(probe: "Probe", part: Mapping[str, Explanations]) -> list[str]:
    """How the teacher was asked, and whether it is the one that was explained."""
    from didact.core.fingerprint import cached_fingerprint

    said = [f"What is taken away is {probe.masked.description}."]
    marks = {maps.fingerprints["teacher"] for maps in part.values() if "teacher" in maps.fingerprints}
    if (known := cached_fingerprint(probe.teacher)) is not None and marks - {known}:
        said.append(f"The teacher that was asked, {probe.teacher.name}, is not the one that was explained.")
    return said


# -- which sets belong together, and what they are called -------------------------------------------------------------


def _grouped(sets: Sequence[ExplanationSet], groups: str | Sequence[str] | None) -> dict[str, list[ExplanationSet]]:
    """Sets by the name of their group: what explains one teacher on one task, unless told otherwise."""
    if isinstance(groups, str):
        groups = [groups] * len(sets)
    if groups is None:
        names = _teachers(sets)
    elif len(groups) == len(sets):
        names = [str(name) for name in groups]
    else:
        raise OptionError(f"{len(sets)} sets of explanations need {len(sets)} names of groups, not {len(groups)}.")
    found: dict[str, list[ExplanationSet]] = {}
    for one, name in zip(sets, names, strict=True):
        found.setdefault(name, []).append(one)
    for name, part in found.items():
        if len(part) < 2:
            raise ShapeError(
                f"{part[0].maps!r} is the only set of group {name!r}, so there is nothing to compare it with; the "
                f"groups are {', '.join(found)}. A group is what explains one teacher on one task. To compare across "
                f"them, say groups={SINGLE_GROUP!r} (--together)."
            )
    return found


def _teachers(sets: Sequence[ExplanationSet]) -> list[str]:
    """The teacher of each set, with its task or fingerprint where names alone do not tell teachers apart.

    A set of another tool that does not tell whose it is goes with the one teacher that the others of its task explain.
    """
    keys = [(one.maps.teacher, one.maps.task, one.maps.fingerprints.get("teacher", "")) for one in sets]
    for place, (name, task, mark) in enumerate(keys):
        others = {key for key in keys if key[1] == task and any((key[0], key[2]))}
        if not name and not mark and len(others) == 1:
            keys[place] = others.pop()
    names = []
    for teacher, task, mark in keys:
        namesakes = [key for key in keys if key[0] == teacher]
        parts = [teacher or "unnamed"]
        parts += [task] if any(key[1] != task for key in namesakes) else []
        parts += [mark[:8] or "unmarked"] if any(key[1] == task and key[2] != mark for key in namesakes) else []
        names.append(", ".join(parts))
    return names


def _notes(groups: Mapping[str, Mapping[str, Explanations]]) -> tuple[str, ...]:
    """What a reader would not guess: other targets, other options under one name, methods missing from a group."""
    said = []
    targets = [zip(*(maps.targets for maps in part.values()), strict=True) for part in groups.values()]
    other = sum(len(set(told) - {""}) > 1 for rows in targets for told in rows)
    if other:
        said.append(f"Not all methods explain the same target: rows in which they differ: {other:,}.")
    unknown = [label for part in groups.values() for label, maps in part.items() if not all(maps.targets)]
    if unknown and any(any(maps.targets) for part in groups.values() for maps in part.values()):
        said.append(
            f"Target unknown: {', '.join(dict.fromkeys(unknown))}. It is taken to be that of the other methods; read "
            "the scores with teacher= or target= to set it."
        )
    for label in dict.fromkeys(label for part in groups.values() for label in part):
        several = [part[label] for part in groups.values() if label in part]
        if any(maps.options != several[0].options for maps in several):
            said.append(f"{label!r} has other options in other groups.")
        if len(several) < len(groups):
            said.append(f"{label!r} is in {len(several)} of {len(groups)} groups.")
    return tuple(said)
