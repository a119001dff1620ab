"""Which method leads by each metric and family of metrics, which leads are no better than chance, and that in words."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from didact.errors import DidactError
from didact.metrics import METRICS, MetricEntry
from didact.registry import parse_spec
from didact.results.comparison import Comparison
from didact.results.measured import Measurements
from didact.results.number_format import join_names, minus

RANDOM: Final = "random"
CHANCE: Final = (RANDOM, "trivial")  # what any method has to beat
FAITHFULNESS: Final = "faithfulness"
_NAMED: Final = 4  # methods that a title names


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
            return f"in {self.family} {join_names(self.names)} are tied (each {self.scope})"
        tied = f", {self.tied} tied" if self.tied else ""
        return f"{self.family} is led by {self.names[0]} ({self.scope}{tied})"


def leaders(run: Comparison) -> list[Leader]:
    """The leader of each family of metrics. Metrics that only one method has are not counted."""
    heading = _measured(run).metrics.heading
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
    measured = _measured(run)
    beyond = better_than_random(measured)
    found: dict[str, list[str]] = {}
    for metric, better in _directions(measured).items():
        values = competitors(run, metric)
        found[metric] = []
        if len(values) > 1:
            best = min(values.values()) if better == "lower" else max(values.values())
            same = [name for name, value in values.items() if metric_text(value) == metric_text(best)]
            found[metric] = [name for name in same if beyond.get((metric, name), True)]
    return found


def competitors(run: Comparison, metric: str) -> dict[str, float]:
    """By method its value of a metric; controls do not compete."""
    measured = _measured(run)
    controls = run.controls | measured.controls | set(CHANCE)
    return {
        line.method: line.value
        for line in measured.metrics.rows
        if line.metric == metric and line.method not in controls and line.value is not None
    }


def no_better_than_random(run: Comparison, method: str, family: str) -> tuple[int, int]:
    """In how many metrics of a family a method is no better than random explanations, of how many that tell."""
    measured = _measured(run)
    known = [
        is_better
        for (metric, name), is_better in better_than_random(measured).items()
        if name == method and family_of(metric, measured.metrics.heading) == family
    ]
    return known.count(False), len(known)


def metric_text(value: float) -> str:
    """The value of a metric as the page prints it."""
    return minus(f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}")


def _measured(run: Comparison) -> Measurements:
    """What was measured; a run that measured nothing has no metrics."""
    return run.measured or Measurements()


def _directions(measured: Measurements) -> Mapping[str, str]:
    return {line.metric: line.better for line in measured.metrics.rows}


def claimed_differences(measured: Measurements) -> dict[tuple[str, str, str], int]:
    """By metric and two methods: 1 if the first is claimed better, −1 if worse, 0 if the interval includes 0."""
    better = _directions(measured)
    signs = {}
    for test in measured.metrics.tests:
        if test.low is not None and test.high is not None:
            sign = (test.low > 0) - (test.high < 0)
            sign = -sign if better.get(test.metric) == "lower" else sign
            signs[test.metric, test.method, test.other], signs[test.metric, test.other, test.method] = sign, -sign
    return signs


def better_than_random(measured: Measurements) -> dict[tuple[str, str], bool]:
    """By metric and method: whether it is claimed better than random explanations."""
    return {
        (metric, first): sign > 0
        for (metric, first, second), sign in claimed_differences(measured).items()
        if second == RANDOM
    }


def more_faithful(run: Comparison, method: str) -> list[str]:
    """The methods claimed better than `method` in more than half of the faithfulness metrics that test the two.

    Best first. Controls do not count.
    """
    heading = _measured(run).metrics.heading
    signs: dict[str, list[int]] = {}
    for (metric, first, second), sign in claimed_differences(_measured(run)).items():
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


# -- in words --------------------------------------------------------------------------------------------------------


def faithfulness_text(run: Comparison, tied: Sequence[str]) -> str:
    """What the headline adds about faithfulness; docs/compare.md states the rule."""
    chance = [no_better_than_random(run, name, FAITHFULNESS) for name in tied]
    if all(2 * worse > known for worse, known in chance):
        return f", but {'none of them is' if len(tied) > 1 else 'it is no'} more faithful than random marks"
    better = [more_faithful(run, name) for name in tied]
    ahead = [name for name in better[0] if all(name in own for own in better)]
    return f"; {quoted(ahead)} {'is' if len(ahead) == 1 else 'are'} clearly more faithful" if ahead else ""


def other_measures_texts(run: Comparison, tied: Sequence[str]) -> tuple[str, ...]:
    """What faithfulness and the other measures say about the methods of a headline."""
    said = []
    for name in tied:
        worse, known = no_better_than_random(run, name, FAITHFULNESS)
        if worse * 2 > known:
            said.append(f"By faithfulness “{name}” is no better than random marks ({worse} of {known} metrics).")
        if better := more_faithful(run, name):
            said.append(f"{quoted(better)} {'is' if len(better) == 1 else 'are'} clearly more faithful than “{name}”.")
    return (*said, *leading_texts(run, tied))


def leading_texts(run: Comparison, tied: Sequence[str]) -> tuple[str, ...]:
    """Which methods lead by the other measures, and whether they are those that teach."""
    found = leaders(run)
    if not found:
        return ()
    if not tied:
        start = "Other measures need no students"
    elif all(leader.names == tuple(tied[:1]) for leader in found):
        start = "Other measures point the same way"
    elif len(tied) > 1 and (also := [one for one in found if len(one.names) == 1 and one.names[0] in tied]):
        return (*_also(also), *_rest(one for one in found if one not in also))
    else:
        start = "Teaching is one measure. By others"
    return (f"{start}: {'; '.join(one.text for one in found)}.",)


def _also(found: Sequence[Leader]) -> list[str]:
    """Of methods that are tied in teaching, those that lead elsewhere."""
    by_name: dict[str, list[Leader]] = {}
    for one in found:
        by_name.setdefault(one.names[0], []).append(one)
    return [
        f"Of those tied, “{name}” also leads in {join_names([f'{one.family} ({one.scope})' for one in own])}."
        for name, own in by_name.items()
    ]


def _rest(found: Iterable[Leader]) -> list[str]:
    texts = [one.text for one in found]
    return [f"By other measures: {'; '.join(texts)}."] if texts else []


def quoted(names: Sequence[str]) -> str:
    """The names in quotation marks; of many, the first and how many more."""
    marked = [f"“{name}”" for name in names]
    more = len(marked) - _NAMED
    return join_names([*marked[:_NAMED], f"{more} more"]) if more > 1 else join_names(marked)
