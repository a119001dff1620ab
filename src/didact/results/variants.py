"""Variants of explanations whose effect is known, to test evaluators with. Needs no torch.

`degraded`, `blurred` and `top` hold less information than their base; `tempered`, `ranked` and `scaled` hold the same.
Units, texts and cautions stay. Residuals become NaN, since a variant promises no completeness. Aligned spans are
dropped by the first three, whose scores no longer fit them. Marks (kind `binary`) have no sizes to change, so every
variant but `scaled` turns them into magnitudes first (`marks_as_magnitudes`).
"""

import math
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from didact.errors import OptionError
from didact.results.explanations import Explanations
from didact.results.ragged import normalise_rows, reduce_rows, row_of_units
from didact.results.temperature import apply_temperature
from didact.results.transforms import mark_top
from didact.results.words import word_groups
from didact.seeds import numpy_generator

PROFILES: Final = ("zipf", "linear")
DAMAGED: Final = ("units", "rows")
UNMARKED: Final = 0.05  # the size of an unmarked unit beside 1 for a marked one


def marks_as_magnitudes(explanations: Explanations) -> Explanations:
    """Marks as magnitudes: 1 on marked units, 0.05 on others. Other kinds are unchanged."""
    if explanations.kind != "binary":
        return explanations
    return explanations.derive(kind="magnitude", scores=np.where(explanations.scores != 0, 1.0, UNMARKED))


def degraded(explanations: Explanations, share: float, *, seed: int = 0, by: str = "units") -> Explanations:
    """Swap the scores of a share of each row's units among themselves, or (`by="rows"`) those of a share of the rows.

    The scores of a row stay the same as a multiset, so its sharpness stays while its information falls. The swapped
    units form one random cycle: each gets the score of another. Their number has the mean `share` · units and is never
    1; a row of one unit does not change. Units (or rows) that are swapped at some share are swapped at any larger one.
    A draw depends on the seed, the id of the row and the character at which the unit starts (special tokens and
    patches: on the number of the unit), so that words are swapped alike with any tokenizer. A share of 0 changes no
    score.
    """
    check_share("share", share, least=0.0)
    if by not in DAMAGED:
        raise OptionError(f"Option 'by' must be 'units' or 'rows', got {by!r}.")
    source = marks_as_magnitudes(explanations)
    scores = source.scores.copy()
    for row, name in enumerate(source.ids):
        start, end = source.bounds[row : row + 2].tolist()
        chance = float(numpy_generator(seed, "degraded", by, name).random())
        share_of_row = share if by == "units" else float(chance < share)
        count = _swapped_units(share_of_row, end - start, chance)
        if count:
            cycle = start + _draw_order(source, slice(start, end), name, seed)[:count]
            scores[cycle] = source.scores[np.roll(cycle, 1)]
    return _variant(source, scores, with_alignments=share == 0)


def tempered(explanations: Explanations, t: float) -> Explanations:
    """p^(1/t) on the distribution of |s|, with the signs of the scores: sharper for t below 1, flatter above.

    The kind stays, the sizes of a row sum to 1, and the order of the units is the same. A score of 0 stays 0.
    """
    check_positive("t", t)
    source = marks_as_magnitudes(explanations)
    largest = reduce_rows(np.maximum, np.abs(source.scores), source.bounds, empty=1.0)
    rows = row_of_units(source.bounds)
    relative = source.derive(scores=source.scores / np.where(largest > 0, largest, 1.0)[rows])
    return _variant(source, _as_shares(source, apply_temperature(relative, t).scores), with_alignments=True)


def ranked(explanations: Explanations, profile: str = "zipf") -> Explanations:
    """Replace the sizes of each row by a fixed profile over the ranks of |s|, and keep the signs.

    `zipf` is 1 / rank, `linear` falls by the same step from rank to rank. Equal sizes share the mean of their ranks'
    values, a score of 0 stays 0, and the sizes of a row sum to 1. The kind and the order of the units stay.
    """
    if profile not in PROFILES:
        raise OptionError(f"Option 'profile' must be 'zipf' or 'linear', got {profile!r}.")
    source = marks_as_magnitudes(explanations)
    sizes, rows = np.abs(source.scores), row_of_units(source.bounds)
    order = np.lexsort((-sizes, rows))
    ranks = np.empty(len(rows))
    ranks[order] = np.arange(len(rows)) - source.bounds[rows] + 1
    values = 1 / ranks if profile == "zipf" else np.diff(source.bounds)[rows] - ranks + 1
    _, ties = np.unique(np.column_stack([rows, sizes]), axis=0, return_inverse=True)
    ties = ties.reshape(-1)
    values = (np.bincount(ties, values) / np.maximum(np.bincount(ties), 1))[ties]
    return _variant(source, _as_shares(source, values), with_alignments=True)


def scaled(explanations: Explanations, factor: float) -> Explanations:
    """Multiply signed scores and magnitudes by a positive factor. Distributions and marks have no scale: no change."""
    check_positive("factor", factor)
    has_scale = explanations.kind in ("signed", "magnitude")
    with np.errstate(over="ignore"):  # reported below
        scores = explanations.scores * factor if has_scale else explanations.scores
    if not np.isfinite(scores).all():
        raise OptionError(f"Scores times {factor} are too large for a number. Choose a smaller factor.")
    return _variant(explanations, scores, with_alignments=True)


def blurred(explanations: Explanations) -> Explanations:
    """The mean of each score with those of its neighbours in the same text (images: in the same row of patches).

    At the end of a text a unit stands in for its missing neighbour. Each score is thus cut into three thirds, none of
    which is lost: the sum of every text stays. Special tokens do not change.
    """
    source = marks_as_magnitudes(explanations)
    scores, rows = source.scores, row_of_units(source.bounds)
    left, right = scores.copy(), scores.copy()
    is_pair = _are_neighbours(source, rows)
    left[1:] = np.where(is_pair, scores[:-1], scores[1:])
    right[:-1] = np.where(is_pair, scores[1:], scores[:-1])
    return _variant(source, np.where(source.segments >= 0, (left + scores + right) / 3, scores))


def top(explanations: Explanations, k: float) -> Explanations:
    """Keep the scores of the top ceil(k · words) words of each row, at least one, by |score|; 0 elsewhere.

    Ties are broken in the order of the text. All pieces of such a word stay. A distribution is normalised again.
    """
    check_share("k", k)
    source = marks_as_magnitudes(explanations)
    if source.is_image:
        is_top = mark_top(source, k).scores > 0
    else:
        group, _ = word_groups(row_of_units(source.bounds), source.segments, source.word_index)
        is_top = (mark_top(source.words(), k).scores > 0)[group]
    scores = np.where(is_top, source.scores, 0.0)
    return _variant(source, normalise_rows(scores, source.bounds) if source.kind == "distribution" else scores)


def check_share(name: str, value: float, *, least: float | None = None) -> None:
    """Raise OptionError unless the option is a share: above 0 (or at least `least`) and at most 1."""
    is_valid = value <= 1 and (value > 0 if least is None else value >= least)
    if not is_valid:
        low = "above 0" if least is None else f"at least {least:g}"
        raise OptionError(f"Option {name!r} is a share: it must be {low} and at most 1, got {value}.")


def check_positive(name: str, value: float) -> None:
    """Raise OptionError unless the option is a finite number above 0."""
    if not (value > 0 and math.isfinite(value)):
        raise OptionError(f"Option {name!r} must be a number above 0, got {value}.")


def _variant(
    source: Explanations, scores: Float[np.ndarray, " unit"], *, with_alignments: bool = False
) -> Explanations:
    alignments = source.alignments if with_alignments else None
    return source.derive(scores=scores, residuals=np.full(len(source), np.nan), alignments=alignments)


def _as_shares(source: Explanations, sizes: Float[np.ndarray, " unit"]) -> Float[np.ndarray, " unit"]:
    """The signs of the scores with these sizes, which are scaled so that those of a row sum to 1. 0 stays 0."""
    sizes = np.where(source.scores != 0, sizes, 0.0)
    total = reduce_rows(np.add, sizes, source.bounds, empty=1.0)
    return np.sign(source.scores) * sizes / np.where(total > 0, total, 1.0)[row_of_units(source.bounds)]


def _swapped_units(share: float, units: int, chance: float) -> int:
    """A number of units with the mean `share` · units that is never 1 and never falls when the share rises."""
    mean = round(share * units, 9)
    if units < 2:
        return 0
    return 2 * int(chance < mean / 2) if mean < 2 else min(units, math.floor(mean + chance))


def _draw_order(source: Explanations, units: slice, name: str, seed: int) -> Int[np.ndarray, " unit"]:
    """A random order of the units of a row."""
    segments, starts = source.segments[units], source.offsets[units, 0]
    draws = np.zeros(len(segments))
    for segment in set(segments.tolist()):
        members = np.flatnonzero(segments == segment)
        has_characters = segment >= 0 and not source.is_image
        index = starts[members] if has_characters else np.arange(len(members))
        # One draw per character from the first on, so that truncating a text does not change the other draws.
        draws[members] = numpy_generator(seed, "degraded", "order", name, segment).random(int(index.max()) + 1)[index]
    return np.argsort(draws, kind="stable")


def _are_neighbours(source: Explanations, rows: Int[np.ndarray, " unit"]) -> Bool[np.ndarray, " pair"]:
    """Whether each unit and the next one stand side by side in a text, or in a row of patches."""
    lines = source.offsets[:, 0] if source.is_image else np.zeros(len(rows), dtype=np.int64)
    keys = np.column_stack([rows, source.segments, lines])
    return (keys[1:] == keys[:-1]).all(1) & (source.segments[1:] >= 0)
