"""Which method leads by each metric and each family of metrics, and which leads are no better than chance."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from didact.errors import DidactError
from didact.metrics import METRICS, MetricEntry
from didact.registry import parse_spec
from didact.results.comparison import Comparison
from didact.results.measured import Measured
from didact.results.number_format import minus

RANDOM: Final = "random"
CHANCE: Final = (RANDOM, "trivial")  # what any method has to beat
FAITHFULNESS: Final = "faithfulness"


@dataclass(frozen=True)
class Leader:
    """The methods that are best by most metrics of a family: in `count` of `total`. Several names are a tie.

    `names` is empty if no method is best in at least half of the metrics. `tied` counts the metrics in which no single
    method leads in the digits that are printed.
    """

    family: str
    names: tuple[str, ...]
    count: int
    total: int
    tied: int

    @property
    def scope(self) -> str:
        return f"best in {self.count} of {self.total} {'metric' if self.total == 1 else 'metrics'}"

    @property
    def text(self) -> str:
        if not self.names:
            return f"no method leads in {self.family} (none is best in more than {self.count} of {self.total} metrics)"
        if len(self.names) > 1:
            return f"in {self.family} {listed(self.names)} are tied (each {self.scope})"
        tied = f", {self.tied} tied" if self.tied else ""
        return f"{self.family} is led by {self.names[0]} ({self.scope}{tied})"


def leaders(run: Comparison) -> list[Leader]:
    """The leader of each family of metrics. Metrics that only one method has are not counted."""
    if run.measured is None:
        return []
    heading = run.measured.metrics.heading
    families: dict[str, list[list[str]]] = {}
    for metric, names in winners(run).items():
        if len(competitors(run, metric)) > 1:
            families.setdefault(family_of(metric, heading), []).append(names)
    found = []
    for family, won in families.items():
        alone = Counter(names[0] for names in won if len(names) == 1)
        shared = Counter(name for names in won for name in names)
        counts = alone or shared
        if counts:
            most = max(counts.values())
            best = tuple(name for name, count in counts.items() if count == most and 2 * count >= len(won))
            found.append(Leader(family, best, most, len(won), sum(len(names) > 1 for names in won)))
    return found


def winners(run: Comparison) -> dict[str, list[str]]:
    """By metric the best methods, controls left out: those that print the same best value, if better than random.

    A metric that one method alone has is won by none, and neither is one whose best value random ones reach.
    """
    if run.measured is None:
        return {}
    beyond = beyond_chance(run.measured)
    found: dict[str, list[str]] = {}
    for metric, better in _directions(run.measured).items():
        values = competitors(run, metric)
        found[metric] = []
        if len(values) > 1:
            best = min(values.values()) if better == "lower" else max(values.values())
            same = [name for name, value in values.items() if written(value) == written(best)]
            found[metric] = [name for name in same if beyond.get((metric, name), True)]
    return found


def competitors(run: Comparison, metric: str) -> dict[str, float]:
    """By method its value of a metric; controls do not compete."""
    if run.measured is None:
        return {}
    controls = run.controls | run.measured.controls | set(CHANCE)
    return {
        line.method: line.value
        for line in run.measured.metrics.rows
        if line.metric == metric and line.method not in controls and line.value is not None
    }


def no_better_than_random(run: Comparison, method: str, family: str) -> tuple[int, int]:
    """In how many metrics of a family a method is no better than random explanations, of how many that tell."""
    if run.measured is None:
        return 0, 0
    heading = run.measured.metrics.heading
    known = [
        is_better
        for (metric, name), is_better in beyond_chance(run.measured).items()
        if name == method and family_of(metric, heading) == family
    ]
    return known.count(False), len(known)


def written(value: float) -> str:
    """The value of a metric as the page prints it."""
    return minus(f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}")


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _directions(measured: Measured) -> Mapping[str, str]:
    return {line.metric: line.better for line in measured.metrics.rows}


def told_apart(measured: Measured) -> dict[tuple[str, str, str], int]:
    """By metric and two methods: 1 if the first is claimed better, −1 if worse, 0 if the interval includes 0."""
    better = _directions(measured)
    signs = {}
    for test in measured.metrics.tests:
        if test.low is not None and test.high is not None:
            sign = (test.low > 0) - (test.high < 0)
            sign = -sign if better.get(test.metric) == "lower" else sign
            signs[test.metric, test.method, test.other], signs[test.metric, test.other, test.method] = sign, -sign
    return signs


def beyond_chance(measured: Measured) -> dict[tuple[str, str], bool]:
    """By metric and method: whether it is claimed better than random explanations."""
    return {
        (metric, first): sign > 0 for (metric, first, second), sign in told_apart(measured).items() if second == RANDOM
    }


def more_faithful(run: Comparison, method: str) -> list[str]:
    """The methods claimed better than `method` in more than half of the faithfulness metrics that test the two.

    Best first. Controls do not count.
    """
    if run.measured is None:
        return []
    heading = run.measured.metrics.heading
    signs: dict[str, list[int]] = {}
    for (metric, first, second), sign in told_apart(run.measured).items():
        if second == method and family_of(metric, heading) == FAITHFULNESS and first in competitors(run, metric):
            signs.setdefault(first, []).append(sign)
    wins = {name: own.count(1) for name, own in signs.items() if 2 * own.count(1) > len(own)}
    return sorted(wins, key=lambda name: -wins[name])


def family_of(metric: str, heading: str) -> str:
    """faithfulness, plausibility (or truth) or stability; `other` for a metric that this didact does not know."""
    entry = metric_entry(metric)
    if entry is None:
        return "other"
    return heading if entry.measures == "plausibility" else entry.measures


def metric_entry(metric: str) -> MetricEntry | None:
    """What is registered under the name of a metric; None for one that this didact does not know."""
    try:
        return METRICS[parse_spec(metric).name]
    except DidactError:
        return None
