"""What is sent: explanations on the student's own positions, as mass, as marks, or as aligned phrases."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from didact.core.batch import Batch
from didact.core.explanation import Explanation, Signed
from didact.core.padded import padded
from didact.core.row import Span
from didact.core.words import touches
from didact.errors import OptionError, ShapeError
from didact.results.explanations import Explanations
from didact.results.transforms import mark_top


@dataclass(frozen=True)
class Lesson:
    """What rows are sent, on the student's positions. Only what the strategy asked for is there.

    `mass` is zero outside the units and sums to one. `phrases` are pairs of phrases, question and passage. `lost` tells
    which rows had something to send that the student cannot read.
    """

    mass: Float[Tensor, "row token"] | None = None
    marks: Bool[Tensor, "row token"] | None = None
    phrases: Bool[Tensor, "row pair 2 token"] | None = None
    lost: Bool[Tensor, " row"] | None = None

    def select(self, rows: Int[Tensor, " chosen"], length: int) -> "Lesson":
        """These rows, cut to the length of their batch."""
        return replace(self, **{name: self._selected(name, rows, length) for name in self._present_fields()})

    def to(self, device: torch.device | str) -> "Lesson":
        return replace(self, **{name: getattr(self, name).to(device) for name in self._present_fields()})

    def _selected(self, name: str, rows: Int[Tensor, " chosen"], length: int) -> Tensor:
        value: Tensor = getattr(self, name)[rows]
        return value if name == "lost" else value[..., :length]

    def _present_fields(self) -> list[str]:
        return [field.name for field in fields(self) if getattr(self, field.name) is not None]


def distribution_lesson(
    explanations: Explanations,
    batch: Batch,
    *,
    signed: Signed = "absolute",
    temperature: float = 1.0,
    floor: float = 1e-3,
) -> Lesson:
    """The whole explanation as a distribution over the student's units (DESIGN: what is sent is decided by `kind`).

    A distribution is sent as it is, magnitudes as s / Σs, signed scores as |s| / Σ|s|, as their positive part, or as
    softmax(s / temperature); binary marks as 1 against `floor`. Other temperatures than 1 sharpen or flatten.
    """
    _check_rows(explanations, batch)
    if explanations.kind == "binary":
        return _uniform(marks_lesson(explanations, batch), batch, temperature=temperature, floor=floor)
    explanation = padded(
        explanations, batch, normalise=lambda source: source.as_distribution(signed=signed, temperature=temperature)
    )
    # One in sum again, after what was lost; uniform where nothing arrived.
    return Lesson(mass=explanation.as_distribution().to(torch.get_default_dtype()), lost=explanation.lost)


def top_lesson(
    explanations: Explanations, batch: Batch, *, k: float = 0.1, temperature: float = 1.0, floor: float = 1e-3
) -> Lesson:
    """The top words alone, all alike: 1 against `floor`."""
    return _uniform(marks_lesson(explanations, batch, k=k), batch, temperature=temperature, floor=floor)


def marks_lesson(explanations: Explanations, batch: Batch, *, k: float = 0.1) -> Lesson:
    """The student's pieces of the top ceil(k · words) words, counted before they cross to the student's tokenizer.

    Signed scores go by their size; ties by position. What is marked already is sent as it was marked.
    """
    _check_rows(explanations, batch)
    if explanations.kind != "binary":
        explanations = mark_top(explanations if explanations.is_image else explanations.words(), k)
    explanation = padded(explanations, batch)
    return Lesson(marks=explanation.scores != 0, lost=explanation.lost)


def aligned_lesson(explanations: Explanations, batch: Batch) -> Lesson:
    """Aligned phrases on the student's positions. A pair of which the student cannot read one side is left out."""
    _check_rows(explanations, batch)
    if explanations.alignments is None:
        raise ShapeError(
            f"Strategy 'alignment' needs aligned spans, and method {explanations.method!r} gives none. "
            "Choose 'human' (where the data has them) or 'attention_alignment', or the strategy 'attention'."
        )
    segments, offsets = batch.segments.cpu().numpy(), batch.offsets.cpu().numpy()
    max_pairs = max((len(pairs) for pairs in explanations.alignments), default=0)
    phrases = np.zeros((len(batch), max(max_pairs, 1), 2, segments.shape[1]), dtype=bool)
    lost = np.zeros(len(batch), dtype=bool)
    for row, pairs in enumerate(explanations.alignments):
        for index, pair in enumerate(pairs):
            sides = np.stack([touches([Span(*span)], segments[row], offsets[row]) for span in pair])
            if sides.any(-1).all():
                phrases[row, index] = sides
            else:
                lost[row] = True
    return Lesson(phrases=torch.from_numpy(phrases), lost=torch.from_numpy(lost))


def _uniform(lesson: Lesson, batch: Batch, *, temperature: float, floor: float) -> Lesson:
    """Marks as a distribution over the student's units; a row without marks is uniform."""
    assert lesson.marks is not None
    scores = lesson.marks.to(torch.get_default_dtype())
    explanation = Explanation(scores, batch.mask.cpu(), batch.units.cpu(), "binary")
    mass = explanation.as_distribution(temperature=temperature, floor=floor)
    return Lesson(mass=mass, lost=lesson.lost)


def _check_rows(explanations: Explanations, batch: Batch) -> None:
    if explanations.ids != batch.ids:
        raise ShapeError("A lesson needs explanations of the student's rows, in their order.")


def check_share(name: str, value: Any) -> None:
    """An option that is a share of the units."""
    if not 0 < value <= 1:
        raise OptionError(f"Option {name!r} is a share, above 0 and at most 1, not {value}.")
