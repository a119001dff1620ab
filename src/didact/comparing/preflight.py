"""Tries every method and student of a comparison on two rows, to report faults before hours of work."""

import time
from collections.abc import Sequence
from dataclasses import replace

from didact.comparing.methods import ComparedMethod, Findings, MethodChoice, Role
from didact.comparing.setup import Setup
from didact.core.row import Row
from didact.errors import DidactError
from didact.explaining.cache import as_explanations, select_rows
from didact.explaining.explain import explain
from didact.explaining.score_checks import ignore_score_warnings
from didact.results.explanations import Explanations
from didact.students.build import StudentSpec, build_strategy, strategy_options


def preflight(setup: Setup, choice: MethodChoice, findings: Findings) -> Setup:
    """Try all methods and students. Defaults that fail are left out; requested ones that fail become faults."""
    rows = setup.used_rows[:2]
    if not rows:
        return setup  # already reported as a fault of the sizes
    skipped: set[tuple[str, str]] = set()
    explanations: dict[str, Explanations] = {}
    seconds: dict[str, float] = {}
    for method in choice.methods:
        if method.role is Role.FRESH:
            skipped |= _try_learner(method, setup, rows, findings)
        if method.method is None:
            continue
        started = time.perf_counter()
        try:
            explanations[method.label] = _try_method(method, setup, rows)
            seconds[method.label] = time.perf_counter() - started
        except DidactError as error:
            choice = choice.without(method.label, error, findings)
    for student in setup.students:
        if student.architecture in setup.student_inits:
            skipped |= _try_student(student, setup, rows, explanations, findings)
    return replace(
        setup, config=choice.config, methods=choice.methods, skipped=frozenset(skipped), probe_seconds=seconds
    )


def _try_method(method: ComparedMethod, setup: Setup, rows: Sequence[Row]) -> Explanations:
    """Explain two rows. Existing explanations must cover all rows that students use."""
    instance = method.for_seed(setup.config.seeds[0])
    assert instance is not None
    existing = as_explanations(instance)
    if existing is not None:
        return select_rows(select_rows(existing, setup.used_rows, label=method.label), rows, label=method.label)
    # Answers of a black box are stored, since a query may cost money.
    outputs = setup.sample.answers.of(rows) if setup.teacher.is_identified_by_answers else None
    with ignore_score_warnings():
        return explain(setup.teacher, rows, instance, background_rows=rows, outputs=outputs)


def _try_student(
    student: StudentSpec,
    setup: Setup,
    rows: Sequence[Row],
    by_label: dict[str, Explanations],
    findings: Findings,
) -> set[tuple[str, str]]:
    """Prepare the student's lessons from every method. Returns the pairs (method, student) that do not fit."""
    try:
        model = setup.student_inits[student.architecture].build(0)
        batch = model.encode(rows)
        strategy = build_strategy(student.strategy)
        strategy.attach(model, batch)
    except DidactError as error:
        findings.faults.append(f"students: {student}: {error}")
        return set()
    is_alignment = student.strategy.name == "alignment"
    unaligned = sorted(
        label for label, explanations in by_label.items() if is_alignment and explanations.alignments is None
    )
    for label, explanations in by_label.items():
        if label in unaligned:
            continue
        try:
            strategy.lesson(explanations, batch)
        except DidactError as error:
            findings.faults.append(f"students: {student} with {label}: {error}")
    if unaligned:
        findings.notes.append(
            f"{student} needs aligned spans and is left out for methods without them: {', '.join(unaligned)}."
        )
    return {(label, str(student)) for label in unaligned}


def _try_learner(method: ComparedMethod, setup: Setup, rows: Sequence[Row], findings: Findings) -> set[tuple[str, str]]:
    """Check a learned explainer: the teacher supports its family, the students fit, and there are enough rows."""
    learner = method.learner
    assert learner is not None
    try:
        with ignore_score_warnings():
            explain(setup.teacher, rows, learner.explainer(), background_rows=rows)
    except DidactError as error:
        findings.faults.append(f"explainers: {method.label}: {error}")
    skipped: set[tuple[str, str]] = set()
    for student in setup.students:
        options = strategy_options(student.strategy)
        if student.strategy.name != "attention" or options["send"] != "whole" or options["signed"] == "split":
            skipped |= {(other.label, str(student)) for other in setup.methods if other.learner == learner}
            findings.notes.append(
                f"{learner.label} needs students with strategy attention(send=whole); left out for student {student}."
            )
        elif student.architecture in setup.student_inits:
            batch_size = setup.training(student).batch_size
            outer_rows = (learner.smat.outer_batch or batch_size) if learner.smat.outer == "train" else 0
            smallest = min(setup.config.train_sizes)
            if smallest < batch_size + outer_rows:
                findings.faults.append(
                    f"train_sizes: {method.label} needs at least {batch_size + outer_rows} rows ({batch_size} for a "
                    f"training step of {student} and {outer_rows} for the outer loss), and {smallest} were requested. "
                    "Use larger sizes, or a smaller batch_size."
                )
    return skipped
