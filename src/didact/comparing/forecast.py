"""Estimates the duration of a comparison from measured costs.

A `Workload` holds the amounts (rows, seeds, sizes), a `Stage` is one part of the work with its duration.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from didact.comparing.costs import Costs
from didact.comparing.edited import sources_per_student
from didact.comparing.evaluation import TIMED_ROWS
from didact.comparing.methods import ComparedMethod, Role
from didact.comparing.setup import Setup
from didact.comparing.targets import student_trials
from didact.results.text_table import render_text
from didact.students.build import strategy_options

EXPLAINING: Final = "explaining: "  # prefix of the stage name, followed by the label of the method
SCORING: Final = "scoring with other metrics"
_WORKER_START_SECONDS: Final = 6.0  # until worker processes have imported torch and read the rows
_REPORT_SECONDS: Final = 5.0
_BUSY_CORE_FACTOR: Final = 1.15  # cores that share memory bandwidth are slower than the one core that was timed
_LEARNING_FACTOR: Final = 4.0  # cost of an epoch that also learns an explainer, relative to plain training


@dataclass(frozen=True)
class Stage:
    """One part of the work with its amount and duration in seconds."""

    name: str
    count: int
    unit: str
    seconds: float


@dataclass(frozen=True)
class Forecast:
    """The estimated remaining work of a comparison.

    Attributes:
        summary: the plan in a few lines.
        stages: the remaining parts of the work.
        runs: training runs of the whole plan.
        done: training runs that the folder already holds; None if unknown.
        workers: training runs at a time.
        spent: seconds that the estimate took.
        notes: remarks of the setup.
    """

    summary: tuple[str, ...]
    stages: tuple[Stage, ...]
    runs: int
    done: int | None
    workers: int
    spent: float
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Remaining time in seconds."""
        return sum(stage.seconds for stage in self.stages)

    def to_document(self) -> dict[str, object]:
        """The forecast as plain JSON."""
        return asdict(self) | {"seconds": self.seconds}

    def table(self) -> str:
        """The forecast as text: the plan, a table with one line per stage, and remarks."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_footer=True)
        table.add_column("work", Text("total"), no_wrap=True)
        table.add_column("amount", "", justify="right")
        table.add_column("time", Text(format_duration(self.seconds)), justify="right")
        for stage in self.stages:
            table.add_row(Text(stage.name), Text(f"{stage.count:,} {stage.unit}"), Text(format_duration(stage.seconds)))
        return "\n".join([*self.summary, render_text(table), *self.remarks()])

    def remarks(self) -> list[str]:
        """Remarks below the table."""
        done = "unknown" if self.done is None else f"{self.done:,}"
        return [
            f"Runs: {self.runs:,}, done already: {done}; {self.workers} at a time.",
            *self.notes,
            f"Estimated in {format_duration(self.spent)} from short measurements on this machine; nothing was stored.",
        ]


@dataclass(frozen=True)
class Workload:
    """The amounts that decide the duration of a comparison. `used_rows` counts the rows explained for students."""

    labels: tuple[str, ...]
    sizes: tuple[int, ...]
    seeds: int
    used_rows: int
    dev: int
    test: int
    eval_rows: int
    workers: int

    @classmethod
    def of(cls, setup: Setup, *, workers: int, eval_rows: int) -> "Workload":
        config = setup.config
        return cls(
            labels=tuple(setup.labels),
            sizes=config.train_sizes,
            seeds=len(config.seeds),
            used_rows=len(setup.used_rows),
            dev=len(setup.data["dev"]),
            test=len(setup.data["test"]),
            eval_rows=eval_rows,
            workers=max(workers, 1),
        )

    def runs(self, setup: Setup) -> int:
        """The number of distinct training runs; table rows may share one."""
        return setup.count_runs(self.labels) * len(self.sizes) * self.seeds


def expected_used(pool: int, size: int, seeds: int) -> int:
    """The expected number of distinct rows in `seeds` random subsets of `size` rows."""
    return round(pool * (1 - (1 - min(size, pool) / pool) ** seeds)) if pool else 0


def stages(setup: Setup, costs: Costs, work: Workload) -> list[Stage]:
    """All stages of a comparison with their estimated durations."""
    methods = [method for method in setup.methods if method.label in work.labels]
    explained = [method for method in methods if method.label in costs.explain]
    rows = work.used_rows + work.dev + work.test
    rows += _edits(setup, work.used_rows, students=work.seeds * len(work.sizes))
    work_stages = [Stage("labelling", rows, "rows", costs.answer * rows)]
    for method in explained:
        count = work.seeds * max(work.sizes) if method.resample_per_seed else work.used_rows
        work_stages.append(Stage(f"{EXPLAINING}{method.label}", count, "rows", costs.explain[method.label] * count))
    seconds = sum(_training_seconds(setup, costs, work, method) for method in methods) * work.seeds
    work_stages.append(Stage("training students", work.runs(setup), "runs", _WORKER_START_SECONDS + seconds))
    if work.eval_rows:
        scored = [method for method in explained if method.has_own_scores]
        explaining = sum(
            costs.explain[method.label] * (work.eval_rows + (0 if method.is_control else TIMED_ROWS))
            for method in scored
        )
        scoring = costs.evaluate * work.eval_rows * len(scored)
        work_stages.append(Stage(SCORING, work.eval_rows, "rows", explaining + scoring))
    work_stages.append(Stage("report", 1, "page", _REPORT_SECONDS))
    return work_stages


def total_seconds(work_stages: Sequence[Stage]) -> float:
    return sum(stage.seconds for stage in work_stages)


def _training_seconds(setup: Setup, costs: Costs, work: Workload, method: ComparedMethod) -> float:
    """Seconds per seed to train all students and sizes of a method, divided by the workers that can train them."""
    seconds = 0.0
    for student in setup.students:
        cost = costs.students[str(student)]
        epochs = setup.training(student).epochs
        trials = 1 if method.role is Role.EXTRA else len(student_trials(setup.config, student))
        if method.role is Role.SHARPENED and "temperature" in strategy_options(student.strategy):
            trials *= len(setup.config.temperatures)
        factor = _LEARNING_FACTOR if method.role is Role.COTRAINED else trials
        workers = 1 if setup.is_local(student, student.strategy.name) else work.workers
        share = (_BUSY_CORE_FACTOR if work.workers > 1 else 1.0) / workers
        for size in work.sizes:
            epoch = size * cost.train + work.dev * cost.predict
            arms, answered = len(setup.arms(method, student)), work.test + _edits(setup, size)
            seconds += arms * share * (factor * epochs * epoch + answered * cost.predict)
    return seconds


def _edits(setup: Setup, rows: int, students: int = 1) -> int:
    """About how many edited rows the test set `edited` has for students that train on `rows` different rows."""
    if setup.edited is None:
        return 0
    edits_per_row = len(setup.edited.rows) / max(len(setup.edited.by_source), 1)
    return round(edits_per_row * min(rows, sources_per_student(setup.config) * students))


def format_duration(seconds: float) -> str:
    """A duration as text: 40 s, 12 min, 2.5 h."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
