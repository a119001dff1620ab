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

GHOST: Final = 0.5  # of a win and of a loss against a thing of worth 1 keeps a thing that always wins finite
_BLOCK: Final = 2_000_000  # chances of sets held at a time
_MOST: Final = 50_000  # sets that can come first; more would take minutes
_STEPS: Final = 60
_CLOSE: Final = 1e-9  # a step this small is the last
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
        sizes = tuple(sorted({len(first) for one in stages for first, _ in one} - {1}))
        remaining = sorted({rest for one in stages for _, rest in one})
        total = sum(_choices(len(rest), sizes) for rest in remaining)
        if total > _MOST:
            raise UnsupportedError(
                f"{methods} methods with ties of {max(sizes, default=1)} have {total:,} sets that can come first, more "
                f"than the {_MOST:,} that are weighed. Ask people to rank fewer methods at a time."
            )
        place = {rest: number for number, rest in enumerate(remaining)}
        chosen, counts = np.zeros((len(ranks), methods + len(sizes))), np.zeros((len(ranks), len(remaining)))
        for number, one in enumerate(stages):
            for first, rest in one:
                chosen[number] += _row(first, methods, sizes)
                counts[number, place[rest]] += 1
        sets = [[s for k in (1, *sizes) for s in combinations(rest, k)] for rest in remaining]
        return cls(
            methods, sizes, tuple(np.array([_row(s, methods, sizes) for s in one]) for one in sets), chosen, counts
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
    found = refit(rankings, np.ones((1, len(rankings.counts))))[0]
    slopes = scores(rankings, found)
    _, _, curvature = _curve(rankings, found[None], rankings.counts.sum(0)[None], rankings.chosen.sum(0)[None])
    inverse = np.linalg.inv(curvature[0])[: rankings.methods]
    influence, covariance = slopes @ inverse.T, inverse[:, : rankings.methods]
    covariance = covariance - covariance.mean(0) - covariance.mean(1, keepdims=True) + covariance.mean()
    delta = {size: float(np.exp(value)) for size, value in zip(rankings.sizes, found[rankings.methods :], strict=True)}
    worths = found[: rankings.methods]
    return Worths(worths - worths.mean(), delta, influence - influence.mean(1, keepdims=True), covariance, found)


def refit(
    rankings: Rankings,
    weights: Float[np.ndarray, "replicate ranking"],
    *,
    start: Float[np.ndarray, " parameter"] | None = None,
) -> Float[np.ndarray, "replicate parameter"]:
    """The likeliest parameters where each ranking counts `weights` times, for all replicates at once.

    Newton's method; a step that does not climb is halved. Log-worths are as the ghost leaves them: centre them.
    """
    widest = max((len(one) for one in rankings.sets), default=1)
    size = max(1, _BLOCK // max(widest, rankings.parameters**2))
    begin = np.zeros(rankings.parameters) if start is None else start
    blocks = [
        _climb(rankings, np.tile(begin, (len(block), 1)), block @ rankings.counts, block @ rankings.chosen)
        for block in (weights[at : at + size] for at in range(0, len(weights), size))
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
    return _value(rankings, parameters, weights @ rankings.counts, weights @ rankings.chosen)


def scores(rankings: Rankings, parameters: Float[np.ndarray, " parameter"]) -> Float[np.ndarray, "ranking parameter"]:
    """The slope of the log-likelihood of each ranking. Together with the ghost's they sum to 0 at the estimate."""
    found = rankings.chosen.copy()
    for number, rows in enumerate(rankings.sets):
        found -= rankings.counts[:, number : number + 1] * (_chances(rows, parameters[None])[0] @ rows)
    return found


def _climb(
    rankings: Rankings, at: np.ndarray, counts: np.ndarray, chosen: np.ndarray
) -> Float[np.ndarray, "replicate parameter"]:
    live = np.arange(len(at))
    bounds = np.full(rankings.parameters, np.inf)
    bounds[rankings.methods :] = _TIE_BOUND
    for _ in range(_STEPS):
        value, slope, curvature = _curve(rankings, at[live], counts[live], chosen[live])
        # A δ at its bound stays there as long as the slope points beyond it.
        stuck = (np.abs(at[live]) >= bounds) & (slope * at[live] > 0)
        slope = np.where(stuck, 0.0, slope)
        curvature = np.where(stuck[:, :, None] | stuck[:, None, :], np.eye(rankings.parameters), curvature)
        curvature += _RIDGE * np.eye(rankings.parameters)  # for a δ of which a replicate says nothing
        step = np.linalg.solve(curvature, slope[..., None])[..., 0]
        length = np.ones(len(live))
        for _ in range(_STEPS):
            new = np.clip(at[live] + length[:, None] * step, -bounds, bounds)
            # Where the top is flat to the last digit, rounding alone must not halve the step for ever.
            worse = _value(rankings, new, counts[live], chosen[live]) < value - 1e-12 * (1 + np.abs(value))
            if not worse.any():
                break
            length[worse] /= 2
        moved = np.abs(new - at[live]).max(1)
        at[live] = new
        live = live[moved > _CLOSE]
        if not len(live):
            break
    return at


def _curve(
    rankings: Rankings, at: np.ndarray, counts: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Height, slope and the negative of the second derivative, of every replicate."""
    size = rankings.parameters
    worths = np.arange(rankings.methods)
    ghost = 1 / (1 + np.exp(-at[:, worths]))
    slope = chosen.copy()
    slope[:, worths] += GHOST * (1 - 2 * ghost)
    curvature = np.zeros((len(at), size, size))
    curvature[:, worths, worths] = 2 * GHOST * ghost * (1 - ghost)
    for number, rows in enumerate(rankings.sets):
        chances, times = _chances(rows, at), counts[:, number]
        mean = chances @ rows
        squares = chances @ (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
        slope -= times[:, None] * mean
        curvature += times[:, None, None] * (squares.reshape(-1, size, size) - mean[:, :, None] * mean[:, None, :])
    return _value(rankings, at, counts, chosen), slope, curvature


def _value(rankings: Rankings, at: np.ndarray, counts: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    worths = at[:, : rankings.methods]
    value = (chosen * at).sum(1) + GHOST * (worths - 2 * np.logaddexp(0, worths)).sum(1)
    for number, rows in enumerate(rankings.sets):
        heights = at @ rows.T
        top = heights.max(1)
        value -= counts[:, number] * (top + np.log(np.exp(heights - top[:, None]).sum(1)))
    return np.asarray(value)


def _chances(rows: np.ndarray, at: np.ndarray) -> np.ndarray:
    heights = at @ rows.T
    heights = np.exp(heights - heights.max(1, keepdims=True))
    return np.asarray(heights / heights.sum(1, keepdims=True))


def _stages(row: Float[np.ndarray, " method"]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """What came first and of what, again and again. The last one alone is no choice."""
    if np.isinf(row).any():
        raise ShapeError("A place in a ranking is a number, or NaN for what was not ranked; given was infinity.")
    rest = tuple(int(method) for method in np.flatnonzero(~np.isnan(row)))
    found = []
    while len(rest) > 1:
        best = min(row[method] for method in rest)
        first = tuple(method for method in rest if row[method] == best)
        found.append((first, rest))
        rest = tuple(method for method in rest if row[method] != best)
    return found


def _row(members: Sequence[int], methods: int, sizes: tuple[int, ...]) -> Float[np.ndarray, " parameter"]:
    """The logarithm of the weight of a set, as coefficients of the parameters."""
    found = np.zeros(methods + len(sizes))
    found[list(members)] = 1 / len(members)
    if len(members) > 1:
        found[methods + sizes.index(len(members))] = 1
    return found


def _choices(count: int, sizes: tuple[int, ...]) -> int:
    from math import comb

    return sum(comb(count, size) for size in (1, *sizes))
