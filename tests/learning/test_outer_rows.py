"""Every row judges SMaT's student equally often, whatever its length, and never in the step that taught it."""

import numpy as np
import pytest

from didact.learning.outer_rows import OuterRowSampler


def inner_batches(lengths, size, draw):
    """Batches of similar length, as the student is taught."""
    order = draw.permutation(len(lengths))
    order = order[np.argsort(lengths[order], kind="stable")]
    batches = [order[at : at + size] for at in range(0, len(order), size)]
    return [batches[index] for index in draw.permutation(len(batches))]


def test_rows_of_every_length_judge_equally_often():
    lengths = np.sort(np.random.default_rng(0).integers(10, 200, 500))
    count = np.zeros(500)
    for epoch in range(1, 401):
        rows = OuterRowSampler(lengths, 32, seed=0, epoch=epoch)
        for taught in inner_batches(lengths, 32, np.random.default_rng(epoch)):
            judging = rows.take(taught)
            assert not set(judging) & set(taught)
            count[judging] += 1
    share = count / count.mean()
    for low, high in ((0, 2), (2, 5), (5, 10), (10, 25), (25, 75), (75, 90), (90, 95), (95, 98), (98, 100)):
        assert share[5 * low : 5 * high].mean() == pytest.approx(1.0, abs=0.04), (low, high)
    assert share.min() > 0.85


@pytest.mark.parametrize(("rows", "size"), [(500, 32), (33, 32), (32, 32), (100, 7), (1000, 8)])
def test_every_row_judges_once_per_pass_in_batches_of_similar_length(rows, size):
    lengths = np.random.default_rng(1).integers(10, 200, rows)
    outer = OuterRowSampler(lengths, size, seed=3, epoch=1)
    nothing = np.zeros(0, dtype=int)
    for _ in range(3):
        seen: list[int] = []
        while len(seen) < rows:
            batch = outer.take(nothing)
            assert size / 2 <= len(batch) <= size
            seen += batch.tolist()
        assert sorted(seen) == list(range(rows))
    if rows >= 4 * size:
        spreads = [np.ptp(lengths[outer.take(nothing)]) for _ in range(20)]
        assert np.mean(spreads) < 0.5 * np.ptp(lengths)


def test_taught_rows_wait_for_the_next_step():
    """With two batches of fixed lengths the outer batch is always the other one."""
    lengths = np.array([1] * 6 + [9] * 6)
    short, long = np.arange(6), np.arange(6, 12)
    for epoch in range(20):
        outer = OuterRowSampler(lengths, 6, seed=0, epoch=epoch)
        for taught, other in ((short, long), (long, short)) * 5:
            assert set(outer.take(taught)) == set(other)


def test_the_rows_of_an_epoch_depend_on_seed_and_epoch_only():
    lengths = np.arange(40)
    nothing = np.zeros(0, dtype=int)
    first, again, other = (OuterRowSampler(lengths, 8, seed=0, epoch=epoch) for epoch in (1, 1, 2))
    assert all(np.array_equal(first.take(nothing), again.take(nothing)) for _ in range(9))
    assert not np.array_equal(np.concatenate([again.take(nothing) for _ in range(5)]),
                              np.concatenate([other.take(nothing) for _ in range(5)]))  # fmt: skip
