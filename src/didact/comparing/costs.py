"""Measures what a comparison costs on this machine: one batch per method and one epoch per kind of student."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from didact.comparing.methods import is_spec
from didact.comparing.setup import Setup
from didact.core.row import Row
from didact.core.seeds import seed_from
from didact.core.threads import torch_threads
from didact.data.subset import subset
from didact.errors import DidactError
from didact.evaluation.evaluate import run_evaluation
from didact.explaining.cache import batch_size_for
from didact.explaining.explain import explain
from didact.explaining.job import ExplainJob
from didact.explaining.score_checks import ignore_score_warnings
from didact.learning.fit import Examples, predict_examples
from didact.learning.teach import teach
from didact.results.explanations import Explanations
from didact.students.build import StudentSpec, build_strategy
from didact.viz.progress import Progress

_ROWS: Final = 32  # maximum number of rows explained to time a method
_SECONDS_PER_METHOD: Final = 1.0  # time limit for one method
_TIME_LIMIT: Final = 20.0  # seconds after which the times of the preflight are used instead
_STUDENT_ROWS: Final = 96
_EVALUATED: Final = 3


@dataclass(frozen=True)
class StudentCost:
    """Seconds per training row and epoch, and per predicted row."""

    train: float
    predict: float


@dataclass(frozen=True)
class Costs:
    """Measured times in seconds.

    Attributes:
        answer: per row that the teacher answers.
        explain: per explained row, by label of the method.
        students: by name of the student.
        evaluate: per row and method, for all other metrics.
        spent: duration of the measurement itself.
    """

    answer: float
    explain: Mapping[str, float]
    students: Mapping[str, StudentCost]
    evaluate: float
    spent: float


def measure_costs(setup: Setup, *, progress: bool = False) -> Costs:
    """Time the parts of a comparison on some of its rows. Takes seconds and stores nothing."""
    started = time.perf_counter()
    rows = _sample_rows(setup.used_rows, _ROWS)
    labels = [method.label for method in setup.methods if method.method is not None]
    labels.sort(key=lambda label: setup.probe_seconds.get(label, 0.0))
    steps = len(labels) + len(setup.students) + 2
    with Progress("measuring costs", total=steps, shown=progress) as bar, torch.inference_mode(False):
        answer = _timed(lambda: setup.teacher.predict(rows)) / len(rows)
        bar.advance()
        explaining: dict[str, float] = {}
        bases: set[str] = set()
        for label in labels:
            is_late = time.perf_counter() - started > _TIME_LIMIT
            base = _base_label(setup, label)
            is_shared = base in labels or base in bases  # a run explains with the base of a variant once
            explaining[label] = 0.0 if is_shared else _explain_cost(setup, label, rows, is_late=is_late)
            bases.add(base or label)
            bar.advance()
        students = {}
        for student in setup.students:
            students[str(student)] = _student_cost(setup, student)
            bar.advance()
        evaluating = 0.0 if setup.config.eval_rows == 0 else _evaluate_cost(setup, explaining, rows)
    return Costs(answer, explaining, students, evaluating, time.perf_counter() - started)


def _sample_rows(rows: Sequence[Row], count: int) -> list[Row]:
    return [rows[index] for index in subset([row.id for row in rows], size=count, seed=0)]


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return max(time.perf_counter() - started, 1e-6)


def _mean_length(rows: Sequence[Row]) -> float:
    return sum(len(text) for row in rows for text in row.texts) / max(len(rows), 1) or 1.0


def _explain_cost(setup: Setup, label: str, rows: Sequence[Row], *, is_late: bool) -> float:
    """Seconds per row: explain one row, now that all code is loaded, then as many as take a second.

    If the measurement is late, the time of the preflight is used. It overestimates, since the first call loads code.
    """
    compared = next(candidate for candidate in setup.methods if candidate.label == label)
    method = compared.for_seed(setup.config.seeds[0])
    if method is None or isinstance(method, Explanations) or str(method).endswith(".parquet"):
        return 0.0
    probed = setup.probe_seconds.get(label, 0.0) / 2 * _mean_length(setup.used_rows) / _mean_length(setup.used_rows[:2])
    if is_late and probed > 0:
        return probed
    batch_size = batch_size_for(setup.teacher)

    def per_row(sample: Sequence[Row]) -> float:
        started = time.perf_counter()
        with ignore_score_warnings():
            explain(setup.teacher, sample, method, background_rows=rows, batch_size=batch_size)
        return (time.perf_counter() - started) / len(sample)

    usable = [row for row in rows if compared.label != "human" or row.rationale is not None]
    try:
        seconds = per_row(usable[:1])
        count = min(len(usable), int(_SECONDS_PER_METHOD / seconds))
        return min(seconds, per_row(usable[:count])) if count > 1 else seconds
    except DidactError:  # the method fails on one of these rows; the run reports it
        return probed


def _base_label(setup: Setup, label: str) -> str:
    """The method whose scores this one changes; "" for a method that computes its own."""
    method = next(candidate for candidate in setup.methods if candidate.label == label).method
    return ExplainJob.of(setup.teacher, method).base_label if is_spec(method) else ""


def _student_cost(setup: Setup, student: StudentSpec) -> StudentCost:
    """Time one epoch with random explanations, with the threads of a worker."""
    rows = tuple(_sample_rows(setup.used_rows, _STUDENT_ROWS))
    outputs = setup.sample.answers.of(rows)
    start = setup.student_inits[student.architecture]
    training = replace(setup.training(student), epochs=1)
    with torch_threads(setup.config.threads):
        model = start.build(seed_from("costs")).to(setup.config.student_device)
        examples = Examples.of(model, rows, outputs, soft=setup.config.soft_labels)
        dev = examples.select(np.arange(min(8, len(rows))))
        strategy = build_strategy(student.strategy)
        explanations = None
        if student.strategy.name not in ("none", "alignment"):
            explanations = replace(explain(setup.teacher, rows, "random", outputs=outputs), images=None)
        teach(model, strategy, explanations, examples, dev, training)  # warm-up: the first call is slower
        train = _timed(lambda: teach(model, build_strategy(student.strategy), explanations, examples, dev, training))
        predict = _timed(lambda: predict_examples(model, examples.batches(256)))
    return StudentCost(train / len(rows), predict / len(rows))


def _evaluate_cost(setup: Setup, explaining: Mapping[str, float], rows: Sequence[Row]) -> float:
    """Seconds per row and method: all metrics on random explanations of a few rows."""
    candidates = [method for method in setup.methods if method.label in explaining and method.label != "human"]
    cheapest = min(candidates, key=lambda method: explaining[method.label], default=None)
    if cheapest is None or cheapest.method is None:
        return 0.0
    sample = rows[:_EVALUATED]
    try:
        explanations = explain(setup.teacher, sample, "random")
        return _timed(lambda: run_evaluation([explanations], setup.teacher, sample, control=False)) / len(sample)
    except DidactError:
        return 0.0
