"""What ratings amount to: means of methods, cleared of who rated and of what, with intervals and their order."""

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

_BOTH: Final = "people and items"
_ONE: Final = "people"
_NONE: Final = "nothing"


@dataclass(frozen=True, eq=False)
class Means:
    """Means of methods, what each answer adds to them, and what they are cleared of."""

    values: Float[np.ndarray, " method"]
    influence: Float[np.ndarray, "answer method"]
    cleared: str


def compute_findings(design: Design, answers: Sequence[Answer], settings: Settings) -> Findings:
    """What ratings say."""
    names = [method for method in design.methods if any(answer.shown[0] == method for answer in answers)]
    ratings = np.array([float(answer.rating or 0) for answer in answers])
    method = np.array([names.index(answer.shown[0]) for answer in answers])
    cells = CrossedAnswers.of([answer.person for answer in answers], [answer.item for answer in answers])
    means = adjusted_means(ratings, method, len(names), cells)
    weights = crossed_weights(cells, replicates=settings.replicates, seed=settings.seed)
    # The means are all but linear in the answers, so their replicates are taken from the influences.
    draws = means.values + (weights - weights.mean(1, keepdims=True)) @ means.influence
    found = contrasts(Estimates(names, means.values, draws, means.influence, cells), level=settings.level)
    rows = []
    for index in range(len(names)):
        own = ratings[method == index]
        counts = [int((own == point).sum()) for point in range(1, design.points + 1)]
        rows.append(
            MethodEstimate(**found.method(index), raw_mean=float(own.mean()), ratings=len(own), counts=tuple(counts))
        )
    return Findings(
        measure=f"mean rating, 1 to {design.points}",
        headline=order_text(found, cells, what="rate higher", noun="explanations"),
        methods=rows,
        contrasts=found,
        pairs=found.pair_rows(),
        agreement=_agreement(answers),
        notes=[*_notes(design, names, means, ratings)],
        more={"points": design.points, "cleared_of": means.cleared},
    )


def adjusted_means(
    ratings: Float[np.ndarray, " answer"], method: Int[np.ndarray, " answer"], methods: int, cells: CrossedAnswers
) -> Means:
    """Means as if everybody had rated every method of every item: least squares with an effect of each person and item.

    Where answers are too few for that, effects of people alone are taken out, or nothing.
    """
    dummies = (method[:, None] == np.arange(methods)).astype(np.float64)
    for cleared, effects in ((_BOTH, [cells.person, cells.item]), (_ONE, [cells.person]), (_NONE, [])):
        parts, free = remove_effects(np.column_stack([ratings, dummies]), effects)
        left, columns = parts[:, 0], parts[:, 1:]
        free -= methods - 1
        if cleared == _NONE or (free >= methods and np.linalg.matrix_rank(columns, tol=1e-6) == methods - 1):
            break
    inverse = np.linalg.pinv(columns.T @ columns, rcond=1e-9)
    effect = inverse @ columns.T @ left
    effect -= effect.mean()
    residual = left - columns @ effect
    # Least squares makes residuals smaller than errors; this restores their size on average.
    scale = np.sqrt(len(ratings) / free) if free > 0 else 0.0
    influence = scale * (residual[:, None] * columns) @ inverse
    influence -= influence.mean(1, keepdims=True)
    rest = ratings - effect[method]
    centre = rest.mean()
    return Means(centre + effect, influence + ((rest - centre) / len(ratings))[:, None], cleared)


def _notes(design: Design, names: Sequence[str], means: Means, ratings: Float[np.ndarray, " answer"]) -> list[str]:
    said = []
    unseen = [name for name in design.methods if name not in names]
    if unseen:
        said.append(f"Nobody rated {', '.join(unseen)} yet.")
    if means.cleared != _BOTH:
        said.append(f"The answers are too few to take out effects of people and items; taken out: {means.cleared}.")
    if np.ptp(ratings) == 0:
        said.append("All ratings are the same: there are no intervals.")
    return said


def _agreement(answers: Sequence[Answer]) -> dict[str, Any]:
    """Krippendorff's α over what two people rated both: the same method of the same item."""
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
