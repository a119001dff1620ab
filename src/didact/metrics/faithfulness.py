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
    def of(cls, explanation: RowExplanation, *, by_size: bool) -> "Ranked":
        signed = explanation.kind == "signed"
        keys = np.abs(explanation.scores) if by_size or not signed else explanation.scores
        return cls(explanation.scores, np.argsort(-keys, kind="stable"), signed)

    def __len__(self) -> int:
        return len(self.scores)

    def top(self, counts: Sequence[int] | Int[np.ndarray, " count"]) -> Bool[np.ndarray, "count unit"]:
        """For each count, marks on that many units from the first on."""
        rank = np.empty(len(self), dtype=np.int64)
        rank[self.order] = np.arange(len(self))
        return rank < np.asarray(counts, dtype=np.int64)[:, None]


@dataclass(frozen=True, eq=False)
class TeacherAnswers:
    """What the teacher answered: to the whole row, and to each question; `label` is the class that is explained.

    Answers are probabilities; of a regression the score, and `label` is None.
    """

    full: Float[np.ndarray, " output"]
    masked: Float[np.ndarray, "question output"]
    label: int | None
    units: int

    @property
    def falls(self) -> Float[np.ndarray, " question"]:
        """How far the probability fell from that of the whole row; of a score, how far it moved."""
        if self.label is None:
            return np.abs(self.full[0] - self.masked[:, 0])
        return self.full[self.label] - self.masked[:, self.label]

    @property
    def flips(self) -> Bool[np.ndarray, " question"]:
        """Whether another class is predicted than of the whole row."""
        return self.masked.argmax(1) != self.full.argmax()


class Faithfulness(ABC):
    """A metric that asks a teacher about parts of a row."""

    needs_classes = False

    @abstractmethod
    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        """Which units stay, for each question; None where the metric says nothing about the row."""

    @abstractmethod
    def value(self, answers: TeacherAnswers) -> float: ...


class Sufficiency(Faithfulness):
    """f(x) − f(e): how far the probability falls if only the top `k` units (a share, or a number) stay."""

    def __init__(self, *, k: float = 0.1) -> None:
        top_count(k, 1)
        self.k = k

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        return row.top([top_count(self.k, len(row))])

    def value(self, answers: TeacherAnswers) -> float:
        return float(answers.falls[0])


class Comprehensiveness(Sufficiency):
    """f(x) − f(x∖e): how far the probability falls without the top `k` units."""

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        return ~row.top([top_count(self.k, len(row))])


class AopcSufficiency(Faithfulness):
    """Sufficiency, mean over `bins` of the units: 1, 5, 10, 20 and 50 %, as ERASER's scorer takes it."""

    def __init__(self, *, bins: Sequence[float] = BINS) -> None:
        if not bins:
            raise OptionError("Option 'bins' names shares of the units, one at least: bins=[0.1, 0.5].")
        for share in bins:
            top_count(share, 1)
        self.bins = tuple(bins)

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        return row.top([top_count(share, len(row)) for share in self.bins])

    def value(self, answers: TeacherAnswers) -> float:
        return float(answers.falls.mean())


class AopcComprehensiveness(AopcSufficiency):
    """Comprehensiveness, mean over `bins`."""

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        return ~row.top([top_count(share, len(row)) for share in self.bins])


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
        removed = np.zeros((1, len(row)), dtype=bool)
        removed[0, np.argsort(-sizes, kind="stable")[:count]] = True
        return ~removed

    def sizes(self, scores: Float[np.ndarray, " unit"]) -> Float[np.ndarray, " unit"]:
        """What the units are chosen by; those at 0 or below never are."""
        return np.abs(scores)

    def value(self, answers: TeacherAnswers) -> float:
        assert answers.label is not None
        return log_odds(float(answers.full[answers.label])) - log_odds(float(answers.masked[0, answers.label]))


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

    def value(self, answers: TeacherAnswers) -> float:
        return float(not answers.flips[0])


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

    def value(self, answers: TeacherAnswers) -> float:
        assert answers.label is not None
        probabilities = np.concatenate([[answers.full[answers.label]], answers.masked[:, answers.label]])
        return float(np.trapezoid(probabilities, self.counts(answers.units) / answers.units))

    def counts(self, units: int) -> Int[np.ndarray, " point"]:
        """How many units are gone at each point, from none to all."""
        return np.unique(np.ceil(np.linspace(0, 1, self.steps + 1) * units - 1e-9).astype(np.int64))


class InsertionArea(DeletionArea):
    """Area under the probability of the explained class as units are put back, the most important first."""

    def masks(self, row: Ranked) -> Bool[np.ndarray, "question unit"] | None:
        return row.top(self.counts(len(row))[:-1])

    def value(self, answers: TeacherAnswers) -> float:
        assert answers.label is not None
        probabilities = np.concatenate([answers.masked[:, answers.label], [answers.full[answers.label]]])
        return float(np.trapezoid(probabilities, self.counts(answers.units) / answers.units))


class FlipFraction(DeletionArea):
    """The share of units that must go, most important first, until another class is predicted; 1 if none ever is."""

    def value(self, answers: TeacherAnswers) -> float:
        flipped = np.flatnonzero(answers.flips)
        return float(self.counts(answers.units)[1:][flipped[0]] / answers.units) if len(flipped) else 1.0


def log_odds(probability: float) -> float:
    clipped = min(max(probability, CLIP), 1 - CLIP)
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
    values = np.full((len(metrics), len(methods), len(probe.rows)), np.nan)
    row = 0
    while row < len(probe.rows):
        questions: dict[int, np.ndarray] = {}
        slices: dict[tuple[int, int, int], slice] = {}
        first = row
        while row < len(probe.rows) and _is_below_limits(questions):
            row_masks: list[np.ndarray] = []
            count = 0
            for method_index, explanations in enumerate(methods):
                explanation = explanations[row]
                if not len(explanation):
                    continue
                units = position_units(explanation, probe, row)
                ranked = Ranked.of(explanation, by_size=teacher.classes is None)
                for metric_index, metric in enumerate(metrics):
                    unit_masks = metric.masks(ranked)
                    if unit_masks is None:
                        continue
                    row_masks.append(on_all_positions(unit_masks, units))
                    slices[metric_index, method_index, row] = slice(count, count + len(unit_masks))
                    count += len(unit_masks)
            if row_masks:
                questions[row] = np.concatenate(row_masks)
            row += 1
        answers = dict(zip(questions, probe.ask(list(questions.values()), rows=list(questions)), strict=True))
        for (metric_index, method_index, asked_row), positions in slices.items():
            label = label_of(methods[method_index], asked_row, teacher, full[asked_row])
            teacher_answers = TeacherAnswers(
                full[asked_row], answers[asked_row][positions], label, len(methods[method_index][asked_row])
            )
            values[metric_index, method_index, asked_row] = metrics[metric_index].value(teacher_answers)
        done(row - first)
    return values


def _is_below_limits(questions: Mapping[int, np.ndarray]) -> bool:
    return sum(map(len, questions.values())) < QUESTIONS and sum(map(np.size, questions.values())) < MARKS


def position_units(explanation: RowExplanation, probe: Probe, row: int) -> Int[np.ndarray, " position"]:
    """For each position of the teacher the number of the unit that decides whether it stays."""
    batch = probe.batch
    if batch.pixels is not None:
        is_unit = batch.units[row].numpy()
        if int(is_unit.sum()) != len(explanation):
            raise DataError(
                f"Explanation of row {explanation.id!r} by {explanation.method!r} has {len(explanation)} patches, and "
                "the teacher reads "
                f"{int(is_unit.sum())}. Explain the rows with this teacher."
            )
        indices = np.full(len(is_unit), len(explanation), dtype=np.int64)
        indices[is_unit] = np.arange(len(explanation))
        return indices
    segments = np.where(batch.units[row].numpy(), batch.segments[row].numpy(), -1)
    units = covering_units(explanation.segments, explanation.offsets, segments, batch.offsets[row].numpy())
    return np.where(units < 0, len(explanation), units)


def check_targets(explanations: Explanations, teacher: Teacher) -> None:
    """An error if a target is no class of the teacher. The teacher is not asked, so this comes before hours of work."""
    for row in range(len(explanations) if teacher.classes is not None else 0):
        _explained_class(explanations, row, teacher)


def label_of(explanations: Explanations, row: int, teacher: Teacher, full: Float[np.ndarray, " output"]) -> int | None:
    """The class that was explained, by name or number; of a contrast the first; the predicted one if none is named."""
    if teacher.classes is None:
        return None
    label = _explained_class(explanations, row, teacher)
    return int(full.argmax()) if label is None else label


def _explained_class(explanations: Explanations, row: int, teacher: Teacher) -> int | None:
    assert teacher.classes is not None
    name = explanations.targets[row].partition(" against ")[0]
    if name in teacher.classes:
        return teacher.classes.index(name)
    if not name:
        return None
    if name.isdecimal() and int(name) < len(teacher.classes):
        return int(name)
    raise DataError(
        f"Row {explanations.ids[row]!r} of {explanations.method!r} explains {name!r}, and the classes of teacher "
        f"{teacher.name!r} are "
        f"{', '.join(teacher.classes)}. Measure with the teacher that was explained, or read the explanations with "
        "target= one of these."
    )
