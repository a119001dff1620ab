"""From kept parts to explanations, without asking the teacher again."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float

from didact.errors import ShapeError
from didact.explainers.learned import fingerprint_of_weights, name_of
from didact.explainers.mix import FLOOR, ComponentMix
from didact.results.component_scores import ComponentScores
from didact.results.explanations import Explanations
from didact.results.ragged import normalise_rows, row_of_units, softmax_rows


def combine_components(explainer: ComponentMix, parts: ComponentScores) -> Explanations:
    """What the explainer says of rows whose parts are known."""
    maps = parts.maps
    values = torch.from_numpy(parts.values).to(explainer.coefficients.device)
    with torch.no_grad():
        logits = explainer.logits(values.T[None])[0].cpu().double().numpy()
    scores = softmax_rows(logits, maps.bounds)
    options = {**maps.options, **explainer.options, "weights": fingerprint_of_weights(explainer)}
    return replace(maps, method=name_of(explainer), kind="distribution", options=options, scores=scores)


def stack_members(members: Sequence[tuple[str, Explanations]]) -> ComponentScores:
    """The parts of a blend whose members explained the same rows already.

    Members that score words beside others that score pieces share each word's mass evenly among its pieces.
    """
    units = max((maps for _, maps in members), key=lambda maps: len(maps.scores))
    even = 1.0 / np.diff(units.bounds)[row_of_units(units.bounds)]
    columns = []
    for name, maps in members:
        size = np.where(maps.scores != 0, 1.0, 1e-3) if maps.kind == "binary" else np.abs(maps.scores)
        if maps.ids == units.ids and not np.array_equal(maps.bounds, units.bounds):
            size = _over_pieces(name, size, maps, units)
        elif maps.ids != units.ids:
            raise ShapeError(f"The members of a blend must explain the same rows; {name!r} explains others.")
        columns.append(np.log(np.maximum(normalise_rows(size, units.bounds), FLOOR * even)))
    values = np.stack(columns, 1).astype(np.float32)
    return ComponentScores(units, tuple(name for name, _ in members), values)


def _over_pieces(
    name: str, size: Float[np.ndarray, " word"], maps: Explanations, units: Explanations
) -> Float[np.ndarray, " piece"]:
    """Scores of whole words as scores of the pieces in `units`: equal shares within a word."""
    keys = np.column_stack([row_of_units(units.bounds), units.segments, units.word_index])
    begins = np.ones(len(keys), dtype=bool)
    begins[1:] = (keys[1:] != keys[:-1]).any(1) | (units.word_index[1:] < 0)
    counts = np.bincount(keys[begins, 0], minlength=len(units.ids))
    if maps.options.get("level") != "word" or not np.array_equal(counts, np.diff(maps.bounds)):
        raise ShapeError(f"The members of a blend must score the same units or words; {name!r} scores others.")
    word = begins.cumsum() - 1
    return size[word] / np.bincount(word)[word]
