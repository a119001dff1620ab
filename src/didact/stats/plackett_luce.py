"""Worths of things that were ranked, ties allowed: the Davidson-Luce model (Firth, Kosmidis and Turner, 2019).

A ranking is a row of choices: of what remains, R, a set S is put first, with a chance in proportion to
δ_|S| · (the geometric mean of the worths in S); then the same with what is left. One thing alone has δ_1 = 1, and δ of
sizes of which no tie was seen is 0. The ghost draws worths alone; δ is left to the data, as in the R package. Without
ties this is Plackett-Luce, with two things Davidson (1970). The logarithm
of each weight is linear in the parameters (log-worths and log δ), so the likelihood is concave.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from jaxtyping import Float

from didact.errors import ShapeError, UnsupportedError

PSEUDO_COUNT: Final = 0.5  # of a win and of a loss against a thing of worth 1 keeps a thing that always wins finite
_BLOCK: Final = 2_000_000  # chances of sets held at a time
_MAX_SETS: Final = 50_000  # sets that can come first; more would take minutes
_MAX_STEPS: Final = 60
_STEP_TOLERANCE: Final = 1e-9  # a step this small is the last
# Bounds of log δ. Where replicates hold no tie of a size, or nothing else, the likeliest δ is 0 or infinite.
_TIE_BOUND: Final = 15.0
_RIDGE: Final = 1e-10  # shortens steps; the estimate is the same


@dataclass(frozen=True, eq=False)
class Rankings:
    """What the likelihood reads of rankings: of each, the sum of what was chosen, and how often it chose from what.

    `sets` are the choices: for each R the rows of all S that can come first, as coefficients of the parameters (log-
    worth of each method, then log δ of each of `sizes`).
    """

    methods: int
    sizes: tuple[int, ...]
    sets: tuple[Float[np.ndarray, "_ _"], ...]
    chosen: Float[np.ndarray, "ranking parameter"]
    counts: Float[np.ndarray, "ranking set"]

    @classmethod
    def of(cls, ranks: Float[np.ndarray, "ranking method"]) -> "Rankings":
        """From places, 1 the best; equal ones are tied, and only their order counts. NaN: was not to be ranked."""
        stages = [_stages(row) for row in ranks]
        methods = ranks.shape[1]
        sizes = tuple(sorted({len(winners) for stage in stages for winners, _ in stage} - {1}))
        remaining = sorted({options for stage in stages for _, options in stage})
        total = sum(_count_sets(len(options), sizes) for options in remaining)
        if total > _MAX_SETS:
            raise UnsupportedError(
                f"{methods} methods with ties of {max(sizes, default=1)} have {total:,} sets that can come first, more "
                f"than the {_MAX_SETS:,} that are weighed. Ask people to rank fewer methods at a time."
            )
        option_index = {options: index for index, options in enumerate(remaining)}
        chosen, counts = np.zeros((len(ranks), methods + len(sizes))), np.zeros((len(ranks), len(remaining)))
        for index, stage in enumerate(stages):
            for winners, options in stage:
                chosen[index] += _coefficients(winners, methods, sizes)
                counts[index, option_index[options]] += 1
        sets = [[members for size in (1, *sizes) for members in combinations(options, size)] for options in remaining]
        return cls(
            methods,
            sizes,
            tuple(np.array([_coefficients(members, methods, sizes) for members in stage]) for stage in sets),
            chosen,
            counts,
        )

    @property
    def parameters(self) -> int:
        return self.methods + len(self.sizes)


@dataclass(frozen=True, eq=False)
class Worths:
    """Log-worths with mean 0, δ of each size of tie, and what each ranking adds to the log-worths (its influence).

    Influences are of first order: the estimate without a ranking is about the estimate minus its influence.
    `covariance` is what it would be if all rankings were independent: a floor where somebody always wins, since
    rankings that are all alike seem to vary by nothing.
    """

    log_worths: Float[np.ndarray, " method"]
    ties: dict[int, float]
    influence: Float[np.ndarray, "ranking method"]
    covariance: Float[np.ndarray, "method method"]
    parameters: Float[np.ndarray, " parameter"]


def fit_worths(rankings: Rankings) -> Worths:
    """The likeliest log-worths, drawn a little towards 0 by the ghost."""
    parameters = refit(rankings, np.ones((1, len(rankings.counts))))[0]
    gradients = scores(rankings, parameters)
    _, _, information = _derivatives(
        rankings, parameters[None], rankings.counts.sum(0)[None], rankings.chosen.sum(0)[None]
    )
    inverse = np.linalg.inv(information[0])[: rankings.methods]
    influence, covariance = gradients @ inverse.T, inverse[:, : rankings.methods]
    covariance = covariance - covariance.mean(0) - covariance.mean(1, keepdims=True) + covariance.mean()
    delta = {
        size: float(np.exp(value)) for size, value in zip(rankings.sizes, parameters[rankings.methods :], strict=True)
    }
    worths = parameters[: rankings.methods]
    return Worths(worths - worths.mean(), delta, influence - influence.mean(1, keepdims=True), covariance, parameters)


def refit(
    rankings: Rankings,
    weights: Float[np.ndarray, "replicate ranking"],
    *,
    start: Float[np.ndarray, " parameter"] | None = None,
) -> Float[np.ndarray, "replicate parameter"]:
    """The likeliest parameters where each ranking counts `weights` times, for all replicates at once.

    Newton's method; a step that does not climb is halved. Log-worths are as the ghost leaves them: centre them.
    """
    widest = max((len(rows) for rows in rankings.sets), default=1)
    size = max(1, _BLOCK // max(widest, rankings.parameters**2))
    first = np.zeros(rankings.parameters) if start is None else start
    blocks = [
        _newton(rankings, np.tile(first, (len(block), 1)), block @ rankings.counts, block @ rankings.chosen)
        for block in (weights[offset : offset + size] for offset in range(0, len(weights), size))
    ]
    return np.concatenate(blocks) if blocks else np.zeros((0, rankings.parameters))


def centred(parameters: Float[np.ndarray, "replicate parameter"], methods: int) -> Float[np.ndarray, "replicate _"]:
    """Log-worths alone, with mean 0."""
    worths = parameters[:, :methods]
    return worths - worths.mean(1, keepdims=True)


def log_likelihood(
    rankings: Rankings,
    parameters: Float[np.ndarray, "replicate parameter"],
    weights: Float[np.ndarray, "replicate ranking"],
) -> Float[np.ndarray, " replicate"]:
    """What `refit` climbs: the logarithm of the chance of all rankings, and of the ghost's."""
    return _log_likelihood(rankings, parameters, weights @ rankings.counts, weights @ rankings.chosen)


def scores(rankings: Rankings, parameters: Float[np.ndarray, " parameter"]) -> Float[np.ndarray, "ranking parameter"]:
    """The slope of the log-likelihood of each ranking. Together with the ghost's they sum to 0 at the estimate."""
    gradients = rankings.chosen.copy()
    for index, rows in enumerate(rankings.sets):
        gradients -= rankings.counts[:, index : index + 1] * (_probabilities(rows, parameters[None])[0] @ rows)
    return gradients


def _newton(
    rankings: Rankings, parameters: np.ndarray, counts: np.ndarray, chosen: np.ndarray
) -> Float[np.ndarray, "replicate parameter"]:
    active = np.arange(len(parameters))
    bounds = np.full(rankings.parameters, np.inf)
    bounds[rankings.methods :] = _TIE_BOUND
    for _ in range(_MAX_STEPS):
        value, gradient, information = _derivatives(rankings, parameters[active], counts[active], chosen[active])
        # A δ at its bound stays there as long as the slope points beyond it.
        at_bound = (np.abs(parameters[active]) >= bounds) & (gradient * parameters[active] > 0)
        gradient = np.where(at_bound, 0.0, gradient)
        information = np.where(at_bound[:, :, None] | at_bound[:, None, :], np.eye(rankings.parameters), information)
        information += _RIDGE * np.eye(rankings.parameters)  # for a δ of which a replicate says nothing
        step = np.linalg.solve(information, gradient[..., None])[..., 0]
        length = np.ones(len(active))
        for _ in range(_MAX_STEPS):
            updated = np.clip(parameters[active] + length[:, None] * step, -bounds, bounds)
            # Where the top is flat to the last digit, rounding alone must not halve the step for ever.
            worse = _log_likelihood(rankings, updated, counts[active], chosen[active]) < value - 1e-12 * (
                1 + np.abs(value)
            )
            if not worse.any():
                break
            length[worse] /= 2
        moved = np.abs(updated - parameters[active]).max(1)
        parameters[active] = updated
        active = active[moved > _STEP_TOLERANCE]
        if not len(active):
            break
    return parameters


def _derivatives(
    rankings: Rankings, parameters: np.ndarray, counts: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Height, slope and the negative of the second derivative, of every replicate."""
    size = rankings.parameters
    worths = np.arange(rankings.methods)
    win_probability = 1 / (1 + np.exp(-parameters[:, worths]))
    gradient = chosen.copy()
    gradient[:, worths] += PSEUDO_COUNT * (1 - 2 * win_probability)
    information = np.zeros((len(parameters), size, size))
    information[:, worths, worths] = 2 * PSEUDO_COUNT * win_probability * (1 - win_probability)
    for index, rows in enumerate(rankings.sets):
        probabilities, weights = _probabilities(rows, parameters), counts[:, index]
        mean = probabilities @ rows
        squares = probabilities @ (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
        gradient -= weights[:, None] * mean
        information += weights[:, None, None] * (squares.reshape(-1, size, size) - mean[:, :, None] * mean[:, None, :])
    return _log_likelihood(rankings, parameters, counts, chosen), gradient, information


def _log_likelihood(rankings: Rankings, parameters: np.ndarray, counts: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    worths = parameters[:, : rankings.methods]
    value = (chosen * parameters).sum(1) + PSEUDO_COUNT * (worths - 2 * np.logaddexp(0, worths)).sum(1)
    for index, rows in enumerate(rankings.sets):
        log_weights = parameters @ rows.T
        largest = log_weights.max(1)
        value -= counts[:, index] * (largest + np.log(np.exp(log_weights - largest[:, None]).sum(1)))
    return np.asarray(value)


def _probabilities(rows: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    log_weights = parameters @ rows.T
    log_weights = np.exp(log_weights - log_weights.max(1, keepdims=True))
    return np.asarray(log_weights / log_weights.sum(1, keepdims=True))


def _stages(row: Float[np.ndarray, " method"]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """What came first and of what, again and again. The last one alone is no choice."""
    if np.isinf(row).any():
        raise ShapeError("A place in a ranking is a number, or NaN for what was not ranked; given was infinity.")
    options = tuple(int(method) for method in np.flatnonzero(~np.isnan(row)))
    stages = []
    while len(options) > 1:
        best_rank = min(row[method] for method in options)
        winners = tuple(method for method in options if row[method] == best_rank)
        stages.append((winners, options))
        options = tuple(method for method in options if row[method] != best_rank)
    return stages


def _coefficients(members: Sequence[int], methods: int, sizes: tuple[int, ...]) -> Float[np.ndarray, " parameter"]:
    """The logarithm of the weight of a set, as coefficients of the parameters."""
    coefficients = np.zeros(methods + len(sizes))
    coefficients[list(members)] = 1 / len(members)
    if len(members) > 1:
        coefficients[methods + sizes.index(len(members))] = 1
    return coefficients


def _count_sets(count: int, sizes: tuple[int, ...]) -> int:
    from math import comb

    return sum(comb(count, size) for size in (1, *sizes))
