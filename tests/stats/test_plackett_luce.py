"""Worths against closed forms, and against the likelihood written down literally and climbed by scipy."""

from itertools import combinations

import numpy as np
import pytest
from scipy import optimize

from didact.errors import ShapeError, UnsupportedError
from didact.stats.plackett_luce import PSEUDO_COUNT, Rankings, centred, fit_worths, log_likelihood, refit, scores

NAN = np.nan


def literal(theta, ranks, sizes):
    """The penalised log-likelihood as the paper has it, with worths and products."""
    methods = ranks.shape[1]
    worth = np.exp(theta[:methods])
    delta = {1: 1.0, **dict(zip(sizes, np.exp(theta[methods:]), strict=True))}

    def weight(members):
        return delta[len(members)] * np.prod([worth[one] for one in members]) ** (1 / len(members))

    total = 0.0
    for row in ranks:
        rest = [method for method in range(methods) if not np.isnan(row[method])]
        while len(rest) > 1:
            first = [method for method in rest if row[method] == min(row[rest])]
            every = [weight(members) for size in delta for members in combinations(rest, size)]
            total += np.log(weight(first) / sum(every))
            rest = [method for method in rest if method not in first]
    return total + PSEUDO_COUNT * sum(np.log(one / (1 + one)) + np.log(1 / (1 + one)) for one in worth)


@pytest.fixture
def ranks():
    """Rankings of four methods by hand: ties of two and of three, and two pages that show fewer methods."""
    return np.array(
        [
            [1, 2, 3, 4], [1, 1, 3, 4], [2, 1, 3, 3], [1, 2, 2, 2], [4, 3, 2, 1], [1, 3, 1, 4], [2, 1, NAN, 3],
            [NAN, 1, 1, NAN], [1, 2, 4, 3], [3, 1, 2, 4],
        ],
        dtype=float,
    )  # fmt: skip


def test_as_scipy_climbs_the_literal_likelihood(ranks):
    rankings = Rankings.of(ranks)
    assert rankings.sizes == (2, 3)
    found = optimize.minimize(
        lambda theta: -literal(theta, ranks, rankings.sizes), np.zeros(6), method="BFGS", options={"gtol": 1e-8}
    )
    worths = fit_worths(rankings)
    np.testing.assert_allclose(worths.parameters, found.x, atol=2e-5)
    np.testing.assert_allclose(worths.log_worths, found.x[:4] - found.x[:4].mean(), atol=2e-5)
    np.testing.assert_allclose([worths.ties[2], worths.ties[3]], np.exp(found.x[4:]), rtol=1e-4)


def test_the_likelihood_is_the_literal_one(ranks):
    rankings = Rankings.of(ranks)
    theta = np.random.default_rng(0).normal(size=(3, 6))
    weights = np.ones((3, len(ranks)))
    np.testing.assert_allclose(
        log_likelihood(rankings, theta, weights), [literal(one, ranks, (2, 3)) for one in theta], rtol=1e-12
    )


def test_two_methods_without_ties_are_log_odds():
    """With 7 wins, 3 losses and the ghost's halves: w = log p/(1 − p), and by symmetry each is half of it from 0."""
    worths = fit_worths(Rankings.of(np.array([[1.0, 2.0]] * 7 + [[2.0, 1.0]] * 3)))
    first, second = worths.parameters
    chance = 1 / (1 + np.exp(second - first))
    # The slope by hand: wins − expected wins, plus half a win and half a loss against the ghost.
    assert 7 - 10 * chance + PSEUDO_COUNT * (1 - 2 / (1 + np.exp(-first))) == pytest.approx(0, abs=1e-9)
    assert first == pytest.approx(-second)
    many = fit_worths(Rankings.of(np.array([[1.0, 2.0]] * 700 + [[2.0, 1.0]] * 300))).log_worths
    assert many[0] - many[1] == pytest.approx(np.log(7 / 3), abs=5e-3)  # the ghost is weak


def test_davidson_of_two_with_ties():
    """Of many games 50 % won, 30 % drawn, 20 % lost: α₁/α₂ = 2.5 and δ = 0.3/√(0.5·0.2)."""
    games = np.array([[1.0, 2.0]] * 500 + [[1.0, 1.0]] * 300 + [[2.0, 1.0]] * 200)
    worths = fit_worths(Rankings.of(games))
    assert worths.log_worths[0] - worths.log_worths[1] == pytest.approx(np.log(2.5), abs=5e-3)
    assert worths.ties[2] == pytest.approx(0.3 / np.sqrt(0.1), rel=5e-3)


def test_ties_are_left_to_the_data():
    """One tie in 60 rankings of 4. The ghost used to draw log δ towards 0: δ was 0.0084."""
    random = np.random.default_rng(0)
    ranks = np.array([random.permutation(4) + 1.0 for _ in range(60)])
    ranks[0] = [1, 1, 2, 3]
    found = optimize.minimize(lambda theta: -literal(theta, ranks, (2,)), np.zeros(5), method="BFGS")
    worths = fit_worths(Rankings.of(ranks))
    assert worths.ties[2] == pytest.approx(0.0056, abs=5e-5)
    assert worths.ties[2] == pytest.approx(np.exp(found.x[4]), rel=1e-3)


def test_the_share_of_ties_of_two_equal_methods_is_that_seen():
    """Davidson with equal worths: the chance of a tie is δ / (2 + δ), so that δ = 2 t / (n - t)."""
    ranks = np.array([[1.0, 2.0], [2.0, 1.0]] * 9 + [[1.0, 1.0]] * 2)
    assert fit_worths(Rankings.of(ranks)).ties[2] == pytest.approx(2 * 2 / 18, rel=1e-8)


def test_replicates_without_ties_and_of_ties_alone(ranks):
    """A replicate that drew no tie has the worths of the rankings without ties; δ stays finite in all."""
    rankings = Rankings.of(ranks)
    tied = np.array([len(set(row[~np.isnan(row)])) < (~np.isnan(row)).sum() for row in ranks])
    weights = np.stack([(~tied).astype(float), tied.astype(float), np.eye(len(ranks))[7]])
    found = refit(rankings, weights)
    assert np.isfinite(found).all()
    alone = fit_worths(Rankings.of(ranks[~tied]))
    np.testing.assert_allclose(centred(found[:1], 4)[0], alone.log_worths, atol=1e-5)
    assert (np.exp(found[0, 4:]) < 1e-6).all()
    assert np.exp(found[2, 4]) > 1e6, "the one ranking left is a tie of two"


def test_slopes_by_finite_differences(ranks):
    rankings = Rankings.of(ranks)
    theta = np.random.default_rng(1).normal(size=6)
    found = scores(rankings, theta)
    for place in range(len(ranks)):
        weights = np.zeros((1, len(ranks)))
        for number in range(6):
            step = np.zeros((1, 6))
            step[0, number] = 1e-6
            weights[0, place] = 1
            change = log_likelihood(rankings, theta + step, weights) - log_likelihood(rankings, theta - step, weights)
            weights[0, place] = 0  # the ghost's part alone
            ghost = log_likelihood(rankings, theta + step, weights) - log_likelihood(rankings, theta - step, weights)
            assert found[place, number] == pytest.approx((change - ghost)[0] / 2e-6, abs=1e-7)


def test_weights_are_repetitions(ranks):
    times = np.array([2, 0, 1, 3, 1, 0, 1, 2, 1, 1])
    whole = Rankings.of(ranks)
    repeated = fit_worths(Rankings.of(np.repeat(ranks, times, axis=0)))
    found = refit(whole, np.stack([np.ones(10), times.astype(float)]))
    np.testing.assert_allclose(found[0], fit_worths(whole).parameters, atol=1e-9)
    np.testing.assert_allclose(centred(found, 4)[1], repeated.log_worths, atol=1e-8)


def test_influence_is_what_a_little_weight_changes(ranks):
    rankings = Rankings.of(ranks)
    worths = fit_worths(rankings)
    weights = np.ones((len(ranks), len(ranks))) + 1e-5 * np.eye(len(ranks))
    moved = centred(refit(rankings, weights), 4) - worths.log_worths
    np.testing.assert_allclose(worths.influence, moved / 1e-5, atol=1e-3)


def test_covariance_is_the_inverse_information_of_many_draws():
    """Where rankings are independent, influences squared sum to the covariance."""
    dice = np.random.default_rng(0)
    heights = np.array([0.5, 0.0, -0.5]) + dice.gumbel(size=(1500, 3))
    worths = fit_worths(Rankings.of((-heights).argsort(1).argsort(1) + 1.0))
    np.testing.assert_allclose(worths.log_worths, [0.5, 0, -0.5], atol=0.12)
    np.testing.assert_allclose(worths.influence.T @ worths.influence, worths.covariance, rtol=0.15, atol=5e-5)


def test_who_always_wins_is_finite_and_ahead():
    worths = fit_worths(Rankings.of(np.tile([1.0, 2.0, 3.0], (60, 1))))
    assert np.isfinite(worths.log_worths).all()
    assert worths.log_worths[0] > worths.log_worths[1] > worths.log_worths[2]
    assert (np.diag(worths.covariance) > 0.1).all(), "rankings that are all alike are not certain"
    always = fit_worths(Rankings.of(np.ones((20, 3))))
    np.testing.assert_allclose(always.log_worths, 0, atol=1e-9)
    assert np.isfinite(always.ties[3])


def test_names_do_not_matter(ranks):
    order = [2, 0, 3, 1]
    np.testing.assert_allclose(
        fit_worths(Rankings.of(ranks[:, order])).log_worths, fit_worths(Rankings.of(ranks)).log_worths[order], atol=1e-9
    )


def test_what_is_no_choice_adds_nothing():
    plain = Rankings.of(np.array([[1.0, 2.0], [2.0, 1.0], [NAN, 1.0]]))
    assert plain.counts.sum() == 2
    np.testing.assert_allclose(fit_worths(plain).log_worths, 0, atol=1e-12)


def test_a_thousand_refits_are_fast(ranks):
    import time

    many = Rankings.of(np.tile(ranks, (18, 1)))
    weights = np.random.default_rng(0).multinomial(180, np.ones(180) / 180, size=1000).astype(float)
    began = time.process_time()
    assert np.isfinite(refit(many, weights)).all()
    assert time.process_time() - began < 2


def test_refused():
    with pytest.raises(ShapeError, match="infinity"):
        Rankings.of(np.array([[1.0, np.inf]]))
    with pytest.raises(UnsupportedError, match="Ask people to rank fewer methods"):
        Rankings.of(np.array([[1.0] * 12 + [2.0] * 12, [1.0] * 10 + [2.0] * 14]))
