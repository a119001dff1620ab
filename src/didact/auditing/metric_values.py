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
from didact.core.perturb import DEFAULT
from didact.core.row import Row
from didact.core.teacher import Teacher
from didact.data.subset import subset
from didact.errors import DidactError, OptionError, RecordError
from didact.evaluation.evaluate import run_evaluation
from didact.evaluation.metrics_job import MetricsJob, general_obstacle
from didact.explaining.cache import ExplanationCache
from didact.files.store import key_of
from didact.metrics import METRICS, MetricEntry
from didact.registry import parse_spec
from didact.results.audit import AuditedEvaluator
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

    `seconds` is the time per explained row, for all metrics together. `notes` name methods that could not explain.
    """

    rows: Sequence[Row] = ()
    explanations: Mapping[str, Explanations] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, Float[np.ndarray, " row"]]] = field(default_factory=dict)
    seconds: float | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def measure(
        cls, plan: AuditConfig, teacher: Teacher, data: Dataset, names: Sequence[str], folder: Path
    ) -> "MetricValues":
        """Explain the rows and compute all metrics, or read what an equal audit stored in the folder of its run."""
        if not plan.eval_rows:
            return cls()
        rows = _evaluated_rows(plan, data)
        explanations, notes = _explain(plan, teacher, data, names, rows, folder / _FOLDER)
        metrics = _metrics(plan.metrics, teacher, data, rows, explanations)
        if not metrics:
            return cls(rows, explanations, notes=notes)
        computed = _evaluate(metrics, teacher, data, explanations, folder / _FOLDER, progress=plan.progress)
        values = {
            metric: {
                method: (1 if _entry(metric).better == "higher" else -1) * np.array(row_values, dtype=np.float64)
                for method, row_values in zip(computed.methods, metric_values, strict=True)
            }
            for metric, metric_values in zip(computed.metrics, computed.values, strict=True)
        }
        return cls(rows, explanations, values, computed.seconds, notes)


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


def _evaluated_rows(plan: AuditConfig, data: Dataset) -> list[Row]:
    pool = data["test"].rows
    size = min(plan.eval_rows or 0, len(pool))
    return [pool[index] for index in sorted(subset([row.id for row in pool], size=size, seed=0))]


def check_metrics(plan: AuditConfig, teacher: Teacher, data: Dataset) -> None:
    """Raise `OptionError` if a metric that is named cannot be computed with this teacher and these rows."""
    if not plan.eval_rows:
        return
    rows = _evaluated_rows(plan, data)
    named = [name for name in plan.metrics if name not in (ALL_METRICS, NO_METRICS)]
    faults = [
        f"{name}: it {fault}."
        for name in named
        if (fault := general_obstacle(teacher, data, rows, _entry(name).needs, METRICS.build(*_spec(name)))) is not None
    ]
    if faults:
        raise OptionError(" ".join([f"{len(faults)} of {len(named)} metrics cannot be computed.", *faults]))


def _spec(metric: str) -> tuple[str, Mapping[str, object]]:
    spec = parse_spec(metric)
    return spec.name, spec.options


def _metrics(
    names: tuple[str, ...],
    teacher: Teacher,
    data: Dataset,
    rows: Sequence[Row],
    explanations: Mapping[str, Explanations],
) -> tuple[str, ...]:
    """The metrics that are named, or all that are computed without the truth. Metrics of plausibility know it."""
    if names == (NO_METRICS,) or not explanations:
        return ()
    named = tuple(name for name in names if name != ALL_METRICS)
    if ALL_METRICS not in names:
        return named
    job = MetricsJob(explanations, list(rows), teacher, data, None, DEFAULT, batch_size=1)  # runs nothing
    applicable = [
        name
        for name, entry in METRICS.items()
        if entry.is_default
        and entry.measures != "plausibility"
        and job.find_obstacle(entry.needs, METRICS.build(name, {})) is None
    ]
    return tuple(dict.fromkeys([*applicable, *named]))


def _explain(
    plan: AuditConfig, teacher: Teacher, data: Dataset, names: Sequence[str], rows: Sequence[Row], folder: Path
) -> tuple[dict[str, Explanations], tuple[str, ...]]:
    """The explanations of these rows by name, from files in the folder, and notes about methods that failed."""
    folder.mkdir(parents=True, exist_ok=True)
    outputs = teacher.predict(list(rows))
    background = data["explain"] if "explain" in data else data["train"]
    cache = ExplanationCache(folder, teacher, teacher.fingerprint(rows, outputs), background, outputs, plan.progress)
    explanations: dict[str, Explanations] = {}
    notes = []
    for name in names:
        try:
            file = cache.explain(name, rows, label=name)
        except RecordError:
            raise
        except DidactError as error:
            notes.append(f"Metrics do not judge {name}, which could not explain the test rows: {error}")
            continue
        explanations[name] = replace(Explanations.load(folder / file.name), method=name)
    return explanations, tuple(notes)


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
        {**versions(), "named": {name: _entry(name).version for name in metrics}}
        | {"explanations": content, "rows": list(first.ids)}
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
