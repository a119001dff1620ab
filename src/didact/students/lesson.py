"""Lessons: explanations on the student's tokens, as a distribution, marks or aligned phrases."""

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
    """What a student receives of explanations, on its own tokens. Fields that the strategy does not use are None.

    `mass` is a distribution over the units, `marks` are the marked units, and `phrases` pairs of aligned phrases of
    question and passage. `lost` is true for rows whose explanation is partly outside the text that the student reads.
    """

    mass: Float[Tensor, "row token"] | None = None
    marks: Bool[Tensor, "row token"] | None = None
    phrases: Bool[Tensor, "row pair 2 token"] | None = None
    lost: Bool[Tensor, " row"] | None = None

    def select(self, rows: Int[Tensor, " chosen"], length: int) -> "Lesson":
        """The lesson of these rows, cut to `length` tokens."""
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
    """The whole explanation as a distribution over the student's units.

    The kind of the explanation decides how, with `signed`, `temperature` and `floor` as in
    `Explanation.as_distribution`. Raises `ShapeError` if the explanations are of other rows than the batch.
    """
    _check_rows(explanations, batch)
    if explanations.kind == "binary":
        return _uniform(marks_lesson(explanations, batch), batch, temperature=temperature, floor=floor)
    explanation = padded(
        explanations, batch, normalise=lambda source: source.as_distribution(signed=signed, temperature=temperature)
    )
    # Normalise again after losses; a row without any mass becomes uniform.
    return Lesson(mass=explanation.as_distribution().to(torch.get_default_dtype()), lost=explanation.lost)


def top_lesson(
    explanations: Explanations, batch: Batch, *, k: float = 0.1, temperature: float = 1.0, floor: float = 1e-3
) -> Lesson:
    """The top share `k` of the words with equal weights, and `floor` elsewhere, normalised."""
    return _uniform(marks_lesson(explanations, batch, k=k), batch, temperature=temperature, floor=floor)


def marks_lesson(explanations: Explanations, batch: Batch, *, k: float = 0.1) -> Lesson:
    """Marks on the student's tokens of the top ceil(k · words) words, counted in the explanation.

    Signed scores are ranked by absolute value, ties by position. Binary explanations keep their marks.
    """
    _check_rows(explanations, batch)
    if explanations.kind != "binary":
        explanations = mark_top(explanations if explanations.is_image else explanations.words(), k)
    explanation = padded(explanations, batch)
    return Lesson(marks=explanation.scores != 0, lost=explanation.lost)


def aligned_lesson(explanations: Explanations, batch: Batch) -> Lesson:
    """Aligned phrases on the student's tokens, without pairs of which the student cannot read one side."""
    _check_rows(explanations, batch)
    if explanations.alignments is None:
        raise ShapeError(
            f"Strategy 'alignment' needs aligned spans, and method {explanations.method!r} has none. "
            "Choose 'human' (if the data has them) or 'attention_alignment', or the strategy 'attention'."
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
    """Marks as a distribution over the student's units; uniform for a row without marks."""
    assert lesson.marks is not None
    scores = lesson.marks.to(torch.get_default_dtype())
    explanation = Explanation(scores, batch.mask.cpu(), batch.units.cpu(), "binary")
    mass = explanation.as_distribution(temperature=temperature, floor=floor)
    return Lesson(mass=mass, lost=lesson.lost)


def _check_rows(explanations: Explanations, batch: Batch) -> None:
    if explanations.ids != batch.ids:
        raise ShapeError("A lesson needs explanations of the student's rows, in their order.")


def check_share(name: str, value: Any) -> None:
    """Raise `OptionError` unless an option is a share of the units."""
    if not 0 < value <= 1:
        raise OptionError(f"Option {name!r} is a share: it must be above 0 and at most 1, got {value}.")
