"""Plausibility: does an explanation mark what people marked? On planted data with a verified teacher, the truth.

Computed per row on words (patches of images), for rows with both marked and unmarked ones. Signed scores count by
absolute value, unless `signed=true`. With `segment`, only this text of a row counts.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata

from didact.core.row import Box, Row, Span
from didact.core.words import touches
from didact.errors import OptionError
from didact.results.explanations import Explanations
from didact.results.row_explanation import RowExplanation, top_count

Marks = Sequence[Bool[np.ndarray, " _"]]  # for each row, which of its units are marked


class Plausibility(ABC):
    """Base class of metrics that compare scores of words with marks."""

    def __init__(self, *, signed: bool = False, segment: int | None = None) -> None:
        self.signed, self.segment = signed, segment

    def __call__(
        self, explanations: Explanations, rows: Sequence[Row], marks: Marks | None = None
    ) -> Float[np.ndarray, " row"]:
        """One number per row; NaN if no word, or every word, is marked.

        The explanations are of these rows, on words. Metrics can share `marks`, the result of `marks_in`.
        """
        values = np.full(len(explanations), np.nan)
        all_marks = marks_in(explanations, rows) if marks is None else marks
        for index, (explanation, row_marks) in enumerate(zip(explanations, all_marks, strict=True)):
            in_segment = (
                np.ones(len(explanation), dtype=bool) if self.segment is None else explanation.segments == self.segment
            )
            marked = row_marks[in_segment]
            if 0 < marked.sum() < len(marked):
                scores = (
                    explanation.scores if self.signed or explanation.kind != "signed" else np.abs(explanation.scores)
                )
                values[index] = self.of_row(scores[in_segment], marked, explanation.segments[in_segment])
        return values

    def of_row(
        self,
        scores: Float[np.ndarray, " word"],
        marked: Bool[np.ndarray, " word"],
        segments: Int[np.ndarray, " word"],  # noqa: ARG002 - used by IouF1
    ) -> float:
        """The metric of one row; `segments` are the texts of its words."""
        return self.value(scores, marked)

    @abstractmethod
    def value(self, scores: Float[np.ndarray, " word"], marked: Bool[np.ndarray, " word"]) -> float: ...


class RocAuc(Plausibility):
    """The probability that a marked word scores above an unmarked one; ties count half."""

    def value(self, scores: Float[np.ndarray, " word"], marked: Bool[np.ndarray, " word"]) -> float:
        count = int(marked.sum())
        above = rankdata(scores)[marked].sum() - count * (count + 1) / 2
        return float(above / (count * (len(marked) - count)))


class AveragePrecision(Plausibility):
    """Σ (increase of recall) · precision, from the highest score down; tied words are added together."""

    def value(self, scores: Float[np.ndarray, " word"], marked: Bool[np.ndarray, " word"]) -> float:
        order = np.argsort(-scores, kind="stable")
        hits = np.cumsum(marked[order])
        ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
        gained = np.diff(hits[ends], prepend=0) / hits[-1]
        return float((gained * hits[ends] / (ends + 1)).sum())


class _AtTop(Plausibility):
    """Metrics of the top `k` words (a share or a number; default: as many as are marked). Of ties, the first word."""

    def __init__(self, *, k: float | None = None, signed: bool = False, segment: int | None = None) -> None:
        super().__init__(signed=signed, segment=segment)
        if k is not None:
            top_count(k, 1)
        self.k = k

    def top(self, scores: Float[np.ndarray, " word"], marked: Bool[np.ndarray, " word"]) -> Bool[np.ndarray, " word"]:
        count = int(marked.sum()) if self.k is None else top_count(self.k, len(scores))
        chosen = np.zeros(len(scores), dtype=bool)
        chosen[np.argsort(-scores, kind="stable")[:count]] = True
        return chosen


class Precision(_AtTop):
    """The share of the top words that are marked."""

    def value(self, scores: Float[np.ndarray, " word"], marked: Bool[np.ndarray, " word"]) -> float:
        chosen = self.top(scores, marked)
        return float((chosen & marked).sum() / chosen.sum())


class Recall(_AtTop):
    """The share of the marked words that are among the top ones."""

    def value(self, scores: Float[np.ndarray, " word"], marked: Bool[np.ndarray, " word"]) -> float:
        return float((self.top(scores, marked) & marked).sum() / marked.sum())


class F1(_AtTop):
    """The harmonic mean of precision and recall of the top words."""

    def value(self, scores: Float[np.ndarray, " word"], marked: Bool[np.ndarray, " word"]) -> float:
        chosen = self.top(scores, marked)
        return float(2 * (chosen & marked).sum() / (chosen.sum() + marked.sum()))


class IouF1(_AtTop):
    """F1 of runs of top words and runs of marked words, which match if they share at least `least` of their union.

    As in ERASER's scorer, row by row; but a marked run that several runs match counts once for recall.
    """

    def __init__(
        self, *, least: float = 0.5, k: float | None = None, signed: bool = False, segment: int | None = None
    ) -> None:
        super().__init__(k=k, signed=signed, segment=segment)
        if not 0 < least <= 1:
            raise OptionError(f"Option 'least' must be a share above 0 and at most 1, got {least}.")
        self.least = least

    def of_row(
        self,
        scores: Float[np.ndarray, " word"],
        marked: Bool[np.ndarray, " word"],
        segments: Int[np.ndarray, " word"],
    ) -> float:
        chosen = self.top(scores, marked)
        ends = np.flatnonzero(np.diff(segments)) + 1  # an unmarked word between two texts ends runs
        return self._run_f1(runs(np.insert(chosen, ends, False)), runs(np.insert(marked, ends, False)))

    def value(self, scores: Float[np.ndarray, " word"], marked: Bool[np.ndarray, " word"]) -> float:
        return self._run_f1(runs(self.top(scores, marked)), runs(marked))

    def _run_f1(self, top_runs: Int[np.ndarray, "run 2"], marked_runs: Int[np.ndarray, "other 2"]) -> float:
        shared = np.minimum(top_runs[:, None, 1], marked_runs[None, :, 1]) - np.maximum(
            top_runs[:, None, 0], marked_runs[None, :, 0]
        )
        shared = np.maximum(shared, 0)
        union = (top_runs[:, 1] - top_runs[:, 0])[:, None] + (marked_runs[:, 1] - marked_runs[:, 0]) - shared
        is_match = shared >= self.least * union
        precision, recall = is_match.any(1).mean(), is_match.any(0).mean()
        return float(2 * precision * recall / (precision + recall)) if precision + recall else 0.0


def runs(marks: Bool[np.ndarray, " word"]) -> Int[np.ndarray, "run 2"]:
    """Start and end (exclusive) of each run of marks."""
    steps = np.diff(marks.astype(np.int64), prepend=0, append=0)
    return np.stack([np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)], 1)


def marks_in(explanations: Explanations, rows: Sequence[Row]) -> Marks:
    """For each row, which of its units are marked."""
    return [marks_of(explanation, row) for explanation, row in zip(explanations, rows, strict=True)]


def marks_of(explanation: RowExplanation, row: Row) -> Bool[np.ndarray, " unit"]:
    """Which units share a character (or a pixel) with the rationale of the row."""
    spans = [span for span in row.rationale or () if isinstance(span, Span)]
    boxes = [box for box in row.rationale or () if isinstance(box, Box)]
    marked = (
        touches(spans, explanation.segments, explanation.offsets) if spans else np.zeros(len(explanation), dtype=bool)
    )
    for box in boxes:
        top, left, bottom, right = explanation.offsets.T
        marked |= (top < box.bottom) & (bottom > box.top) & (left < box.right) & (right > box.left)
    return marked
