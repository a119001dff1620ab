"""The explanations of an audit: the methods, changed versions of some of them, and leaks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Final

from didact.registry import Spec
from didact.results.audit import AuditedExplanation, Change, Relation

# Scores at another sharpness. The factor is a power of two, so that multiplying rounds nothing.
SAME: Final = (
    Spec("tempered", {"t": 0.25}),
    Spec("tempered", {"t": 4}),
    Spec("ranked"),
    Spec("scaled", {"factor": 8}),
)
LESS: Final = (Spec("blurred"), Spec("top", {"k": 0.2}))
LEAKS: Final = ("trivial", "leak_count")
# A method with marks: a change of their size would not reach students, so that its changes start from magnitudes.
MARKS: Final = "human"


def audited_explanations(
    methods: Sequence[str],
    bases: Sequence[str],
    *,
    damage: Sequence[float],
    damaged: Sequence[str],
    leaks: Sequence[str],
) -> list[AuditedExplanation]:
    """All explanations of an audit, each once. A method that is also a changed version, or a leak, is both."""
    listed = [AuditedExplanation(name) for name in methods]
    for base in bases:
        listed += _changes_of(base, damage, damaged)
    listed += [AuditedExplanation(name, change=Change.LEAK) for name in leaks]
    by_name: dict[str, AuditedExplanation] = {}
    for explanation in listed:
        listed_before = by_name.get(explanation.name)
        if listed_before is None or listed_before.change == Change.NONE:
            by_name[explanation.name] = replace(explanation, is_method=explanation.name in methods)
    return list(by_name.values())


def start_of(base: str) -> str:
    """What the changed versions of a base are compared with."""
    return str(Spec("degraded", {"base": base, "share": 0})) if base == MARKS else base


def _changes_of(base: str, damage: Sequence[float], damaged: Sequence[str]) -> Iterator[AuditedExplanation]:
    """The start of a base and its changed versions, under the names that a comparison gives them."""
    yield AuditedExplanation(start_of(base), base, Change.START)
    for by in damaged:
        for share in damage:
            name = str(Spec("degraded", {"base": base, "by": by, "share": share}))
            yield AuditedExplanation(name, base, Change.DAMAGE, share, by)
    # Marks have no scale: `scaled` would send them as they are, not as the magnitudes that they start from.
    same = [spec for spec in SAME if base != MARKS or spec.name != "scaled"]
    for change, specs in ((Change.SAME, same), (Change.LESS, LESS)):
        for spec in specs:
            yield AuditedExplanation(str(Spec(spec.name, {"base": base, **spec.options})), base, change)


def audited_pairs(
    explanations: Sequence[AuditedExplanation], reference: str
) -> Iterator[tuple[Relation, str, str, str, str]]:
    """All questions about these explanations: relation, first, second, base, and what is damaged.

    Leaks are compared with the `reference` of the evaluator: `none` for students, `random` for metrics.
    """
    for start in (item for item in explanations if item.change == Change.START):
        changed = [item for item in explanations if item.base == start.base]
        for by in dict.fromkeys(item.damaged for item in changed if item.change == Change.DAMAGE):
            series = [item for item in changed if item.change == Change.DAMAGE and item.damaged == by]
            for first, second in pairwise([start, *sorted(series, key=lambda item: item.level)]):
                yield Relation.STEP, first.name, second.name, start.base, by
        same = [start, *(item for item in changed if item.change == Change.SAME)]
        for first, second in combinations(same, 2):
            yield Relation.EQUAL, first.name, second.name, start.base, ""
        for item in changed:
            if item.change == Change.LESS:
                yield Relation.LESS, item.name, start.name, start.base, ""
    for item in explanations:
        if item.change == Change.LEAK:
            yield Relation.LEAK, item.name, reference, "", ""
