"""What a comparison says, in plain words, and no more than it says."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from didact.reports.leaders import CHANCE, Leader, leaders, listed, no_better_than_random
from didact.reports.measured import number
from didact.reports.read import FEW, NONE, Gain, Run, column_name
from didact.stats.holm import holm
from didact.stats.paired import paired_test

NAMED: Final = 4  # methods that a title names
_INCLUDES: Final = "The interval includes 0."
CEILING: Final = 0.99  # simulability without explanations above which nothing is left to gain
BARELY: Final = 0.1  # an interval that begins below this share of the gain lies barely above 0


@dataclass(frozen=True)
class Verdict:
    """`level` is clear, close, mixed, alone, beaten, unsure, nothing, ceiling, unlearned or empty.

    `best` is the method that ranks first, `tied` are those that cannot be distinguished from it. `beside` says what
    other measures say about these.
    """

    level: str
    title: str
    summary: str
    sure: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    best: str | None = None
    tied: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One paragraph."""
        return " ".join([f"{self.title}.", self.summary, *self.sure, *self.against, *self.beside])


CAUTION: Final = (
    "It does not mean that the explanation is a faithful account of what the model computes, nor that people learn "
    "from it. The other measures below look at it from other sides.",
    "It holds for these students, these rows and this size of training set. With enough rows every student does well, "
    "and gains shrink.",
    "A student that pools by attention takes well to explanations that look like attention. A diffuse method can lose "
    "to the same method sharpened.",
)


def verdict_of(run: Run) -> Verdict:
    """Which method teaches best, controls left out, and how sure that is."""
    asked = [name for name in run.explainers if name not in run.controls]
    if not run.rows:
        return Verdict("empty", "Nothing could be compared", f"No training succeeded; {len(run.failed):,} runs failed.")
    if not run.judged:
        return _unlearned(run)
    if not asked:
        return Verdict("empty", "Only controls were compared", "Name explainers to compare them with these controls.")
    ranked = [name for name in asked if run.gain(name) is not None]
    if not ranked:
        return Verdict(
            "empty", "No gain could be measured",
            "A gain is over students without explanations (none), and their runs are missing here.",
        )  # fmt: skip
    return _of(run, ranked[0], ranked[1:])


def _unlearned(run: Run) -> Verdict:
    """No column can be judged: what is known of the reason, and what to try."""
    reasons = list(dict.fromkeys(reason.rstrip(".") for reason in run.unlearned.values() if reason))
    known = f" {'; '.join(reasons[:3])}." if reasons else ""
    return Verdict(
        "unlearned",
        "The students did not learn; this run says nothing about the explanations",
        f"No student learned to predict the model, with explanations or without, so gains are chance.{known}",
        sure=(
            "No gain, rank or interval of this run can be read as a result.",
            "Try more rows (--sizes), more epochs (--epochs), another student (--students), or a pretrained base for "
            "the students (--base).",
        ),
        beside=_leading(run, ()),
    )


def _of(run: Run, best: str, others: Sequence[str]) -> Verdict:
    rows = _judged_rows(run, best)
    above = [row for row in rows if row.is_above]
    beaten = _beaten(run, rows, others)
    close = [name for name in others if name not in beaten and _is_close(run, rows, name)]
    equals = [name for name in CHANCE if _ahead(run, rows, name)]
    name = f"“{best}”"
    tied: tuple[str, ...] = (best,)
    if all(_has_no_room(run, row) for row in rows):
        level, title = "ceiling", "Students foresee this model without any explanation: there is nothing to gain"
    elif not any((row.gain or 0.0) > 0 for row in rows):
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
    elif contenders := [name for name in close if _contends(run, rows, name)]:
        tied = (best, *contenders)
        level, title = "close", f"{_named(tied)} lead, too close to call"
    elif close:
        rest = f"interval of “{close[0]}” overlaps" if len(close) == 1 else f"intervals of {len(close)} others overlap"
        level, title = "close", f"{name} leads, but not clearly: the {rest} with its own"
    else:
        level, title = "clear", f"{name} teaches best"
    return Verdict(
        level, title, _summary(run, best, rows), tuple(_sure(run, rows)),
        tuple(_against(run, rows, others, tied)), best, tied, _beside(run, tied),
    )  # fmt: skip


def _has_no_room(run: Run, row: Gain) -> bool:
    """Whether students without explanations already agree with the model nearly everywhere."""
    plain = run.row(NONE, row.column)
    return not run.is_correlation and plain is not None and (plain.mean or 0.0) >= CEILING


def _judged_rows(run: Run, name: str) -> list[Gain]:
    return [row for row in run.rows_of(name) if row.gain is not None and row.column in run.judged]


def _named(names: Sequence[str]) -> str:
    quoted = [f"“{name}”" for name in names]
    more = len(quoted) - NAMED
    return listed([*quoted[:NAMED], f"{more} more"]) if more > 1 else listed(quoted)


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
    elif run.is_balanced:
        said = (
            f"reach a balanced agreement with the model of {run.written(row.mean)} % on unseen rows, against {without} "
            "% without"
        )
    else:
        said = f"agree with the model on {run.written(row.mean)} % of unseen rows, against {without} % without"
    return f"Students who saw “{best}” while learning {said}: {run.signed(row.gain)} {run.unit} ({interval}; {how})."


def _sure(run: Run, rows: Sequence[Gain]) -> list[str]:
    said = [_where_it_lies(rows)]
    least = min(row.seeds for row in rows)
    tested = [row for row in rows if row.p is not None]
    if least == 1:
        said.append("There is one seed, so nothing is known of how much students differ. Use 5 or more.")
    elif least < FEW:
        said.append(f"With {least} seeds intervals say little, and no test can reach p < 0.05. Use 8 (--seeds 8).")
    elif not tested:
        reasons = list(dict.fromkeys(row.p_reason for row in rows if row.p_reason))
        said += [f"No test over seeds confirms it: {reason}." for reason in reasons[:2]]
    if tested:
        held = sum((row.p or 1.0) < 0.05 for row in tested)
        single = f"p = {tested[0].p:.2g}" if len(rows) == 1 else f"p < 0.05 in {held} of {len(rows)}"
        chance = "" if held else ", so chance is not ruled out"
        said.append(f"Over seeds, corrected for the number of methods: {single}{chance}.")
    if run.failed:
        said.append(f"{len(run.failed):,} runs failed and are missing from the numbers.")
    if run.unlearned:
        names = "; ".join(column_name(column) for column in run.unlearned)
        said.append(f"Left out, because their students did not learn: {names}.")
    return said


def _where_it_lies(rows: Sequence[Gain]) -> str:
    """Where the interval of the gain lies, and nothing about chance: that is for a test to say."""
    above = [row for row in rows if row.is_above]
    barely = [row for row in above if (row.low or 0.0) < BARELY * (row.gain or 0.0)]
    where = "" if len(rows) == 1 else f" in {len(above)} of {len(rows)} combinations"
    if not any(row.has_interval for row in rows):
        return "There are no intervals: whether this is more than chance is not known."
    if above:
        near = f" (barely{'' if len(rows) == 1 else f' in {len(barely)}'})" if barely else ""
        rest = "" if len(above) == len(rows) else ", and not in the others"
        return f"The interval lies above 0{where}{near}{rest}."
    return "The interval lies below 0: it does harm." if all(row.is_below for row in rows) else _INCLUDES


def _against(run: Run, rows: Sequence[Gain], others: Sequence[str], tied: Sequence[str]) -> list[str]:
    best = rows[0].explainer
    said = [one for name in CHANCE if (one := _control(run, rows, name))]
    strong = [
        name for name in run.explainers
        if name in run.controls and name not in (NONE, *CHANCE) and _ahead(run, rows, name)
    ]  # fmt: skip
    if strong:
        gains = ", ".join(f"{name} ({_both(run, best, name)})" for name in strong)
        said.append(f"These controls teach as much or more: {gains}.")
    majority = number(run.about.get("majority"))
    if majority is not None:
        said.append(f"Always giving the same answer reaches {run.written(majority)} %.")
    return [*said, _rivals(run, rows, others, tied)]


def _rivals(run: Run, rows: Sequence[Gain], others: Sequence[str], tied: Sequence[str]) -> str:
    """The methods that are tied with the best, or the next one, and how often the best was ahead of them."""
    if not others:
        return "No other method was compared. Name several: --explainers gradient_norm,lime."
    best = rows[0].explainer
    if len(tied) == 1:
        rival = others[0]
        known = [(row, other) for row in rows if (other := run.row(rival, row.column)) and other.gain is not None]
        state = _state(known) if _is_close(run, rows, rival) else "their intervals do not overlap"
        if rival in _beaten(run, rows, others):
            state = "a paired test over seeds tells them apart (p < 0.05, corrected for the number of methods)"
        return f"The next method is {rival} ({_both(run, best, rival)}); {state}{_seeds(run, rows, rival)}."
    texts = []
    for rival in tied[1 : NAMED + 1]:
        won, same, pairs = _pairs(run, rows, rival)
        equal = f", {same} equal" if same else ""
        texts.append(f"{rival} ({_both(run, best, rival)}{f'; {won} of {pairs}{equal}' if pairs else ''})")
    more = len(tied) - 1 - NAMED
    names = f"{', '.join(texts)}{f', and {more} more' if more > 0 else ''}"
    ahead = f" and the pairs of students in which {best} was ahead" if run.values else ""
    return f"Tied with it, with their gains{ahead}: {names}. Their intervals overlap."


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
    """Why two cannot be distinguished."""
    known = any(row.has_interval and other.has_interval for row, other in pairs)
    return "their intervals overlap" if known else "there are no intervals to compare"


def _seeds(run: Run, rows: Sequence[Gain], other: str) -> str:
    """In how many pairs of students, alike but for the explanation, the first was ahead."""
    won, same, pairs = _pairs(run, rows, other)
    equal = f" ({same} equal)" if same else ""
    return f", and {rows[0].explainer} was ahead in {won} of {pairs} pairs of students{equal}" if pairs else ""


def _pairs(run: Run, rows: Sequence[Gain], other: str) -> tuple[int, int, int]:
    """Pairs of students with the same seed: those that the method of the rows won, equal ones, and all."""
    best = rows[0].explainer
    pairs: list[tuple[float, float]] = []
    for row in rows:
        own, rival = run.values.get((best, *row.column), {}), run.values.get((other, *row.column), {})
        pairs += [(own[seed], rival[seed]) for seed in own.keys() & rival.keys()]
    won, same = sum(first > second for first, second in pairs), sum(first == second for first, second in pairs)
    return won, same, len(pairs)


def _beaten(run: Run, rows: Sequence[Gain], others: Sequence[str]) -> set[str]:
    """The methods that lost to that of the rows, seed by seed: an exact paired test, Holm-corrected over all of them.

    With several columns a method has to lose in each that both have. What too few seeds cannot tell is not beaten.
    """
    lost: dict[str, list[bool]] = {}
    for row in rows:
        own = run.values.get((row.explainer, *row.column), {})
        p: dict[str, float | None] = {}
        for name in others:
            rival = run.values.get((name, *row.column), {})
            gaps = np.array([own[seed] - rival[seed] for seed in sorted(own.keys() & rival.keys())])
            if len(gaps):
                tested = paired_test(gaps, level=0.05 / max(len(others), 1)).p
                p[name] = tested if gaps.mean() > 0 else 1.0
        for name, corrected in zip(p, holm(list(p.values())), strict=True):
            lost.setdefault(name, []).append(corrected is not None and corrected < 0.05)
    return {name for name, found in lost.items() if all(found)}


def _contends(run: Run, rows: Sequence[Gain], name: str) -> bool:
    """Whether a method whose interval overlaps may be as good: it gains, and did not lose every pair of students.

    Too few pairs decide nothing.
    """
    won, _, pairs = _pairs(run, rows, name)
    return (run.gain(name) or 0.0) > 0 and (pairs < FEW or won < pairs)


def _both(run: Run, best: str, other: str) -> str:
    """The mean gain of another method, and that of the best where they were not compared everywhere."""
    columns = run.shared([best, other])
    gain = run.signed(run.gain(other, columns))
    everywhere = len(columns) == len(run.judged)
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


def _beside(run: Run, tied: Sequence[str]) -> tuple[str, ...]:
    """What faithfulness and the other measures say about the methods of a headline."""
    said = []
    for name in tied:
        worse, known = no_better_than_random(run, name, "faithfulness")
        if known and worse * 2 > known:
            said.append(
                f"“{name}” teaches, but by faithfulness it is no better than random marks ({worse} of {known} metrics)."
            )
    return (*said, *_leading(run, tied))


def _leading(run: Run, tied: Sequence[str]) -> tuple[str, ...]:
    """Which methods lead by the other measures, and whether they are those that teach."""
    found = leaders(run)
    if not found:
        return ()
    names = {name for one in found for name in one.names}
    if not tied:
        start = "Other measures need no students"
    elif names == set(tied[:1]):
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
        f"Of those tied, “{name}” also leads in {listed([f'{one.family} ({one.scope})' for one in own])}."
        for name, own in by_name.items()
    ]


def _rest(found: Iterable[Leader]) -> list[str]:
    texts = [one.text for one in found]
    return [f"By other measures: {'; '.join(texts)}."] if texts else []
