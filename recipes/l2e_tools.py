"""What the recipes of L2E (Situ et al. 2021) measure: faithfulness by masking, and stability among neighbours.

An explainer and the network that imitates it are always asked for equally many words, on the same documents. Words that
are not shown are the mask token of a Hugging Face teacher, and zeros in a native one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from recipe_tools import kept
from scipy.stats import wilcoxon

from didact.core.model import Model
from didact.core.row import Row, Span
from didact.core.words import touches, words_of
from didact.metrics.faithfulness import log_odds
from didact.metrics.probe import Probe
from didact.models.huggingface import HuggingFaceModel
from didact.results.explanations import Explanations
from didact.results.row_explanation import RowExplanation
from didact.stats.claims import holm

SHARE = 0.3  # of a document's units, as in the paper
HIDDEN = "_"  # one sign for one word
BACKGROUND = 128  # rows whose words stand for any word (Deep SHAP, GradientSHAP)

Marks = Bool[np.ndarray, " unit"]


class Judge:
    """A teacher's answers to documents of which some units are hidden."""

    def __init__(self, teacher: Model, rows: Sequence[Row]) -> None:
        self.probe = Probe(teacher, rows, replace="mask" if isinstance(teacher, HuggingFaceModel) else "zero")
        self.full: Float[np.ndarray, "row class"] = self.probe.full()
        self.predicted: Int[np.ndarray, " row"] = self.full.argmax(1)

    def agrees(self, shown: Sequence[Marks]) -> Float[np.ndarray, " row"]:
        """Whether the teacher says the same of the shown units alone."""
        return (self._asked(shown).argmax(1) == self.predicted).astype(float)

    def drop(self, hidden: Sequence[Marks]) -> Float[np.ndarray, " row"]:
        """Δ log-odds of the predicted class when these units are hidden."""
        places = np.arange(len(self.full)), self.predicted
        after = self._asked([~one for one in hidden])[places]
        odds = [[log_odds(float(one)) for one in chances] for chances in (self.full[places], after)]
        return np.subtract(*odds)

    def _asked(self, shown: Sequence[Marks]) -> Float[np.ndarray, "row class"]:
        """The probabilities of each class when only the units `shown` are there."""
        questions = []
        for units, marks in zip(self.probe.masked.units, shown, strict=True):
            present = np.zeros((1, len(units)), dtype=bool)
            present[0, units] = marks
            questions.append(present)
        return np.concatenate(self.probe.predict_masked(questions))


def selected(maps: Sequence[Explanations], row: int, side: str) -> list[Marks] | None:
    """Of one document the units that each explainer finds most important, equally many; None if one finds none.

    `side` is top (by size), positive or negative: the first 30 %, or as many as all of them have.
    """
    scores = [one[row].scores for one in maps]
    ranked = {"top": np.abs, "positive": lambda one: one, "negative": lambda one: -one}[side]
    found = [ranked(one) for one in scores]
    count = min(math.ceil(SHARE * len(found[0])), *(int((one > 0).sum()) for one in found))
    if not count:
        return None
    marks = []
    for one in found:
        chosen = np.zeros(len(one), dtype=bool)
        chosen[np.argsort(-one, kind="stable")[:count]] = True
        marks.append(chosen)
    return marks


def explained(study: Any, method: str, rows: Sequence[Row]) -> Explanations:
    """The explanations of these rows in the study's folder."""
    background = study.rows[:BACKGROUND]  # so that more rows to learn from lose none that are explained
    found: Explanations = kept(study.place, study.teacher, rows, method, background, progress=not study.asked.quick)
    return found


# -- rationales -------------------------------------------------------------------------------------------------------


def hidden(row: Row, label: int) -> Row:
    """The row with every word of its rationale hidden."""
    texts = list(row.texts)
    spans = words_of(row.texts)
    places = np.array([[one.start, one.end] for one in spans]).reshape(-1, 2)
    gone = touches(spans_of(row), np.array([one.segment for one in spans], dtype=np.int64), places)
    for one in [span for span, is_gone in zip(spans, gone, strict=True) if is_gone][::-1]:
        texts[one.segment] = texts[one.segment][: one.start] + HIDDEN + texts[one.segment][one.end :]
    return replace(row, id=f"{row.id}-hidden", texts=tuple(texts), label=label, rationale=())


def spans_of(row: Row) -> list[Span]:
    """What is marked in a row."""
    return [one for one in row.rationale or () if isinstance(one, Span)]


def types_of(one: RowExplanation, marks: Marks) -> set[str]:
    """The words among the marked units, whatever their case."""
    return {one.tokens[place].casefold() for place in np.flatnonzero(marks)}


# -- comparing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Paired:
    """A measure of the imitated explainer and of its network, document by document; those without one are left out."""

    theirs: Float[np.ndarray, " row"]
    ours: Float[np.ndarray, " row"]

    @classmethod
    def of(cls, theirs: Float[np.ndarray, " row"], ours: Float[np.ndarray, " row"]) -> "Paired":
        both = np.isfinite(theirs) & np.isfinite(ours)
        return cls(theirs[both], ours[both])

    @property
    def p(self) -> float | None:
        """Wilcoxon's signed ranks; None where nothing differs."""
        if not len(self.ours) or np.array_equal(self.theirs, self.ours):
            return None
        return float(wilcoxon(self.ours, self.theirs).pvalue)

    def interval(self, replicates: int = 2000, seed: int = 0) -> tuple[float, float, float]:
        """The mean difference, ours minus theirs, with its 95 % percentile interval over documents."""
        gaps = self.ours - self.theirs
        if not len(gaps):
            return math.nan, math.nan, math.nan
        draws = np.random.default_rng(seed).integers(len(gaps), size=(replicates, len(gaps)))
        low, high = np.percentile(gaps[draws].mean(1), [2.5, 97.5])
        return float(gaps.mean()), float(low), float(high)


def marked(cells: Sequence[Paired]) -> list[str]:
    """▲ or ▼ where ours is significantly above or below, Holm-corrected over the table; one mark per cell."""
    adjusted = holm([one.p for one in cells])
    found = []
    for one, p in zip(cells, adjusted, strict=True):
        up = one.ours.mean() > one.theirs.mean() if len(one.ours) else False
        found.append("" if p is None or p >= 0.05 else "▲" if up else "▼")
    return found
