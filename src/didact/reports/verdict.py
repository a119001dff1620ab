"""What a comparison says, in plain words, and no more than it says."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from didact.errors import DidactError
from didact.metrics import METRICS
from didact.registry import parse_spec
from didact.reports.read import FEW, NONE, Gain, Measured, Run, number

RANDOM: Final = "random"
CHANCE: Final = (RANDOM, "trivial")  # what any method has to beat


@dataclass(frozen=True)
class Verdict:
    """`level` is clear, close, mixed, alone, beaten, unsure, nothing or empty; `best` the method it is about."""

    level: str
    title: str
    summary: str
    sure: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    best: str | None = None

    @property
    def text(self) -> str:
        """One paragraph."""
        return " ".join([f"{self.title}.", self.summary, *self.sure, *self.against])


CAUTION: Final = (
    "It does not mean that the explanation is a faithful account of what the model computes, nor that people learn "
    "from it. The other measures below look at it from other sides.",
    "It holds for these students, these rows and this size of training set. With enough rows every student does well, "
    "and gains shrink.",
    "A student that pools by attention takes well to explanations that look like attention. A diffuse method can lose "
    "to the same method sharpened.",
)


def verdict_of(run: Run) -> Verdict:
    """Which method teaches best among those that are no controls, and how sure that is."""
    asked = [name for name in run.explainers if name not in run.controls]
    if not run.rows:
        return Verdict(
            "empty", "Nothing could be compared", f"No cell of this run ended well; {len(run.failed):,} failed."
        )
    if not asked:
        return Verdict("empty", "Only controls were compared", "Name explainers to compare them with these controls.")
    ranked = [name for name in asked if run.gain(name) is not None]
    if not ranked:
        return Verdict(
            "empty", "No gain could be measured",
            "A gain is over students without explanations (none), and their cells are missing here.",
        )  # fmt: skip
    best = ranked[0]
    return _of(run, best, ranked[1:])


def _of(run: Run, best: str, others: Sequence[str]) -> Verdict:
    rows = [row for row in run.rows_of(best) if row.gain is not None]
    above = [row for row in rows if row.is_above]
    close = [name for name in others if _is_close(run, rows, name)]
    equals = [name for name in CHANCE if _ahead(run, rows, name)]
    name = f"“{best}”"
    if not any((row.gain or 0.0) > 0 for row in rows):
        level, title = "nothing", "No method helped: students did no better than without"
    elif not above:
        level, title = "unsure", f"No method clearly teaches: {name} comes first, and it may be chance"
    elif equals:
        what = " and ".join(equals)
        level, title = "beaten", f"{name} comes first, but {what} marks teach as much"
    elif len(above) < len(rows):
        level, title = "mixed", f"{name} teaches best, but not every student"
    elif not others:
        level, title = "alone", f"{name} teaches; there was no other method to compare it with"
    elif len(close) == 1:
        level, title = "close", f"{name} leads, but “{close[0]}” is too close to call"
    elif close:
        level, title = "close", f"{name} leads, but {len(close)} others are too close to call"
    else:
        level, title = "clear", f"{name} teaches best"
    return Verdict(
        level, title, _summary(run, best, rows), tuple(_sure(run, rows)), tuple(_against(run, rows, others)), best
    )


def _summary(run: Run, best: str, rows: Sequence[Gain]) -> str:
    if len(rows) > 1:
        gains = [row.gain or 0.0 for row in rows]
        return (
            f"Over {len(rows)} combinations of student and size, students who saw “{best}” while learning gain "
            f"{run.signed(run.gain(best))} {run.unit} on average over students who saw no explanation (from "
            f"{run.signed(min(gains))} to {run.signed(max(gains))})."
        )
    row = rows[0]
    plain = run.row(NONE, row.column)
    without = run.written(plain.mean if plain else None)
    how = f"{row.seeds} {'seed' if row.seeds == 1 else 'seeds'}, {row.test_rows:,} test rows"
    interval = f"95 % interval {run.interval(row)}" if row.has_interval else "no interval"
    if run.is_correlation:
        said = f"correlate with the model on unseen rows at r = {run.written(row.mean)}, against {without} without"
    elif run.measure == "f1":
        said = f"reach an F1 of {run.written(row.mean)} with the model's answers on unseen rows, against {without}"
    else:
        said = f"agree with the model on {run.written(row.mean)} % of unseen rows, against {without} % without"
    return f"Students who saw “{best}” while learning {said}: {run.signed(row.gain)} {run.unit} ({interval}; {how})."


def _sure(run: Run, rows: Sequence[Gain]) -> list[str]:
    said = []
    above = sum(row.is_above for row in rows)
    where = "" if len(rows) == 1 else f" in {above} of {len(rows)} combinations"
    least = min(row.seeds for row in rows)
    if not any(row.has_interval for row in rows):
        said.append("There are no intervals: whether this is more than chance is not known.")
    elif above == len(rows):
        chance = "that it teaches at all is not chance" if least >= FEW else "it teaches, as far as few seeds can tell"
        said.append(f"The interval lies above 0{where}: {chance}.")
    elif above:
        said.append(f"The interval lies above 0{where}, and not in the others.")
    else:
        below = all(row.is_below for row in rows)
        said.append("The interval lies below 0: it does harm." if below else "The interval holds 0.")
    if least == 1:
        said.append("There is one seed, so nothing is known of how much students differ. Use 5 or more.")
    elif least < FEW:
        said.append(f"With {least} seeds intervals say little, and no test can reach p < 0.05. Use 5 or more.")
    tested = [row for row in rows if row.p is not None]
    if tested:
        held = sum((row.p or 1.0) < 0.05 for row in tested)
        single = f"p = {tested[0].p:.2g}" if len(rows) == 1 else f"p < 0.05 in {held} of {len(rows)}"
        said.append(f"Over seeds, corrected for the number of methods: {single}.")
    if run.failed:
        said.append(f"{len(run.failed):,} cells failed and are missing from the numbers.")
    return said


def _against(run: Run, rows: Sequence[Gain], others: Sequence[str]) -> list[str]:
    best = rows[0].explainer
    said = [one for name in CHANCE if (one := _control(run, rows, name))]
    strong = [
        name for name in run.explainers
        if name in run.controls and name not in (NONE, *CHANCE) and _ahead(run, rows, name)
    ]  # fmt: skip
    if strong:
        gains = ", ".join(f"{name} ({_both(run, best, name)})" for name in strong)
        said.append(f"These controls teach as much or more: {gains}.")
    if others:
        rival = others[0]
        pairs = [(row, other) for row in rows if (other := run.row(rival, row.column)) and other.gain is not None]
        state = _state(pairs) if _is_close(run, rows, rival) else "their intervals do not overlap"
        said.append(f"The next method is {rival} ({_both(run, best, rival)}); {state}{_seeds(run, rows, rival)}.")
    else:
        said.append("No other method was compared. Name several: --explainers gradient_norm,lime.")
    return said


def _control(run: Run, rows: Sequence[Gain], name: str) -> str:
    known = [(row, other) for row in rows if (other := run.row(name, row.column)) and other.gain is not None]
    if not known:
        return ""
    clear = sum(_apart(row, other) for row, other in known)
    ahead = sum((row.gain or 0.0) > (other.gain or 0.0) for row, other in known)
    gain = run.signed(run.gain(name))
    marks = {"random": "random marks", "trivial": "marks that only give the answer away (trivial)"}.get(name, name)
    if clear == len(known):
        return f"It is clearly ahead of {marks} ({gain})."
    if ahead == len(known):
        return f"It is ahead of {marks} ({gain}), but {_state(known)}{_seeds(run, rows, name)}."
    where = "" if len(known) == 1 else f" in {len(known) - ahead} of {len(known)} combinations"
    return f"It is not ahead of {marks} ({gain}){where}."


def _state(pairs: Sequence[tuple[Gain, Gain]]) -> str:
    """Why two are not told apart."""
    known = any(row.has_interval and other.has_interval for row, other in pairs)
    return "their intervals overlap" if known else "there are no intervals to tell them apart"


def _seeds(run: Run, rows: Sequence[Gain], other: str) -> str:
    """In how many pairs of students, alike but for the explanation, the first was ahead."""
    best = rows[0].explainer
    pairs = []
    for row in rows:
        own, rival = run.values.get((best, *row.column), {}), run.values.get((other, *row.column), {})
        pairs += [own[seed] > rival[seed] for seed in own.keys() & rival.keys()]
    return f", and it was ahead in {sum(pairs)} of {len(pairs)} pairs of students" if pairs else ""


def _both(run: Run, best: str, other: str) -> str:
    """The mean gain of another method, and that of the best where they were not compared everywhere."""
    columns = run.shared([best, other])
    gain = run.signed(run.gain(other, columns))
    everywhere = len(columns) == len(run.columns)
    return gain if everywhere else f"{gain} against {run.signed(run.gain(best, columns))} where both were compared"


def _gain(run: Run, name: str, row: Gain) -> float:
    found = run.row(name, row.column)
    return float("-inf") if found is None or found.gain is None else found.gain


def _apart(row: Gain, other: Gain) -> bool:
    return row.low is not None and other.high is not None and row.low > other.high


def _is_close(run: Run, rows: Sequence[Gain], name: str) -> bool:
    """Whether intervals overlap in half of the columns or more."""
    known = [(row, other) for row in rows if (other := run.row(name, row.column)) and other.gain is not None]
    return sum(not _apart(row, other) for row, other in known) * 2 >= len(known) > 0


def _ahead(run: Run, rows: Sequence[Gain], name: str) -> bool:
    """Whether a control reaches the method in half of the columns or more."""
    known = [row for row in rows if run.row(name, row.column) is not None]
    return sum(_gain(run, name, row) >= (row.gain or 0.0) for row in known) * 2 >= len(known) > 0


def favourites(run: Run) -> list[tuple[str, str, int, int]]:
    """By family of metrics: the method that is best by most of them, in how many, of how many.

    To be best counts only where the method is better than random explanations.
    """
    if run.measured is None:
        return []
    best: dict[str, list[str]] = {}
    heading = str(run.measured.metrics.get("heading") or "plausibility")
    beyond = beyond_chance(run.measured)
    for metric, names in winners(run).items():
        above = [name for name in names if beyond.get((metric, name), True)]
        best.setdefault(family_of(metric, heading), []).extend(above)
    counts = Counter(family_of(metric, heading) for metric in winners(run))
    return [(family, *Counter(names).most_common(1)[0], counts[family]) for family, names in best.items() if names]


def winners(run: Run) -> dict[str, list[str]]:
    """By metric the methods, no controls, with the best value."""
    if run.measured is None:
        return {}
    lines: dict[str, dict[str, float]] = {}
    better: dict[str, str] = {}
    controls = run.controls | {one.label for one in run.measured.methods if one.is_control} | set(CHANCE)
    for line in run.measured.metrics.get("rows") or ():
        value, metric, method = number(line.get("value")), str(line.get("metric")), str(line.get("method"))
        better[metric] = str(line.get("better") or "higher")
        own = lines.setdefault(metric, {})
        if value is not None and method not in controls:
            own[method] = value
    found = {}
    for metric, own in lines.items():
        if own:
            top = min(own.values()) if better[metric] == "lower" else max(own.values())
            found[metric] = [name for name, value in own.items() if value == top]
    return found


def beyond_chance(measured: Measured) -> dict[tuple[str, str], bool]:
    """By metric and method: whether it is better than random ones, the interval of the difference on the right side."""
    better = {str(row.get("metric")): row.get("better") for row in measured.metrics.get("rows") or ()}
    found = {}
    for test in measured.metrics.get("tests") or ():
        metric, method, other = str(test.get("metric")), str(test.get("method")), str(test.get("other"))
        low, high = number(test.get("low")), number(test.get("high"))
        if RANDOM not in (method, other) or low is None or high is None:
            continue
        # A difference is of the first to the second.
        sign = 1 if other == RANDOM else -1
        sign = -sign if better.get(metric) == "lower" else sign
        found[metric, method if other == RANDOM else other] = low > 0 if sign > 0 else high < 0
    return found


def family_of(metric: str, heading: str) -> str:
    """faithfulness, plausibility (or truth) or stability; `other` for a metric that this didact does not know."""
    try:
        measures = METRICS[parse_spec(metric).name].measures
    except DidactError:
        return "other"
    return heading if measures == "plausibility" else measures
