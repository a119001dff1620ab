"""Turns a plan into a setup: chooses rows, methods and students, and fits their numbers to the time budget.

Everything that the plan leaves open is chosen here, once. The resulting plan is written to plan.toml before the first
student is trained; a resumed run reads it from there instead of measuring again.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from didact.comparing.answer_file import DEFAULT_RECHECK, AnswerFile
from didact.comparing.assemble import assemble, check_fit
from didact.comparing.budget import TARGET, fit_plan, metric_rows
from didact.comparing.cell import load_completed
from didact.comparing.config import CompareConfig
from didact.comparing.config_values import read_plan
from didact.comparing.costs import Costs, measure_costs
from didact.comparing.evaluation import is_evaluated
from didact.comparing.explanations import EXPLANATIONS_FOLDER, find_explanations
from didact.comparing.forecast import (
    EXPLAINING,
    SCORING,
    Forecast,
    Stage,
    Workload,
    format_duration,
    stages,
    total_seconds,
)
from didact.comparing.grid import build_grid
from didact.comparing.runner import rows_file
from didact.comparing.sampling import TEST_ROWS, Answers, RowLimits, Sample, data_for_students, draw_sample
from didact.comparing.setup import Setup
from didact.comparing.targets import student_trials
from didact.core.classes import align_labels
from didact.core.dataset import Dataset
from didact.core.human import HumanTeacher
from didact.core.teacher import Teacher
from didact.errors import DidactError
from didact.explaining.cache import Method
from didact.files.store import Store, key_of
from didact.results.target_normalisation import BAND, RAW, TUNED, describe
from didact.viz.progress import announce

_FIRST_LOOK = 300  # test rows labelled before a budget is fitted


@dataclass(frozen=True, eq=False)
class Prepared:
    """A comparison that is ready to run, and its forecast; None if no costs were measured."""

    setup: Setup
    forecast: Forecast | None


def prepare(
    plan: CompareConfig,
    teacher: Any,
    data: Dataset,
    methods: Sequence[Method],
    *,
    folder: Path | None,
    workers: int,
    started: float,
    is_forecast: bool = False,
) -> Prepared:
    """Choose rows, methods, students and sizes, try them on two rows, and fit them to the plan's budget.

    `folder` is the run's folder; None for a temporary run, which computes no metrics unless the plan names them.
    `started` is the start of the command on the clock of time.perf_counter. Costs are measured if the plan needs them,
    for a forecast, and if progress of unfinished runs is shown. Some stored answers of a black box are checked again,
    except in a forecast, which stores nothing.
    """
    progress, recheck = plan.progress, 0 if is_forecast else plan.recheck
    teacher = HumanTeacher(data.task, data.classes) if teacher == "human" else teacher
    data = align_labels(data, teacher, classes=plan.classes or None, required=False)  # gold labels are only shown
    data, notes = data_for_students(teacher, data)
    check_fit(teacher, data)
    request = _request_key(plan, teacher, methods)
    fitted = None if plan.fitted_from is not None or folder is None else _stored_plan(folder, request, plan)
    plan = fitted or plan
    is_fitted = plan.fitted_from is not None
    if plan.eval_rows is None and folder is None:
        plan = plan.with_fields(eval_rows=0)
    needs_fit = not is_fitted and (plan.budget is not None or plan.eval_rows is None)
    announce(notes, shown=progress)
    file = _answer_file(teacher, folder, writes=not is_forecast)
    if file is not None:
        rows = chain.from_iterable(data[name] for name in ("train", "dev", "test"))
        file.recheck(rows, DEFAULT_RECHECK if recheck is None else recheck)
        teacher = teacher.with_stored_answers(file.get)
    answers = Answers(teacher, file=file, progress=progress)
    first_look = needs_fit and plan.budget is not None
    sample = _draw_rows(plan, data, answers, notes, first_look=first_look)
    setup = assemble(plan, teacher, data, methods, sample=sample)
    if not (needs_fit or is_forecast) and (not progress or _is_done(setup, folder)):
        return Prepared(setup, None)
    costs = measure_costs(setup, progress=progress)
    if needs_fit:
        plan = _fit(setup, costs, plan, request, workers, started, test=len(data["test"]))
        sample = _draw_rows(plan, data, answers, notes)
        setup = _reassemble(setup, plan, methods, sample)
    work = Workload.of(setup, workers=workers, eval_rows=setup.config.eval_rows or 0)
    runs = work.runs(setup)
    done = completed_work(setup, folder)
    remaining = [_remaining(stage, done, runs) for stage in stages(setup, costs, work)]
    forecast = Forecast(
        tuple(summary(setup, runs, total_seconds(remaining))),
        tuple(remaining),
        runs,
        None if done is None else done.runs,
        workers,
        costs.spent,
        tuple(note for note in setup.notes if note not in notes),
    )
    return Prepared(setup, forecast)


def _answer_file(teacher: Teacher, folder: Path | None, *, writes: bool) -> AnswerFile | None:
    """The stored answers of a black box. None for models, which are identified by their weights, and for people."""
    if folder is None or not teacher.is_identified_by_answers or teacher.task.is_per_token:
        return None
    return AnswerFile(folder, teacher, writes=writes)


def summary(setup: Setup, runs: int, seconds: float) -> list[str]:
    """The plan in a few lines of text."""
    plan = setup.config
    controls = setup.controls
    methods = [label for label in setup.labels if label not in controls]
    sizes = " and ".join(f"{size:,}" for size in plan.train_sizes)
    times = f" × {len(plan.train_sizes)} sizes" if len(plan.train_sizes) > 1 else ""
    students = "; ".join(f"{student} ({setup.describe(student)})" for student in setup.students)
    product = (
        f"({_count(methods, 'method')} + {_count(controls, 'control')}) × {_count(setup.students, 'student')} × "
        f"{_count(plan.seeds, 'seed')}{times}"
    )
    arms = sum(max(len(setup.arms(method, student)), 1) for method in setup.methods for student in setup.students)
    if plan.target_normalisation == BAND:
        product += f", with explanations at {_count(plan.target_grid, 'temperature')}"
    combinations = arms * len(plan.seeds) * len(plan.train_sizes)
    if combinations == runs:
        first = f"Plan: {runs:,} runs = {product}; about {format_duration(seconds)}."
    else:
        first = (
            f"Plan: {runs:,} runs; about {format_duration(seconds)}. {product} are {combinations:,} combinations: "
            f"{combinations - runs:,} of them equal another one or are not possible with the student."
        )
    lines = [
        first,
        f"Methods: {', '.join(methods)}. Controls: {', '.join(controls)}.",
        f"Students: {students}; each learns from {sizes} of {len(setup.pool):,} rows and is tested on "
        f"{len(setup.data['test']):,}.",
    ]
    if plan.target_normalisation != RAW:
        lines.append(describe(plan.target_normalisation, plan.target_grid))
    if plan.target_normalisation == TUNED:
        trials = max(len(student_trials(plan, student)) for student in setup.students)
        lines.append(f"Each run trains {trials} students and keeps the best on dev.")
    if plan.eval_rows:
        lines.append(f"Other metrics: on {plan.eval_rows:,} test rows.")
    if plan.left_out:
        lines.append(f"Left out to fit the budget of {format_duration(plan.budget or 0)}: {' '.join(plan.left_out)}")
    return lines


def _count(items: Sequence[Any], name: str) -> str:
    return f"{len(items)} {name}{'s' * (len(items) != 1)}"


def _request_key(plan: CompareConfig, teacher: Teacher, methods: Sequence[Method]) -> str:
    """The key of a request: a hash of the plan as requested and of the names of its objects."""
    plain = plan.with_fields(fitted_from=None, left_out=())
    names = [str(getattr(method, "name", type(method).__name__)) for method in methods]
    # Older versions had two more entries. Their defaults stay in the text, so that plans fitted then keep their key.
    retired = 'test = "wilcoxon"\nreplicates = 2000\nthreads = '
    text = re.sub(r"^threads = ", lambda _: retired, plain.request_text(), count=1, flags=re.MULTILINE)
    return key_of({"plan": text, "teacher": teacher.name, "methods": names})


def _stored_plan(folder: Path, request: str, plan: CompareConfig) -> CompareConfig | None:
    """The plan that an earlier call with the same request fitted, or None."""
    path = folder / "plan.toml"
    if not path.is_file():
        return None
    try:
        entries = read_plan(path, trust_remote_code=plan.trust_remote_code)
        current_entries = CompareConfig.current_entries(entries, [], warns=False)  # older versions wrote former names
        stored = CompareConfig.of(current_entries, objects=("model", "data"))
    except DidactError:
        return None
    return stored.with_fields(trust_remote_code=plan.trust_remote_code) if stored.fitted_from == request else None


def _draw_rows(
    plan: CompareConfig, data: Dataset, answers: Answers, notes: Sequence[str], *, first_look: bool = False
) -> Sample:
    """Draw the rows of a plan. `first_look` labels few test rows, before a budget is fitted."""
    test = TEST_ROWS if plan.test_rows is None else plan.test_rows or None
    test = min(test or _FIRST_LOOK, _FIRST_LOOK) if first_look else test
    limits = RowLimits(plan.train_rows or None, plan.dev_rows or None, test)
    sample = draw_sample(answers.teacher, data, limits, balance=plan.balance, answers=answers)
    return replace(sample, notes=(*notes, *sample.notes))


def _fit(
    setup: Setup, costs: Costs, plan: CompareConfig, request: str, workers: int, started: float, *, test: int
) -> CompareConfig:
    """Fit the plan to its budget. Without a budget, only `eval_rows` is chosen."""
    if plan.budget is None:
        fitted = setup.config.with_fields(eval_rows=metric_rows(setup, costs, workers=workers))
    else:
        seconds = TARGET * plan.budget - (time.perf_counter() - started)
        fitted = fit_plan(setup, costs, plan, workers=workers, seconds=seconds, test=test)
    return fitted.with_fields(students=setup.students, balance=setup.is_balanced, fitted_from=request)


def _reassemble(setup: Setup, plan: CompareConfig, methods: Sequence[Method], sample: Sample) -> Setup:
    """The setup of the fitted plan. Nothing is tried again."""
    refitted = assemble(plan, setup.teacher, sample.data, methods, sample=sample, probe=False)
    notes = [note for note in setup.notes if note not in refitted.notes and note not in setup.sample.notes]
    return replace(refitted, skipped=setup.skipped, defaults=setup.defaults, notes=(*refitted.notes, *notes))


@dataclass(frozen=True)
class CompletedWork:
    """The finished work of a plan in a folder. `missing` is the number of rows still to explain, by label."""

    runs: int
    is_labelled: bool
    missing: Mapping[str, int]
    is_scored: bool


def _is_done(setup: Setup, folder: Path | None) -> bool:
    """Whether all training runs of the plan are done."""
    done = completed_work(setup, folder)
    return done is not None and done.runs >= Workload.of(setup, workers=1, eval_rows=0).runs(setup)


def _remaining(stage: Stage, done: CompletedWork | None, runs: int) -> Stage:
    """A stage without the work that is already done."""
    if done is None:
        return stage
    share = 1.0
    if stage.unit == "runs":
        share = 1 - done.runs / max(runs, 1)
    elif stage.name == "labelling":
        share = 0.0 if done.is_labelled else 1.0
    elif stage.name.startswith(EXPLAINING):
        missing = done.missing.get(stage.name.removeprefix(EXPLAINING))
        share = 1.0 if missing is None else min(missing / max(stage.count, 1), 1.0)
    elif stage.name == SCORING:
        share = 0.0 if done.is_scored else 1.0
    return replace(
        stage, count=stage.count if stage.unit == "runs" else round(stage.count * share), seconds=stage.seconds * share
    )


def completed_work(setup: Setup, folder: Path | None) -> CompletedWork | None:
    """The finished work in a folder; None if finding out would need computation, as for a black box."""
    if folder is None or not (folder / "cells").is_dir():
        return CompletedWork(0, False, {}, False)
    if setup.teacher.is_identified_by_answers:
        return None
    fingerprint = setup.teacher.fingerprint(())
    located = find_explanations(setup, folder / EXPLANATIONS_FOLDER, fingerprint)
    if located is None:
        return None
    files, missing = located
    keys = build_grid(setup, fingerprint, files).keys
    store = Store(folder / "cells")
    runs = sum(load_completed(store, key) is not None for key in keys)
    labels = folder / "classroom" / rows_file(fingerprint, setup.splits(), setup.edited)
    rows = setup.config.eval_rows or 0
    is_scored = runs == len(keys) and rows > 0 and is_evaluated(setup, folder, rows)
    return CompletedWork(runs, labels.is_file(), missing, is_scored)
