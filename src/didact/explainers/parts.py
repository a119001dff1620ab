"""From kept parts to explanations, without asking the teacher again."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from didact.errors import ShapeError
from didact.explainers.learned import fingerprint_of_weights, name_of
from didact.explainers.mix import FLOOR, Mix
from didact.records.explanations import Explanations
from didact.records.parts import Parts


def explained_by(explainer: Mix, parts: Parts) -> Explanations:
    """What the explainer says of rows whose parts are known."""
    maps = parts.maps
    owner = np.repeat(np.arange(len(maps)), np.diff(maps.bounds))
    values = torch.from_numpy(parts.values).to(explainer.coefficients.device)
    with torch.no_grad():
        logits = explainer.logits(values.T[None])[0].cpu().double().numpy()
    top = np.maximum.reduceat(logits, maps.bounds[:-1]) if len(logits) else logits
    mass = np.exp(logits - top[owner])
    scores = mass / np.add.reduceat(mass, maps.bounds[:-1])[owner]
    options = {**maps.options, **explainer.options, "weights": fingerprint_of_weights(explainer)}
    return replace(maps, method=name_of(explainer), kind="distribution", options=options, scores=scores)


def blended(members: Sequence[tuple[str, Explanations]]) -> Parts:
    """The parts of a blend whose members explained the same rows already."""
    first = members[0][1]
    starts, counts = first.bounds[:-1], np.diff(first.bounds)
    owner = np.repeat(np.arange(len(first)), counts)
    columns = []
    for name, maps in members:
        if maps.ids != first.ids or not np.array_equal(maps.bounds, first.bounds):
            raise ShapeError(f"The members of a blend must score the same units; {name!r} scores others.")
        size = np.abs(maps.scores)
        if maps.kind == "binary":
            size = np.where(maps.scores != 0, 1.0, 1e-3)
        total = np.add.reduceat(size, starts)[owner]
        even = 1.0 / counts[owner]
        share = np.where(total > 0, size / np.where(total > 0, total, 1.0), even)
        columns.append(np.log(np.maximum(share, FLOOR * even)))
    values = np.stack(columns, 1).astype(np.float32)
    return Parts(first, tuple(name for name, _ in members), values)
