"""Do explanations find what people marked? ROC-AUC of words against rationales, as Fernandes et al. 2022 measure it.

A word scores |the sum of its pieces' scores| and is marked if any piece touches a marked span. The area is taken row by
row, then averaged; a row needs a marked and an unmarked word. Best layer and best head are chosen with these very
labels, as in the paper: they say what could be had, not what a method gives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import rankdata

import didact
from didact.core.row import Row
from didact.core.words import touches, words
from didact.explainers.combine import combine_components
from didact.explainers.mix import AttentionMix, ComponentMix
from didact.explaining.component_scores import compute_component_scores
from didact.results.contrast import Contrast
from didact.results.explanations import Explanations
from didact.stats.contrast import crossed_contrast


def areas(scores: Float[np.ndarray, "word method"], marked: Bool[np.ndarray, " word"]) -> Float[np.ndarray, " method"]:
    """For each method the chance that a marked word scores above an unmarked one; ties count half."""
    ranks, count = rankdata(scores, axis=0), int(marked.sum())
    return (ranks[marked].sum(0) - count * (count + 1) / 2) / (count * (len(marked) - count))


@dataclass(frozen=True, eq=False)
class Judged:
    """The area of each row that has one, and how many rows have none; `lost` marked words lie behind the cut."""

    areas: Float[np.ndarray, "row method"]
    skipped: int
    marked: int
    lost: int


@dataclass(frozen=True, eq=False)
class Scores:
    """What several methods give the same units of the same rows. Heads and layers are methods, too."""

    rows: Sequence[Row]
    maps: Explanations
    names: tuple[str, ...]
    values: Float[np.ndarray, "unit method"]

    def judged(self, segment: int = 0, rows: Sequence[int] | None = None) -> Judged:
        """Against the rationale in one of a row's texts; in these rows, or in all."""
        found, skipped, total, lost = [], 0, 0, 0
        for number in range(len(self.rows)) if rows is None else rows:
            row, units = self.rows[number], slice(*self.maps.bounds[number : number + 2])
            here = (self.maps.segments[units] == segment) & (self.maps.word_index[units] >= 0)
            seen, word = np.unique(self.maps.word_index[units][here], return_inverse=True)
            spans = [span for span in row.rationale or () if span.segment == segment]
            hit = touches(spans, self.maps.segments[units][here], self.maps.offsets[units][here])
            marked = np.zeros(len(seen), dtype=bool)
            np.logical_or.at(marked, word, hit)
            everywhere = int(touches(spans, *_columns(words(row.texts[segment], segment))).sum())
            total, lost = total + everywhere, lost + everywhere - int(marked.sum())
            if not 0 < marked.sum() < len(marked):
                skipped += 1
                continue
            summed = np.zeros((len(seen), self.values.shape[1]))
            np.add.at(summed, word, self.values[units][here])
            found.append(areas(np.abs(summed), marked))
        return Judged(np.array(found).reshape(-1, len(self.names)), skipped, total, lost)

    def best(self, judged: Judged, kind: str) -> tuple[str, float]:
        """The layer or head with the largest mean area, chosen with the labels."""
        places = [place for place, name in enumerate(self.names) if name.startswith(f"{kind} ")]
        means = judged.areas[:, places].mean(0)
        return self.names[places[int(means.argmax())]], float(means.max())

    def mean(self, judged: Judged, name: str) -> float:
        return float(judged.areas[:, self.names.index(name)].mean())

    def difference(self, judged: Judged, first: str, second: str) -> Contrast:
        """Mean area of one method minus that of another; the interval is over rows."""
        columns = [judged.areas[:, self.names.index(name)][None] for name in (first, second)]
        return crossed_contrast(*columns)


def scores_of(teacher: Any, rows: Sequence[Row], methods: Sequence[str], learned: Mapping[str, ComponentMix]) -> Scores:
    """These methods, the learned explainers, every layer and every head, asked of the same rows.

    Heads and layers come from one look at the teacher: softmax of a head's logits, or of the mean over a layer's heads.
    """
    parts = compute_component_scores(teacher, rows, AttentionMix())
    columns: dict[str, np.ndarray] = {}
    for method in methods:
        columns[method] = _same_units(parts.maps, didact.explain(teacher, rows, method))
    for name, explainer in learned.items():
        is_mix = isinstance(explainer, AttentionMix)
        made = combine_components(explainer, parts) if is_mix else didact.explain(teacher, rows, explainer)
        columns[name] = _same_units(parts.maps, made)
    layers: dict[str, list[int]] = {}
    for place, part in enumerate(parts.names):
        layers.setdefault(part.partition(".")[0], []).append(place)
    logits = {f"layer {layer}": parts.values[:, places].mean(1) for layer, places in layers.items()}
    logits |= {f"head {name}": parts.values[:, place] for place, name in enumerate(parts.names)}
    shares = _softmax_by_row(np.stack([*logits.values()], 1).astype(np.float64), parts.maps.bounds)
    values = np.concatenate([np.stack([*columns.values()], 1), shares], 1)
    return Scores(rows, parts.maps, (*columns, *logits), values)


def _same_units(maps: Explanations, other: Explanations) -> Float[np.ndarray, " unit"]:
    assert other.ids == maps.ids
    assert np.array_equal(other.offsets, maps.offsets), f"{other.method} scores other units than attention does"
    return other.scores


def _softmax_by_row(logits: Float[np.ndarray, "unit method"], bounds: np.ndarray) -> Float[np.ndarray, "unit method"]:
    found = np.empty_like(logits)
    for start, end in pairwise(bounds.tolist()):
        if end > start:
            shifted = np.exp(logits[start:end] - logits[start:end].max(0))
            found[start:end] = shifted / shifted.sum(0)
    return found


def _columns(spans: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Segments and offsets of spans, as `touches` takes them."""
    return (
        np.array([span.segment for span in spans], dtype=np.int64),
        np.array([span[1:] for span in spans], dtype=np.int64).reshape(-1, 2),
    )
