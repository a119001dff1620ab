"""Turns a config, a teacher and data into a `Setup`: makes all open choices and reports all faults at once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from didact.comparing.config import CompareConfig
from didact.comparing.edited import edited_faults
from didact.comparing.methods import ComparedMethod, Findings, choose_methods, is_spec
from didact.comparing.preflight import preflight
from didact.comparing.sampling import Answers, Sample
from didact.comparing.setup import Pool, Setup
from didact.comparing.targets import normalises
from didact.core.dataset import Dataset
from didact.core.human import HumanTeacher
from didact.core.teacher import Teacher
from didact.errors import DidactError
from didact.explaining.cache import Method
from didact.learning.defaults import TRAIN_SIZE, default_student
from didact.learning.student_objects import DEFAULT
from didact.models.student_init import StudentInit, student_init
from didact.results.target_normalisation import RAW
from didact.students.build import StudentSpec


def assemble(
    config: CompareConfig,
    teacher: Any,
    data: Dataset,
    objects: Sequence[Method] = (),
    *,
    sample: Sample | None = None,
    probe: bool = True,
) -> Setup:
    """Choose methods, rows and students, and try them on two rows before the long work starts.

    `objects` are methods that the config cannot name. `probe=False` skips the trial, for a setup that was tried before.

    Raises:
        PlanError: lists every fault of the plan.
    """
    if teacher == "human":
        teacher = HumanTeacher(data.task, data.classes)
    if sample is None:
        check_fit(teacher, data)
        sample = Sample(data, Answers(teacher))
    findings = Findings(list(sample.notes))
    choice = choose_methods(config, teacher, sample.data, objects, findings)
    pool = _pool(choice.methods, teacher, sample, findings)
    choice = replace(choice, config=_with_sizes(choice.config, pool, sample, findings))
    config = choice.config
    students = _students(config, default_student(teacher, sample.data.task, config.base))
    findings.notes += [
        f"{student} receives marks, which have no sharpness: target normalisation changes nothing for it."
        for student in students
        if config.target_normalisation != RAW and student.strategy.name != "none" and not normalises(config, student)
    ]
    student_inits = _student_inits(students, config, teacher, sample.data, pool, findings)
    setup = Setup(config, teacher, sample, choice.methods, choice.defaults, pool, students, student_inits)
    if not findings.faults:  # sizes are valid
        findings.faults += edited_faults(setup)
    if probe:
        setup = preflight(setup, choice, findings)
    if not setup.config.explainers and not objects:
        findings.faults.append("explainers: name at least one to compare, e.g. occlusion. `didact methods` lists them.")
    findings.raise_faults()
    return replace(setup, notes=tuple(findings.notes))


def _pool(methods: Sequence[ComparedMethod], teacher: Teacher, sample: Sample, findings: Findings) -> Pool:
    """The rows that subsets are drawn from: those that the teacher can answer and the methods can explain."""
    rows = sample.data["train"].rows
    if any(is_spec(method.method) and str(method.method).partition("(")[0] == "human" for method in methods):
        with_rationale = tuple(row for row in rows if row.rationale is not None)
        if len(with_rationale) < len(rows):
            findings.notes.append(
                f"{len(rows) - len(with_rationale)} of {len(rows)} train rows have no rationale: left out."
            )
        rows = with_rationale
    rows = tuple(filter(teacher.knows, rows))
    return Pool(rows, None if sample.balance is None else tuple(sample.answers.labels(rows)))


def _with_sizes(config: CompareConfig, pool: Pool, sample: Sample, findings: Findings) -> CompareConfig:
    """The config with training sizes that the pool has rows for."""
    largest = pool.largest_draw
    sizes = config.train_sizes or (max(min(TRAIN_SIZE, largest), 1),)
    if max(sizes) > largest and pool.labels is not None:
        findings.notes.append(f"Only {largest:,} rows can be drawn balanced; larger sizes are reduced to that.")
        sizes = tuple(sorted({min(size, largest) for size in sizes}))
    elif max(sizes) > largest:
        findings.faults.append(
            f"train_sizes: {max(sizes):,} rows were requested, but {sample.data.name!r} has only {largest:,} to draw "
            "from. Use smaller sizes."
        )
    return config.with_fields(train_sizes=sizes)


def _students(config: CompareConfig, default: StudentSpec) -> tuple[StudentSpec, ...]:
    """The students of the config, with the default architecture filled in."""
    return tuple(
        replace(student, architecture=default.architecture) if student.architecture == DEFAULT else student
        for student in config.students or (default,)
    )


def _student_inits(
    students: Sequence[StudentSpec],
    config: CompareConfig,
    teacher: Teacher,
    data: Dataset,
    pool: Pool,
    findings: Findings,
) -> dict[str, StudentInit]:
    """The initial weights of the students, by architecture."""
    student_inits: dict[str, StudentInit] = {}
    for architecture in dict.fromkeys(student.architecture for student in students):
        try:
            student_inits[architecture] = student_init(
                architecture,
                teacher=teacher,
                task=data.task,
                classes=teacher.classes,
                rows=pool.rows,
                read_rows=(*pool.rows, *data["dev"], *data["test"]),
                base=config.base,
                trust_remote_code=config.trust_remote_code,
            )
        except DidactError as error:
            findings.faults.append(f"students: {architecture}: {error}")
    return student_inits


def check_fit(teacher: Teacher, data: Dataset) -> None:
    """Raise PlanError if teacher and data have different tasks, or if a split would make the run fail later."""
    findings = Findings()
    if teacher.task != data.task:
        findings.faults.append(f"data: {data.name!r} is {data.task}, but the teacher does {teacher.task}.")
    elif teacher.reads_labels and teacher.classes not in (None, data.classes):
        findings.faults.append("model: the teacher 'human' must have the classes of the data.")
    for split in ("train", "dev", "test"):
        if split not in data or not len(data[split]):
            findings.faults.append(f"data: {data.name!r} has no rows in {split!r}, which students need.")
        else:
            findings.faults += [f"data: {fault}" for fault in _split_faults(teacher, data, split)]
    findings.raise_faults()


def _split_faults(teacher: Teacher, data: Dataset, split: str) -> list[str]:
    """Faults of a split that would stop the run later, or pair answers with the wrong rows."""
    rows = data[split].rows
    faults = []
    answerable = sum(teacher.knows(row) for row in rows)
    minimum = 2 if split == "test" else 1
    if answerable < minimum:
        faults.append(f"{split!r} has {answerable} rows that the teacher can answer, but needs at least {minimum}.")
    repeated_ids = [name for name, count in Counter(row.id for row in rows).items() if count > 1]
    if repeated_ids:
        faults.append(f"two rows in {split!r} share an id; ids must differ: {', '.join(map(str, repeated_ids[:3]))}.")
    empty = [row.id for row in rows if row.image is None and not any(text.strip() for text in row.texts)]
    if empty:
        faults.append(f"{len(empty)} rows in {split!r} have no text; remove them: {', '.join(empty[:3])}.")
    return faults
