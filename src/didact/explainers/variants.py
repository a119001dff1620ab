"""Explainers that change the scores of another explainer, to test evaluators with: see `didact.results.variants`.

`explain` and `compare` do not call `forward`: they explain with the base, from the cache where they can, and call
`transform` (`ExplainJob.derive`). Both ways use the same function on stored scores.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import cast

import numpy as np
import torch

from didact.core.explainer import Batch, Explainer, Explanation, Kind, Row, Target, Teacher
from didact.core.feature_groups import LEVELS
from didact.errors import OptionError, ShapeError
from didact.explainers import is_learned
from didact.explainers.build import ResolvedMethod, build_explainer, knows_option
from didact.registry import parse_spec
from didact.results import variants
from didact.results.explanations import Explanations
from didact.results.ragged import bounds_of, row_of_units
from didact.results.words import word_groups


class Variant(Explainer):
    """Scores made from those of a `base`: a method with its options, or the folder of a learned explainer.

    `level` and `batch_size` are also those of the base. What the base is random in is drawn once, for all seeds of a
    comparison: only `seed` of `degraded` changes its draws.
    """

    def __init__(self, base: str, level: str, batch_size: int) -> None:
        super().__init__()
        self.base_name, self.level, self.batch_size = base, level, batch_size
        self.base = _build_base(base, level, batch_size)

    @abstractmethod
    def transform(self, explanations: Explanations) -> Explanations:
        """The variant of explanations by the base, at the level of the variant."""

    @property
    def needs_background(self) -> bool:
        return self._base_explainer.needs_background

    @property
    def _base_explainer(self) -> Explainer:
        assert isinstance(self.base.explainer, Explainer)
        return self.base.explainer

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        self._base_explainer.prepare(teacher, rows)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        explanation = self._base_explainer(teacher, batch, target)
        if not isinstance(explanation, Explanation):
            raise ShapeError(f"Explainer {self.base_name!r} must return an Explanation, not {type(explanation)}.")
        units = _as_columns(explanation, teacher, batch)
        rows, positions = explanation.units.cpu().numpy().nonzero()
        if self.level == "word":  # the score of a word is at its first piece
            _, first = word_groups(row_of_units(units.bounds), units.segments, units.word_index)
            rows, positions, units = rows[first], positions[first], units.words()
        changed = self.transform(units)
        scores = np.zeros(explanation.scores.shape)
        scores[rows, positions] = changed.scores
        return Explanation(
            torch.from_numpy(scores).to(explanation.scores.dtype).to(batch.device),
            batch.mask,
            explanation.units,
            cast(Kind, changed.kind),
            alignments=None if changed.alignments is None else explanation.alignments,
            cautions=explanation.cautions,
        )


class Degraded(Variant):
    """The scores of a share of a row's units, swapped among themselves: the same sharpness, less information.

    With `by="rows"`, all scores of a share of the rows. A larger share swaps the same units (or rows) and more.
    """

    def __init__(
        self,
        *,
        base: str = "occlusion",
        share: float = 0.1,
        seed: int = 0,
        by: str = "units",
        level: str = "token",
        batch_size: int = 64,
    ) -> None:
        super().__init__(base, level, batch_size)
        variants.check_share("share", share, least=0.0)
        if by not in variants.DAMAGED:
            raise OptionError(f"Option 'by' of 'degraded' must be 'units' or 'rows', got {by!r}.")
        self.share, self.seed, self.by = share, seed, by

    def transform(self, explanations: Explanations) -> Explanations:
        return variants.degraded(explanations, self.share, seed=self.seed, by=self.by)


class Tempered(Variant):
    """Scores whose distribution is p^(1/t): sharper for t below 1, flatter above. Signs and order stay."""

    def __init__(self, *, base: str = "occlusion", t: float = 0.5, level: str = "token", batch_size: int = 64) -> None:
        super().__init__(base, level, batch_size)
        variants.check_positive("t", t)
        self.t = t

    def transform(self, explanations: Explanations) -> Explanations:
        return variants.tempered(explanations, self.t)


class Ranked(Variant):
    """Sizes replaced by one fixed profile over the ranks of |s|: zipf (1 / rank) or linear. Signs and order stay."""

    def __init__(
        self,
        *,
        base: str = "occlusion",
        profile: str = "zipf",
        level: str = "token",
        batch_size: int = 64,
    ) -> None:
        super().__init__(base, level, batch_size)
        if profile not in variants.PROFILES:
            raise OptionError(f"Option 'profile' of 'ranked' must be 'zipf' or 'linear', got {profile!r}.")
        self.profile = profile

    def transform(self, explanations: Explanations) -> Explanations:
        return variants.ranked(explanations, self.profile)


class Scaled(Variant):
    """Signed scores or magnitudes times a positive factor, which no evaluator may notice."""

    def __init__(
        self, *, base: str = "occlusion", factor: float = 3.0, level: str = "token", batch_size: int = 64
    ) -> None:
        super().__init__(base, level, batch_size)
        variants.check_positive("factor", factor)
        self.factor = factor

    def transform(self, explanations: Explanations) -> Explanations:
        return variants.scaled(explanations, self.factor)


class Blurred(Variant):
    """The mean of each score with those of its neighbours in the same text. The sum of a text stays."""

    def __init__(self, *, base: str = "occlusion", level: str = "token", batch_size: int = 64) -> None:
        super().__init__(base, level, batch_size)

    def transform(self, explanations: Explanations) -> Explanations:
        return variants.blurred(explanations)


class Top(Variant):
    """The scores of the top share `k` of the words, and 0 elsewhere."""

    def __init__(self, *, base: str = "occlusion", k: float = 0.2, level: str = "token", batch_size: int = 64) -> None:
        super().__init__(base, level, batch_size)
        variants.check_share("k", k)
        self.k = k

    def transform(self, explanations: Explanations) -> Explanations:
        return variants.top(explanations, self.k)


def _build_base(base: str, level: str, batch_size: int) -> ResolvedMethod:
    """Build the base with the level and the batch size of the variant, if it has these options."""
    if level not in LEVELS:
        raise OptionError(f"Option 'level' must be 'token' or 'word', got {level!r}.")
    if base.endswith(".parquet"):
        raise OptionError(
            f"Option 'base' must be a method, not a file ({base!r}). Load the file and change its scores in Python: "
            "didact.results.variants.degraded(didact.Explanations.load(file), 0.2)."
        )
    if is_learned(base):
        return build_explainer(base)
    spec = parse_spec(base)
    if "level" in spec.options:
        raise OptionError(f"The level of {base!r} is that of its variant: write level=word beside base, not inside.")
    inherited = {"level": level, "batch_size": batch_size}
    options = {
        name: value for name, value in inherited.items() if knows_option(spec.name, name) and name not in spec.options
    }
    return build_explainer(base, **options)


def _as_columns(explanation: Explanation, teacher: Teacher, batch: Batch) -> Explanations:
    """The units of a batch with their scores, as far as variants read them. Texts of answers are empty."""
    is_unit = explanation.units.cpu().numpy()
    rows = len(batch)
    offsets = batch.offsets.cpu().numpy()[is_unit]
    is_text = teacher.task.is_text
    return Explanations(
        method="", kind=explanation.kind, options={}, task=teacher.task.name, classes=None, teacher="", fingerprints={},
        ids=batch.ids,
        texts=tuple(row.texts for row in batch.rows) if is_text and batch.rows is not None else ((),) * rows,
        bounds=bounds_of(is_unit.sum(1)),
        tokens=("",) * len(offsets),
        segments=batch.segments.cpu().numpy()[is_unit],
        word_index=batch.words.cpu().numpy()[is_unit],
        offsets=offsets if is_text else np.tile(offsets, (1, 2)),
        scores=explanation.scores.detach().cpu().double().numpy()[is_unit],
        targets=("",) * rows, predictions=("",) * rows, residuals=np.full(rows, np.nan),
        alignments=explanation.alignments,
    )  # fmt: skip
