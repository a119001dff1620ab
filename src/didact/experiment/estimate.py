"""How long a comparison takes, from what its parts cost. `Workload` is how much there is of each part."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from didact.experiment.costs import Costs
from didact.experiment.forecast import Stage
from didact.experiment.measure import TIMED
from didact.experiment.roster import Entrant, Roster
from didact.students.build import strategy_options

EXPLAINING: Final = "explaining: "  # before the label of a method
SCORING: Final = "scoring with other metrics"
_START: Final = 6.0  # seconds until worker processes have imported torch and read the rows
_REPORT: Final = 5.0
_SHARED: Final = 1.15  # a core that shares its memory with busy ones is slower than the one that was timed
_LEARNING: Final = 4.0  # learning an explainer beside a student, in epochs of plain training
_SAME: Final = ("cotrained", "flattened", "matched", "sharpened", "extra")  # rows measured by another row's scores


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
    def of(cls, roster: Roster, *, workers: int, measured: int) -> "Workload":
        plan = roster.plan
        return cls(
            tuple(one.label for one in roster.entrants), plan.train_sizes, len(plan.seeds), len(roster.used),
            len(roster.data["dev"]), len(roster.data["test"]), measured, max(workers, 1),
        )  # fmt: skip

    def runs(self, roster: Roster) -> int:
        """The different runs, each counted once however many rows of the table show it."""
        return roster.kinds_of_runs(self.labels) * len(self.sizes) * self.seeds


def expected_used(pool: int, size: int, seeds: int) -> int:
    """How many different rows so many subsets of a pool hold on average."""
    return round(pool * (1 - (1 - min(size, pool) / pool) ** seeds)) if pool else 0


def stages(roster: Roster, costs: Costs, work: Workload) -> list[Stage]:
    """The parts of the work that lie ahead, with their seconds."""
    entrants = [one for one in roster.entrants if one.label in work.labels]
    explained = [one for one in entrants if one.label in costs.explain]
    rows = work.used + work.dev + work.test
    found = [Stage("labelling", rows, "rows", costs.answer * rows)]
    for one in explained:
        count = work.seeds * max(work.sizes) if one.redrawn else work.used
        found.append(Stage(f"{EXPLAINING}{one.label}", count, "rows", costs.explain[one.label] * count))
    seconds = sum(_training_seconds(roster, costs, work, one) for one in entrants) * work.seeds
    found.append(Stage("training students", work.runs(roster), "runs", _START + seconds / work.workers))
    if work.measured:
        own = [one for one in explained if one.role not in _SAME]
        explaining = sum(costs.explain[one.label] * (work.measured + (0 if one.is_control else TIMED)) for one in own)
        scoring = costs.evaluate * work.measured * len(own)
        found.append(Stage(SCORING, work.measured, "rows", explaining + scoring))
    found.append(Stage("report", 1, "page", _REPORT))
    return found


def total(parts: Sequence[Stage]) -> float:
    return sum(part.seconds for part in parts)


def _training_seconds(roster: Roster, costs: Costs, work: Workload, entrant: Entrant) -> float:
    """Of one seed, over students and sizes."""
    seconds = 0.0
    for student in roster.students:
        if not roster.takes_part(entrant, student):
            continue
        cost = costs.students[str(student)]
        epochs = roster.training(student).epochs
        trials = len(roster.plan.trials(student.strategy))
        if entrant.role == "sharpened" and "temperature" in strategy_options(student.strategy):
            trials *= len(roster.plan.temperatures)
        factor = _LEARNING if entrant.role == "cotrained" else trials
        for size in work.sizes:
            epoch = size * cost.train + work.dev * cost.predict
            seconds += factor * epochs * epoch + work.test * cost.predict
    return seconds * (_SHARED if work.workers > 1 else 1.0)
