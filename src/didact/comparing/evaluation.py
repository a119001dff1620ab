"""Scores the methods of a comparison with all other metrics, on some rows of the test split, for the report.

docs/decisions/016-report.md describes the document that is written.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from didact import __version__
from didact.comparing.methods import ComparedMethod, Role
from didact.comparing.run_inputs import LabelledSplit
from didact.comparing.setup import Setup
from didact.core.outputs import Outputs
from didact.core.row import Row, fingerprint_of
from didact.data.subset import subset
from didact.errors import DidactError, RecordError
from didact.evaluation.agree import agreements
from didact.evaluation.cost import cost_of
from didact.evaluation.evaluate import run_evaluation
from didact.explaining.cache import ExplanationCache, Method
from didact.explaining.dataset import ExplainShards
from didact.files.atomic import ensure_parent, write_bytes
from didact.files.store import key_of
from didact.metrics import METRICS
from didact.metrics.agreement import AGREEMENT
from didact.registry import parse_spec
from didact.results.agreement import Agreement
from didact.results.evaluation import MetricTable
from didact.results.explanations import Explanations
from didact.results.measured import Cost, MeasuredMethod, MeasuredRow, Measurements, SkippedMethod
from didact.viz.png import encode_png
from didact.viz.progress import Progress

VERSION: Final = 2  # part of the key; increase it when the same explanations would give another document
_FOLDER: Final = "measured"
_AGREEMENT_MEASURES: Final = ("kendall", "spearman", "top_overlap(k=0.25)")
TIMED_ROWS: Final = 16  # rows on which the cost of a method is measured


@dataclass
class MethodEvaluation:
    """Metrics, agreement and cost of the methods, on some rows of the test split.

    `labelled` is the split with the teacher's answers, `learned` holds the explainers learned in this run by label, and
    `explain_shards` lets the executor share the explaining.
    """

    setup: Setup
    folder: Path
    fingerprint: str
    labelled: LabelledSplit
    learned: Mapping[str, Any]
    progress: bool = False
    explain_shards: ExplainShards | None = None
    notes: list[str] = field(default_factory=list)
    skipped: list[SkippedMethod] = field(default_factory=list)

    def run(self, count: int) -> Measurements:
        """Evaluate `count` test rows and store the result; an equal evaluation stored before is returned instead."""
        rows = _sample_rows(self.setup, count)
        index_of = {row: index for index, row in enumerate(self.labelled.outputs.ids)}
        outputs = self.labelled.outputs.select(np.array([index_of[row.id] for row in rows], dtype=np.int64))
        setup, folder = self.setup, self.folder / _FOLDER
        cache = ExplanationCache(
            folder, setup.teacher, self.fingerprint, setup.background, outputs, self.progress, self.explain_shards
        )
        files: dict[str, str] = {}
        explanations: dict[str, Explanations] = {}
        for compared in self.setup.methods:
            file = self._explain(compared, rows, cache)
            if file is not None:
                files[compared.label] = file
                # In this document, a method has its label in the table.
                explanations[compared.label] = replace(Explanations.load(self.folder / file), method=compared.label)
        key = key_of({**versions(), "files": files, "rows": fingerprint_of(rows), "teacher": self.fingerprint})
        stored = load_measured(self.folder)
        if stored is not None and stored.key == key:
            return stored
        matrices = self._agreement(explanations)
        classes = self.setup.teacher.classes
        measured = Measurements(
            split="test",
            task=self.setup.data.task.name,
            rows=tuple(self._measured_rows(rows, outputs, matrices)),
            methods=tuple(
                MeasuredMethod(
                    compared.label, files[compared.label], explanations[compared.label].kind, compared.is_control
                )
                for compared in self.setup.methods
                if compared.label in files
            ),
            skipped=tuple(self.skipped),
            metrics=self._metrics(explanations),
            agreement=tuple(matrix.to_matrix() for matrix in matrices),
            cost=tuple(self._cost(rows)),
            notes=tuple(self.notes),
            classes=None if classes is None else tuple(classes),
            key=key,
            didact=__version__,
            folder=self.folder,
        )
        measured.save()
        return measured

    def _explain(self, compared: ComparedMethod, rows: Sequence[Row], cache: ExplanationCache) -> str | None:
        """Explain the rows and return the file; None if the method has no scores of its own or fails."""
        if not compared.has_own_scores:
            return None
        try:
            file = cache.explain(self._method(compared), rows, label=compared.label)
        except DidactError as error:
            self.skipped.append(SkippedMethod(compared.label, str(error)))
            return None
        return f"{_FOLDER}/{file.name}"

    def _method(self, compared: ComparedMethod) -> Method:
        """The method that explains the rows; for a learned explainer, the one that the run has learned."""
        if compared.role is Role.FRESH:
            if compared.label not in self.learned:
                raise RecordError("no cell of this run learned it")
            return self.learned[compared.label]
        method = compared.for_seed(self.setup.config.seeds[0])
        assert method is not None
        return method

    def _measured_rows(self, rows: Sequence[Row], outputs: Outputs, matrices: Sequence[Agreement]) -> list[MeasuredRow]:
        """The facts about each row that the report shows."""
        classes = self.setup.teacher.classes
        agreement = self._mean_agreement(matrices, len(rows))
        measured = []
        for index, row in enumerate(rows):
            has_class = classes is not None and outputs.answers is None
            label = int(outputs.labels[index]) if has_class else None
            gold = _gold_text(row, self.setup.data.classes)
            answer = _answer_text(outputs, index) if label is None or classes is None else classes[label]
            is_right = None if gold is None or label is None else gold == answer
            confidence = float(outputs.probabilities[index].max()) if has_class else None
            rationale, picture = row.rationale or (), self._picture(index, row)
            measured.append(
                MeasuredRow(row.id, gold, answer, is_right, confidence, agreement[index], rationale, picture)
            )
        return measured

    def _mean_agreement(self, matrices: Sequence[Agreement], rows: int) -> list[float | None]:
        """For each row, the mean Kendall τ between the methods, without controls."""
        if not matrices:
            return [None] * rows
        controls = {method.label for method in self.setup.methods if method.is_control}
        columns = [column for column, name in enumerate(matrices[0].methods) if name not in controls]
        first, second = np.triu_indices(len(columns), 1)
        values = matrices[0].values[:, columns][:, :, columns][:, first, second]
        return [float(np.nanmean(row_values)) if np.isfinite(row_values).any() else None for row_values in values]

    def _picture(self, index: int, row: Row) -> str | None:
        if row.image is None:
            return None
        name = f"{_FOLDER}/pictures/{index}.png"
        write_bytes(ensure_parent(self.folder / name), encode_png(row.image))
        return name

    def _metrics(self, explanations: Mapping[str, Explanations]) -> MetricTable:
        """Compute all metrics that apply to this teacher and these data."""
        if not explanations:
            return MetricTable()
        teacher = None if self.setup.teacher.reads_labels else self.setup.teacher
        with self._noting_failures("Metrics"):
            return run_evaluation(list(explanations.values()), teacher, self.setup.data, progress=self.progress).table
        return MetricTable()

    def _agreement(self, explanations: Mapping[str, Explanations]) -> list[Agreement]:
        with self._noting_failures("Agreement"):
            return (
                agreements(list(explanations.values()), _AGREEMENT_MEASURES, groups="all")
                if len(explanations) > 1
                else []
            )
        return []

    def _cost(self, rows: Sequence[Row]) -> list[Cost]:
        """Measure the cost of every method that is computed here, not read from a file."""
        names = {skipped.label for skipped in self.skipped}
        timed = [
            compared
            for compared in self.setup.methods
            if not compared.is_control
            and compared.label not in names
            and (compared.method is not None or compared.role is Role.FRESH)
        ]
        costs = []
        with Progress("measuring cost", total=len(timed), shown=self.progress) as bar:
            for compared in timed:
                method = self._method(compared)
                if not isinstance(method, Explanations) and not str(method).endswith(".parquet"):
                    with self._noting_failures(f"Cost of {compared.label}"):
                        cost = cost_of(self.setup.teacher, rows[:TIMED_ROWS], [method])[0]
                        costs.append(replace(cost, method=compared.label))
                bar.advance()
        return costs

    @contextlib.contextmanager
    def _noting_failures(self, subject: str) -> Iterator[None]:
        """Turn a failure into a note, so that the other measurements continue."""
        try:
            yield
        except DidactError as error:
            self.notes.append(f"{subject} could not be measured: {error}")


def is_evaluated(setup: Setup, folder: Path, count: int) -> bool:
    """Whether the folder holds an evaluation of `count` rows for every method of the table."""
    stored = load_measured(folder)
    if stored is None or [row.id for row in stored.rows] != [row.id for row in _sample_rows(setup, count)]:
        return False
    labels = {method.label for method in stored.methods} | {method.label for method in stored.skipped}
    return labels >= {method.label for method in setup.methods if method.has_own_scores}


def _sample_rows(setup: Setup, count: int) -> list[Row]:
    """A random sample of the test rows (some data sets are sorted), in the order of the data."""
    pool = setup.held_out("test")
    return [pool[index] for index in sorted(subset([row.id for row in pool], size=min(count, len(pool)), seed=0))]


def versions() -> dict[str, object]:
    """The versions of all metrics and measures that are computed, part of the key of the stored scores."""
    measures = {name: AGREEMENT[parse_spec(name).name].version for name in _AGREEMENT_MEASURES}
    metrics: dict[str, object] = {name: entry.version for name, entry in METRICS.items() if entry.is_default}
    metrics |= {name: local.code for name, local in METRICS.local.items()}
    return {"version": VERSION, "metrics": metrics, "agreement": measures}


def load_measured(folder: Path) -> Measurements | None:
    """The stored evaluation of a run; None if it is missing or unreadable."""
    try:
        return Measurements.load(folder)
    except RecordError:
        return None


def _gold_text(row: Row, classes: Sequence[str] | None) -> str | None:
    """The gold label of a row as text."""
    if row.label is None:
        return None
    if isinstance(row.label, tuple):
        return " | ".join(row.text_of(span) for span in row.answers)
    return f"{row.label:.3f}" if classes is None else classes[int(row.label)]


def _answer_text(outputs: Outputs, index: int) -> str:
    """The teacher's answer as text, for tasks without classes."""
    if outputs.answers is not None:
        return " | ".join(map(str, outputs.answers[index]))
    return f"{outputs.values[index, 0]:.3f}"
