"""Lessons: explanations on the student's tokens, as a distribution, marks, signed scores or aligned phrases."""

from dataclasses import dataclass, fields, replace
from itertools import permutations
from typing import Any, Final, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from didact.core.batch import Batch
from didact.core.explanation import Explanation, Signed
from didact.core.normalise import positive
from didact.core.padded import padded, padded_units
from didact.core.row import Span
from didact.core.words import touches
from didact.errors import OptionError, ShapeError
from didact.results.explanations import Explanations
from didact.results.transforms import absolute_scores, mark_top

Norm = Literal["row", "rows"]  # what `scores_lesson` scales to 1: every row, or the root mean square of all rows
_PER_ROW: Final = frozenset({"share_against", "is_signed", "targets", "lost"})  # fields without a column per token


@dataclass(frozen=True)
class Lesson:
    """What a student receives of explanations, on its own tokens. Fields that the strategy does not use are None.

    - `mass`: a distribution over the units. With `mass_against` it is that of the positive scores, `mass_against` that
      of the negative ones, and `share_against` the share of the absolute scores that is negative.
    - `marks`: the marked units. `tags`: the same with signs, 1 for a positive and 2 for a negative score, else 0.
    - `scores`: scores with their signs if `is_signed`. `targets`: the classes that they explain, as a class and the
      class that it is compared with, or -1. Regression has no targets.
    - `phrases`: pairs of aligned phrases of question and passage.
    - `lost`: true for rows whose explanation is partly outside the text that the student reads.
    """

    mass: Float[Tensor, "row token"] | None = None
    marks: Bool[Tensor, "row token"] | None = None
    phrases: Bool[Tensor, "row pair 2 token"] | None = None
    lost: Bool[Tensor, " row"] | None = None
    mass_against: Float[Tensor, "row token"] | None = None
    share_against: Float[Tensor, " row"] | None = None
    tags: Int[Tensor, "row token"] | None = None
    scores: Float[Tensor, "row token"] | None = None
    is_signed: Bool[Tensor, " row"] | None = None
    targets: Int[Tensor, "row 2"] | None = None

    def select(self, rows: Int[Tensor, " chosen"], length: int) -> "Lesson":
        """The lesson of these rows, cut to `length` tokens."""
        return replace(self, **{name: self._selected(name, rows, length) for name in self._present_fields()})

    def to(self, device: torch.device | str) -> "Lesson":
        return replace(self, **{name: getattr(self, name).to(device) for name in self._present_fields()})

    def _selected(self, name: str, rows: Int[Tensor, " chosen"], length: int) -> Tensor:
        value: Tensor = getattr(self, name)[rows]
        return value if name in _PER_ROW else value[..., :length]

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


def split_lesson(explanations: Explanations, batch: Batch, *, temperature: float = 1.0, floor: float = 1e-3) -> Lesson:
    """Positive and negative scores as two distributions, and the share of the absolute scores that is negative.

    The temperature changes both distributions, not the share. Explanations without signs have a negative share of 0.
    A distribution with a share of 0 is uniform.
    """
    if explanations.kind != "signed":
        lesson = distribution_lesson(explanations, batch, temperature=temperature, floor=floor)
        assert lesson.mass is not None
        return replace(lesson, mass_against=lesson.mass, share_against=lesson.mass.new_zeros(len(batch)))
    sides = [
        distribution_lesson(
            explanations.derive(kind="magnitude", scores=np.maximum(sign * explanations.scores, 0.0)),
            batch,
            temperature=temperature,
        )
        for sign in (1, -1)
    ]
    scores = padded_units(explanations).scores
    share = scores.clamp_max(0.0).abs().sum(-1) / positive(scores.abs().sum(-1))
    assert sides[0].lost is not None
    assert sides[1].lost is not None
    return Lesson(
        mass=sides[0].mass,
        mass_against=sides[1].mass,
        share_against=share.to(torch.get_default_dtype()),
        lost=sides[0].lost | sides[1].lost,
    )


def scores_lesson(explanations: Explanations, batch: Batch, *, absolute: bool = False, norm: Norm = "row") -> Lesson:
    """The scores with their signs, and the classes that they explain.

    `absolute` drops the signs of signed scores; other kinds have none. `norm="row"` scales each row to a norm of 1,
    `norm="rows"` all rows by one factor, to a root mean square of their norms of 1. A row of zeros stays zero. Raises
    `OptionError` if a target is no class of the explanations.
    """
    _check_rows(explanations, batch)
    if absolute:
        explanations = absolute_scores(explanations)
    explanation = padded(explanations, batch)
    scores = explanation.scores * explanation.units
    norms = scores.norm(dim=-1, keepdim=True)
    scores = scores / positive(norms if norm == "row" else norms.square().mean().sqrt())
    return Lesson(
        scores=scores.to(torch.get_default_dtype()),
        is_signed=torch.full((len(batch),), explanations.kind == "signed"),
        targets=_explained_classes(explanations),
        lost=explanation.lost,
    )


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


def tags_lesson(explanations: Explanations, batch: Batch, *, k: float = 0.1) -> Lesson:
    """The marks of `marks_lesson` with the signs of their words: 1 for, 2 against, 0 unmarked or a score of 0.

    Marks of explanations without signs are 1. A token that words of both signs overlap has the sign that covers more
    of their characters.
    """
    if explanations.kind != "signed":
        lesson = marks_lesson(explanations, batch, k=k)
        assert lesson.marks is not None
        return Lesson(tags=lesson.marks.long(), lost=lesson.lost)
    _check_rows(explanations, batch)
    words = explanations if explanations.is_image else explanations.words()
    signs = mark_top(words, k).scores * np.sign(words.scores)
    explanation = padded(words.derive(scores=signs), batch)
    tags = torch.where(explanation.scores > 0, 1, torch.where(explanation.scores < 0, 2, 0))
    return Lesson(tags=tags, lost=explanation.lost)


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


def _explained_classes(explanations: Explanations) -> Int[Tensor, "row 2"] | None:
    """For each row the class that is explained and the class that it is compared with (-1: none), from the targets."""
    if explanations.classes is None:
        return None
    index_of = {name: (index, -1) for index, name in enumerate(explanations.classes)}
    if not index_of.keys() >= set(explanations.targets):
        pairs = permutations(enumerate(explanations.classes), 2)
        index_of = {f"{name} against {other}": (index, foil) for (index, name), (foil, other) in pairs} | index_of
    unknown = sorted(set(explanations.targets) - index_of.keys())
    if unknown:
        raise OptionError(
            f"Strategy 'gradient' needs the class that each explanation explains, and method {explanations.method!r} "
            f"has the target {unknown[0]!r}, which is none of {', '.join(explanations.classes)}. Give each row the "
            "name of a class as its target, or choose the strategy 'attention' or 'multitask'."
        )
    return torch.tensor([index_of[target] for target in explanations.targets]).reshape(-1, 2)


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
