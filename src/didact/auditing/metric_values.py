"""Metrics as evaluators: the values of every metric for all explanations of an audit, on some rows of the test split.

Plausibility is no evaluator here: it is computed from the truth that evaluators should find.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

import numpy as np
from jaxtyping import Float

from didact.auditing.config import ALL_METRICS, NO_METRICS, AuditConfig
from didact.auditing.evaluator_answers import EvaluatorAnswers
from didact.comparing.evaluation import versions
from didact.core.dataset import Dataset
from didact.core.needs import obstacle
from didact.core.row import Row
from didact.core.teacher import Teacher
from didact.data.subset import subset
from didact.errors import DidactError, RecordError
from didact.evaluation.evaluate import run_evaluation
from didact.explaining.cache import ExplanationCache
from didact.files.store import key_of
from didact.metrics import METRICS, MetricEntry
from didact.registry import parse_spec
from didact.results.audit import AuditedEvaluator, AuditedExplanation
from didact.results.contrast import Contrast
from didact.results.documents import Document, load_document, save_document
from didact.results.explanations import Explanations
from didact.stats.contrast import row_contrasts

VERSION: Final = 1
RANDOM: Final = "random"
_FOLDER: Final = "audited"
_ROUNDING: Final = 12  # digits; differences at rounding level count as 0


@dataclass(frozen=True, eq=False)
class MetricValues:
    """The evaluated rows with their explanations, and the values of every metric, oriented so that higher is better.

    `seconds` is the time per explained row, for all metrics together.
    """

    rows: Sequence[Row] = ()
    explanations: Mapping[str, Explanations] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, Float[np.ndarray, " row"]]] = field(default_factory=dict)
    seconds: float | None = None

    @classmethod
    def measure(
        cls, plan: AuditConfig, teacher: Teacher, data: Dataset, audited: Sequence[AuditedExplanation], folder: Path
    ) -> "MetricValues":
        """Explain the rows and compute all metrics, or read what an equal audit stored in the folder of its run."""
        if not plan.eval_rows:
            return cls()
        pool = data["test"]
        rows = [pool[index] for index in sorted(subset(pool.ids, size=min(plan.eval_rows, len(pool)), seed=0))]
        explanations = _explain(plan, teacher, data, [item.name for item in audited], rows, folder / _FOLDER)
        metrics = _metrics(plan, teacher)
        if not metrics:
            return cls(rows, explanations)
        computed = _evaluate(metrics, teacher, data, explanations, folder / _FOLDER, progress=plan.progress)
        values = {
            metric: {
                method: (1 if _entry(metric).better == "higher" else -1) * np.array(row_values, dtype=np.float64)
                for method, row_values in zip(computed.methods, metric_values, strict=True)
            }
            for metric, metric_values in zip(computed.metrics, computed.values, strict=True)
        }
        return cls(rows, explanations, values, computed.seconds)


@dataclass(frozen=True, eq=False)
class _Computed(Document):
    """The values of metrics as they are stored: by metric, method and row; None if undefined."""

    metrics: tuple[str, ...]
    methods: tuple[str, ...]
    values: Sequence[Sequence[Sequence[float | None]]]
    seconds: float


def metric_evaluators(measured: MetricValues) -> Iterator[EvaluatorAnswers]:
    """One evaluator per metric. Values are relative to random scores."""
    for metric, values in measured.values.items():
        reference = values.get(RANDOM)
        evaluator = AuditedEvaluator(
            name=metric,
            metric=metric,
            reference=None if reference is None or not np.isfinite(reference).any() else float(np.nanmean(reference)),
            seconds=measured.seconds,
        )
        yield EvaluatorAnswers(evaluator, RANDOM, partial(_contrast, values))


def _contrast(values: Mapping[str, Float[np.ndarray, " row"]], first: str, second: str) -> Contrast | None:
    if first not in values or second not in values:
        return None
    return row_contrasts(np.round(values[first] - values[second], _ROUNDING)[None])[0]


def _entry(metric: str) -> MetricEntry:
    return METRICS[parse_spec(metric).name]


def _metrics(plan: AuditConfig, teacher: Teacher) -> tuple[str, ...]:
    """The metrics that are named, or all that are computed without the truth. Metrics of plausibility know it."""
    if plan.metrics == (NO_METRICS,):
        return ()
    named = tuple(name for name in plan.metrics if name != ALL_METRICS)
    for name in named:
        _entry(name)
    if ALL_METRICS not in plan.metrics:
        return named
    names = [name for name, entry in METRICS.items() if entry.is_default and entry.measures != "plausibility"]
    applicable = [
        name for name in names if "encoder" not in _entry(name).needs or obstacle(teacher, "embeddings") is None
    ]
    return tuple(dict.fromkeys([*applicable, *named]))


def _explain(
    plan: AuditConfig, teacher: Teacher, data: Dataset, names: Sequence[str], rows: Sequence[Row], folder: Path
) -> dict[str, Explanations]:
    """The explanations of these rows by name, from files in the folder. A method that fails is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    outputs = teacher.predict(list(rows))
    background = data["explain"] if "explain" in data else data["train"]
    cache = ExplanationCache(folder, teacher, teacher.fingerprint(rows, outputs), background, outputs, plan.progress)
    explanations = {}
    for name in names:
        try:
            file = cache.explain(name, rows, label=name)
        except RecordError:
            raise
        except DidactError:
            continue
        explanations[name] = replace(Explanations.load(folder / file.name), method=name)
    return explanations


def _evaluate(
    metrics: Sequence[str],
    teacher: Teacher,
    data: Dataset,
    explanations: Mapping[str, Explanations],
    folder: Path,
    *,
    progress: bool,
) -> _Computed:
    """The values of all metrics, as stored by an equal audit or computed now."""
    first = next(iter(explanations.values()))
    content = {name: key_of({"scores": item.scores.tolist()}) for name, item in explanations.items()}
    key = key_of(
        {**versions(), "named": list(metrics), "explanations": content, "rows": list(first.ids)}
        | {"teacher": first.fingerprints.get("teacher", "")}
    )
    path = folder / f"metrics-{key}.json"
    try:
        return load_document(path, VERSION, _Computed.from_document, advice="Remove it and run the audit again.")
    except FileNotFoundError:
        pass
    started = monotonic()
    evaluation = run_evaluation(list(explanations.values()), teacher, data, metrics=list(metrics), progress=progress)
    seconds = (monotonic() - started) / len(first) / len(explanations)
    computed = _Computed(evaluation.metrics, evaluation.methods, evaluation.values.tolist(), seconds)
    save_document(path, computed.to_document(), VERSION)
    return computed
