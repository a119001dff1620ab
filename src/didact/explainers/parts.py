"""From kept parts to explanations, without asking the teacher again."""

from dataclasses import replace

import numpy as np
import torch

from didact.explainers.learned import fingerprint_of_weights, name_of
from didact.explainers.mix import Mix
from didact.records.explanations import Explanations
from didact.records.parts import Parts


def explained_by(explainer: Mix, parts: Parts) -> Explanations:
    """What the explainer says of rows whose parts are known."""
    maps = parts.maps
    owner = np.repeat(np.arange(len(maps)), np.diff(maps.bounds))
    values = torch.from_numpy(parts.values).to(explainer.coefficients.device)
    with torch.no_grad():
        logits = explainer.logits(values.T[None])[0].double().cpu().numpy()
    top = np.maximum.reduceat(logits, maps.bounds[:-1]) if len(logits) else logits
    mass = np.exp(logits - top[owner])
    scores = mass / np.add.reduceat(mass, maps.bounds[:-1])[owner]
    options = {**maps.options, **explainer.options, "weights": fingerprint_of_weights(explainer)}
    return replace(maps, method=name_of(explainer), kind="distribution", options=options, scores=scores)
