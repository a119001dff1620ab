"""Worths of ranked methods, ties allowed: the Davidson-Luce model (Firth, Kosmidis and Turner, 2019).

A ranking is a sequence of choices: from the remaining methods R, a set S is placed first with probability proportional
to δ_|S| · (geometric mean of the worths in S); then the same with the rest. A single method has δ_1 = 1, and δ is 0 for
sizes of which no tie occurs. A pseudo-count shrinks the worths, as in the R package; δ is not shrunk. Without ties this
is Plackett-Luce, with two methods Davidson (1970). The logarithm of each weight is linear in the parameters (log-worths
and log δ), so the log-likelihood is concave.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from jaxtyping import Float

from didact.errors import ShapeError, UnsupportedError

PSEUDO_COUNT: Final = (
    0.5  # wins and losses against a method of worth 1: keeps the worth of a method that always wins finite
)
_BLOCK: Final = 2_000_000  # probabilities of sets in memory at a time
_MAX_SETS: Final = 50_000  # sets that can come first; more would take minutes
_MAX_STEPS: Final = 60
_STEP_TOLERANCE: Final = 1e-9  # Newton stops at steps below this
# Bounds of log δ. If a replicate has no tie of a size, or only such ties, the likeliest δ is 0 or infinite.
_TIE_BOUND: Final = 15.0
_RIDGE: Final = 1e-10  # shortens steps without changing the estimate


@dataclass(frozen=True, eq=False)
class Rankings:
    """Sufficient statistics of rankings: for each, the sum of chosen sets, and how often it chose from which methods.

    `sets` are the possible choices: for each R the coefficients of all S that can come first, with respect to the
    parameters (log-worth of each method, then log δ of each of `sizes`).
    """

    methods: int
    sizes: tuple[int, ...]
    sets: tuple[Float[np.ndarray, "_ _"], ...]
    chosen: Float[np.ndarray, "ranking parameter"]
    counts: Float[np.ndarray, "ranking set"]

    @classmethod
    def of(cls, ranks: Float[np.ndarray, "ranking method"]) -> "Rankings":
        """From ranks: 1 is the best, equal ranks are ties, and only the order matters. NaN: not ranked."""
        stages = [_stages(row) for row in ranks]
        methods = ranks.shape[1]
        sizes = tuple(sorted({len(winners) for stage in stages for winners, _ in stage} - {1}))
        remaining = sorted({options for stage in stages for _, options in stage})
        total = sum(_count_sets(len(options), sizes) for options in remaining)
        if total > _MAX_SETS:
            raise UnsupportedError(
                f"{methods} methods with ties of {max(sizes, default=1)} have {total:,} sets that can come first, more "
                f"than the limit of {_MAX_SETS:,}. Ask people to rank fewer methods at a time."
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
    """Log-worths with mean 0, δ of each size of tie, and the influence of each ranking on the log-worths.

    Influences are of first order: the estimate without a ranking is about the estimate minus its influence.
    `covariance` assumes independent rankings. It serves as a lower bound if one method always wins, since identical
    rankings seem to have no variance.
    """

    log_worths: Float[np.ndarray, " method"]
    ties: dict[int, float]
    influence: Float[np.ndarray, "ranking method"]
    covariance: Float[np.ndarray, "method method"]
    parameters: Float[np.ndarray, " parameter"]


def fit_worths(rankings: Rankings) -> Worths:
    """Penalised maximum likelihood: log-worths are shrunk slightly to 0 by the pseudo-count."""
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
    """The likeliest parameters with `weights` on the rankings, for all replicates at once.

    Newton's method; a step that does not increase the likelihood is halved. Log-worths are not centred.
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
    """The objective of `refit`: the log-likelihood of all rankings plus that of the pseudo-count."""
    return _log_likelihood(rankings, parameters, weights @ rankings.counts, weights @ rankings.chosen)


def scores(rankings: Rankings, parameters: Float[np.ndarray, " parameter"]) -> Float[np.ndarray, "ranking parameter"]:
    """The gradient of each ranking's log-likelihood. With that of the pseudo-count they sum to 0 at the estimate."""
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
        # A δ at its bound stays there while the gradient points beyond it.
        at_bound = (np.abs(parameters[active]) >= bounds) & (gradient * parameters[active] > 0)
        gradient = np.where(at_bound, 0.0, gradient)
        information = np.where(at_bound[:, :, None] | at_bound[:, None, :], np.eye(rankings.parameters), information)
        information += _RIDGE * np.eye(rankings.parameters)  # for a δ that a replicate does not determine
        step = np.linalg.solve(information, gradient[..., None])[..., 0]
        length = np.ones(len(active))
        for _ in range(_MAX_STEPS):
            updated = np.clip(parameters[active] + length[:, None] * step, -bounds, bounds)
            # At a maximum that is flat to the last digit, rounding alone must not halve the step.
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
    """Log-likelihood, gradient and observed information (negative Hessian) of every replicate."""
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
    """The choices of a ranking: winners, and the methods they were chosen from. A last single method is no choice."""
    if np.isinf(row).any():
        raise ShapeError("A rank must be a number, or NaN for a method that was not ranked, got infinity.")
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
