"""Analysis of ratings: means of methods, adjusted for people and items, with intervals and their order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Float, Int

from didact.results.study_analysis import MethodEstimate
from didact.stats.concordance import krippendorff_alpha
from didact.stats.crossed import CrossedAnswers, crossed_weights, remove_effects
from didact.study.answers import Answer
from didact.study.contrasts import Estimates, contrasts
from didact.study.design import Design
from didact.study.findings import Findings, Settings
from didact.study.summary_text import order_text

_PEOPLE_AND_ITEMS: Final = "people and items"
_PEOPLE: Final = "people"
_NOTHING: Final = "nothing"


@dataclass(frozen=True, eq=False)
class Means:
    """Means of methods, the influence of each answer on them, and the effects that were removed."""

    values: Float[np.ndarray, " method"]
    influence: Float[np.ndarray, "answer method"]
    removed_effects: str


def compute_findings(design: Design, answers: Sequence[Answer], settings: Settings) -> Findings:
    """The findings of a rating study."""
    names = [method for method in design.methods if any(answer.shown[0] == method for answer in answers)]
    ratings = np.array([float(answer.rating or 0) for answer in answers])
    method_index = np.array([names.index(answer.shown[0]) for answer in answers])
    cells = CrossedAnswers.of([answer.person for answer in answers], [answer.item for answer in answers])
    means = adjusted_means(ratings, method_index, len(names), cells)
    weights = crossed_weights(cells, replicates=settings.replicates, seed=settings.seed)
    # The means are almost linear in the answers, so the influences give their bootstrap replicates.
    draws = means.values + (weights - weights.mean(1, keepdims=True)) @ means.influence
    comparison = contrasts(Estimates(names, means.values, draws, means.influence, cells), level=settings.level)
    rows = []
    for index in range(len(names)):
        method_ratings = ratings[method_index == index]
        counts = [int((method_ratings == point).sum()) for point in range(1, design.points + 1)]
        rows.append(
            MethodEstimate(
                **comparison.method_fields(index),
                raw_mean=float(method_ratings.mean()),
                ratings=len(method_ratings),
                counts=tuple(counts),
            )
        )
    return Findings(
        measure=f"mean rating, 1 to {design.points}",
        headline=order_text(comparison, cells, verb="rate higher", noun="explanations"),
        methods=rows,
        contrasts=comparison,
        pairs=comparison.pair_rows(),
        agreement=_agreement(answers),
        notes=[*_notes(design, names, means, ratings)],
        more={"points": design.points, "cleared_of": means.removed_effects},
    )


def adjusted_means(
    ratings: Float[np.ndarray, " answer"], method: Int[np.ndarray, " answer"], methods: int, cells: CrossedAnswers
) -> Means:
    """Means as if everyone had rated every method of every item: least squares with effects of people and items.

    With too few answers for that, only effects of people are removed, or nothing.
    """
    dummies = (method[:, None] == np.arange(methods)).astype(np.float64)
    for removed_effects, effects in (
        (_PEOPLE_AND_ITEMS, [cells.person, cells.item]),
        (_PEOPLE, [cells.person]),
        (_NOTHING, []),
    ):
        projected, degrees_of_freedom = remove_effects(np.column_stack([ratings, dummies]), effects)
        outcome, columns = projected[:, 0], projected[:, 1:]
        degrees_of_freedom -= methods - 1
        if removed_effects == _NOTHING or (
            degrees_of_freedom >= methods and np.linalg.matrix_rank(columns, tol=1e-6) == methods - 1
        ):
            break
    inverse = np.linalg.pinv(columns.T @ columns, rcond=1e-9)
    effect = inverse @ columns.T @ outcome
    effect -= effect.mean()
    residual = outcome - columns @ effect
    # Least-squares residuals are smaller than the errors; this restores their mean size.
    scale = np.sqrt(len(ratings) / degrees_of_freedom) if degrees_of_freedom > 0 else 0.0
    influence = scale * (residual[:, None] * columns) @ inverse
    influence -= influence.mean(1, keepdims=True)
    rest = ratings - effect[method]
    centre = rest.mean()
    return Means(centre + effect, influence + ((rest - centre) / len(ratings))[:, None], removed_effects)


def _notes(design: Design, names: Sequence[str], means: Means, ratings: Float[np.ndarray, " answer"]) -> list[str]:
    notes = []
    unrated = [name for name in design.methods if name not in names]
    if unrated:
        notes.append(f"No one has rated {', '.join(unrated)} yet.")
    if means.removed_effects != _PEOPLE_AND_ITEMS:
        notes.append(
            f"There are too few answers to remove the effects of people and items; removed: {means.removed_effects}."
        )
    if np.ptp(ratings) == 0:
        notes.append("All ratings are the same: there are no intervals.")
    return notes


def _agreement(answers: Sequence[Answer]) -> dict[str, Any]:
    """Krippendorff's α over explanations that at least two people rated."""
    people = sorted({answer.person for answer in answers})
    units = sorted({(answer.item, answer.shown[0]) for answer in answers})
    table = np.full((len(people), len(units)), np.nan)
    for answer in answers:
        table[people.index(answer.person), units.index((answer.item, answer.shown[0]))] = float(answer.rating or 0)
    shared = int(((~np.isnan(table)).sum(0) > 1).sum())
    return {
        "alpha": krippendorff_alpha(table, metric="interval"),
        "alpha_metric": "interval",
        "alpha_ordinal": krippendorff_alpha(table, metric="ordinal"),
        "shared": shared,
        "reason": "" if shared else "no two people rated the same method of the same item",
    }
