"""What the recipes of L2E (Situ et al. 2021) measure: faithfulness by masking, and stability among neighbours.

An explainer and the network that imitates it are always asked for equally many words, on the same documents. Words that
are not shown are the mask token of a Hugging Face teacher, and zeros in a native one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import wilcoxon

from didact.core.baseline import baseline_of
from didact.core.model import Model, evaluating
from didact.core.row import Row, Span
from didact.core.words import touches, words_of
from didact.experiment.explained import keep_explanations, teacher_fingerprint
from didact.models.huggingface import HuggingFaceModel
from didact.records.explanations import Explained, Explanations
from didact.stats.holm import holm

SHARE = 0.3  # of a document's units, as in the paper
NEIGHBOURS = 3
HIDDEN = "_"  # one sign for one word
_CLIP = 1e-7  # of a probability: log-odds of 1 are large, not 0

Marks = Bool[np.ndarray, " unit"]


class Judge:
    """A teacher's answers to documents of which some units are hidden."""

    def __init__(self, teacher: Model, rows: Sequence[Row]) -> None:
        self.teacher, self.rows = teacher, list(rows)
        self.baseline = "mask" if isinstance(teacher, HuggingFaceModel) else "zero"
        self.full = self.asked([np.ones(0, dtype=bool)] * len(self.rows), whole=True)
        self.predicted: Int[np.ndarray, " row"] = self.full.argmax(1)

    def asked(
        self, shown: Sequence[Marks], *, whole: bool = False, batch_size: int = 64
    ) -> Float[np.ndarray, "row class"]:
        """The probabilities of each class when only the units `shown` are there (all of them, if `whole`)."""
        found = []
        with evaluating(self.teacher), torch.inference_mode():
            for start in range(0, len(self.rows), batch_size):
                batch = self.teacher.encode(self.rows[start : start + batch_size]).to(self.teacher.device)
                inputs = self.teacher.embed(batch)
                if not whole:
                    present = torch.zeros_like(batch.units)
                    for row, marks in enumerate(shown[start : start + batch_size]):
                        present[row, batch.units[row]] = torch.from_numpy(marks).to(batch.device)
                    hidden = baseline_of(self.teacher, batch, baseline=self.baseline)
                    inputs = torch.where((present | ~batch.units)[..., None], inputs, hidden)
                found.append(self.teacher.run(inputs, batch).logits.double().softmax(-1).cpu().numpy())
        return np.concatenate(found)

    def agrees(self, shown: Sequence[Marks]) -> Float[np.ndarray, " row"]:
        """Whether the teacher says the same of the shown units alone."""
        return (self.asked(shown).argmax(1) == self.predicted).astype(float)

    def drop(self, hidden: Sequence[Marks]) -> Float[np.ndarray, " row"]:
        """Δ log-odds of the predicted class when these units are hidden."""
        places = np.arange(len(self.rows)), self.predicted
        return _log_odds(self.full[places]) - _log_odds(self.asked([~one for one in hidden])[places])


def _log_odds(chance: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
    clipped = np.clip(chance, _CLIP, 1 - _CLIP)
    return np.log(clipped) - np.log1p(-clipped)


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


def kept(study: Any, method: str, rows: Sequence[Row]) -> Explanations:
    """The explanations of these rows in the study's folder, made now if they are not there."""
    mark = teacher_fingerprint(study.teacher, rows)
    found = keep_explanations(
        study.place, study.teacher, mark, rows, method, label=method, background=study.rows,
        progress=not study.asked.quick,
    )  # fmt: skip
    return Explanations.load(study.place / found.file)


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


# -- neighbours -------------------------------------------------------------------------------------------------------


def lexical(rows: Sequence[Row]) -> Float[np.ndarray, "row row"]:
    """How alike documents are: the mean over n = 1 to 4 of the overlap of their n-grams."""
    found = np.zeros((len(rows), len(rows)))
    for n in range(1, 5):
        grams = [_grams(row, n) for row in rows]
        for one in range(len(rows)):
            for other in range(one):
                union = len(grams[one] | grams[other])
                share = len(grams[one] & grams[other]) / union if union else 0.0
                found[one, other] += share / 4
                found[other, one] += share / 4
    return found


def _grams(row: Row, n: int) -> set[tuple[str, ...]]:
    spoken = " ".join(row.texts).casefold().split()
    return {tuple(spoken[start : start + n]) for start in range(len(spoken) - n + 1)}


def semantic(encoder: Model, rows: Sequence[Row], batch_size: int = 64) -> Float[np.ndarray, "row row"]:
    """The cosine of the documents' mean last states."""
    found = []
    with evaluating(encoder), torch.inference_mode():
        for start in range(0, len(rows), batch_size):
            batch = encoder.encode(rows[start : start + batch_size]).to(encoder.device)
            states = encoder(batch, listen=["hidden"]).hidden
            assert states is not None
            mean = (states[-1] * batch.mask[..., None]).sum(1) / batch.mask.sum(-1, keepdim=True)
            found.append(torch.nn.functional.normalize(mean.double(), dim=-1).cpu().numpy())
    vectors = np.concatenate(found)
    return vectors @ vectors.T


def neighbours(alike: Float[np.ndarray, "row row"], labels: Int[np.ndarray, " row"]) -> list[list[int]]:
    """For each document the nearest others of its predicted class."""
    found = []
    for row, own in enumerate(alike):
        same = np.flatnonzero((labels == labels[row]) & (np.arange(len(labels)) != row))
        found.append(same[np.argsort(-own[same], kind="stable")[:NEIGHBOURS]].tolist())
    return found


def stability(words: Sequence[tuple[set[str], ...]], near: Sequence[Sequence[int]]) -> Float[np.ndarray, " row"]:
    """The overlap of a document's important word types with its neighbours' (equation 1); NaN without neighbours.

    `words` are for each document one set per label (top; or positive and negative).
    """
    found = np.full(len(words), np.nan)
    for row, others in enumerate(near):
        shares = []
        for other in others:
            both = sum(len(one & two) for one, two in zip(words[row], words[other], strict=True))
            either = sum(len(one | two) for one, two in zip(words[row], words[other], strict=True))
            shares.append(both / either if either else 0.0)
        if shares:
            found[row] = float(np.mean(shares))
    return found


def types_of(one: Explained, marks: Marks) -> set[str]:
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
