"""`didact.agree`: measures how far explanation methods agree, over rows, teachers and seeds.

Needs torch only for measures that run the teacher (`prediction`).
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

if TYPE_CHECKING:  # torch is imported only where the teacher runs
    from didact.metrics.probe import Probe

SINGLE_GROUP: Final = "all"  # the name of the group that contains all sets


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
    """Measure how far methods agree about the same rows, for all pairs of methods.

    Methods are compared within a group, and the rows of all groups are pooled. By default a group holds the
    explanations of one teacher on one task, so the explanations of several seeds can be given at once.

    Args:
        explanations: Sets of explanations, or files of them. Files of other tools are read onto `data`. Rows are
            matched by id.
        measure: kendall, spearman, pearson, weighted_tau, top_overlap(k=0.1), top_tau(k=0.1), sign, or
            prediction(k=0.3, replace=mask).
        by: `size` compares scores without their signs, `signed` with them. `auto` is `signed` for the measures sign and
            prediction, and `size` for all others.
        level: `word` joins the pieces of words first, so that models with different tokenizers can be compared.
        groups: The group of each set, or `"all"` to compare every set with every other.
        teacher: The model that was explained; needed for `prediction`, which asks what it predicts from the units that
            a method ranks first.
        data: The rows, for files of other tools and for `prediction`.
        batch_size: Perturbed rows per forward pass, for `prediction`.

    Returns:
        An `Agreement`. It is no sign of being right: two methods can agree and both be wrong.

    Examples:
        ```python
        data = didact.load_data("planted/sentiment")
        teacher = didact.load_teacher("runs/demo/teacher")
        sets = [didact.explain(teacher, data["test"][:10], name) for name in ("gradient_norm", "gradient_input", "lrp")]
        print(didact.agree(sets).table())
        ```
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
    """Run `agree` for several measures, but read and match the sets once."""
    specs = check_measures(measures, by=by, level=level, has_teacher=teacher is not None)
    sources = [explanations] if isinstance(explanations, str | Path | Explanations) else list(explanations)
    if len(sources) < 2:
        raise ShapeError(f"Agreement compares methods: give at least two explanations, got {len(sources)}.")
    check_sets(sources)
    opened, import_notes = _open(sources, data, teacher)
    sets = [ExplanationSet.of(source, level) for source in opened]
    matched = {name: match_rows(group) for name, group in label_sets(_grouped(sets, groups)).items()}
    methods = tuple(dict.fromkeys(label for group in matched.values() for label in group))
    unsigned = list(dict.fromkeys(item.explanations.method for item in sets if item.explanations.kind != "signed"))
    notes = {"size": (*import_notes, *_notes(matched))}
    notes["signed"] = (*notes["size"], *([f"Without signs: {', '.join(unsigned)}."] if unsigned else []))
    first_sets = [(name, next(iter(group.values()))) for name, group in matched.items()]
    common: dict[str, Any] = {
        "methods": methods,
        "level": "word" if all(item.explanations.options.get("level") == "word" for item in sets) else "token",
        "present": np.concatenate(
            [[[label in matched[name] for label in methods]] * len(first) for name, first in first_sets]
        ),
        "ids": tuple(row for _, first in first_sets for row in first.ids),
        "tasks": tuple(first.task for _, first in first_sets for _ in first.ids),
        "groups": tuple(name for name, first in first_sets for _ in first.ids),
        "lengths": np.concatenate([np.diff(first.bounds) for _, first in first_sets]),
    }
    results = []
    for spec, kind in specs:
        entry = AGREEMENT[spec.name]
        probes = _probes(matched, spec, teacher, batch_size) if entry.needs_teacher else {}
        values = [_values(group, methods, spec, by, probes.get(name)) for name, group in matched.items()]
        probe_notes = tuple(
            dict.fromkeys(note for name, probe in probes.items() for note in _probe_notes(probe, matched[name]))
        )
        result = Agreement(
            measure=str(spec), by=kind, values=np.concatenate(values), description=entry.about,
            undefined=entry.undefined, lowest=float(entry.bounds[0]), notes=(*notes[kind], *probe_notes), **common,
        )  # fmt: skip
        results.append(result)
    return results


def check_measures(
    measures: Sequence[str], *, by: str = "auto", level: str | None = None, has_teacher: bool = False
) -> list[tuple[Spec, str]]:
    """Parse each measure and choose what it compares (`signed` or `size`).

    Raises `OptionError` for an unknown measure or level, and for a measure that needs a teacher if none is passed.
    """
    if level not in (None, *LEVELS):
        raise OptionError(f"level must be 'token' or 'word', got {level!r}.")
    if not measures:
        raise OptionError("Name at least one agreement measure, such as kendall.")
    specs = [(spec, resolve_by(spec, by)) for spec in map(parse_measure, measures)]
    for spec, _ in specs:
        if AGREEMENT[spec.name].needs_teacher and not has_teacher:
            raise OptionError(missing_teacher_message(spec))
    return specs


def _open(sources: Sequence[Any], data: Any, teacher: Any) -> tuple[Sequence[Any], list[str]]:
    """Read files of other tools, which needs the data and torch. Also returns warnings about them."""
    if all(isinstance(source, Explanations) or is_explanations_parquet(Path(source)) for source in sources):
        return sources, []
    from didact.data.load import load_data
    from didact.explaining.read_explanations import open_sets
    from didact.models.load import load_teacher

    loaded = load_data(data) if isinstance(data, str | Path) else data
    return open_sets(sources, loaded, None if teacher is None else load_teacher(teacher))


def _values(
    group: Mapping[str, Explanations], methods: Sequence[str], spec: Spec, by: str, probe: "Probe | None"
) -> Float[np.ndarray, "row method method"]:
    """The measure on the rows of a group; NaN for methods that the group lacks."""
    group_values = agreement(list(group.values()), spec, by=by, names=list(group), probe=probe)
    values = np.full((len(group_values), len(methods), len(methods)), np.nan)
    indices = [methods.index(label) for label in group]
    values[np.ix_(range(len(group_values)), indices, indices)] = group_values
    return values


def _probes(
    groups: Mapping[str, Mapping[str, Explanations]], spec: Spec, teacher: Any, batch_size: int
) -> "dict[str, Probe]":
    """A probe of the teacher for the rows of each group."""
    from didact.models.load import load_teacher

    teachers = {
        (explanations.teacher, explanations.fingerprints.get("teacher"))
        for group in groups.values()
        for explanations in group.values()
    }
    if len(groups) > 1 and len(teachers) > 1:
        raise OptionError(
            f"Measure {str(spec)!r} runs the teacher that was explained, but these sets explain {len(teachers)} "
            f"teachers, in the groups {', '.join(groups)}. Compare the sets of one teacher at a time."
        )
    measure, loaded_teacher = AGREEMENT.load(spec.name)(**spec.options), load_teacher(teacher)
    return {
        name: measure.probe(loaded_teacher, next(iter(group.values())), batch_size=batch_size)
        for name, group in groups.items()
    }


def _probe_notes(probe: "Probe", group: Mapping[str, Explanations]) -> list[str]:
    """How units were removed, and whether the teacher is the one that was explained."""
    from didact.core.fingerprint import cached_fingerprint

    notes = [f"Removed units are {probe.masked.description}."]
    explained = {
        explanations.fingerprints["teacher"]
        for explanations in group.values()
        if "teacher" in explanations.fingerprints
    }
    if (fingerprint := cached_fingerprint(probe.teacher)) is not None and explained - {fingerprint}:
        notes.append(f"The teacher of this measure, {probe.teacher.name}, is not the one that was explained.")
    return notes


# -- groups of sets, and their names -------------------------------------------------------------


def _grouped(sets: Sequence[ExplanationSet], groups: str | Sequence[str] | None) -> dict[str, list[ExplanationSet]]:
    """Sets by the name of their group. By default, a group explains one teacher on one task."""
    if isinstance(groups, str):
        groups = [groups] * len(sets)
    if groups is None:
        names = _default_groups(sets)
    elif len(groups) == len(sets):
        names = [str(name) for name in groups]
    else:
        raise OptionError(f"{len(sets)} sets of explanations need {len(sets)} group names, got {len(groups)}.")
    grouped: dict[str, list[ExplanationSet]] = {}
    for item, name in zip(sets, names, strict=True):
        grouped.setdefault(name, []).append(item)
    for name, group in grouped.items():
        if len(group) < 2:
            raise ShapeError(
                f"{group[0].explanations!r} is the only set in group {name!r}, so there is nothing to compare it with. "
                f"The groups are {', '.join(grouped)}; each explains one teacher on one task. To compare across "
                f"groups, use groups={SINGLE_GROUP!r} (--together)."
            )
    return grouped


def _default_groups(sets: Sequence[ExplanationSet]) -> list[str]:
    """The teacher of each set, with its task or fingerprint where the name is ambiguous.

    A set of another tool without a teacher joins the group of its task, if there is exactly one.
    """
    keys = [
        (item.explanations.teacher, item.explanations.task, item.explanations.fingerprints.get("teacher", ""))
        for item in sets
    ]
    for index, (name, task, fingerprint) in enumerate(keys):
        candidates = {key for key in keys if key[1] == task and any((key[0], key[2]))}
        if not name and not fingerprint and len(candidates) == 1:
            keys[index] = candidates.pop()
    names = []
    for teacher, task, fingerprint in keys:
        namesakes = [key for key in keys if key[0] == teacher]
        label_parts = [teacher or "unnamed"]
        label_parts += [task] if any(key[1] != task for key in namesakes) else []
        label_parts += (
            [fingerprint[:8] or "unmarked"]
            if any(key[1] == task and key[2] != fingerprint for key in namesakes)
            else []
        )
        names.append(", ".join(label_parts))
    return names


def _notes(groups: Mapping[str, Mapping[str, Explanations]]) -> tuple[str, ...]:
    """Notes about different targets, different options under one name, and methods missing from a group."""
    notes = []
    targets = [
        zip(*(explanations.targets for explanations in group.values()), strict=True) for group in groups.values()
    ]
    differing = sum(len(set(row_targets) - {""}) > 1 for rows in targets for row_targets in rows)
    if differing:
        notes.append(f"Not all methods explain the same target. Rows with different targets: {differing:,}.")
    unknown = [
        label for group in groups.values() for label, explanations in group.items() if not all(explanations.targets)
    ]
    if unknown and any(any(explanations.targets) for group in groups.values() for explanations in group.values()):
        notes.append(
            f"Target unknown: {', '.join(dict.fromkeys(unknown))}. It is assumed to be that of the other methods. Read "
            "the scores with teacher= or target= to set it."
        )
    for label in dict.fromkeys(label for group in groups.values() for label in group):
        sets = [group[label] for group in groups.values() if label in group]
        if any(explanations.options != sets[0].options for explanations in sets):
            notes.append(f"{label!r} has different options in different groups.")
        if len(sets) < len(groups):
            notes.append(f"{label!r} is in {len(sets)} of {len(groups)} groups.")
    return tuple(notes)
