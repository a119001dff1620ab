"""The entropy of explanations, and the temperature that changes it to a given value."""

import numpy as np
from jaxtyping import Float

from didact.errors import OptionError
from didact.results.explanations import Explanations
from didact.results.ragged import log_softmax_rows, reduce_rows

# At more extreme temperatures a row is one-hot or uniform.
_SHARPEST, _FLATTEST = 1e-3, 1e3


def mean_entropy(explanations: Explanations) -> float:
    """The mean over rows of the entropy of |s| / Σ|s|, in nats. Skips rows without units; NaN if all are empty."""
    mass = np.exp(_log_shares(explanations, 1.0))
    entropies = -reduce_rows(np.add, mass * np.log(np.maximum(mass, 1e-300)), explanations.bounds, empty=np.nan)
    entropies = entropies[np.diff(explanations.bounds) > 0]
    return float(entropies.mean()) if len(entropies) else np.nan


def apply_temperature(explanations: Explanations, temperature: float) -> Explanations:
    """The explanations as distributions p^(1/τ), renormalised: sharper for τ below 1, flatter above."""
    if not temperature > 0:
        raise OptionError(f"A temperature must be above 0, got {temperature}.")
    options = {**explanations.options, "tempered": temperature}
    return explanations.derive(
        kind="distribution", options=options, scores=np.exp(_log_shares(explanations, temperature))
    )


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


def _log_shares(explanations: Explanations, temperature: float) -> Float[np.ndarray, " unit"]:
    """The log of the distribution at this temperature. A score of 0 keeps a negligible share: its log is finite."""
    return log_softmax_rows(np.log(np.maximum(np.abs(explanations.scores), 1e-30)) / temperature, explanations.bounds)
