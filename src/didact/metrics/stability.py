"""Stability: do similar rows get similar explanations? (Situ et al. 2021, equation 1)

The most important word types of a row are compared with those of its nearest rows of the same predicted class. Stable
does not mean right: an explanation that ignores the text is the most stable, so compare with `lexicon` and `random`.
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
    """The mean overlap (intersection over union) of important word types with those of the nearest `neighbours` rows.

    `side=top` takes the `k` words of largest absolute score; `labels` takes the most positive and the most negative
    words, each at most `k` of all, and compares them separately. `auto` is `labels` if all compared methods are signed,
    else `top` (`with_shared_side`). `only=content` excludes English stop words, `only=annotated` all unmarked words.
    """

    def __init__(self, *, neighbours: int = 3, k: float = 0.3, side: str = "auto", only: str = "all") -> None:
        if side not in SIDES:
            raise OptionError(f"Option 'side' must be one of {', '.join(map(repr, SIDES))}, got {side!r}.")
        if only not in ONLY:
            raise OptionError(f"Option 'only' must be one of {', '.join(map(repr, ONLY))}, got {only!r}.")
        if neighbours < 1:
            raise OptionError(f"Option 'neighbours' (the number of rows) must be at least 1, got {neighbours}.")
        top_count(k, 1)
        self.neighbours, self.k, self.side, self.only = neighbours, k, side, only

    def with_shared_side(self, methods: Sequence[Explanations]) -> "Stability":
        """A copy with `side=auto` resolved, so that all these methods are compared on the same side."""
        settled = copy(self)
        if self.side == "auto":
            settled.side = "labels" if all(explanations.kind == "signed" for explanations in methods) else "top"
        return settled

    @property
    def description(self) -> str:
        words = "largest words" if self.side == "top" else "most positive and most negative words"
        return f"{words} shared with the {self.neighbours} nearest rows of the same class"

    @abstractmethod
    def similarity(self, rows: Sequence[Row], encoder: Model | None) -> Float[np.ndarray, "row row"]:
        """The similarity of all pairs of rows."""

    def near(self, explanations: Explanations, rows: Sequence[Row], encoder: Model | None = None) -> list[list[int]]:
        """For each row, the indices of its nearest rows of the same predicted class; of all rows without classes."""
        if explanations.is_image:
            raise UnsupportedError("Stability compares words, and these are explanations of images.")
        classes = explanations.predictions if task_named(explanations.task).has_classes else ("",) * len(explanations)
        return nearest(self.similarity(rows, encoder), classes, self.neighbours)

    def __call__(
        self, explanations: Explanations, rows: Sequence[Row], neighbours: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, " row"]:
        """One number per row; NaN without neighbours, or if no row has important words. Explanations are on words."""
        if self.only == "annotated" and all(row.rationale is None for row in rows):
            raise OptionError("Option only=annotated keeps marked words only, and no row has a rationale.")
        words = [self._words(explanation, row) for explanation, row in zip(explanations, rows, strict=True)]
        return word_overlap(words, neighbours)

    def _words(self, explanation: RowExplanation, row: Row) -> tuple[set[str], ...]:
        signed = explanation.kind == "signed" and self.side != "top"
        sizes = (explanation.scores, -explanation.scores) if signed else (np.abs(explanation.scores),)
        allowed = marks_of(explanation, row) if self.only == "annotated" else np.ones(len(explanation), dtype=bool)
        words = []
        for size in sizes:
            count = min(top_count(self.k, len(explanation)), int((size > 0).sum())) if len(explanation) else 0
            top = np.argsort(-size, kind="stable")[:count]
            words.append({explanation.tokens[unit].casefold() for unit in top if allowed[unit]} - self._stop_words())
        return tuple(words)

    def _stop_words(self) -> frozenset[str]:
        if self.only != "content":
            return frozenset()
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # slow to import

        return frozenset(ENGLISH_STOP_WORDS)


class SemanticStability(Stability):
    """Neighbours have the most similar encoder states: cosine of the mean over tokens."""

    def similarity(self, rows: Sequence[Row], encoder: Model | None) -> Float[np.ndarray, "row row"]:
        if encoder is None:
            raise OptionError("Semantic similarity needs an encoder: pass one (encoder='minilm'), or a model.")
        return semantic_similarity(encoder, rows)


class LexicalStability(Stability):
    """Neighbours share the most n-grams: the mean overlap of 1- to 4-grams."""

    def similarity(self, rows: Sequence[Row], encoder: Model | None = None) -> Float[np.ndarray, "row row"]:  # noqa: ARG002
        return lexical_similarity(rows)


def lexical_similarity(rows: Sequence[Row]) -> Float[np.ndarray, "row row"]:
    """Intersection over union of the n-grams of two texts, mean over n = 1 to 4; 0 if neither has any."""
    from scipy.sparse import csr_array

    texts = [" ".join(row.texts).casefold().split() for row in rows]
    similarity = np.zeros((len(rows), len(rows)))
    for n in range(1, 5):
        grams = [{tuple(words[start : start + n]) for start in range(len(words) - n + 1)} for words in texts]
        vocabulary: dict[tuple[str, ...], int] = {}
        columns = [vocabulary.setdefault(gram, len(vocabulary)) for row_grams in grams for gram in row_grams]
        sizes = np.array([len(row_grams) for row_grams in grams], dtype=np.float64)
        bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        marks = csr_array((np.ones(len(columns)), columns, bounds), shape=(len(rows), max(len(vocabulary), 1)))
        intersection = (marks @ marks.T).toarray()
        union = sizes[:, None] + sizes - intersection
        similarity += np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0) / 4
    return similarity


def semantic_similarity(encoder: Model, rows: Sequence[Row], batch_size: int = 64) -> Float[np.ndarray, "row row"]:
    """The cosine of the mean last hidden states of two rows."""
    vectors: np.ndarray | None = None
    with inference_copy(encoder) as encoder:
        for indices in row_batches(rows, batch_size):
            batch = encoder.encode([rows[index] for index in indices]).to(encoder.device)
            states = encoder(batch, listen=["hidden"]).hidden
            assert states is not None
            mean = (states[-1].to(batch.device) * batch.mask[..., None]).sum(1) / batch.mask.sum(-1, keepdim=True)
            unit = torch.nn.functional.normalize(mean.cpu().double(), dim=-1).numpy()
            vectors = np.zeros((len(rows), unit.shape[1])) if vectors is None else vectors
            vectors[indices] = unit
    return np.zeros((0, 0)) if vectors is None else vectors @ vectors.T


def nearest(similarity: Float[np.ndarray, "row row"], classes: Sequence[str], count: int) -> list[list[int]]:
    """For each row, the indices of the `count` most similar rows of its class; of ties the first."""
    class_ids = np.unique(np.asarray(classes), return_inverse=True)[1]
    neighbours = []
    for row, similarities in enumerate(similarity):
        candidates = np.flatnonzero((class_ids == class_ids[row]) & (np.arange(len(class_ids)) != row))
        neighbours.append(candidates[np.argsort(-similarities[candidates], kind="stable")[:count]].tolist())
    return neighbours


def word_overlap(
    words: Sequence[tuple[set[str], ...]], neighbours: Sequence[Sequence[int]]
) -> Float[np.ndarray, " row"]:
    """The mean over neighbours of Σ |A ∩ B| / Σ |A ∪ B|, summed over sides (positive and negative words, or all)."""
    values = np.full(len(words), np.nan)
    for row, row_neighbours in enumerate(neighbours):
        shares = []
        for neighbour in row_neighbours:
            pairs = list(zip(words[row], words[neighbour], strict=True))
            union = sum(len(row_words | other_words) for row_words, other_words in pairs)
            if union:
                shares.append(sum(len(row_words & other_words) for row_words, other_words in pairs) / union)
        if shares:
            values[row] = float(np.mean(shares))
    return values
