"""Stability: do rows that are alike get like explanations? (Situ et al. 2021, equation 1.)

A row's most important word types are held against those of its nearest rows of the same predicted class. Stable is not
right: an explanation that ignores the text is the most stable of all, so `lexicon` and `random` belong beside it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Final

import numpy as np
import torch
from jaxtyping import Float

from didact.core.batching import row_batches
from didact.core.model import Model, inference_copy
from didact.core.row import Row
from didact.core.task import task_named
from didact.errors import OptionError, UnsupportedError
from didact.metrics.plausibility import marks_of
from didact.results.explanations import Explanations
from didact.results.row_explanation import RowExplanation, top_count

SIDES: Final = ("auto", "top", "labels")
ONLY: Final = ("all", "content", "annotated")


class Stability(ABC):
    """The overlap (intersection over union) of important word types with those of `neighbours` rows, their mean.

    `side=top` takes the `k` largest words of a row, `labels` the most positive and the most negative ones, each at
    most `k` of all and each held against its own; auto: labels where all compared scores have signs (`for_all`).
    `only=content` leaves English stop words out, `annotated` all words that nobody marked.
    """

    def __init__(self, *, neighbours: int = 3, k: float = 0.3, side: str = "auto", only: str = "all") -> None:
        if side not in SIDES:
            raise OptionError(f"Option 'side' is one of {', '.join(map(repr, SIDES))}, not {side!r}.")
        if only not in ONLY:
            raise OptionError(f"Option 'only' is one of {', '.join(map(repr, ONLY))}, not {only!r}.")
        if neighbours < 1:
            raise OptionError(f"Option 'neighbours' is how many rows are looked at, at least 1, not {neighbours}.")
        top_count(k, 1)
        self.neighbours, self.k, self.side, self.only = neighbours, k, side, only

    def with_shared_side(self, methods: Sequence[Explanations]) -> "Stability":
        """The same with its side settled, so that all these methods are asked for the same."""
        found = copy(self)
        if self.side == "auto":
            found.side = "labels" if all(one.kind == "signed" for one in methods) else "top"
        return found

    @property
    def description(self) -> str:
        words = "largest words" if self.side == "top" else "most positive and most negative words"
        return f"{words} shared with the {self.neighbours} nearest rows of the same class"

    @abstractmethod
    def likeness(self, rows: Sequence[Row], encoder: Model | None) -> Float[np.ndarray, "row row"]:
        """How alike any two rows are."""

    def near(self, maps: Explanations, rows: Sequence[Row], encoder: Model | None = None) -> list[list[int]]:
        """For each row the nearest others of its predicted class (any, where there are no classes)."""
        if maps.is_image:
            raise UnsupportedError("Stability compares words, and these are explanations of images.")
        classes = maps.predictions if task_named(maps.task).has_classes else ("",) * len(maps)
        return nearest(self.likeness(rows, encoder), classes, self.neighbours)

    def __call__(
        self, maps: Explanations, rows: Sequence[Row], near: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, " row"]:
        """One number per row; NaN without neighbours, or where neither side has a word. `maps` are of words."""
        if self.only == "annotated" and all(row.rationale is None for row in rows):
            raise OptionError("Option only=annotated keeps marked words, and no row has a rationale.")
        words = [self._words(one, row) for one, row in zip(maps, rows, strict=True)]
        return shared(words, near)

    def _words(self, one: RowExplanation, row: Row) -> tuple[set[str], ...]:
        signed = one.kind == "signed" and self.side != "top"
        sizes = (one.scores, -one.scores) if signed else (np.abs(one.scores),)
        allowed = marks_of(one, row) if self.only == "annotated" else np.ones(len(one), dtype=bool)
        found = []
        for size in sizes:
            count = min(top_count(self.k, len(one)), int((size > 0).sum())) if len(one) else 0
            top = np.argsort(-size, kind="stable")[:count]
            found.append({one.tokens[unit].casefold() for unit in top if allowed[unit]} - self._left_out())
        return tuple(found)

    def _left_out(self) -> frozenset[str]:
        if self.only != "content":
            return frozenset()
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # slow to import

        return frozenset(ENGLISH_STOP_WORDS)


class SemanticStability(Stability):
    """Neighbours are the rows whose encoder states, mean over tokens, point the same way."""

    def likeness(self, rows: Sequence[Row], encoder: Model | None) -> Float[np.ndarray, "row row"]:
        if encoder is None:
            raise OptionError("Which rows mean the same, an encoder tells: give one (encoder='minilm'), or a model.")
        return semantic(encoder, rows)


class LexicalStability(Stability):
    """Neighbours are the rows that share most n-grams: the overlap of 1- to 4-grams, mean over the four."""

    def likeness(self, rows: Sequence[Row], encoder: Model | None = None) -> Float[np.ndarray, "row row"]:  # noqa: ARG002
        return lexical(rows)


def lexical(rows: Sequence[Row]) -> Float[np.ndarray, "row row"]:
    """How alike texts are: intersection over union of their n-grams, mean over n = 1 to 4; 0 where neither has any."""
    from scipy.sparse import csr_array

    spoken = [" ".join(row.texts).casefold().split() for row in rows]
    found = np.zeros((len(rows), len(rows)))
    for n in range(1, 5):
        grams = [{tuple(words[start : start + n]) for start in range(len(words) - n + 1)} for words in spoken]
        numbers: dict[tuple[str, ...], int] = {}
        columns = [numbers.setdefault(gram, len(numbers)) for one in grams for gram in one]
        sizes = np.array([len(one) for one in grams], dtype=np.float64)
        bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        marks = csr_array((np.ones(len(columns)), columns, bounds), shape=(len(rows), max(len(numbers), 1)))
        both = (marks @ marks.T).toarray()
        either = sizes[:, None] + sizes - both
        found += np.divide(both, either, out=np.zeros_like(both), where=either > 0) / 4
    return found


def semantic(encoder: Model, rows: Sequence[Row], batch_size: int = 64) -> Float[np.ndarray, "row row"]:
    """The cosine of the rows' last states, mean over their tokens."""
    vectors: np.ndarray | None = None
    with inference_copy(encoder) as encoder:
        for chosen in row_batches(rows, batch_size):
            batch = encoder.encode([rows[index] for index in chosen]).to(encoder.device)
            states = encoder(batch, listen=["hidden"]).hidden
            assert states is not None
            mean = (states[-1].to(batch.device) * batch.mask[..., None]).sum(1) / batch.mask.sum(-1, keepdim=True)
            unit = torch.nn.functional.normalize(mean.cpu().double(), dim=-1).numpy()
            vectors = np.zeros((len(rows), unit.shape[1])) if vectors is None else vectors
            vectors[chosen] = unit
    return np.zeros((0, 0)) if vectors is None else vectors @ vectors.T


def nearest(likeness: Float[np.ndarray, "row row"], classes: Sequence[str], count: int) -> list[list[int]]:
    """For each row the numbers of the `count` rows most like it, of its class; of equally near ones the first."""
    own = np.unique(np.asarray(classes), return_inverse=True)[1]
    found = []
    for row, alike in enumerate(likeness):
        same = np.flatnonzero((own == own[row]) & (np.arange(len(own)) != row))
        found.append(same[np.argsort(-alike[same], kind="stable")[:count]].tolist())
    return found


def shared(words: Sequence[tuple[set[str], ...]], near: Sequence[Sequence[int]]) -> Float[np.ndarray, " row"]:
    """The mean over neighbours of Σ |both| / Σ |either|, summed over the kinds of words (positive, negative)."""
    found = np.full(len(words), np.nan)
    for row, others in enumerate(near):
        shares = []
        for other in others:
            pairs = list(zip(words[row], words[other], strict=True))
            either = sum(len(one | two) for one, two in pairs)
            if either:
                shares.append(sum(len(one & two) for one, two in pairs) / either)
        if shares:
            found[row] = float(np.mean(shares))
    return found
