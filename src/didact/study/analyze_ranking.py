"""Analysis of rankings: Plackett-Luce worths with intervals, the order they support, and agreement of people."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from didact.errors import UnsupportedError
from didact.results.study_analysis import MethodEstimate
from didact.stats.concordance import kendall_w, krippendorff_alpha
from didact.stats.crossed import CrossedAnswers, crossed_weights
from didact.stats.plackett_luce import Rankings, Worths, centred, fit_worths, refit
from didact.study.answers import Answer
from didact.study.contrasts import Contrasts, Estimates, contrasts
from didact.study.design import Design
from didact.study.findings import Findings, Settings
from didact.study.summary_text import order_text
from didact.study.trueskill_ranking import skills


def compute_findings(design: Design, answers: Sequence[Answer], settings: Settings) -> Findings:
    """The findings of a ranking study."""
    methods = design.methods
    if len(methods) < 2:
        raise UnsupportedError(
            f"A ranking study compares methods, and this one has {len(methods)}. Make a study with at least two."
        )
    ranks = rank_matrix(answers, methods)
    fitted, comparison = compare_methods(answers, methods, settings)
    firsts, means, ranking_counts = _first_places(ranks), _mean_ranks(ranks), (~np.isnan(ranks)).sum(0)
    rows = [
        MethodEstimate(
            **comparison.method_fields(index), first_places=float(firsts[index]), mean_rank=float(means[index]),
            rankings=int(ranking_counts[index]),
        )
        for index in range(len(methods))
    ]  # fmt: skip
    unranked = [row.method for row in rows if not row.rankings]
    games = [answer.ranks or {} for answer in answers]
    return Findings(
        measure="log-worth",
        headline=order_text(comparison, comparison.cells, verb="prefer", noun="explanations"),
        methods=rows,
        contrasts=comparison,
        pairs=comparison.pair_rows(),
        agreement=agreement_of(answers, ranks),
        notes=[f"No one ranked {', '.join(unranked)}, so a worth of 0 there means nothing."] if unranked else [],
        taus=tau_by_person(answers, ranks),
        more={
            "ties": {str(size): value for size, value in fitted.ties.items()},
            "tied_share": _tied_share(ranks),
            "trueskill": {
                "preset": "smat",
                "rows": [skill.to_document() for skill in skills(games, methods, seed=settings.seed)],
            },
        },
    )


def compare_methods(answers: Sequence[Answer], methods: Sequence[str], settings: Settings) -> tuple[Worths, Contrasts]:
    """Worths of the methods, and their differences with intervals."""
    cells = CrossedAnswers.of([answer.person for answer in answers], [answer.item for answer in answers])
    rankings = Rankings.of(rank_matrix(answers, methods))
    fitted = fit_worths(rankings)
    weights = crossed_weights(cells, replicates=settings.replicates, seed=settings.seed)
    draws = centred(refit(rankings, weights, start=fitted.parameters), len(methods))
    estimates = Estimates(methods, fitted.log_worths, draws, fitted.influence, cells, fitted.covariance)
    return fitted, contrasts(estimates, level=settings.level)


def rank_matrix(answers: Sequence[Answer], methods: Sequence[str]) -> Float[np.ndarray, "answer method"]:
    """The rank of each method in each answer; NaN if it was not on the page."""
    return np.array([[float((answer.ranks or {}).get(method, np.nan)) for method in methods] for answer in answers])


def agreement_of(answers: Sequence[Answer], ranks: Float[np.ndarray, "answer method"]) -> dict[str, Any]:
    """Kendall's W as a mean over items and of people's mean ranks, and Krippendorff's α of all ranks."""
    people, person = np.unique([answer.person for answer in answers], return_inverse=True)
    items = list(dict.fromkeys(answer.item for answer in answers))
    item = np.array([items.index(answer.item) for answer in answers])
    is_complete = ~np.isnan(ranks).any(1)
    by_item = [ranks[(item == index) & is_complete] for index in range(len(items))]
    item_ws = [w for w in (kendall_w(rows) for rows in by_item if len(rows) > 1) if np.isfinite(w)]
    means = np.array([_mean_ranks(ranks[person == index]) for index in range(len(people))])
    table = np.full((len(people), len(items), ranks.shape[1]), np.nan)
    table[person, item] = ranks
    return {
        "kendall_w_items": float(np.mean(item_ws)) if item_ws else np.nan,
        "kendall_w_items_count": len(item_ws),
        "kendall_w_people": kendall_w(means[~np.isnan(means).any(1)]),
        "alpha": krippendorff_alpha(table.reshape(len(people), -1), metric="ordinal"),
        "alpha_metric": "ordinal",
        "reason": "" if len(people) > 1 else "agreement needs at least two people",
    }


def tau_by_person(answers: Sequence[Answer], ranks: Float[np.ndarray, "answer method"]) -> dict[str, float]:
    """By person: the mean over items of Kendall's τ-b with the mean ranks of all others for that item."""
    items = np.unique([answer.item for answer in answers], return_inverse=True)[1]
    mid_ranks = _mid_ranks(ranks)
    filled_ranks, is_ranked = np.nan_to_num(mid_ranks), ~np.isnan(mid_ranks)
    sums, counts = np.zeros((items.max() + 1, ranks.shape[1])), np.zeros((items.max() + 1, ranks.shape[1]))
    np.add.at(sums, items, filled_ranks)
    np.add.at(counts, items, is_ranked)
    other_counts = counts[items] - is_ranked
    means = np.divide(
        sums[items] - filled_ranks, other_counts, out=np.full_like(filled_ranks, np.nan), where=other_counts > 0
    )
    taus = _row_taus(mid_ranks, means)
    people = np.array([answer.person for answer in answers])
    person_taus = {person: taus[(people == person) & ~np.isnan(taus)] for person in dict.fromkeys(people.tolist())}
    return {person: float(values.mean()) for person, values in person_taus.items() if len(values)}


def _row_taus(
    first: Float[np.ndarray, "answer method"], second: Float[np.ndarray, "_ _"]
) -> Float[np.ndarray, " answer"]:
    """τ-b of each row of `first` with the same row of `second`, over methods that both rank.

    A vectorised `stats.ranking.kendall` for thousands of short rows.
    """
    left, right = np.triu_indices(first.shape[1], 1)
    first_signs, second_signs = (np.sign(values[:, left] - values[:, right]) for values in (first, np.round(second, 9)))
    is_compared = ~(np.isnan(first_signs) | np.isnan(second_signs))
    first_signs, second_signs = np.where(is_compared, first_signs, 0.0), np.where(is_compared, second_signs, 0.0)
    scale = np.sqrt((first_signs**2).sum(1) * (second_signs**2).sum(1))
    return np.divide((first_signs * second_signs).sum(1), scale, out=np.full(len(first), np.nan), where=scale > 0)


def _mid_ranks(ranks: Float[np.ndarray, "answer method"]) -> Float[np.ndarray, "answer method"]:
    """Ranks from 1, where ties share their mean rank. NaN stays NaN."""
    return np.asarray(rankdata(ranks, axis=1, nan_policy="omit"))


def _first_places(ranks: Float[np.ndarray, "answer method"]) -> Float[np.ndarray, " method"]:
    """The share of pages on which a method ranks first. Methods tied for first count in equal parts."""
    is_best = ranks == np.nanmin(ranks, axis=1, keepdims=True)
    return _column_means(np.where(np.isnan(ranks), np.nan, is_best / is_best.sum(1, keepdims=True)))


def _mean_ranks(ranks: Float[np.ndarray, "answer method"]) -> Float[np.ndarray, " method"]:
    return _column_means(_mid_ranks(ranks))


def _tied_share(ranks: Float[np.ndarray, "answer method"]) -> float:
    """The share of pairs of methods on a page that are tied."""
    left, right = np.triu_indices(ranks.shape[1], 1)
    differences = ranks[:, left] - ranks[:, right]
    pairs = (~np.isnan(differences)).sum()
    return float((differences == 0).sum() / pairs) if pairs else np.nan


def _column_means(table: Float[np.ndarray, "answer method"]) -> Float[np.ndarray, " method"]:
    """Means of columns without NaN; NaN for a column of NaN."""
    counts = (~np.isnan(table)).sum(0)
    return np.divide(np.nansum(table, axis=0), counts, out=np.full(table.shape[1], np.nan), where=counts > 0)
