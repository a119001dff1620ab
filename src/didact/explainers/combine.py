"""Explanations of learned mixes from stored component scores, without running the teacher again."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float

from didact.errors import ShapeError
from didact.explainers.learned import name_of, weights_fingerprint
from didact.explainers.mix import FLOOR_SHARE, ComponentMix
from didact.results.component_scores import ComponentScores
from didact.results.explanations import Explanations
from didact.results.ragged import normalise_rows, row_of_units, softmax_rows


def combine_components(explainer: ComponentMix, components: ComponentScores) -> Explanations:
    """The explanations of a mix for rows whose component scores are stored."""
    explanations = components.maps
    values = torch.from_numpy(components.values).to(explainer.coefficients.device)
    with torch.no_grad():
        logits = explainer.logits(values.T[None])[0].cpu().double().numpy()
    scores = softmax_rows(logits, explanations.bounds)
    options = {**explanations.options, **explainer.options, "weights": weights_fingerprint(explainer)}
    return replace(explanations, method=name_of(explainer), kind="distribution", options=options, scores=scores)


def stack_members(members: Sequence[tuple[str, Explanations]]) -> ComponentScores:
    """The component scores of a blend, from its members' explanations of the same rows.

    A member that scores words, next to others that score pieces, divides each word's mass equally among its pieces.
    """
    finest = max((explanations for _, explanations in members), key=lambda explanations: len(explanations.scores))
    even = 1.0 / np.diff(finest.bounds)[row_of_units(finest.bounds)]
    columns = []
    for name, explanations in members:
        magnitudes = (
            np.where(explanations.scores != 0, 1.0, 1e-3)
            if explanations.kind == "binary"
            else np.abs(explanations.scores)
        )
        if explanations.ids == finest.ids and not np.array_equal(explanations.bounds, finest.bounds):
            magnitudes = _share_among_pieces(name, magnitudes, explanations, finest)
        elif explanations.ids != finest.ids:
            raise ShapeError(f"The members of a blend must explain the same rows; {name!r} explains others.")
        columns.append(np.log(np.maximum(normalise_rows(magnitudes, finest.bounds), FLOOR_SHARE * even)))
    values = np.stack(columns, 1).astype(np.float32)
    return ComponentScores(finest, tuple(name for name, _ in members), values)


def _share_among_pieces(
    name: str, magnitudes: Float[np.ndarray, " word"], explanations: Explanations, finest: Explanations
) -> Float[np.ndarray, " piece"]:
    """Word scores as scores of the pieces in `finest`: equal shares within a word."""
    words = np.column_stack([row_of_units(finest.bounds), finest.segments, finest.word_index])
    is_first = np.ones(len(words), dtype=bool)
    is_first[1:] = (words[1:] != words[:-1]).any(1) | (finest.word_index[1:] < 0)
    word_counts = np.bincount(words[is_first, 0], minlength=len(finest.ids))
    if explanations.options.get("level") != "word" or not np.array_equal(word_counts, np.diff(explanations.bounds)):
        raise ShapeError(f"The members of a blend must score the same units or words; {name!r} scores others.")
    word_number = is_first.cumsum() - 1
    return magnitudes[word_number] / np.bincount(word_number)[word_number]
