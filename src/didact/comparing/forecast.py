"""What a comparison will take: runs, what is done already, and the time, from what its parts cost.

`Workload` is how much there is of each part, a `Stage` one part with its seconds.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from didact.comparing.costs import Costs
from didact.comparing.evaluation import TIMED_ROWS
from didact.comparing.methods import ComparedMethod, Role
from didact.comparing.setup import Setup
from didact.results.text_table import render_text
from didact.students.build import strategy_options

EXPLAINING: Final = "explaining: "  # before the label of a method
SCORING: Final = "scoring with other metrics"
_WORKER_START_SECONDS: Final = 6.0  # seconds until worker processes have imported torch and read the rows
_REPORT_SECONDS: Final = 5.0
_BUSY_CORE_FACTOR: Final = 1.15  # a core that shares its memory with busy ones is slower than the one that was timed
_LEARNING_EPOCHS: Final = 4.0  # learning an explainer beside a student, in epochs of plain training


@dataclass(frozen=True)
class Stage:
    """One part of the work, and the seconds it takes."""

    name: str
    count: int
    unit: str
    seconds: float


@dataclass(frozen=True)
class Forecast:
    """What a comparison takes from here on. `summary` says it in a few lines; `spent` is what finding out took.

    `stages` are the parts of the work without what is done already.
    `runs` are those of the whole plan and `done` those that the folder holds already; None where that is not known.
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
        """The seconds of what is left to do."""
        return sum(stage.seconds for stage in self.stages)

    def to_document(self) -> dict[str, object]:
        """Plain JSON."""
        return asdict(self) | {"seconds": self.seconds}

    def table(self) -> str:
        """For people: the plan, a line for each part of the work, and what else is to be known."""
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
        """What must be read with the table."""
        done = "unknown" if self.done is None else f"{self.done:,}"
        return [
            f"Runs: {self.runs:,}, done already: {done}; {self.workers} at a time.",
            *self.notes,
            f"Estimated in {format_duration(self.spent)} from short measurements on this machine; nothing was stored.",
        ]


@dataclass(frozen=True)
class Workload:
    """The numbers that decide the time of a comparison. `used` rows are explained for students."""

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
        """The different runs, each counted once however many rows of the table show it."""
        return setup.count_runs(self.labels) * len(self.sizes) * self.seeds


def expected_used(pool: int, size: int, seeds: int) -> int:
    """How many different rows so many subsets of a pool hold on average."""
    return round(pool * (1 - (1 - min(size, pool) / pool) ** seeds)) if pool else 0


def stages(setup: Setup, costs: Costs, work: Workload) -> list[Stage]:
    """The parts of the work that lie ahead, with their seconds."""
    methods = [method for method in setup.methods if method.label in work.labels]
    explained = [method for method in methods if method.label in costs.explain]
    rows = work.used_rows + work.dev + work.test
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
    """Of one seed, over students and sizes, shared among the workers that can train them."""
    seconds = 0.0
    for student in setup.students:
        if not setup.takes_part(method, student):
            continue
        cost = costs.students[str(student)]
        epochs = setup.training(student).epochs
        trials = len(setup.config.trials(student.strategy))
        if method.role is Role.SHARPENED and "temperature" in strategy_options(student.strategy):
            trials *= len(setup.config.temperatures)
        factor = _LEARNING_EPOCHS if method.role is Role.COTRAINED else trials
        workers = 1 if setup.is_local(student, student.strategy.name) else work.workers
        share = (_BUSY_CORE_FACTOR if work.workers > 1 else 1.0) / workers
        for size in work.sizes:
            epoch = size * cost.train + work.dev * cost.predict
            seconds += share * (factor * epochs * epoch + work.test * cost.predict)
    return seconds


def format_duration(seconds: float) -> str:
    """A time for people: 40 s, 12 min, 2.5 h."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
