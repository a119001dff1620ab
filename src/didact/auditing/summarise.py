"""`didact.summarise_audits`: counts the right and wrong answers of evaluators over audits of several teachers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from statistics import fmean

import numpy as np

from didact.errors import OptionError
from didact.metrics import METRICS
from didact.registry import parse_spec
from didact.results.audit import Audit, AuditedEvaluator, AuditedPair, Relation
from didact.results.audit_summary import MIN_DROP, AuditSummary, EvaluatorScore, Mean, best_first
from didact.stats.ranking import kendall

_MIN_METHODS = 3  # fewer have no ranking worth a τ


def summarise_audits(audits: Iterable[Audit | Path | str]) -> AuditSummary:
    """Count the answers of all evaluators, over audits of several teachers and data sets.

    Args:
        audits: Audits, or the files that they were saved in. Their evaluators are matched by name: student, target
            normalisation and test set, or metric.

    Returns:
        An `AuditSummary` with one score per evaluator. Its intervals are Student's t over the audits.

    Raises:
        OptionError: There is no audit, or the same one twice.
        RecordError: A file is damaged, or holds no audit.

    Examples:
        ```python
        audits = [
            didact.audit(
                "runs/demo/teacher", f"planted/sentiment(seed={seed})", ["occlusion"], ["pool/attention"],
                bases=["occlusion"], normalisations=["raw"], metrics=["srg"], train_sizes=60, seeds=2, workers=0,
            )
            for seed in (0, 1)
        ]
        print(didact.summarise_audits(audits).table())
        ```
    """
    loaded = [audit if isinstance(audit, Audit) else Audit.load(audit) for audit in audits]
    if not loaded:
        raise OptionError("There is no audit: give at least one, or its file.")
    contents: set[str] = set()
    for audit in loaded:
        content = audit.to_evidence().fingerprint
        if content in contents:
            raise OptionError(f"The audit {audit.name!r} is given twice, which would narrow the intervals.")
        contents.add(content)
    results: dict[str, list[_Answers]] = {}
    for audit in loaded:
        for evaluator in audit.evaluators:
            results.setdefault(evaluator.name, []).append(_Answers.count(audit, evaluator))
    scores = [_score(answers) for answers in results.values()]
    scores = [_with_lead(score, results) for score in scores]
    return AuditSummary(
        scores=best_first(scores),
        audits=tuple(audit.name for audit in loaded),
        tasks=tuple(dict.fromkeys(audit.task for audit in loaded)),
        data=tuple(dict.fromkeys(str(audit.evidence.settings.get("data", "")) for audit in loaded)),
        teachers=len({audit.teacher.fingerprint for audit in loaded}),
        seeds=min(len(audit.evidence.seeds) for audit in loaded),
        knows_truth=all(audit.knows_truth for audit in loaded),
        left_out=tuple(
            f"{audit.name}: {name} ({'metrics' if is_metric else 'students'})"
            for audit in loaded
            for is_metric in (False, True)
            for name in _uneven_series(audit, [item for item in audit.evaluators if item.is_metric == is_metric])
        ),
    )


@dataclass(frozen=True, eq=False)
class _Answers:
    """The answers of one evaluator in one audit: its pairs that count, and its ranking of the methods."""

    audit: Audit
    evaluator: AuditedEvaluator
    steps: Sequence[AuditedPair]
    equal: Sequence[AuditedPair]
    by_construction: int
    less: Sequence[AuditedPair]
    leaks: Sequence[AuditedPair]
    tau: float | None
    span: float | None
    methods: int = 0
    right: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "right", sum(pair.difference > 0 for pair in self.steps if pair.difference is not None)
        )

    @classmethod
    def count(cls, audit: Audit, evaluator: AuditedEvaluator) -> "_Answers":
        pairs = [pair for pair in audit.pairs_by_evaluator.get(evaluator.name, ()) if pair.difference is not None]
        by_relation = {relation: [pair for pair in pairs if pair.relation == relation] for relation in Relation}
        uneven = _uneven_series(audit, [evaluator])
        steps = [
            pair
            for pair in by_relation[Relation.STEP]
            if _series_name(pair) not in uneven
            and (not audit.knows_truth or (pair.auc_drop is not None and pair.auc_drop >= MIN_DROP))
        ]
        equal = [pair for pair in by_relation[Relation.EQUAL] if not pair.by_construction]
        leaks = by_relation[Relation.LEAK]
        tau, span, methods = _ranking(audit, evaluator)
        constructed = len(by_relation[Relation.EQUAL]) - len(equal)
        return cls(audit, evaluator, steps, equal, constructed, by_relation[Relation.LESS], leaks, tau, span, methods)

    @property
    def differ(self) -> int:
        return sum(_excludes_zero(pair) for pair in self.equal)

    @property
    def move(self) -> float | None:
        return fmean(abs(pair.difference or 0.0) for pair in self.equal) if self.equal else None


def _score(answers: Sequence[_Answers]) -> EvaluatorScore:
    first = answers[0].evaluator
    steps = [pair for item in answers for pair in item.steps]
    references = [item.evaluator.reference for item in answers if item.evaluator.reference is not None]
    seconds = [item.evaluator.seconds for item in answers if item.evaluator.seconds is not None]
    spans = [item.span for item in answers if item.span is not None]
    return EvaluatorScore(
        name=first.name,
        student=first.student,
        normalisation=first.normalisation,
        test_set=first.test_set,
        is_metric=first.is_metric,
        audits=len(answers),
        steps=len(steps),
        steps_right=sum(item.right for item in answers),
        steps_wrong=sum(pair.high is not None and pair.high < 0 for pair in steps),
        equal=sum(len(item.equal) for item in answers),
        equal_differ=sum(item.differ for item in answers),
        by_construction=sum(item.by_construction for item in answers),
        less=sum(len(item.less) for item in answers),
        less_win=sum(_is_ahead(pair) for item in answers for pair in item.less),
        leaks=sum(len(item.leaks) for item in answers),
        leaks_win=sum(_is_ahead(pair) for item in answers for pair in item.leaks),
        right=_mean([item.right / len(item.steps) for item in answers if item.steps]),
        differ=_mean([item.differ / len(item.equal) for item in answers if item.equal]),
        move=_mean([item.move for item in answers if item.move is not None]),
        tau=_mean([item.tau for item in answers if item.tau is not None]),
        span=fmean(spans) if spans else None,
        reference=fmean(references) if references else None,
        seconds=fmean(seconds) if seconds else None,
        methods=min((item.methods for item in answers), default=0),
        unlearned=sum(not item.evaluator.learned for item in answers),
    )


def _with_lead(score: EvaluatorScore, results: dict[str, list[_Answers]]) -> EvaluatorScore:
    """Add the lead in τ over the faithfulness metric that has the highest mean τ with the same teachers.

    Metrics that are undefined for some of the methods rank fewer, and are not compared. An audit of students and one of
    metrics may be two files.
    """
    ranked = {item.audit.teacher.fingerprint: item for item in results[score.name] if item.tau is not None}
    if score.is_metric or not ranked:
        return score
    leads: list[Mean] = []
    for metric, answers in results.items():
        if not answers[0].evaluator.is_metric or not _is_of_faithfulness(metric):
            continue
        differences = [
            (judged.tau or 0.0) - item.tau
            for item in answers
            if (judged := ranked.get(item.audit.teacher.fingerprint)) is not None
            and item.tau is not None
            and item.methods == judged.methods
        ]
        if len(differences) == len(ranked) and (lead := _mean(differences)) is not None:
            leads.append(lead)
    return replace(score, tau_lead=min(leads, key=lambda lead: lead.value)) if leads else score


def _is_of_faithfulness(metric: str) -> bool:
    """False for metrics that are not registered here, too: those of another package, or of another process."""
    name = parse_spec(metric).name
    return name in METRICS and METRICS[name].measures == "faithfulness"


def _ranking(audit: Audit, evaluator: AuditedEvaluator) -> tuple[float | None, float | None, int]:
    """Kendall's τ of the values of all methods with their true AUC, the span of the values, and the methods ranked."""
    areas = {
        item.name: item.test_auc if evaluator.is_metric else item.train_auc
        for item in audit.explanations
        if item.is_method
    }
    values = {
        item.explainer: item.value
        for item in audit.values_by_evaluator.get(evaluator.name, ())
        if item.explainer in areas and item.value is not None
    }
    span = max(values.values()) - min(values.values()) if values else None
    ranked = [name for name in values if areas[name] is not None]
    if not audit.knows_truth or len(ranked) < _MIN_METHODS:
        return None, span, len(values)
    tau = kendall(
        np.array([values[name] for name in ranked], dtype=np.float64),
        np.array([areas[name] for name in ranked], dtype=np.float64),
    )
    return (None if np.isnan(tau) else tau), span, len(ranked)


def _series_name(pair: AuditedPair) -> str:
    return f"{pair.base}, by {pair.damaged}"


def _uneven_series(audit: Audit, evaluators: Iterable[AuditedEvaluator]) -> list[str]:
    """Series of damage whose true AUC, on the rows that these evaluators are given, does not fall at every step."""
    if not audit.knows_truth:
        return []
    steps = [
        pair
        for evaluator in evaluators
        for pair in audit.pairs_by_evaluator.get(evaluator.name, ())
        if pair.relation == Relation.STEP
    ]
    key = _series_name
    return [
        name
        for name, pairs in groupby(sorted(steps, key=key), key=key)
        if any(pair.auc_drop is None or pair.auc_drop <= 0 for pair in pairs)
    ]


def _excludes_zero(pair: AuditedPair) -> bool:
    return _is_ahead(pair) or (pair.high is not None and pair.high < 0)


def _is_ahead(pair: AuditedPair) -> bool:
    return pair.low is not None and pair.low > 0


def _mean(values: Sequence[float]) -> Mean | None:
    """The mean with its t interval; None without values."""
    from scipy.special import stdtrit

    if not values:
        return None
    mean = fmean(values)
    if len(values) == 1:
        return Mean(mean, by_audit=tuple(values))
    margin = float(stdtrit(len(values) - 1, 0.975)) * float(np.std(values, ddof=1)) / np.sqrt(len(values))
    return Mean(mean, float(mean - margin), float(mean + margin), tuple(values))
