"""TrueSkill of ranked methods, as in SMaT's user study: every page is a game between methods."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from didact.errors import MissingExtraError
from didact.results.study_analysis import Skill

# As in SMaT's study: a narrower prior than the package's; the other values are its defaults.
PRIOR: Final = {"mu": 0.0, "sigma": 0.5, "beta": 25 / 6, "tau": 25 / 300, "draw_probability": 0.1}
_GAMES: Final = 2000  # over all shuffles; takes some seconds
_SHUFFLES: Final = 20
_Z95: Final = 1.959963984540054


def skills(
    games: Sequence[Mapping[str, int]], methods: Sequence[str], *, shuffles: int | None = None, seed: int = 0
) -> list[Skill]:
    """Skills after all games in sequence, from best to worst. A game has the rank of each of its methods.

    A method whose interval overlaps that of the first of a rank shares the rank. `shuffles` is the number of random
    orders of the games that show how far skills depend on the order: by default 20, with many games fewer, at least 5.
    """
    environment = _environment()
    played = [game for game in games if len(game) > 1]
    skill_by_method = _play(environment, played, methods)
    if shuffles is None:
        shuffles = min(_SHUFFLES, max(5, _GAMES // max(len(played), 1)))
    rng = random.Random(f"{seed}/skill")
    rounds = []
    for _ in range(shuffles):
        order = list(played)
        rng.shuffle(order)
        rounds.append(list(_play(environment, order, methods).values()))
    means = np.array(rounds).mean(0) if rounds else np.full((len(methods), 2), np.nan)
    spreads = np.array(rounds).std(0, ddof=1)[:, 0] if len(rounds) > 1 else np.full(len(methods), np.nan)
    shuffled_ranks = _ranks(
        {method: (float(mu), float(sigma)) for method, (mu, sigma) in zip(methods, means, strict=True)}
    )
    ranks = _ranks(skill_by_method)
    rows = []
    for method, shuffled, spread in zip(methods, means[:, 0], spreads, strict=True):
        mu, sigma = skill_by_method[method]
        low, high = mu - _Z95 * sigma, mu + _Z95 * sigma
        rows.append(
            Skill(method, mu, sigma, low, high, ranks[method], float(shuffled), float(spread), shuffled_ranks[method])
        )
    return sorted(rows, key=lambda row: (-row.mu, row.method))


def _environment() -> Any:
    try:
        from trueskill import TrueSkill
    except ImportError as error:
        raise MissingExtraError(
            'TrueSkill needs the package trueskill, which is not installed: pip install "didact[study]".'
        ) from error
    return TrueSkill(**PRIOR)


def _play(
    environment: Any, games: Sequence[Mapping[str, int]], methods: Sequence[str]
) -> dict[str, tuple[float, float]]:
    ratings = {method: environment.create_rating() for method in methods}
    for game in games:
        players = [method for method in methods if method in game]
        after = environment.rate([(ratings[method],) for method in players], ranks=[game[method] for method in players])
        ratings |= {method: rating for method, (rating,) in zip(players, after, strict=True)}
    return {method: (float(rating.mu), float(rating.sigma)) for method, rating in ratings.items()}


def _ranks(skill_by_method: Mapping[str, tuple[float, float]]) -> dict[str, int]:
    """Ranks from the best down. A new rank starts where the interval is below that of the first of the current rank."""
    ranks: dict[str, int] = {}
    floor, rank = float("inf"), 1
    for position, (method, (mu, sigma)) in enumerate(
        sorted(skill_by_method.items(), key=lambda entry: (-entry[1][0], entry[0])), 1
    ):
        if position == 1 or mu + _Z95 * sigma < floor:
            rank, floor = position, mu - _Z95 * sigma
        ranks[method] = rank
    return ranks
