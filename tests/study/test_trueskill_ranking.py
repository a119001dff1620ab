"""TrueSkill against games worked by hand, from the closed forms of Herbrich et al. (2007)."""

import builtins
from math import erf, exp, pi, sqrt

import pytest
from scipy.stats import norm

from didact.errors import MissingExtraError
from didact.results.study_analysis import Skill
from didact.study.trueskill_ranking import _ranks, skills

pytest.importorskip("trueskill")
BETA, TAU, SIGMA, DRAW = 25 / 6, 25 / 300, 0.5, 0.1


def density(x):
    return exp(-x * x / 2) / sqrt(2 * pi)


def cumulative(x):
    return (1 + erf(x / sqrt(2))) / 2


def game(first, second, *, is_draw):
    """Two players (μ, σ²) after a game that the first one won, or that was drawn. Skills move by τ before it."""
    (m1, v1), (m2, v2) = ((mu, variance + TAU**2) for mu, variance in (first, second))
    c = sqrt(2 * BETA**2 + v1 + v2)
    margin = norm.ppf((DRAW + 1) / 2) * sqrt(2) * BETA / c
    t = (m1 - m2) / c
    if is_draw:
        low, high = -margin - t, margin - t
        mass = cumulative(high) - cumulative(low)
        v = (density(low) - density(high)) / mass
        w = v * v + (high * density(high) - low * density(low)) / mass
    else:
        v = density(t - margin) / cumulative(t - margin)
        w = v * (v + t - margin)
    return (
        (m1 + v1 / c * v, v1 * (1 - v1 / c**2 * w)),
        (m2 - v2 / c * v, v2 * (1 - v2 / c**2 * w)),
    )


def test_a_win_and_a_draw_by_hand():
    start = (0.0, SIGMA**2)
    won, lost = game(start, start, is_draw=False)
    # The first game in numbers: σ² + τ² = 0.256944, c = √(2β² + 2·0.256944) = 5.93600, margin 0.12474, and
    # v = φ(−0.12474)/Φ(−0.12474) = 0.87896.
    assert won[0] == pytest.approx(0.256944 / 5.93600 * 0.87896, rel=1e-4)
    second, first = game(lost, won, is_draw=True)
    found = {one.method: one for one in skills([{"a": 1, "b": 2}, {"b": 1, "a": 1}], ["a", "b"], shuffles=0)}
    for name, (mu, variance) in (("a", first), ("b", second)):
        assert found[name].mu == pytest.approx(mu, abs=1e-6)
        assert found[name].sigma == pytest.approx(sqrt(variance), abs=1e-6)
        assert found[name].low == pytest.approx(mu - 1.959964 * sqrt(variance), abs=1e-5)


def test_order_matters_and_its_mean_over_shuffles_does_not():
    games = [{"a": 1, "b": 2}] * 10 + [{"a": 2, "b": 1}] * 10
    forward, back = (skills(one, ["a", "b"], seed=1) for one in (games, games[::-1]))
    of_a = [{one.method: one for one in found}["a"] for found in (forward, back)]
    assert of_a[0].mu < 0 < of_a[1].mu, "late games count more"
    assert all(abs(one.shuffled) < 2 * one.spread + 0.05 for one in of_a)
    assert forward == skills(games, ["a", "b"], seed=1)


def test_ranks_of_the_paper():
    """SMaT, Table 4: 4.3 ± .70, 0.7, −2.1 and −2.7 ± .67 give ranks 1, 2 and twice 3."""
    found = _ranks({"gi": (-2.7, 0.67), "ig": (-2.1, 0.67), "all": (0.7, 0.67), "smat": (4.3, 0.70)})
    assert found == {"smat": 1, "all": 2, "ig": 3, "gi": 3}


def test_ranks_go_by_whole_intervals():
    """±0.98 each: b overlaps a, c does not overlap a any more, and d overlaps c, which begins a rank."""
    found = _ranks({"a": (0.0, 0.5), "b": (-1.5, 0.5), "c": (-2.0, 0.5), "d": (-3.5, 0.5)})
    assert found == {"a": 1, "b": 1, "c": 3, "d": 3}


def test_three_methods_ties_and_pages_with_fewer():
    found = skills([{"a": 1, "b": 1, "c": 3}, {"a": 1, "c": 2}, {"b": 1}], ["a", "b", "c"], shuffles=3)
    assert [one.method for one in found] == ["a", "b", "c"]
    assert all(isinstance(one, Skill) for one in found)
    assert skills([], ["a", "b"])[0].mu == 0


def test_refused(monkeypatch):
    kept = builtins.__import__

    def without(name, *rest, **more):
        if name == "trueskill":
            raise ImportError(name)
        return kept(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r'pip install "didact\[study\]"'):
        skills([{"a": 1, "b": 2}], ["a", "b"])
