"""The changes of sharpness that target normalisation makes to explanations before students receive them."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from didact.results.documents import Document
from didact.results.explanations import Explanations
from didact.results.ragged import row_of_units
from didact.results.temperature import matching_temperatures, tempered
from didact.results.variants import marks_as_magnitudes

# Scores within this share of each other have the same rank. Rounding must not decide ranks.
_TIED: Final = 1e-6


@dataclass(frozen=True)
class TargetTransform(Document):
    """One change of the sharpness of explanations, as the description of a student stores it.

    - `how="temperature"`: p^(1/`value`), renormalised; p is |s| / Σ|s|.
    - `how="entropy"`: each row at its own temperature, so that its entropy is `value` · log n.
    - `how="ranks"`: one profile over the ranks of |s|, r^−a. The exponent depends on n alone: the entropy without ties
      is `value` · log n. Tied units share the mean of their ranks.
    """

    how: str
    value: float

    def apply(self, explanations: Explanations) -> Explanations:
        """The explanations that students receive. Signs stay: signed scores become sign(s) · p, with 0 as positive.

        Other scores become distributions. A row whose scores are all equal becomes uniform. An entropy that tempering
        cannot reach, since too many units share the largest |score|, becomes the closest possible.
        """
        if explanations.kind != "binary" and self.how == "temperature" and self.value == 1:
            return explanations
        scores = marks_as_magnitudes(explanations).scores  # marks have no sizes that a temperature could change
        shares = self._shares(scores, explanations.bounds)
        if explanations.kind == "signed":
            return explanations.derive(scores=np.where(scores < 0, -shares, shares))
        return explanations.derive(scores=shares, kind="distribution")

    def _shares(
        self, scores: Float[np.ndarray, " unit"], bounds: Int[np.ndarray, " bound"]
    ) -> Float[np.ndarray, " unit"]:
        if self.how == "temperature":
            return tempered(scores, bounds, self.value)
        entropies = self.value * np.log(np.maximum(np.diff(bounds), 1))
        if self.how == "entropy":
            return tempered(scores, bounds, matching_temperatures(scores, bounds, entropies))
        return _rank_profile(scores, bounds, entropies)


def _rank_profile(
    scores: Float[np.ndarray, " unit"], bounds: Int[np.ndarray, " bound"], entropies: Float[np.ndarray, " row"]
) -> Float[np.ndarray, " unit"]:
    """1 / rank at the temperature that gives each row its entropy; tied units share the mean of their ranks."""
    rows, sizes = row_of_units(bounds), np.abs(scores)
    best_first = np.lexsort((-sizes, rows))
    inverse_ranks = 1 / (1.0 + np.arange(len(rows)) - bounds[rows])
    profile = tempered(inverse_ranks, bounds, matching_temperatures(inverse_ranks, bounds, entropies))
    ordered = sizes[best_first]
    is_lower = np.diff(ordered, prepend=np.inf) < -_TIED * np.concatenate([[np.inf], ordered[:-1]])
    is_lower[bounds[:-1][np.diff(bounds) > 0]] = True  # the first unit of each row
    group = np.cumsum(is_lower) - 1
    shares = np.zeros_like(profile)
    shares[best_first] = (np.bincount(group, profile) / np.bincount(group))[group]
    return shares
