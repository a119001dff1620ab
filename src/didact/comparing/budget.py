"""Fits a plan to a time budget: drops slow methods first, then rows, then samples. Uses time only, never results."""

import inspect
from dataclasses import dataclass, replace
from typing import Final

from didact.comparing.config import CompareConfig
from didact.comparing.costs import Costs
from didact.comparing.forecast import Workload, expected_used, format_duration, stages, total_seconds
from didact.comparing.setup import Setup
from didact.errors import DidactError
from didact.explainers import EXPLAINERS
from didact.explainers.build import knows_option
from didact.explainers.kernel_shap import AUTO_SAMPLES
from didact.registry import Spec, parse_spec

TARGET: Final = 0.8  # share of the budget to fill, a margin for errors of the estimate
METRIC_ROWS: Final = (20, 100)  # minimum and maximum of eval_rows if the plan leaves it open
_METRIC_SHARE: Final = 0.5  # time for metrics without a budget, relative to the rest of the run
_FEWEST_METHODS: Final = 2  # that stay if didact chose the methods
_FEWEST_SAMPLES: Final = {"samples": 100, "permutations": 4}
_POOL: Final = 2  # size of the pool of training rows, relative to the largest subset


@dataclass(frozen=True)
class RowBudget:
    """Numbers of rows that go together: for training, dev, test and other metrics."""

    size: int
    dev: int
    test: int
    metrics: int


ROW_BUDGETS: Final = (
    RowBudget(500, 200, 1000, 100),
    RowBudget(500, 150, 600, 60),
    RowBudget(400, 120, 500, 50),
    RowBudget(300, 100, 400, 40),
    RowBudget(250, 80, 300, 30),
    RowBudget(200, 60, 250, 25),
    RowBudget(150, 50, 200, 20),
    RowBudget(100, 40, 150, 10),
)
_REFERENCE: Final = ROW_BUDGETS[3]  # methods that do not fit even with these rows are dropped


def fit_plan(
    setup: Setup, costs: Costs, requested: CompareConfig, *, workers: int, seconds: float, test: int | None = None
) -> CompareConfig:
    """Reduce methods, rows and samples until the plan is estimated at `seconds` or less.

    `requested` is the plan as the user wrote it. Numbers that it names stay; methods that it names are dropped only if
    nothing else helps. `left_out` of the result lists what was dropped. `test` is the number of test rows in the data;
    the setup may hold fewer.
    """
    return _BudgetFitter(
        setup, costs, requested, workers, seconds, len(setup.data["test"]) if test is None else test
    ).fit()


def metric_rows(setup: Setup, costs: Costs, *, workers: int) -> int:
    """`eval_rows` without a budget: as many as take at most half as long as the rest of the run, or a minute."""
    minimum, maximum = METRIC_ROWS
    test = len(setup.data["test"])
    base_seconds = total_seconds(stages(setup, costs, Workload.of(setup, workers=workers, eval_rows=0)))
    for rows in range(min(maximum, test), min(minimum, test), -10):
        seconds = total_seconds(stages(setup, costs, Workload.of(setup, workers=workers, eval_rows=rows)))
        if seconds - base_seconds <= max(60.0, _METRIC_SHARE * base_seconds):
            return rows
    return min(minimum, test)


class _BudgetFitter:
    """State of the search. `methods` are those still in the plan, `shares` the fraction of samples each one keeps."""

    def __init__(
        self, setup: Setup, costs: Costs, requested: CompareConfig, workers: int, seconds: float, test: int
    ) -> None:
        self.setup, self.costs, self.requested, self.test = setup, costs, requested, test
        self.workers, self.seconds = max(workers, 1), seconds
        self.methods = list(setup.config.explainers)
        self.shares = dict.fromkeys(self.methods, 1.0)
        self.left_out: list[str] = []

    def fit(self) -> CompareConfig:
        if self.setup.defaults:
            self._drop_methods(_REFERENCE, minimum=_FEWEST_METHODS)
        row_budget = next((row_budget for row_budget in ROW_BUDGETS if self._fits(row_budget)), ROW_BUDGETS[-1])
        self._draw_fewer_samples(row_budget)
        self._drop_methods(row_budget, minimum=1)
        estimate = self._seconds_of(row_budget)
        if estimate > self.seconds:
            self.left_out.append(
                f"The smallest plan is estimated at {format_duration(estimate)}, but the budget leaves "
                f"{format_duration(self.seconds)}: {self._advice()}."
            )
        config = self._with_row_budget(row_budget)
        explainers = tuple(_with_sample_share(name, self.shares[name]) for name in self.methods)
        return config.with_fields(explainers=explainers, left_out=tuple(self.left_out))

    def _advice(self) -> str:
        """What to change if even the smallest plan takes too long. Only one method is left by then."""
        options = [
            f"fewer {name}" for name, count in (
                ("students", len(self.setup.config.students)), ("seeds", len(self.requested.seeds)),
                ("sizes", len(self.requested.train_sizes)),
            ) if count > 1
        ]  # fmt: skip
        return " or ".join(["give more time", *options])

    def _drop_methods(self, row_budget: RowBudget, *, minimum: int) -> None:
        """Drop the slowest method until the plan fits or only `minimum` methods are left."""
        while len(self.methods) > minimum and not self._fits(row_budget):
            slowest = max(self.methods, key=lambda name: self.costs.explain.get(name, 0.0) * self.shares[name])
            before = self._seconds_of(row_budget)
            self.methods.remove(slowest)
            saved = before - self._seconds_of(row_budget)
            self.left_out.append(f"{slowest} (about {format_duration(saved)} to explain, train with and score).")

    def _draw_fewer_samples(self, row_budget: RowBudget) -> None:
        """Halve the samples of all sampling methods until the plan fits or no method can go lower."""
        while not self._fits(row_budget):
            halvable = [name for name in self.methods if _can_halve(name, self.shares[name])]
            if not halvable:
                break
            for name in halvable:
                self.shares[name] /= 2
        changed = [(name, _with_sample_share(name, share)) for name, share in self.shares.items() if share < 1]
        self.left_out += [f"{name} draws fewer samples than usual: {new}." for name, new in changed]

    def _fits(self, row_budget: RowBudget) -> bool:
        return self._seconds_of(row_budget) <= self.seconds

    def _seconds_of(self, row_budget: RowBudget) -> float:
        config = self._with_row_budget(row_budget)
        dropped = set(self.setup.config.explainers) - set(self.methods)
        labels = tuple(method.label for method in self.setup.methods if method.label not in dropped)
        work = Workload(
            labels, config.train_sizes, len(config.seeds), self._explained_rows(config),
            config.dev_rows or len(self.setup.data["dev"]),
            config.test_rows or self.test, config.eval_rows or 0, self.workers,
        )  # fmt: skip
        explain = {name: cost * self.shares.get(name, 1.0) for name, cost in self.costs.explain.items()}
        return total_seconds(stages(self.setup, replace(self.costs, explain=explain), work))

    def _with_row_budget(self, row_budget: RowBudget) -> CompareConfig:
        """The plan with these numbers of rows; numbers that the user named stay."""
        requested, setup = self.requested, self.setup
        dev, test = len(setup.data["dev"]), self.test
        sizes = requested.train_sizes or (min(row_budget.size, max(setup.config.train_sizes)),)
        pool_size = _POOL * max(sizes)
        return setup.config.with_fields(
            train_sizes=sizes,
            seeds=requested.seeds,
            train_rows=requested.train_rows or (pool_size if pool_size < len(setup.pool) else None),
            dev_rows=requested.dev_rows or (row_budget.dev if row_budget.dev < dev else None),
            test_rows=requested.test_rows or min(row_budget.test, test),
            eval_rows=min(row_budget.metrics, test) if requested.eval_rows is None else requested.eval_rows,
        )

    def _explained_rows(self, config: CompareConfig) -> int:
        pool_size = min(config.train_rows or len(self.setup.pool), len(self.setup.pool))
        return expected_used(pool_size, max(config.train_sizes), len(config.seeds))


def _sampling_option(method: str) -> tuple[Spec, str, int] | None:
    """For a method that draws samples: its spec, the name of the option and its value. Otherwise None."""
    try:
        spec = parse_spec(method)
    except DidactError:  # a file or a folder
        return None
    for option in _FEWEST_SAMPLES:
        if spec.name in EXPLAINERS and knows_option(spec.name, option):
            default = inspect.signature(EXPLAINERS.load(spec.name)).parameters[option].default
            value = spec.options.get(option, default)
            value = AUTO_SAMPLES if value == "auto" else value
            if isinstance(value, int):
                return spec, option, value
    return None


def _can_halve(method: str, share: float) -> bool:
    sampling = _sampling_option(method)
    return sampling is not None and int(sampling[2] * share / 2) >= _FEWEST_SAMPLES[sampling[1]]


def _with_sample_share(method: str, share: float) -> str:
    """The method with this fraction of its samples."""
    sampling = _sampling_option(method)
    if sampling is None or share == 1:
        return method
    spec, option, value = sampling
    return str(Spec(spec.name, {**spec.options, option: int(value * share)}))
