"""`MetricsJob`: checks what each metric needs, and computes its values for every row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from didact.core.dataset import Dataset
from didact.core.fingerprint import cached_fingerprint
from didact.core.model import Model, require_model
from didact.core.needs import obstacle
from didact.core.row import Row, Span
from didact.core.task import task_named
from didact.core.teacher import Teacher
from didact.core.truth import ExactTeacher, has_truth
from didact.core.words import marked_words
from didact.data.planted.dataset import PlantedDataset
from didact.data.planted.verify import verify
from didact.errors import OptionError
from didact.evaluation.tuned_metrics import by_tuning, scores_on_tuned_copy, tuning_obstacle
from didact.metrics import METRICS, MetricEntry
from didact.metrics.f_fidelity import FFidelity
from didact.metrics.faithfulness import Faithfulness, check_targets, faithfulness, position_units
from didact.metrics.plausibility import IouF1, Marks, Plausibility, marks_in
from didact.metrics.probe import Probe
from didact.metrics.stability import SemanticStability, Stability
from didact.metrics.truth import TruthTau
from didact.models.build import build_model
from didact.registry import parse_spec
from didact.results.evaluation import Evaluation, MetricRow, MetricTable, MetricTest
from didact.results.explanations import Explanations
from didact.stats.claims import claims
from didact.stats.contrast import row_contrasts
from didact.viz.progress import Progress

RANDOM: Final = "random"  # the name of the control with random scores


@dataclass
class MetricsJob:
    """Sets of explanations of the same rows, and what metrics need. `run` appends to `notes` what readers must know."""

    explanations: Mapping[str, Explanations]
    rows: list[Row]
    teacher: Teacher | None
    data: Any
    encoder: Any
    replace: str
    batch_size: int
    notes: list[str] = field(default_factory=list)

    @property
    def first(self) -> Explanations:
        return next(iter(self.explanations.values()))

    def applicable_metrics(self) -> dict[str, object]:
        """Every metric whose needs are met, without those that are computed only if they are named."""
        metrics = {}
        for name, entry in METRICS.items():
            if not entry.is_default:
                continue
            metric = METRICS.build(name, {})
            if self.find_obstacle(entry.needs, metric) is None:
                metrics[name] = metric
        if not metrics:
            raise OptionError(
                "No metric applies: give the teacher (for faithfulness), or data with rationales (for plausibility)."
            )
        return metrics

    def find_obstacle(self, needs: Sequence[str], metric: Any) -> str | None:
        """Why a metric cannot be computed; None if it can."""
        if ("teacher" in needs or isinstance(metric, Faithfulness)) and self.teacher is None:
            return "needs the teacher: give it (--model)"
        if (fault := general_obstacle(self.teacher, self.data, self.rows, needs, metric)) is not None:
            return fault
        if isinstance(metric, Stability | IouF1 | TruthTau) and self.first.is_image:
            return "compares words, but these rows are images"
        if "teacher" in needs and self.first.is_image and any(row.image is None for row in self.rows):
            return "needs the images, which files of explanations do not contain: give the data (--data)"
        if "encoder" in needs and self.encoder is None and (not self.teacher or obstacle(self.teacher, "embeddings")):
            return "needs an encoder to find similar rows (--encoder minilm), or a model (--model)"
        return None

    def run(self, metrics: Mapping[str, Any], progress: bool) -> Evaluation:
        """Compute all metrics. Raises `OptionError` with every reason if one cannot be computed."""
        self._check(metrics)
        values_of: dict[str, np.ndarray] = {}
        descriptions: dict[str, str] = {}
        self._ask_teacher(
            {n: m for n, m in metrics.items() if isinstance(m, Faithfulness)}, values_of, descriptions, progress
        )
        words = {name: item if item.is_image else item.words() for name, item in self.explanations.items()}
        predicted = replace(self.first, predictions=self._predictions())
        has_plausibility = any(isinstance(candidate, Plausibility) for candidate in metrics.values())
        marks = [marks_in(item, self.rows) for item in words.values()] if has_plausibility else []
        for name, metric in metrics.items():
            if isinstance(metric, Plausibility):
                pairs = zip(words.values(), marks, strict=True)
                values_of[name] = np.stack([metric(item, self.rows, item_marks) for item, item_marks in pairs])
                descriptions[name] = "words by signed score" if metric.signed else "words by size"
            elif isinstance(metric, TruthTau):
                values_of[name] = np.stack([metric(item, self.rows, self.teacher) for item in words.values()])
                descriptions[name] = "words by score, signed where the method is"
            elif isinstance(metric, Stability):
                similar_rows = metric.near(predicted, self.rows, self._encoder(metric))
                stability = metric.with_shared_side(list(words.values()))
                values_of[name] = np.stack([stability(item, self.rows, similar_rows) for item in words.values()])
                descriptions[name] = stability.description
            elif name not in values_of:
                values_of[name] = np.array(
                    [
                        [
                            _custom_value(name, metric, explained, row)
                            for explained, row in zip(method_rows, self.rows, strict=True)
                        ]
                        for method_rows in self.explanations.values()
                    ]
                )
        heading = "plausibility"
        if has_plausibility or any(isinstance(candidate, TruthTau) for candidate in metrics.values()):
            heading = self._heading(has_plausibility)
        if has_plausibility:
            self.notes += self._unread_marks(marks[0])
        methods = tuple(self.explanations)
        values = np.stack([values_of[name] for name in metrics])
        rows = [
            row
            for (name, metric), metric_values in zip(metrics.items(), values, strict=True)
            for row in metric_rows(
                name, methods, metric_values, better=entry_of(name, metric).better, bounds=self._bounds(name, metric),
                how=descriptions.get(name, ""),
            )
        ]  # fmt: skip
        tests = [
            test
            for name, metric_values in zip(metrics, values, strict=True)
            for test in metric_tests(name, methods, metric_values)
        ]
        table = MetricTable(tuple(rows), tuple(tests), heading, tuple(self.notes), len(self.first))
        return Evaluation(tuple(metrics), methods, self.first.ids, values, descriptions, table)

    def _check(self, metrics: Mapping[str, Any]) -> None:
        """Raise `OptionError` with the reason of every metric that cannot be computed."""
        faults = [
            f"{name}: it {fault}."
            for name, metric in metrics.items()
            if (fault := self.find_obstacle(entry_of(name, metric).needs, metric)) is not None
        ]
        if faults:
            raise OptionError(" ".join([f"{len(faults)} of {len(metrics)} metrics cannot be computed.", *faults]))
        if self.teacher is not None and any(isinstance(candidate, Faithfulness) for candidate in metrics.values()):
            for explanations in self.explanations.values():
                check_targets(explanations, self.teacher)

    def _bounds(self, name: str, metric: Any) -> tuple[float, float]:
        """The bounds of the metric. The change of a regression score has no upper bound."""
        if isinstance(metric, Faithfulness) and self.teacher is not None and self.teacher.classes is None:
            return 0.0, float("inf")
        return entry_of(name, metric).bounds

    def _predictions(self) -> tuple[str, ...]:
        """The predicted class of each row: from the teacher, or else from the explanations."""
        if self.teacher is not None and self.teacher.classes is not None:
            outputs = self.teacher.predict(self.rows, batch_size=self.batch_size)
            return tuple(self.teacher.classes[label] for label in outputs.labels)
        predictions = [item.predictions for item in self.explanations.values()]
        return next((classes for classes in predictions if any(classes)), predictions[0])

    def _ask_teacher(
        self,
        metrics: Mapping[str, Faithfulness],
        values_of: dict[str, np.ndarray],
        descriptions: dict[str, str],
        progress: bool,
    ) -> None:
        if not metrics:
            return
        assert self.teacher is not None
        probe = Probe(self.teacher, self.rows, replace=self.replace, batch_size=self.batch_size)
        tuned = {name: metric for name, metric in metrics.items() if isinstance(metric, FFidelity)}
        plain = {name: metric for name, metric in metrics.items() if name not in tuned}
        methods = list(self.explanations.values())
        if plain:
            with Progress("scoring faithfulness", total=len(self.rows), shown=progress) as bar:
                values = faithfulness(list(plain.values()), methods, probe, done=bar.advance)
            for name, value in zip(plain, values, strict=True):
                values_of[name], descriptions[name] = value, f"units are {probe.masked.description}"
        for group in by_tuning(tuned).values():
            scores = scores_on_tuned_copy(list(group.values()), methods, probe, self.data, progress=progress)
            values_of |= dict(zip(group, scores.values, strict=True))
            descriptions |= dict.fromkeys(group, scores.how)
            self.notes.append(scores.note)
        if "no mask token" in probe.masked.description:
            self.notes.append(f"Removed units are {probe.masked.description}.")
        self.notes += self._probe_notes(probe)

    def _probe_notes(self, probe: Probe) -> Iterator[str]:
        """Notes for readers of faithfulness: an explanation of another teacher, tokens without scores."""
        teacher_fingerprint = cached_fingerprint(probe.teacher)
        for name, explanations in self.explanations.items():
            explained_fingerprint = explanations.fingerprints.get("teacher")
            if (
                teacher_fingerprint is not None
                and explained_fingerprint is not None
                and explained_fingerprint != teacher_fingerprint
            ):
                yield f"{name} explains another teacher ({explanations.teacher}) than {probe.teacher.name}."
            if probe.batch.pixels is not None or name == RANDOM:
                continue
            missing = [int((position_units(row_scores, probe, row) == len(row_scores))[probe.masked.units[row]].sum())
                       for row, row_scores in enumerate(explanations)]  # fmt: skip
            if any(missing):
                rows = sum(count > 0 for count in missing)
                yield (
                    f"{name} has no score for {sum(missing):,} tokens that the teacher reads, in {rows:,} rows; they "
                    "are never removed."
                )

    def _encoder(self, metric: Stability) -> Model | None:
        if not isinstance(metric, SemanticStability):
            return None
        if isinstance(self.encoder, str):
            task = task_named(self.first.task)
            classes = ("no", "yes") if task.has_classes else None
            data = Dataset("rows", task, {}, classes)
            self.encoder = build_model(self.encoder, data, truncate=True)
        model = self.teacher if self.encoder is None else self.encoder
        if not isinstance(model, Teacher) or obstacle(model, "embeddings") is not None:
            raise OptionError(f"encoder must be a model or the name of one (minilm), got {type(model).__name__}.")
        return require_model(model, "encoder")

    def _unread_marks(self, marks: Marks) -> Iterator[str]:
        """A note about marked words that were cut off before explaining."""
        if self.first.is_image:
            return
        spans = [[span for span in row.rationale or () if isinstance(span, Span)] for row in self.rows]
        marked_count = sum(
            sum(marked_words(row_spans, row.texts)) for row_spans, row in zip(spans, self.rows, strict=True)
        )
        explained_count = sum(int(row_marks.sum()) for row_marks in marks)
        if explained_count < marked_count:
            yield (
                f"{marked_count - explained_count:,} of {marked_count:,} marked words were not explained and are not "
                "counted."
            )

    def _heading(self, has_plausibility: bool) -> str:
        """`truth` if what scores are compared with is the truth about this teacher, else `plausibility`."""
        if isinstance(self.teacher, ExactTeacher):
            self.notes.append("truth_tau compares with the exact contributions of the teacher.")
            if not has_plausibility:
                return "truth"
        if not isinstance(self.data, PlantedDataset) or self.teacher is None:
            return "plausibility"
        verification = verify(self.teacher, self.data)
        evidence = (
            f"it kept its answer on {verification.unchanged:.1%} of rows with all unmarked words redrawn, and followed "
            f"{verification.followed:.1%} of redrawn rationales"
        )
        if verification.verified:
            self.notes.append(f"The rationales are the truth about this teacher: {evidence}.")
            return "truth"
        self.notes.append(f"The teacher is not verified ({evidence}): it may have other reasons than the rationales.")
        return "plausibility"


def general_obstacle(
    teacher: Teacher | None, data: Any, rows: Sequence[Row], needs: Sequence[str], metric: Any
) -> str | None:
    """Why a metric cannot be computed for any explanations of these rows; None if it can."""
    if "teacher" in needs and teacher is not None:
        for need in ("a class or a score", "changed rows"):
            if (fault := obstacle(teacher, need)) is not None:
                return f"needs {need}, but {fault}"
    if "rationale" in needs and not any(row.rationale for row in rows):
        return "needs rationales: give data that have some (--data)"
    if "truth" in needs and not any(has_truth(row, teacher) for row in rows):
        return (
            "needs true scores: give data that know them (--data planted/graded) or an exact teacher "
            "(teacher_from_sklearn, teacher_from_lexicon)"
        )
    if isinstance(metric, Faithfulness) and metric.needs_classes and teacher is not None:
        fault = obstacle(teacher, "classes")
        if fault is not None:
            return f"needs classes, but {fault}"
    if isinstance(metric, FFidelity) and teacher is not None:
        return tuning_obstacle(teacher, data, rows)
    return None


def entry_of(name: str, metric: Any) -> MetricEntry:
    """The registry entry of a metric. For a metric of the caller, made from its attributes."""
    registered = parse_spec(name).name
    if registered in METRICS:
        return METRICS[registered]
    bounds = getattr(metric, "bounds", (-np.inf, np.inf))
    return MetricEntry("", "faithfulness", bounds, metric.better, (), "", "")


def _custom_value(name: str, metric: Any, explained: Any, row: Row) -> float:
    """The value of a metric of the caller for one explanation; NaN for None."""
    try:
        value = metric(explained, row)
    except Exception as error:
        raise OptionError(f"Metric {name!r} raised {type(error).__name__} for row {row.id!r}: {error}") from error
    try:
        return float("nan") if value is None else float(value)
    except (TypeError, ValueError):
        raise OptionError(f"Metric {name!r} must return one number per row (or None), got {value!r}.") from None


def metric_rows(
    metric: str,
    methods: Sequence[str],
    values: Float[np.ndarray, "method row"],
    *,
    better: str,
    bounds: tuple[float, float],
    how: str = "",
) -> Iterator[MetricRow]:
    """One line per method: the mean over rows with its 95 % interval, and the rows with and without a value."""
    for method, (mean, *ends, count) in zip(methods, row_means(values), strict=True):
        # With few rows, an interval may exceed the bounds of the metric.
        low, high = np.clip(ends, *bounds).tolist()
        yield MetricRow(method, metric, mean, low, high, count, values.shape[1] - count, better, how)


def row_means(values: Float[np.ndarray, "_ row"]) -> Iterator[tuple[float, float, float, int]]:
    """For each line: the mean over rows with a value, its 95 % interval, and the number of these rows."""
    for line, contrast in zip(values, row_contrasts(values), strict=True):
        finite = line[np.isfinite(line)]
        ends = (np.nan, np.nan) if contrast is None else contrast.interval()
        yield float(finite.mean()) if len(finite) else np.nan, *ends, len(finite)


def metric_tests(metric: str, methods: Sequence[str], values: Float[np.ndarray, "method row"]) -> Iterator[MetricTest]:
    """Test each pair of methods on the rows that both have: the mean difference, its interval and p.

    The pairs of one metric are one family of claims (docs/compare.md states the rule). Only rows vary here, not seeds.
    """
    pairs = list(combinations(range(len(methods)), 2))
    if not pairs:
        return
    # Differences at rounding level count as 0.
    gaps = np.round(np.stack([values[first] - values[second] for first, second in pairs]), 12)
    contrasts = row_contrasts(gaps)
    family = iter(claims([contrast for contrast in contrasts if contrast is not None], over_seeds=False))
    for (first, second), gap, contrast in zip(pairs, gaps, contrasts, strict=True):
        finite = gap[np.isfinite(gap)]
        test = MetricTest(
            metric, methods[first], methods[second], float(finite.mean()) if len(finite) else np.nan, np.nan, np.nan,
            len(finite),
        )  # fmt: skip
        if contrast is not None:
            claim = next(family)
            test = replace(test, low=claim.low, high=claim.high, p=claim.p, claimed=claim.claimed)
        yield test
