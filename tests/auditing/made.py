"""Audits made by hand, with known answers."""

from didact.results.audit import (
    Audit,
    AuditedEvaluator,
    AuditedExplanation,
    AuditedPair,
    AuditedValue,
    Change,
    Relation,
)
from didact.results.evidence import Evidence, EvidenceTeacher

STUDENT = AuditedEvaluator(
    "pool/attention, raw, new rows", student="pool/attention", normalisation="raw", test_set="new"
)
METRIC = AuditedEvaluator("srg", metric="srg")
OTHER_METRIC = AuditedEvaluator("sufficiency", metric="sufficiency")
STABILITY = AuditedEvaluator("iou_lexical", metric="iou_lexical")


def audit(
    name="a", pairs=(), values=(), explanations=(), evaluators=(STUDENT,), *, verified=True, is_exact=False, seeds=2,
    fingerprint=None, task="classification",
):  # fmt: skip
    teacher = EvidenceTeacher(
        "native", fingerprint or f"teacher of {name}", "planted/sentiment", verified=verified, is_exact=is_exact
    )
    evidence = Evidence(
        "audit",
        name,
        {},
        seeds=tuple(range(seeds)),
        teachers=(teacher,),
        settings={"task": task, "data": "planted/sentiment"},
    )
    return Audit(evidence, tuple(explanations), tuple(evaluators), tuple(values), tuple(pairs))


def pair(relation, difference, low=None, high=None, *, by=STUDENT, first="x", second="y", base="lime", **fields):
    """A pair with an interval of ±0.01 unless it is said."""
    low = difference - 0.01 if low is None else low
    high = difference + 0.01 if high is None else high
    return AuditedPair(by.name, relation, first, second, base, difference, low, high, **fields)


def step(difference, drop=0.1, *, damaged="rows", **fields):
    return pair(Relation.STEP, difference, auc_drop=drop, damaged=damaged, **fields)


def equal(difference, low=None, high=None, **fields):
    return pair(Relation.EQUAL, difference, low, high, **fields)


def less(difference, **fields):
    return pair(Relation.LESS, difference, **fields)


def leak(difference, control, *, first="trivial", **fields):
    return pair(Relation.LEAK, difference, first=first, second=control, base="", **fields)


def methods(areas, test_areas=None):
    """Methods with these true AUC: of students' rows, and of evaluated rows."""
    return [
        AuditedExplanation(f"m{number}", change=Change.NONE, is_method=True, train_auc=train, test_auc=test)
        for number, (train, test) in enumerate(zip(areas, test_areas or areas, strict=True))
    ]


def values(numbers, by=STUDENT):
    return [AuditedValue(by.name, f"m{number}", value) for number, value in enumerate(numbers)]
