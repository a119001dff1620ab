"""What rankings amount to: worths of methods with intervals, the order that can be told, and how far people agree."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.errors import UnsupportedError
from didact.stats.concordance import kendall_w, krippendorff_alpha
from didact.stats.crossed import Cells, crossed_weights
from didact.stats.plackett_luce import Rankings, Worths, centred, fit_worths, refit
from didact.study.answers import Answer
from didact.study.contrasts import Contrasts, Estimates, contrasts
from didact.study.design import Design
from didact.study.summary_text import few_notes, order_said, power_of
from didact.study.trueskill_ranking import skills


def analyzed(
    design: Design,
    answers: Sequence[Answer],
    *,
    replicates: int,
    level: float,
    seed: int,
    difference: float | None,
) -> dict[str, Any]:
    """The parts of the document that are about rankings."""
    methods = design.methods
    if len(methods) < 2:
        raise UnsupportedError(
            f"A ranking compares methods, and this study has {len(methods)}. Make one with at least two."
        )
    ranks = places_of(answers, methods)
    fitted, found = compared(answers, methods, replicates=replicates, level=level, seed=seed)
    cells = found.cells
    firsts, means = _first_places(ranks), _mean_ranks(ranks)
    games = [answer.ranks or {} for answer in answers]
    rows = [
        {
            "method": method, "estimate": float(fitted.log_worths[place]), "low": float(found.own.low[place]),
            "high": float(found.own.high[place]), "rank": found.ranks()[place],
            "rank_here": found.ranks(here=True)[place], "first_places": firsts[place], "mean_rank": means[place],
            "rankings": int((~np.isnan(ranks[:, place])).sum()),
        }
        for place, method in enumerate(methods)
    ]  # fmt: skip
    notes = few_notes(cells)
    unseen = [row["method"] for row in rows if not row["rankings"]]
    if unseen:
        notes.append(f"Nobody ranked {', '.join(unseen)}: its worth of 0 means nothing.")
    return {
        "measure": "log-worth",
        "headline": order_said(found, cells, what="prefer", noun="explanations"),
        "methods": sorted(rows, key=lambda row: (-row["estimate"], row["method"])),
        "pairs": found.pair_rows(),
        "order": found.order(),
        "order_here": found.order(here=True),
        "ties": {str(size): value for size, value in fitted.ties.items()},
        "tied_share": _tied_share(ranks),
        "agreement": agreement_of(answers, ranks),
        "trueskill": {
            "preset": "smat",
            "rows": [one.to_document() for one in skills(games, methods, seed=seed)],
        },
        "power": power_of(found, difference=difference, level=level),
        "taus": taus_of(answers, ranks),
        "notes": notes,
    }


def compared(
    answers: Sequence[Answer], methods: Sequence[str], *, replicates: int, level: float, seed: int
) -> tuple[Worths, Contrasts]:
    """Worths of the methods, and how sure their differences are."""
    cells = Cells.of([one.person for one in answers], [one.item for one in answers])
    rankings = Rankings.of(places_of(answers, methods))
    fitted = fit_worths(rankings)
    weights = crossed_weights(cells, replicates=replicates, seed=seed)
    draws = centred(refit(rankings, weights, start=fitted.parameters), len(methods))
    estimates = Estimates(methods, fitted.log_worths, draws, fitted.influence, cells, fitted.covariance)
    return fitted, contrasts(estimates, level=level)


def places_of(answers: Sequence[Answer], methods: Sequence[str]) -> Float[np.ndarray, "answer method"]:
    """Places by method, NaN where it was not on the page."""
    return np.array([[float((one.ranks or {}).get(method, np.nan)) for method in methods] for one in answers])


def agreement_of(answers: Sequence[Answer], ranks: Float[np.ndarray, "answer method"]) -> dict[str, Any]:
    """Kendall's W of each item's rankings, as a mean, and of people's mean ranks; Krippendorff's α of all places."""
    people = sorted({one.person for one in answers})
    items = list(dict.fromkeys(one.item for one in answers))
    whole = ~np.isnan(ranks).any(1)
    by_item = []
    for item in items:
        rows = [place for place, one in enumerate(answers) if one.item == item and whole[place]]
        by_item.append(kendall_w(ranks[rows]) if len(rows) > 1 else np.nan)
    known = [one for one in by_item if np.isfinite(one)]
    own = np.array([_mean_ranks(ranks[[one.person == person for one in answers]]) for person in people])
    own = own[~np.isnan(own).any(1)]
    table = np.full((len(people), len(items), ranks.shape[1]), np.nan)
    for row, one in zip(ranks, answers, strict=True):
        table[people.index(one.person), items.index(one.item)] = row
    return {
        "kendall_w_items": float(np.mean(known)) if known else np.nan,
        "kendall_w_items_count": len(known),
        "kendall_w_people": kendall_w(own),
        "alpha": krippendorff_alpha(table.reshape(len(people), -1), metric="ordinal"),
        "alpha_metric": "ordinal",
        "reason": "" if len(people) > 1 else "one person alone agrees with nobody",
    }


def taus_of(answers: Sequence[Answer], ranks: Float[np.ndarray, "answer method"]) -> dict[str, float]:
    """By person the mean over items of Kendall's τ-b with the mean ranks that all others gave to that item."""
    items = np.unique([one.item for one in answers], return_inverse=True)[1]
    places = _middle(ranks)
    own, known = np.nan_to_num(places), ~np.isnan(places)
    sums, counts = np.zeros((items.max() + 1, ranks.shape[1])), np.zeros((items.max() + 1, ranks.shape[1]))
    np.add.at(sums, items, own)
    np.add.at(counts, items, known)
    others = counts[items] - known
    means = np.divide(sums[items] - own, others, out=np.full_like(own, np.nan), where=others > 0)
    taus = _taus(places, means)
    people = np.array([one.person for one in answers])
    found = {person: taus[(people == person) & ~np.isnan(taus)] for person in dict.fromkeys(people.tolist())}
    return {person: float(values.mean()) for person, values in found.items() if len(values)}


def _taus(first: Float[np.ndarray, "answer method"], second: Float[np.ndarray, "_ _"]) -> Float[np.ndarray, " answer"]:
    """τ-b of each row with each row, over what both have: as `stats.ranking.kendall`, for thousands of short rows."""
    left, right = np.triu_indices(first.shape[1], 1)
    ours, theirs = (np.sign(one[:, left] - one[:, right]) for one in (first, np.round(second, 9)))
    both = ~(np.isnan(ours) | np.isnan(theirs))
    ours, theirs = np.where(both, ours, 0.0), np.where(both, theirs, 0.0)
    scale = np.sqrt((ours**2).sum(1) * (theirs**2).sum(1))
    return np.divide((ours * theirs).sum(1), scale, out=np.full(len(first), np.nan), where=scale > 0)


def _middle(ranks: Float[np.ndarray, "answer method"]) -> Float[np.ndarray, "answer method"]:
    """Places from 1 on where equal ones share their mean place; NaN stays NaN."""
    before = (ranks[:, None, :] < ranks[:, :, None]).sum(2)
    equal = (ranks[:, None, :] == ranks[:, :, None]).sum(2)
    return np.where(np.isnan(ranks), np.nan, before + (equal + 1) / 2)


def _first_places(ranks: Float[np.ndarray, "answer method"]) -> list[float]:
    """The share of pages on which a method came first; those who share the first place share it in equal parts."""
    best = ranks == np.nanmin(ranks, axis=1, keepdims=True)
    shared = best / best.sum(1, keepdims=True)
    return [_mean(column[~np.isnan(own)]) for column, own in zip(shared.T, ranks.T, strict=True)]


def _mean_ranks(ranks: Float[np.ndarray, "answer method"]) -> Float[np.ndarray, " method"]:
    return np.array([_mean(column[~np.isnan(column)]) for column in _middle(ranks).T])


def _tied_share(ranks: Float[np.ndarray, "answer method"]) -> float:
    """Of all pairs of methods on a page, how many share a place."""
    tied = pairs = 0
    for row in ranks:
        known = row[~np.isnan(row)]
        pairs += len(known) * (len(known) - 1) // 2
        tied += int((known[:, None] == known[None, :]).sum() - len(known)) // 2
    return tied / pairs if pairs else np.nan


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
