"""From a plan to all that a comparison needs: rows, methods, students, and numbers fitted to the time there is.

What the plan leaves open is chosen here, once. The resulting plan is written to plan.toml before the first student is
trained, and a run that is resumed reads it from there instead of measuring again.
"""

import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from didact.core.classes import align_labels
from didact.core.dataset import Dataset
from didact.core.fingerprint import teacher_fingerprint
from didact.core.function import FunctionTeacher
from didact.core.human import HumanTeacher
from didact.core.model import Model
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.teacher import Teacher
from didact.errors import DidactError
from didact.execution.run_dir import RunDirectory
from didact.experiment.answers import RECHECKED, AnswerFile
from didact.experiment.budget import TARGET, fit_plan, metric_rows
from didact.experiment.cell import finished
from didact.experiment.classroom import Labelled
from didact.experiment.config import CompareConfig, read_plan
from didact.experiment.costs import Costs, measure_costs
from didact.experiment.estimate import EXPLAINING, SCORING, Workload, stages, total
from didact.experiment.forecast import Forecast, Stage, in_words
from didact.experiment.measure import Measuring
from didact.experiment.roster import Roster, check_fit
from didact.experiment.run import Run
from didact.experiment.sampling import TEST_ROWS, Answers, Limits, Sample, draw_sample, for_students
from didact.explaining.cache import Kept, Method, located_parts, lookup
from didact.records.store import Store, key_of
from didact.render.progress import announce

_FIRST_LOOK = 300  # test rows that are labelled before a budget is fitted


@dataclass(frozen=True, eq=False)
class Prepared:
    """A comparison ready to run, and what it is estimated to take; None where nothing was measured."""

    roster: Roster
    forecast: Forecast | None


def prepare(
    plan: CompareConfig,
    teacher: Any,
    data: Dataset,
    methods: Sequence[Method],
    *,
    folder: Path | None,
    workers: int,
    began: float,
    progress: bool = False,
    estimate: Literal["never", "open", "always"] = "never",
    recheck: int | None = None,
) -> Prepared:
    """Choose rows, methods, students and numbers, check them on two rows, and fit them to the plan's budget.

    `folder` is where the run is kept; None for one that keeps nothing, which scores no metrics unless asked to.
    `began` is when the command began, on the clock of time.perf_counter. Costs are measured where the plan needs them;
    `estimate` measures them always, or where runs are still open. `recheck` rows that a black box answered in an
    earlier call are asked again.
    """
    teacher = HumanTeacher(data.task, data.classes) if teacher == "human" else teacher
    data = align_labels(data, teacher, classes=plan.classes or None, required=False)  # labels only show who is right
    data, notes = for_students(teacher, data)
    check_fit(teacher, data)
    request = _request(plan, teacher, methods)
    fitted = None if plan.fitted_from is not None or folder is None else _stored(folder, request, plan)
    plan = fitted or plan
    is_fitted = plan.fitted_from is not None
    if plan.eval_rows is None and folder is None:
        plan = plan.with_fields(eval_rows=0)
    needs_fit = not is_fitted and (plan.budget is not None or plan.eval_rows is None)
    announce(notes, shown=progress)
    file = _answer_file(teacher, folder, writes=estimate != "always")
    if file is not None:
        rows = chain.from_iterable(data[name] for name in ("train", "dev", "test"))
        file.recheck(rows, RECHECKED if recheck is None else recheck)
        teacher = teacher.with_stored(file.get) if isinstance(teacher, FunctionTeacher) else teacher
    answers = Answers(teacher, file=file, progress=progress)
    first_look = needs_fit and plan.budget is not None
    sample = _sampled(plan, teacher, data, progress=progress, first_look=first_look, answers=answers)
    sample = replace(sample, notes=(*notes, *sample.notes))
    roster = Roster(plan, teacher, data, methods, sample=sample)
    if not needs_fit and (estimate == "never" or (estimate == "open" and _is_done(roster, folder))):
        return Prepared(roster, None)
    costs = measure_costs(roster, progress=progress)
    if needs_fit:
        plan = _fitted(roster, costs, plan, request, workers, began, test=len(data["test"]))
        sample = _sampled(plan, teacher, data, progress=progress, answers=sample.answers, balanced=roster.is_balanced)
        sample = replace(sample, notes=(*notes, *sample.notes))
        roster = _again(roster, plan, methods, sample)
    work = Workload.of(roster, workers=workers, measured=roster.plan.eval_rows or 0)
    runs = work.runs(roster)
    done = Done(0, False, {}, False) if folder is None else done_work(roster, folder)
    parts = [_left(part, done, runs) for part in stages(roster, costs, work)]
    forecast = Forecast(
        tuple(summary(roster, runs, total(parts))), tuple(parts), runs, None if done is None else done.runs, workers,
        costs.spent, tuple(note for note in roster.notes if note not in notes),
    )  # fmt: skip
    return Prepared(roster, forecast)


def _answer_file(teacher: Teacher, folder: Path | None, *, writes: bool) -> AnswerFile | None:
    """Where the answers of a black box are kept; None for models, which are known by their weights, and people."""
    if folder is None or isinstance(teacher, Model | HumanTeacher) or teacher.task.name == "reading":
        return None
    return AnswerFile(folder, teacher, writes=writes)


def summary(roster: Roster, runs: int, seconds: float) -> list[str]:
    """The plan in a few lines for people."""
    plan = roster.plan
    controls = [one.label for one in roster.entrants if one.is_control]
    methods = [one.label for one in roster.entrants if not one.is_control]
    sizes = " and ".join(f"{size:,}" for size in plan.train_sizes)
    times = f" × {len(plan.train_sizes)} sizes" if len(plan.train_sizes) > 1 else ""
    students = "; ".join(f"{student} ({roster.sentence(student)})" for student in roster.students)
    product = (
        f"({_count(methods, 'method')} + {_count(controls, 'control')}) × {_count(roster.students, 'student')} × "
        f"{_count(plan.seeds, 'seed')}{times}"
    )
    combinations = len(roster.entrants) * len(roster.students) * len(plan.seeds) * len(plan.train_sizes)
    if combinations == runs:
        first = f"Plan: {runs:,} runs = {product}; about {in_words(seconds)}."
    else:
        first = (
            f"Plan: {runs:,} runs; about {in_words(seconds)}. {product} are {combinations:,} combinations: "
            f"{combinations - runs:,} of them are equal to another, or not possible with the student."
        )
    lines = [
        first,
        f"Methods: {', '.join(methods)}. Controls: {', '.join(controls)}.",
        f"Students: {students}; each learns from {sizes} of {len(roster.pool):,} rows and is tested on "
        f"{len(roster.data['test']):,}.",
    ]
    if plan.eval_rows:
        lines.append(f"Other metrics: on {plan.eval_rows:,} test rows.")
    if plan.left_out:
        lines.append(f"Left out to fit the budget of {in_words(plan.budget or 0)}: {' '.join(plan.left_out)}")
    return lines


def _count(things: Sequence[Any], name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"


def _request(plan: CompareConfig, teacher: Teacher, methods: Sequence[Method]) -> str:
    """What a fitted plan is known by: the plan as asked for, and the objects beside it."""
    plain = plan.with_fields(fitted_from=None, left_out=())
    names = [str(getattr(method, "name", type(method).__name__)) for method in methods]
    # Older plans had two more entries. With their defaults in the text, a run that was fitted then is recognised.
    retired = 'test = "wilcoxon"\nreplicates = 2000\nthreads = '
    text = re.sub(r"^threads = ", lambda _: retired, plain.request_text(), count=1, flags=re.MULTILINE)
    return key_of({"plan": text, "teacher": teacher.name, "methods": names})


def _stored(folder: Path, request: str, plan: CompareConfig) -> CompareConfig | None:
    """The plan that an earlier call of the same request fitted; None if there is none."""
    path = folder / "plan.toml"
    if not path.is_file():
        return None
    try:
        entries = read_plan(path, trust_remote_code=plan.trust_remote_code)
        current = CompareConfig.current(entries, [], warns=False)  # an older didact wrote other names
        known = CompareConfig.of(current, objects=("model", "data"))
    except DidactError:
        return None
    return known.with_fields(trust_remote_code=plan.trust_remote_code) if known.fitted_from == request else None


def _sampled(
    plan: CompareConfig,
    teacher: Teacher,
    data: Dataset,
    *,
    progress: bool,
    first_look: bool = False,
    answers: Answers | None = None,
    balanced: bool | None = None,
) -> Sample:
    """The rows of a plan. A first look, before anything is fitted, labels few of them."""
    test = TEST_ROWS if plan.test_rows is None else plan.test_rows or None
    test = min(test or _FIRST_LOOK, _FIRST_LOOK) if first_look else test
    limits = Limits(plan.train_rows or None, plan.dev_rows or None, test)
    balance = plan.balance if balanced is None else balanced
    return draw_sample(teacher, data, limits, balance=balance, answers=answers, progress=progress)


def _fitted(
    roster: Roster, costs: Costs, plan: CompareConfig, request: str, workers: int, began: float, *, test: int
) -> CompareConfig:
    """The plan with everything chosen. Without a budget, only the rows for metrics are."""
    if plan.budget is None:
        fitted = roster.plan.with_fields(eval_rows=metric_rows(roster, costs, workers=workers))
    else:
        seconds = TARGET * plan.budget - (time.perf_counter() - began)
        fitted = fit_plan(roster, costs, plan, workers=workers, seconds=seconds, test=test)
    return fitted.with_fields(students=roster.students, balance=roster.is_balanced, fitted_from=request)


def _again(roster: Roster, plan: CompareConfig, methods: Sequence[Method], sample: Sample) -> Roster:
    """The roster of the fitted plan. Its parts were tried already."""
    again = Roster(plan, roster.teacher, sample.data, methods, sample=sample, probe=False)
    again.skipped, again.chosen = roster.skipped, roster.chosen
    again.notes += [note for note in roster.notes if note not in again.notes and note not in roster.sample.notes]
    return again


@dataclass(frozen=True)
class Done:
    """What a folder holds of a plan: finished runs, labels, rows still to explain by label, and metrics."""

    runs: int
    labelled: bool
    missing: Mapping[str, int]
    scored: bool


def _is_done(roster: Roster, folder: Path | None) -> bool:
    """Whether no run of the plan is left to do."""
    done = None if folder is None else done_work(roster, folder)
    return done is not None and done.runs >= Workload.of(roster, workers=1, measured=0).runs(roster)


def _left(part: Stage, done: Done | None, runs: int) -> Stage:
    """A part of the work without what is done already."""
    if done is None:
        return part
    share = 1.0
    if part.unit == "runs":
        share = 1 - done.runs / max(runs, 1)
    elif part.name == "labelling":
        share = 0.0 if done.labelled else 1.0
    elif part.name.startswith(EXPLAINING):
        missing = done.missing.get(part.name.removeprefix(EXPLAINING))
        share = 1.0 if missing is None else min(missing / max(part.count, 1), 1.0)
    elif part.name == SCORING:
        share = 0.0 if done.scored else 1.0
    return replace(
        part, count=part.count if part.unit == "runs" else round(part.count * share), seconds=part.seconds * share
    )


def done_work(roster: Roster, folder: Path) -> Done | None:
    """What a folder holds of the plan; None where that cannot be known without computing."""
    if not (folder / "cells").is_dir():
        return Done(0, False, {}, False)
    if not isinstance(roster.teacher, Model | HumanTeacher):
        return None  # a function is known by its answers alone
    with tempfile.TemporaryDirectory(prefix="didact-") as nowhere:
        run = Run(roster, RunDirectory(Path(nowhere)))
        run.fingerprint = teacher_fingerprint(roster.teacher, ())
        missing: dict[str, int] = {}
        kept = _located(roster, run, folder / "explanations", missing)
        if kept is None:
            return None
        parts = _located_parts(roster, run, kept)
        store = Store(folder / "cells")
        splits = _unlabelled(roster)
        keys = {cell.key for cell in run.cells(splits, kept, parts)}
        runs = sum(finished(store, key) is not None for key in keys)
        labels = folder / "classroom" / run.name_of_rows({"train": roster.used, **run.held_out()})
        measuring = Measuring(roster, folder, run.fingerprint, (), {})
        scored = runs == len(keys) and bool(roster.plan.eval_rows) and measuring.has(roster.plan.eval_rows or 0)
        return Done(runs, labels.is_file(), missing, scored)


def _located(roster: Roster, run: Run, folder: Path, missing: dict[str, int]) -> dict[tuple[str, int], Kept] | None:
    """By row of the table and seed where its explanations belong; None for a method whose making is not known.

    `missing` is filled with the number of rows that are still to be explained, by label.
    """
    kept: dict[tuple[str, int], Kept] = {}
    for entrant in roster.entrants:
        if entrant.method is None:
            continue
        label = str(entrant.method) if entrant.role == "sharpened" else entrant.label
        for seed in roster.plan.seeds:
            rows = roster.seed_rows(seed) if entrant.redrawn else roster.used
            method = entrant.for_seed(seed)
            assert method is not None
            cached = lookup(
                folder, roster.teacher, run.fingerprint, rows, method, label=label, background=run.background()
            )
            if cached is None:
                return None
            if cached.rows and (entrant.redrawn or (entrant.label, roster.plan.seeds[0]) not in kept):
                missing[entrant.label] = missing.get(entrant.label, 0) + len(cached.missing_rows())
            kept[entrant.label, seed] = cached.kept
    return kept


def _located_parts(roster: Roster, run: Run, kept: Mapping[tuple[str, int], Kept]) -> dict[str, Kept]:
    parts = {}
    for entrant in roster.entrants:
        if entrant.role != "fresh" or entrant.learner is None:
            continue
        explainer = entrant.learner.explainer()
        members: list[tuple[str, Kept]] = []
        if entrant.learner.family == "blend":
            names = explainer.part_names(roster.teacher, roster.used[0])
            members = [(name, kept[name, roster.plan.seeds[0]]) for name in names]
        parts[entrant.label] = located_parts(run.fingerprint, roster.used, explainer, members)
    return parts


def _unlabelled(roster: Roster) -> dict[str, Labelled]:
    """The rows of each split as workers see them, without labels. Keys of runs do not depend on the answers."""
    splits = {"train": roster.used, "dev": roster.data["dev"].rows, "test": roster.data["test"].rows}
    found = {}
    for name, rows in splits.items():
        bare = tuple(Row(row.id, row.texts, row.image) for row in rows if roster.is_known(row))
        outputs = Outputs(roster.data.task, tuple(row.id for row in bare), np.zeros((len(bare), 1)))
        found[name] = Labelled(bare, outputs)
    return found
