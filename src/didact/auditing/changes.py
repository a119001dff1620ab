"""The explanations of an audit: the methods, changed versions of some of them, and leaks."""

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Final

from didact.results.audit import AuditedExplanation, Change, Relation

# Scores at another sharpness. The factor is a power of two, so that multiplying rounds nothing.
SAME: Final = ("tempered(base={}, t=0.25)", "tempered(base={}, t=4)", "ranked(base={})", "scaled(base={}, factor=8)")
LESS: Final = ("blurred(base={})", "top(base={}, k=0.2)")
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
    """All explanations of an audit, each once."""
    listed = [AuditedExplanation(name, is_method=True) for name in methods]
    for base in bases:
        listed += _changes_of(base, damage, damaged, is_method=base in methods)
    listed += [AuditedExplanation(name, change=Change.LEAK) for name in leaks]
    by_name: dict[str, AuditedExplanation] = {}
    for explanation in listed:
        if explanation.name not in by_name or explanation.change == Change.START:  # a base that is a method, too
            by_name[explanation.name] = explanation
    return list(by_name.values())


def start_of(base: str) -> str:
    """What the changed versions of a base are compared with."""
    return f"degraded(base={base}, share=0)" if base == MARKS else base


def _changes_of(
    base: str, damage: Sequence[float], damaged: Sequence[str], *, is_method: bool
) -> Iterator[AuditedExplanation]:
    start = start_of(base)
    yield AuditedExplanation(start, base, Change.START, is_method=is_method and start == base)
    for by in damaged:
        for share in damage:
            name = f"degraded(base={base}, by={by}, share={share:g})"
            yield AuditedExplanation(name, base, Change.DAMAGE, share, by)
    # Marks have no scale: `scaled` would send them as they are, not as the magnitudes that they start from.
    same = [name for name in SAME if base != MARKS or not name.startswith("scaled")]
    for change, names in ((Change.SAME, same), (Change.LESS, LESS)):
        for name in names:
            yield AuditedExplanation(name.format(base), base, change)


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
