"""The validated setup of a comparison: teacher, data, methods and students."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from didact.comparing.config import CompareConfig
from didact.comparing.edited import EditedRows, sources_per_student
from didact.comparing.methods import ComparedMethod, Role
from didact.comparing.sampling import Sample
from didact.comparing.targets import TargetArm, student_trials, target_arms
from didact.core.dataset import Dataset
from didact.core.row import Row
from didact.core.task import Task
from didact.core.teacher import Teacher
from didact.data.subset import balanced_counts, draw_subset
from didact.learning.defaults import describe_student
from didact.learning.fit import Training
from didact.learning.teach import student_training
from didact.models import MODELS
from didact.models.student_init import StudentInit
from didact.students import STRATEGIES
from didact.students.build import StudentSpec, strategy_options


@dataclass(frozen=True, eq=False)
class Pool:
    """The rows that students' subsets are drawn from. With `labels` (the teacher's classes), subsets are balanced."""

    rows: tuple[Row, ...]
    labels: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def largest_draw(self) -> int:
        if self.labels is None:
            return len(self.rows)
        return sum(balanced_counts(list(Counter(self.labels).values()), len(self.rows)))

    def draw_subset(self, size: int, seed: int) -> list[Row]:
        """The training rows of a student: the same for every method; larger subsets contain smaller ones."""
        ids = [row.id for row in self.rows]
        return [self.rows[index] for index in draw_subset(ids, size=size, seed=seed, labels=self.labels)]


@dataclass(frozen=True, eq=False)
class Setup:
    """Teacher, data, methods and students of one comparison, validated before any training.

    Attributes:
        config: the plan with everything filled in that the user left open.
        methods: the rows of the table.
        defaults: labels of the methods that didact chose.
        pool: the rows that students' subsets are drawn from.
        student_inits: initial weights of the students, by architecture.
        notes: what was left out, and why.
        skipped: pairs (method, student) that do not fit.
        probe_seconds: by label, the time to explain two rows in the preflight.
    """

    config: CompareConfig
    teacher: Teacher
    sample: Sample
    methods: tuple[ComparedMethod, ...]
    defaults: frozenset[str]
    pool: Pool
    students: tuple[StudentSpec, ...]
    student_inits: Mapping[str, StudentInit]
    notes: tuple[str, ...] = ()
    skipped: frozenset[tuple[str, str]] = frozenset()
    probe_seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def data(self) -> Dataset:
        return self.sample.data

    @property
    def task(self) -> Task:
        return self.data.task

    @property
    def is_balanced(self) -> bool:
        return self.sample.balance is not None

    @property
    def labels(self) -> list[str]:
        return [method.label for method in self.methods]

    @property
    def controls(self) -> list[str]:
        return [method.label for method in self.methods if method.is_control]

    @property
    def columns(self) -> list[tuple[str, int]]:
        """The columns of the table: pairs of a student and a training size."""
        return [(str(student), size) for student in self.students for size in self.config.train_sizes]

    def seed_rows(self, seed: int, size: int | None = None) -> list[Row]:
        """The training rows of a student with this seed; by default of the largest size."""
        return self.pool.draw_subset(size or max(self.config.train_sizes), seed)

    @cached_property
    def used_rows(self) -> tuple[Row, ...]:
        """All rows that any student trains on, in the order of the data."""
        used_ids = {row.id for seed in self.config.seeds for row in self.seed_rows(seed)}
        return tuple(row for row in self.pool.rows if row.id in used_ids)

    def held_out(self, split: str) -> tuple[Row, ...]:
        """The rows of dev or test that the teacher can answer."""
        return tuple(filter(self.teacher.knows, self.data[split]))

    def splits(self) -> dict[str, tuple[Row, ...]]:
        """The rows that the teacher answers, by split."""
        return {"train": self.used_rows, "dev": self.held_out("dev"), "test": self.held_out("test")}

    @cached_property
    def edited(self) -> EditedRows | None:
        """The edited rows of all students; None without the test set `edited`."""
        limit = sources_per_student(self.config)
        return EditedRows.of(self, limit) if limit else None

    @property
    def background(self) -> Sequence[Row]:
        """The background rows of the methods (SHAP and others): split `explain`, or the pool without one."""
        return self.data["explain"].rows if "explain" in self.data and len(self.data["explain"]) else self.pool.rows

    def takes_part(self, method: ComparedMethod, student: StudentSpec) -> bool:
        """Whether the comparison has cells of this method with this student."""
        if (method.label, str(student)) in self.skipped:
            return False
        if student.strategy.name == "none" and (method.method is not None or method.learner is not None):
            return False
        return method.role is not Role.SHARPENED or "temperature" in strategy_options(student.strategy)

    def arms(self, method: ComparedMethod, student: StudentSpec) -> tuple[TargetArm, ...]:
        """The ways in which the method is sent to this student; none if it takes no part."""
        return target_arms(self.config, method, student) if self.takes_part(method, student) else ()

    @cached_property
    def all_arms(self) -> dict[str, dict[str, TargetArm]]:
        """By label of the method, its arms by label, over all students, in the order of the table."""
        return {
            method.label: {arm.label: arm for student in self.students for arm in self.arms(method, student)}
            for method in self.methods
        }

    @property
    def arm_labels(self) -> list[str]:
        return [label for arms in self.all_arms.values() for label in arms]

    def is_local(self, student: StudentSpec, strategy: str) -> bool:
        """Whether the strategy or architecture is registered in this process only, so that workers cannot train it."""
        architecture = self.student_inits[student.architecture].facts.get("architecture")
        return strategy in STRATEGIES.local or architecture in MODELS.local

    def count_runs(self, labels: Sequence[str]) -> int:
        """The number of distinct cells per seed and size. Without explanations, strategies make no difference."""
        kinds: set[tuple[Any, ...]] = set()
        for method in self.methods:
            for student in self.students if method.label in labels else ():
                trials = 1 if method.role is Role.EXTRA else len(student_trials(self.config, student))
                is_plain = method.method is None and method.learner is None
                kind = (student.architecture, student.optimiser, trials) if is_plain else (str(student),)
                kinds |= {(arm.label, *kind) for arm in self.arms(method, student)}
        return len(kinds)

    def describe(self, student: StudentSpec) -> str:
        """A sentence about the student and its initial weights."""
        return describe_student(student, self.teacher, self.student_inits[student.architecture].origin)

    def training(self, student: StudentSpec) -> Training:
        """The training options of this student."""
        defaults = student_training(self.student_inits[student.architecture].build(0), student.optimiser)
        return replace(defaults, **self.config.training, precision=self.config.precision, balanced=self.is_balanced)
