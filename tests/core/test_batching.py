"""Batches of rows of similar length: the orders, literally, and that every row comes once."""

import numpy as np
import pytest
import torch

from didact.core.batching import (
    area_batches,
    length_batches,
    length_buckets,
    longest_first,
    row_batches,
    shuffled_batches,
    text_lengths,
)
from didact.core.row import Row


@pytest.fixture(params=range(6))
def lengths(request):
    dice = np.random.default_rng(request.param)
    return dice.integers(1, (3, 12, 60)[request.param % 3], size=(1, 40, 333)[request.param // 2])


def as_lists(batches):
    return [batch.tolist() for batch in batches]


def test_text_lengths():
    rows = (Row("a", ("ab", "c")), Row("b", ("",)), Row("c", ("abcd",)))
    assert text_lengths(rows).tolist() == [3, 0, 4]
    assert text_lengths(()).tolist() == []
    assert row_batches(rows, 2) == [[2, 0], [1]]


def test_longest_first(lengths):
    expected = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    assert longest_first(lengths).tolist() == expected
    assert longest_first(torch.from_numpy(lengths)).tolist() == expected


@pytest.mark.parametrize("size", [1, 7, 64])
def test_length_batches(lengths, size):
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    expected = [order[start : start + size] for start in range(0, len(order), size)]
    assert as_lists(length_batches(lengths, size)) == expected


@pytest.mark.parametrize("size", [1, 7, 64])
def test_length_buckets(lengths, size):
    expected, group = [], []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        is_shorter = bool(group) and lengths[index] <= 0.9 * lengths[group[0]]
        if len(group) == size or (is_shorter and 4 * len(group) >= size):
            expected.append(group)
            group = []
        group.append(index)
    assert as_lists(length_buckets(lengths, size)) == [*expected, group]
    assert list(length_buckets(lengths[:0], size)) == []


def test_area_batches(lengths):
    batches = list(area_batches(lengths, 1000))
    assert np.concatenate(batches).tolist() == longest_first(lengths).tolist()
    assert all(len(batch) == 1 or len(batch) * lengths[batch].max() ** 2 <= 1000 for batch in batches)
    assert all((len(batch) + 1) * lengths[batch].max() ** 2 > 1000 for batch in batches[:-1])


def test_training_batches(lengths):
    """Windows of sixteen batches, sorted by length, cut, shuffled again."""
    draw = np.random.default_rng(5)
    order, expected = draw.permutation(len(lengths)), []
    for start in range(0, len(order), 16 * 3):
        near = order[start : start + 16 * 3]
        near = near[np.argsort(lengths[near], kind="stable")]
        expected += [near[at : at + 3].tolist() for at in range(0, len(near), 3)]
    expected = [expected[index] for index in draw.permutation(len(expected))]
    assert as_lists(shuffled_batches(lengths, 3, np.random.default_rng(5), window=16)) == expected


def test_even_batches(lengths):
    draw = np.random.default_rng(5)
    expected = []
    for near in np.array_split(draw.permutation(len(lengths)), -(-len(lengths) // 28)):
        near = near[np.argsort(lengths[near], kind="stable")]
        expected += as_lists(np.array_split(near, -(-len(near) // 7)))
    expected = [expected[index] for index in draw.permutation(len(expected))]
    found = as_lists(shuffled_batches(lengths, 7, np.random.default_rng(5), window=4, is_even=True))
    assert found == expected
    assert sorted(np.concatenate(found)) == list(range(len(lengths)))
