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
_START: Final = 6.0  # seconds until worker processes have imported torch and read the rows
_REPORT: Final = 5.0
_SHARED: Final = 1.15  # a core that shares its memory with busy ones is slower than the one that was timed
_LEARNING: Final = 4.0  # learning an explainer beside a student, in epochs of plain training


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
    used: int
    dev: int
    test: int
    measured: int
    workers: int

    @classmethod
    def of(cls, setup: Setup, *, workers: int, measured: int) -> "Workload":
        config = setup.config
        return cls(
            labels=tuple(setup.labels),
            sizes=config.train_sizes,
            seeds=len(config.seeds),
            used=len(setup.used),
            dev=len(setup.data["dev"]),
            test=len(setup.data["test"]),
            measured=measured,
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
    methods = [one for one in setup.methods if one.label in work.labels]
    explained = [one for one in methods if one.label in costs.explain]
    rows = work.used + work.dev + work.test
    found = [Stage("labelling", rows, "rows", costs.answer * rows)]
    for one in explained:
        count = work.seeds * max(work.sizes) if one.resample_per_seed else work.used
        found.append(Stage(f"{EXPLAINING}{one.label}", count, "rows", costs.explain[one.label] * count))
    seconds = sum(_training_seconds(setup, costs, work, one) for one in methods) * work.seeds
    found.append(Stage("training students", work.runs(setup), "runs", _START + seconds))
    if work.measured:
        own = [one for one in explained if one.has_own_scores]
        explaining = sum(
            costs.explain[one.label] * (work.measured + (0 if one.is_control else TIMED_ROWS)) for one in own
        )
        scoring = costs.evaluate * work.measured * len(own)
        found.append(Stage(SCORING, work.measured, "rows", explaining + scoring))
    found.append(Stage("report", 1, "page", _REPORT))
    return found


def total_seconds(parts: Sequence[Stage]) -> float:
    return sum(part.seconds for part in parts)


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
        factor = _LEARNING if method.role is Role.COTRAINED else trials
        workers = 1 if setup.is_local(student, student.strategy.name) else work.workers
        share = (_SHARED if work.workers > 1 else 1.0) / workers
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
