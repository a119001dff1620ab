"""Faithfulness: does what an explanation calls important matter to the teacher?

Each metric says which units must stay in a row for its questions, and makes one number of the answers; the questions of
all metrics and methods are asked together (`faithfulness`). Units are ranked by their scores, largest first: signed
scores by sign where a class is explained (what speaks against it comes last), by size where a score is. Equal ones keep
their order of reading.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from didact.core.needs import require
from didact.core.perturb import on_all_positions
from didact.core.teacher import Teacher
from didact.errors import DataError, OptionError
from didact.metrics.probe import Probe, covering_units
from didact.results.explanations import Explanations
from didact.results.row_explanation import RowExplanation, top_count

CLIP: Final = 1e-7  # of a probability: the log-odds of 1 are large, not 0
BINS: Final = (0.01, 0.05, 0.1, 0.2, 0.5)
QUESTIONS: Final = 2048  # asked together: many batches, and progress is seen between them
MARKS: Final = 20_000_000  # bytes of questions held at once


@dataclass(frozen=True, eq=False)
class Ranked:
    """The units of a row in the order that an explanation gives them."""

    scores: Float[np.ndarray, " unit"]
    order: Int[np.ndarray, " unit"]
    is_signed: bool

    @classmethod
    def of(cls, one: RowExplanation, *, by_size: bool) -> "Ranked":
        signed = one.kind == "signed"
        keys = np.abs(one.scores) if by_size or not signed else one.scores
        return cls(one.scores, np.argsort(-keys, kind="stable"), signed)

    def __len__(self) -> int:
        return len(self.scores)

    def top(self, counts: Sequence[int] | Int[np.ndarray, " count"]) -> Bool[np.ndarray, "count unit"]:
        """For each count, marks on that many units from the first on."""
        rank = np.empty(len(self), dtype=np.int64)
        rank[self.order] = np.arange(len(self))
        return rank < np.asarray(counts, dtype=np.int64)[:, None]


@dataclass(frozen=True, eq=False)
class Said:
    """What the teacher answered: to the whole row, and to each question; `label` is the class that is explained.

    Answers are probabilities; of a regression the score, and `label` is None.
    """

    full: Float[np.ndarray, " output"]
    parts: Float[np.ndarray, "question output"]
    label: int | None
    units: int

    @property
    def falls(self) -> Float[np.ndarray, " question"]:
        """How far the probability fell from that of the whole row; of a score, how far it moved."""
        if self.label is None:
            return np.abs(self.full[0] - self.parts[:, 0])
        return self.full[self.label] - self.parts[:, self.label]

    @property
    def flips(self) -> Bool[np.ndarray, " question"]:
        """Whether another class is predicted than of the whole row."""
        return self.parts.argmax(1) != self.full.argmax()


class Faithfulness(ABC):
    """A metric that asks a teacher about parts of a row."""

    needs_classes = False

    @abstractmethod
    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        """Which units stay, for each question; None where the metric says nothing about the row."""

    @abstractmethod
    def value(self, said: Said) -> float: ...


class Sufficiency(Faithfulness):
    """f(x) − f(e): how far the probability falls if only the top `k` units (a share, or a number) stay."""

    def __init__(self, *, k: float = 0.1) -> None:
        top_count(k, 1)
        self.k = k

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        return row.top([top_count(self.k, len(row))])

    def value(self, said: Said) -> float:
        return float(said.falls[0])


class Comprehensiveness(Sufficiency):
    """f(x) − f(x∖e): how far the probability falls without the top `k` units."""

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        return ~row.top([top_count(self.k, len(row))])


class AopcSufficiency(Faithfulness):
    """Sufficiency, mean over `bins` of the units: 1, 5, 10, 20 and 50 %, as ERASER's scorer takes it."""

    def __init__(self, *, bins: Sequence[float] = BINS) -> None:
        if not bins:
            raise OptionError("Option 'bins' names shares of the units, one at least: bins=[0.1, 0.5].")
        for one in bins:
            top_count(one, 1)
        self.bins = tuple(bins)

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        return row.top([top_count(one, len(row)) for one in self.bins])

    def value(self, said: Said) -> float:
        return float(said.falls.mean())


class AopcComprehensiveness(AopcSufficiency):
    """Comprehensiveness, mean over `bins`."""

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        return ~row.top([top_count(one, len(row)) for one in self.bins])


class LogOddsTop(Faithfulness):
    """How far the log-odds of the explained class fall without the `k` largest units, whatever their sign."""

    needs_classes = True
    needs_sign = False

    def __init__(self, *, k: float = 0.3) -> None:
        top_count(k, 1)
        self.k = k

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        if self.needs_sign and not row.is_signed:
            return None
        sizes = self.sizes(row.scores)
        count = min(top_count(self.k, len(row)), int((sizes > 0).sum()))
        if not count:
            return None
        gone = np.zeros((1, len(row)), dtype=bool)
        gone[0, np.argsort(-sizes, kind="stable")[:count]] = True
        return ~gone

    def sizes(self, scores: Float[np.ndarray, " unit"]) -> Float[np.ndarray, " unit"]:
        """What the units are chosen by; those at 0 or below never are."""
        return np.abs(scores)

    def value(self, said: Said) -> float:
        assert said.label is not None
        return log_odds(float(said.full[said.label])) - log_odds(float(said.parts[0, said.label]))


class LogOddsPositive(LogOddsTop):
    """How far they fall without the most positive units, at most `k` of all. Says nothing of scores without signs."""

    needs_sign = True

    def sizes(self, scores: Float[np.ndarray, " unit"]) -> Float[np.ndarray, " unit"]:
        return scores


class LogOddsNegative(LogOddsTop):
    """How far they fall (rise, if negative) without the most negative units, at most `k` of all."""

    needs_sign = True

    def sizes(self, scores: Float[np.ndarray, " unit"]) -> Float[np.ndarray, " unit"]:
        return -scores


class PredictionAgreement(Faithfulness):
    """1 where the top `k` units alone get the prediction of the whole row, else 0."""

    needs_classes = True

    def __init__(self, *, k: float = 0.3) -> None:
        top_count(k, 1)
        self.k = k

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        return row.top([top_count(self.k, len(row))])

    def value(self, said: Said) -> float:
        return float(not said.flips[0])


class DeletionArea(Faithfulness):
    """Area under the probability of the explained class as units are taken away, the most important first.

    At `steps` equal shares of the units, or at every unit of shorter rows; trapezoids over the share that is gone.
    """

    needs_classes = True

    def __init__(self, *, steps: int = 20) -> None:
        if steps < 1:
            raise OptionError(f"Option 'steps' is how often units are taken away, at least 1, not {steps}.")
        self.steps = steps

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        return ~row.top(self.counts(len(row))[1:])

    def value(self, said: Said) -> float:
        assert said.label is not None
        heights = np.concatenate([[said.full[said.label]], said.parts[:, said.label]])
        return float(np.trapezoid(heights, self.counts(said.units) / said.units))

    def counts(self, units: int) -> Int[np.ndarray, " point"]:
        """How many units are gone at each point, from none to all."""
        return np.unique(np.ceil(np.linspace(0, 1, self.steps + 1) * units - 1e-9).astype(np.int64))


class InsertionArea(DeletionArea):
    """Area under the probability of the explained class as units are put back, the most important first."""

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        return row.top(self.counts(len(row))[:-1])

    def value(self, said: Said) -> float:
        assert said.label is not None
        heights = np.concatenate([said.parts[:, said.label], [said.full[said.label]]])
        return float(np.trapezoid(heights, self.counts(said.units) / said.units))


class FlipFraction(DeletionArea):
    """The share of units that must go, most important first, until another class is predicted; 1 if none ever is."""

    def value(self, said: Said) -> float:
        flipped = np.flatnonzero(said.flips)
        return float(self.counts(said.units)[1:][flipped[0]] / said.units) if len(flipped) else 1.0


def log_odds(chance: float) -> float:
    clipped = min(max(chance, CLIP), 1 - CLIP)
    return math.log(clipped) - math.log1p(-clipped)


def faithfulness(
    metrics: Sequence[Faithfulness],
    methods: Sequence[Explanations],
    probe: Probe,
    *,
    done: Callable[[int], None] = lambda _: None,
) -> Float[np.ndarray, "metric method row"]:
    """Every metric of every method on the rows of the probe, in their order; NaN where a row has none.

    Questions of all metrics and methods about a row are asked together, equal ones once. `done` is told how many rows
    are finished.
    """
    teacher = probe.teacher
    for metric in metrics:
        if metric.needs_classes:
            advice = "Choose sufficiency, comprehensiveness, or their aopc."
            require(teacher, "classes", type(metric).__name__, advice=advice)
    full = probe.full()
    found = np.full((len(metrics), len(methods), len(probe.rows)), np.nan)
    row = 0
    while row < len(probe.rows):
        questions: dict[int, np.ndarray] = {}
        asked: dict[tuple[int, int, int], slice] = {}
        begin = row
        while row < len(probe.rows) and _has_room(questions):
            parts: list[np.ndarray] = []
            count = 0
            for place, maps in enumerate(methods):
                one = maps[row]
                if not len(one):
                    continue
                columns = position_units(one, probe, row)
                ranked = Ranked.of(one, by_size=teacher.classes is None)
                for number, metric in enumerate(metrics):
                    kept = metric.masks(ranked)
                    if kept is None:
                        continue
                    parts.append(on_all_positions(kept, columns))
                    asked[number, place, row] = slice(count, count + len(kept))
                    count += len(kept)
            if parts:
                questions[row] = np.concatenate(parts)
            row += 1
        answers = dict(zip(questions, probe.ask(list(questions.values()), rows=list(questions)), strict=True))
        for (number, place, own), where in asked.items():
            label = label_of(methods[place], own, teacher, full[own])
            said = Said(full[own], answers[own][where], label, len(methods[place][own]))
            found[number, place, own] = metrics[number].value(said)
        done(row - begin)
    return found


def _has_room(questions: Mapping[int, np.ndarray]) -> bool:
    return sum(map(len, questions.values())) < QUESTIONS and sum(map(np.size, questions.values())) < MARKS


def position_units(one: RowExplanation, probe: Probe, row: int) -> Int[np.ndarray, " position"]:
    """For each position of the teacher the number of the unit that decides whether it stays."""
    batch = probe.batch
    if batch.pixels is not None:
        units = batch.units[row].numpy()
        if int(units.sum()) != len(one):
            raise DataError(
                f"Explanation of row {one.id!r} by {one.method!r} has {len(one)} patches, and the teacher reads "
                f"{int(units.sum())}. Explain the rows with this teacher."
            )
        found = np.full(len(units), len(one), dtype=np.int64)
        found[units] = np.arange(len(one))
        return found
    own = np.where(batch.units[row].numpy(), batch.segments[row].numpy(), -1)
    places = covering_units(one.segments, one.offsets, own, batch.offsets[row].numpy())
    return np.where(places < 0, len(one), places)


def check_targets(maps: Explanations, teacher: Teacher) -> None:
    """An error if a target is no class of the teacher. The teacher is not asked, so this comes before hours of work."""
    for row in range(len(maps) if teacher.classes is not None else 0):
        _class_of(maps, row, teacher)


def label_of(maps: Explanations, row: int, teacher: Teacher, full: Float[np.ndarray, " output"]) -> int | None:
    """The class that was explained, by name or number; of a contrast the first; the predicted one if none is named."""
    if teacher.classes is None:
        return None
    named = _class_of(maps, row, teacher)
    return int(full.argmax()) if named is None else named


def _class_of(maps: Explanations, row: int, teacher: Teacher) -> int | None:
    assert teacher.classes is not None
    named = maps.targets[row].partition(" against ")[0]
    if named in teacher.classes:
        return teacher.classes.index(named)
    if not named:
        return None
    if named.isdecimal() and int(named) < len(teacher.classes):
        return int(named)
    raise DataError(
        f"Row {maps.ids[row]!r} of {maps.method!r} explains {named!r}, and the classes of teacher {teacher.name!r} are "
        f"{', '.join(teacher.classes)}. Measure with the teacher that was explained, or read the explanations with "
        "target= one of these."
    )
