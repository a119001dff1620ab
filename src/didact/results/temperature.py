"""The entropy of explanations, and the temperature that changes it to a given value."""

import numpy as np
from jaxtyping import Float, Int

from didact.errors import OptionError
from didact.results.explanations import Explanations
from didact.results.ragged import log_softmax_rows, reduce_rows, row_of_units

# At more extreme temperatures a row is one-hot or uniform.
_SHARPEST, _FLATTEST = 1e-3, 1e3


def mean_entropy(explanations: Explanations) -> float:
    """The mean over rows of the entropy of |s| / Σ|s|, in nats. Skips rows without units; NaN if all are empty."""
    entropies = row_entropies(tempered(explanations.scores, explanations.bounds, 1.0), explanations.bounds)
    entropies = entropies[np.diff(explanations.bounds) > 0]
    return float(entropies.mean()) if len(entropies) else np.nan


def apply_temperature(explanations: Explanations, temperature: float) -> Explanations:
    """The explanations as distributions p^(1/τ), renormalised: sharper for τ below 1, flatter above."""
    if not temperature > 0:
        raise OptionError(f"A temperature must be above 0, got {temperature}.")
    options = {**explanations.options, "tempered": temperature}
    scores = tempered(explanations.scores, explanations.bounds, temperature)
    return explanations.derive(kind="distribution", options=options, scores=scores)


def matching_temperature(explanations: Explanations, entropy: float) -> float:
    """The temperature at which these explanations have this mean entropy, or the closest possible one (bisection)."""
    low, high = np.log(_SHARPEST), np.log(_FLATTEST)
    for _ in range(60):
        middle = (low + high) / 2
        if mean_entropy(apply_temperature(explanations, float(np.exp(middle)))) < entropy:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))


# -- row by row, on ragged arrays -------------------------------------------------------------------------------------


def tempered(
    scores: Float[np.ndarray, " unit"],
    bounds: Int[np.ndarray, " bound"],
    temperature: float | Float[np.ndarray, " row"],
) -> Float[np.ndarray, " unit"]:
    """The distributions (|s| / Σ|s|)^(1/τ), renormalised, with one temperature or one for each row.

    A score of 0 keeps a negligible share, so that its logarithm is finite.
    """
    divisor = temperature[row_of_units(bounds)] if isinstance(temperature, np.ndarray) else temperature
    return np.asarray(np.exp(log_softmax_rows(np.log(np.maximum(np.abs(scores), 1e-30)) / divisor, bounds)))


def row_entropies(shares: Float[np.ndarray, " unit"], bounds: Int[np.ndarray, " bound"]) -> Float[np.ndarray, " row"]:
    """The entropy of each row of distributions, in nats. NaN for a row without units."""
    return -reduce_rows(np.add, shares * np.log(np.maximum(shares, 1e-300)), bounds, empty=np.nan)


def matching_temperatures(
    scores: Float[np.ndarray, " unit"], bounds: Int[np.ndarray, " bound"], entropies: Float[np.ndarray, " row"]
) -> Float[np.ndarray, " row"]:
    """For each row, the temperature at which it has this entropy, or the closest possible one (bisection).

    The smallest possible entropy of a row is the logarithm of the number of its units that share the largest |score|.
    """
    low = np.full(len(entropies), np.log(_SHARPEST))
    high = np.full(len(entropies), np.log(_FLATTEST))
    for _ in range(60):
        middle = (low + high) / 2
        is_sharper = row_entropies(tempered(scores, bounds, np.exp(middle)), bounds) < entropies
        low, high = np.where(is_sharper, middle, low), np.where(is_sharper, high, middle)
    return np.asarray(np.exp((low + high) / 2))
