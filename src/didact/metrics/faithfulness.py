"""Faithfulness: does the teacher depend on the units that an explanation ranks highest?

Each metric defines masks (the units that stay in a row) and computes one number from the teacher's answers to the
masked rows. `faithfulness` evaluates the masks of all metrics and methods together. Units are ranked by score, highest
first: with their sign if a class is explained, by absolute value if a score is. Ties are in reading order.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from didact.core.needs import require
from didact.core.perturb import on_all_positions
from didact.core.teacher import Teacher
from didact.errors import DataError, OptionError
from didact.metrics.probe import Probe, covering_units
from didact.metrics.ranked import Ranked, TeacherAnswers
from didact.results.explanations import Explanations
from didact.results.row_explanation import RowExplanation, top_count

CLIP: Final = 1e-7  # of probabilities, so that log-odds are finite
BINS: Final = (0.01, 0.05, 0.1, 0.2, 0.5)
MAX_MASKED_ROWS: Final = 2048  # masked rows per call of the teacher; progress is reported between calls
MARKS: Final = 20_000_000  # bytes of masks in memory


class Faithfulness(ABC):
    """Base class of metrics that compare the teacher's answers to a row and to masked versions of it.

    Subclasses define `masks` and `value`. Metrics with `needs_classes` are undefined for regression.
    """

    needs_classes = False

    @abstractmethod
    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
        """For each masked version, the units that stay; None if the metric is undefined for the row."""

    @abstractmethod
    def value(self, answers: TeacherAnswers) -> float: ...


class Sufficiency(Faithfulness):
    """f(x) − f(e): the decrease of the probability if only the top `k` units (a share or a number) stay."""

    def __init__(self, *, k: float = 0.1) -> None:
        top_count(k, 1)
        self.k = k

    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
        return row.top([top_count(self.k, len(row))])

    def value(self, answers: TeacherAnswers) -> float:
        return float(answers.falls[0])


class Comprehensiveness(Sufficiency):
    """f(x) − f(x∖e): the decrease of the probability without the top `k` units."""

    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
        return ~row.top([top_count(self.k, len(row))])


class AopcSufficiency(Faithfulness):
    """The mean of sufficiency over shares of units (`bins`): 1, 5, 10, 20 and 50 %, as in ERASER's scorer."""

    def __init__(self, *, bins: Sequence[float] = BINS) -> None:
        if not bins:
            raise OptionError("Option 'bins' must have at least one share of the units: bins=[0.1, 0.5].")
        for share in bins:
            top_count(share, 1)
        self.bins = tuple(bins)

    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
        return row.top([top_count(share, len(row)) for share in self.bins])

    def value(self, answers: TeacherAnswers) -> float:
        return float(answers.falls.mean())


class AopcComprehensiveness(AopcSufficiency):
    """The mean of comprehensiveness over shares of units (`bins`)."""

    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
        return ~row.top([top_count(share, len(row)) for share in self.bins])


class LogOddsTop(Faithfulness):
    """The decrease of the log-odds of the explained class without the `k` units of largest absolute score."""

    needs_classes = True
    needs_sign = False

    def __init__(self, *, k: float = 0.3) -> None:
        top_count(k, 1)
        self.k = k

    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
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
        """The values by which units are chosen. Units at 0 or below are not chosen."""
        return np.abs(scores)

    def value(self, answers: TeacherAnswers) -> float:
        assert answers.label is not None
        return log_odds(float(answers.full[answers.label])) - log_odds(float(answers.masked[0, answers.label]))


class LogOddsPositive(LogOddsTop):
    """The decrease of the log-odds without the most positive units, at most `k` of all. NaN for unsigned scores."""

    needs_sign = True

    def sizes(self, scores: Float[np.ndarray, " unit"]) -> Float[np.ndarray, " unit"]:
        return scores


class LogOddsNegative(LogOddsTop):
    """The decrease of the log-odds (an increase if negative) without the most negative units, at most `k` of all."""

    needs_sign = True

    def sizes(self, scores: Float[np.ndarray, " unit"]) -> Float[np.ndarray, " unit"]:
        return -scores


class PredictionAgreement(Faithfulness):
    """1 if the top `k` units alone give the predicted class of the whole row, else 0."""

    needs_classes = True

    def __init__(self, *, k: float = 0.3) -> None:
        top_count(k, 1)
        self.k = k

    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
        return row.top([top_count(self.k, len(row))])

    def value(self, answers: TeacherAnswers) -> float:
        return float(not answers.flips[0])


class DeletionArea(Faithfulness):
    """Area under the probability of the explained class as units are removed, highest first (Petsiuk et al. 2018).

    Evaluated at `steps` equal shares of the units, or at every unit of shorter rows, with the trapezoidal rule.
    """

    needs_classes = True

    def __init__(self, *, steps: int = 20) -> None:
        if steps < 1:
            raise OptionError(f"Option 'steps' (how often units are removed) must be at least 1, got {steps}.")
        self.steps = steps

    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
        return ~row.top(self.counts(len(row))[1:])

    def value(self, answers: TeacherAnswers) -> float:
        assert answers.label is not None
        probabilities = np.concatenate([[answers.full[answers.label]], answers.masked[:, answers.label]])
        return float(np.trapezoid(probabilities, self.counts(answers.units) / answers.units))

    def counts(self, units: int) -> Int[np.ndarray, " point"]:
        """The number of removed units at each point, from 0 to all."""
        return np.unique(np.ceil(np.linspace(0, 1, self.steps + 1) * units - 1e-9).astype(np.int64))


class InsertionArea(DeletionArea):
    """Area under the probability of the explained class as units are inserted, highest first (Petsiuk et al. 2018)."""

    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
        return row.top(self.counts(len(row))[:-1])

    def value(self, answers: TeacherAnswers) -> float:
        assert answers.label is not None
        probabilities = np.concatenate([answers.masked[:, answers.label], [answers.full[answers.label]]])
        return float(np.trapezoid(probabilities, self.counts(answers.units) / answers.units))


class SymmetricRelevanceGain(DeletionArea):
    """Area under the probability with the lowest units removed first, minus that with the highest removed first.

    Blücher et al. 2024 (arXiv 2401.06654): SRG = LIF − MIF, two curves over one ranking, its reverse being the second.
    The area of a random order cancels, so a random ranking has 0 on average for any teacher and any replacement, and
    the reversed ranking has the negative. Both curves use the same shares of the units; if every unit is a point of the
    curves, the value is `insertion_auc` − `deletion_auc`.

    Differences from the paper: units are tokens, words or patches, not superpixels; p is the probability of the
    explained class, which is the predicted one unless the user names another; scores are ranked as in all metrics here.
    """

    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
        removed = self.counts(len(row))[1:]
        return np.concatenate([~row.top(removed), row.top(len(row) - removed)])

    def value(self, answers: TeacherAnswers) -> float:
        assert answers.label is not None
        highest_first, lowest_first = np.split(answers.masked[:, answers.label], 2)
        gaps = np.concatenate([[0.0], lowest_first - highest_first])  # with nothing removed, the curves meet
        return float(np.trapezoid(gaps, self.counts(answers.units) / answers.units))


class FlipFraction(DeletionArea):
    """The share of units to remove, highest first, until the predicted class changes; 1 if it never does."""

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
    """The values of all metrics for all methods on the rows of the probe, in order; NaN where undefined.

    The masked versions of a row for all metrics and methods are evaluated together, and equal ones once. `done` is
    called with the number of rows finished since its last call. Raises `UnsupportedError` if a metric needs classes and
    the teacher has none.
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
        masks_by_row: dict[int, np.ndarray] = {}
        slices: dict[tuple[int, int, int], slice] = {}
        first = row
        while row < len(probe.rows) and _is_below_limits(masks_by_row):
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
                masks_by_row[row] = np.concatenate(row_masks)
            row += 1
        masked_answers = probe.predict_masked(list(masks_by_row.values()), rows=list(masks_by_row))
        answers = dict(zip(masks_by_row, masked_answers, strict=True))
        for (metric_index, method_index, row_index), positions in slices.items():
            label = label_of(methods[method_index], row_index, teacher, full[row_index])
            teacher_answers = TeacherAnswers(
                full[row_index], answers[row_index][positions], label, len(methods[method_index][row_index])
            )
            values[metric_index, method_index, row_index] = metrics[metric_index].value(teacher_answers)
        done(row - first)
    return values


def _is_below_limits(masks_by_row: Mapping[int, np.ndarray]) -> bool:
    return sum(map(len, masks_by_row.values())) < MAX_MASKED_ROWS and sum(map(np.size, masks_by_row.values())) < MARKS


def position_units(explanation: RowExplanation, probe: Probe, row: int) -> Int[np.ndarray, " position"]:
    """For each position of the teacher, the index of the unit that decides whether it stays.

    Positions that no unit covers get the number of units.
    """
    batch = probe.batch
    if batch.pixels is not None:
        is_unit = batch.units[row].numpy()
        if int(is_unit.sum()) != len(explanation):
            raise DataError(
                f"Explanation of row {explanation.id!r} by {explanation.method!r} has {len(explanation)} patches, and "
                f"the teacher reads {int(is_unit.sum())}. Explain the rows with this teacher."
            )
        indices = np.full(len(is_unit), len(explanation), dtype=np.int64)
        indices[is_unit] = np.arange(len(explanation))
        return indices
    segments = np.where(batch.units[row].numpy(), batch.segments[row].numpy(), -1)
    units = covering_units(explanation.segments, explanation.offsets, segments, batch.offsets[row].numpy())
    return np.where(units < 0, len(explanation), units)


def check_targets(explanations: Explanations, teacher: Teacher) -> None:
    """Raise `DataError` if a target is no class of the teacher. Cheap: the teacher does not run."""
    for row in range(len(explanations) if teacher.classes is not None else 0):
        _explained_class(explanations, row, teacher)


def label_of(explanations: Explanations, row: int, teacher: Teacher, full: Float[np.ndarray, " output"]) -> int | None:
    """The index of the explained class: of a contrast the first class, without a target the predicted class."""
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
