"""The leading methods by metric and by family of metrics, leads that are no better than chance, and their texts."""

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
    """The methods that are best by most metrics of a family: by `count` of `total`. Several names are a tie.

    `names` is empty if no method is best by at least half of the metrics. `tied` counts the metrics whose best printed
    value several methods share.
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
    """The leader of each family of metrics. A metric counts if at least two methods have it."""
    heading = _measured(run).metrics.heading
    families: dict[str, list[list[str]]] = {}
    for metric, names in winners(run).items():
        if len(competitors(run, metric)) > 1:
            families.setdefault(family_of(metric, heading), []).append(names)
    family_leaders = []
    for family, winners_by_metric in families.items():
        alone = Counter(names[0] for names in winners_by_metric if len(names) == 1)
        shared = Counter(name for names in winners_by_metric for name in names)
        counts = alone or shared
        if counts:
            most = max(counts.values())
            best = tuple(
                name for name, count in counts.items() if count == most and 2 * count >= len(winners_by_metric)
            )
            family_leaders.append(
                Leader(family, best, most, len(winners_by_metric), sum(len(names) > 1 for names in winners_by_metric))
            )
    return family_leaders


def winners(run: Comparison) -> dict[str, list[str]]:
    """The best methods by metric, without controls: those with the best printed value, if better than random.

    The list is empty if only one method has the metric, or if random explanations reach the best value.
    """
    measured = _measured(run)
    is_better = better_than_random(measured)
    best_methods: dict[str, list[str]] = {}
    for metric, better in _directions(measured).items():
        values = competitors(run, metric)
        best_methods[metric] = []
        if len(values) > 1:
            best = min(values.values()) if better == "lower" else max(values.values())
            tied = [name for name, value in values.items() if metric_text(value) == metric_text(best)]
            best_methods[metric] = [name for name in tied if is_better.get((metric, name), True)]
    return best_methods


def competitors(run: Comparison, metric: str) -> dict[str, float]:
    """The value of a metric by method, without controls."""
    measured = _measured(run)
    controls = run.controls | measured.controls | set(CHANCE)
    return {
        line.method: line.value
        for line in measured.metrics.rows
        if line.metric == metric and line.method not in controls and line.value is not None
    }


def no_better_than_random(run: Comparison, method: str, family: str) -> tuple[int, int]:
    """Two counts of the metrics of a family: where a method is no better than random, and where that was tested."""
    measured = _measured(run)
    outcomes = [
        is_better
        for (metric, name), is_better in better_than_random(measured).items()
        if name == method and family_of(metric, measured.metrics.heading) == family
    ]
    return outcomes.count(False), len(outcomes)


def metric_text(value: float) -> str:
    """The value of a metric as printed on the page."""
    return minus(f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}")


def _measured(run: Comparison) -> Measurements:
    """The measurements of a run; empty if it has none."""
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
    """Whether a method is claimed better than random explanations, by metric and method."""
    return {
        (metric, first): sign > 0
        for (metric, first, second), sign in claimed_differences(measured).items()
        if second == RANDOM
    }


def more_faithful(run: Comparison, method: str) -> list[str]:
    """Methods claimed better than `method` by more than half of the faithfulness metrics that test the two.

    Best first, without controls.
    """
    heading = _measured(run).metrics.heading
    signs: dict[str, list[int]] = {}
    for (metric, first, second), sign in claimed_differences(_measured(run)).items():
        if second == method and family_of(metric, heading) == FAITHFULNESS and first in competitors(run, metric):
            signs.setdefault(first, []).append(sign)
    wins = {
        name: metric_signs.count(1)
        for name, metric_signs in signs.items()
        if 2 * metric_signs.count(1) > len(metric_signs)
    }
    return sorted(wins, key=lambda name: -wins[name])


def family_of(metric: str, heading: str) -> str:
    """faithfulness, plausibility (or truth) or stability; `other` for a metric unknown to this version of didact."""
    entry = metric_entry(metric)
    if entry is None:
        return "other"
    return heading if entry.measures == "plausibility" else entry.measures


def metric_entry(metric: str) -> MetricEntry | None:
    """The registry entry of a metric; None for one unknown to this version of didact."""
    try:
        return METRICS[parse_spec(metric).name]
    except DidactError:
        return None


# -- sentences -------------------------------------------------------------------------------------------------------


def faithfulness_text(run: Comparison, tied: Sequence[str]) -> str:
    """The part of the headline about faithfulness, or "". docs/compare.md states the rule."""
    counts = [no_better_than_random(run, name, FAITHFULNESS) for name in tied]
    if all(2 * not_better > tested for not_better, tested in counts):
        return f", but {'none of them is' if len(tied) > 1 else 'it is no'} more faithful than random marks"
    better = [more_faithful(run, name) for name in tied]
    ahead = [name for name in better[0] if all(name in names for names in better)]
    return f"; {quoted(ahead)} {'is' if len(ahead) == 1 else 'are'} clearly more faithful" if ahead else ""


def other_measures_texts(run: Comparison, tied: Sequence[str]) -> tuple[str, ...]:
    """Sentences about the methods of a headline by faithfulness and the other measures."""
    texts = []
    for name in tied:
        not_better, tested = no_better_than_random(run, name, FAITHFULNESS)
        if not_better * 2 > tested:
            texts.append(f"By faithfulness “{name}” is no better than random marks ({not_better} of {tested} metrics).")
        if better := more_faithful(run, name):
            texts.append(f"{quoted(better)} {'is' if len(better) == 1 else 'are'} clearly more faithful than “{name}”.")
    return (*texts, *leading_texts(run, tied))


def leading_texts(run: Comparison, tied: Sequence[str]) -> tuple[str, ...]:
    """Sentences about the leaders by the other measures, and whether the same methods teach best."""
    family_leaders = leaders(run)
    if not family_leaders:
        return ()
    if not tied:
        start = "Other measures need no students"
    elif all(leader.names == tuple(tied[:1]) for leader in family_leaders):
        start = "Other measures point the same way"
    elif len(tied) > 1 and (
        tied_leaders := [
            family_leader
            for family_leader in family_leaders
            if len(family_leader.names) == 1 and family_leader.names[0] in tied
        ]
    ):
        return (
            *_tied_texts(tied_leaders),
            *_remaining_texts(family_leader for family_leader in family_leaders if family_leader not in tied_leaders),
        )
    else:
        start = "Teaching is one measure. By others"
    return (f"{start}: {'; '.join(family_leader.text for family_leader in family_leaders)}.",)


def _tied_texts(tied_leaders: Sequence[Leader]) -> list[str]:
    """Sentences about methods that are tied in teaching and lead by another measure."""
    by_name: dict[str, list[Leader]] = {}
    for leader in tied_leaders:
        by_name.setdefault(leader.names[0], []).append(leader)
    return [
        f"Of those tied, “{name}” also leads in "
        f"{join_names([f'{leader.family} ({leader.scope})' for leader in leads])}."
        for name, leads in by_name.items()
    ]


def _remaining_texts(remaining_leaders: Iterable[Leader]) -> list[str]:
    texts = [leader.text for leader in remaining_leaders]
    return [f"By other measures: {'; '.join(texts)}."] if texts else []


def quoted(names: Sequence[str]) -> str:
    """The names in quotation marks; of many names, the first four and the number of the others."""
    marked = [f"“{name}”" for name in names]
    more = len(marked) - _NAMED
    return join_names([*marked[:_NAMED], f"{more} more"]) if more > 1 else join_names(marked)
