"""Draws are what their names say, and depend on the parts alone."""

import numpy as np
import pytest

from didact.data.planted.random_stream import RandomStream


def test_the_stream_is_decided_by_the_parts():
    first, again, other = RandomStream(0, "a"), RandomStream(0, "a"), RandomStream(0, "b")
    numbers = [first.uniform() for _ in range(1_200)]  # more than two blocks
    assert numbers == [again.uniform() for _ in range(1_200)]
    assert numbers != [other.uniform() for _ in range(1_200)]
    assert len(set(numbers)) == 1_200


def test_a_sample_is_without_repetition_and_uniform():
    rng = RandomStream("sample")
    draws = [tuple(rng.sample("abcd", 2)) for _ in range(12_000)]
    assert all(first != second for first, second in draws)
    kinds, counts = np.unique(draws, axis=0, return_counts=True)
    assert len(kinds) == 12
    np.testing.assert_allclose(counts / 12_000, 1 / 12, atol=0.012)


@pytest.mark.parametrize(("low", "high"), [(0, 0), (2, 4)])
def test_between_includes_both_ends(low, high):
    rng = RandomStream("between")
    assert {rng.integer(low, high) for _ in range(300)} == set(range(low, high + 1))


def test_chance():
    rng = RandomStream("chance")
    assert not any(rng.bernoulli(0.0) for _ in range(1_000))
    assert all(rng.bernoulli(1.0) for _ in range(1_000))
    assert abs(np.mean([rng.bernoulli(0.2) for _ in range(20_000)]) - 0.2) < 0.01
