"""What target normalisation does to explanations: entropies, ranks and signs, against closed forms."""

import numpy as np
import pytest

from didact.core.padded import padded_units
from didact.results.explanations import Explanations
from didact.results.target_normalisation import ENTROPY_SHARE
from didact.results.target_transform import TargetTransform
from didact.results.temperature import apply_temperature, mean_entropy, row_entropies
from didact.results.variants import UNMARKED

ENTROPY = TargetTransform("entropy", ENTROPY_SHARE)
RANKS = TargetTransform("ranks", ENTROPY_SHARE)


def maps(rows, kind="magnitude"):
    """Explanations with these scores, one word per unit."""
    counts = [len(row) for row in rows]
    words = [[f"w{number}" for number in range(count)] for count in counts]
    starts = [np.cumsum([0, *(len(word) + 1 for word in row)])[:-1] for row in words]
    spans = [
        (start, start + len(word))
        for row, at in zip(words, starts, strict=True)
        for start, word in zip(at, row, strict=True)
    ]
    units = sum(counts)
    return Explanations(
        method="made", kind=kind, options={}, task="classification", classes=("a", "b"), teacher="t",
        fingerprints={}, ids=tuple(f"r{number}" for number in range(len(rows))),
        texts=tuple((" ".join(row),) for row in words), bounds=np.cumsum([0, *counts]),
        tokens=tuple(word for row in words for word in row), segments=np.zeros(units, dtype=int),
        word_index=np.concatenate([np.arange(count) for count in counts]).astype(int),
        offsets=np.array(spans).reshape(-1, 2), scores=np.concatenate([np.asarray(row, dtype=float) for row in rows]),
        targets=("a",) * len(rows), predictions=("a",) * len(rows), residuals=np.full(len(rows), np.nan),
    )  # fmt: skip


def drawn(kind, seed=0):
    """Rows of three lengths; profiles of very different sharpness by kind."""
    random = np.random.default_rng(seed)
    rows = [random.normal(0, 1, count) for count in (5, 12, 20)]
    make = {
        "signed": lambda row: row,
        "magnitude": lambda row: np.abs(row) ** 6,
        "distribution": lambda row: np.exp(row / 10) / np.exp(row / 10).sum(),
        "binary": lambda row: (row >= np.sort(row)[-2]).astype(float),
    }[kind]
    return maps([make(row) for row in rows], kind)


@pytest.mark.parametrize("kind", ["signed", "magnitude", "distribution", "binary"])
def test_matched_rows_have_the_same_entropy_whatever_they_had(kind):
    before, after = drawn(kind), ENTROPY.apply(drawn(kind))
    wanted = ENTROPY_SHARE * np.log(np.diff(before.bounds))
    np.testing.assert_allclose(row_entropies(np.abs(after.scores), after.bounds), wanted, atol=1e-9)
    assert abs(mean_entropy(after) - wanted.mean()) < 1e-9
    assert kind == "binary" or abs(mean_entropy(before) - wanted.mean()) > 0.05
    # Students receive exactly this, as distributions.
    sent = padded_units(after).as_distribution().numpy()
    np.testing.assert_allclose(sent[sent > 0], np.abs(after.scores), atol=1e-12)


def test_matched_keeps_the_order_of_each_row():
    before = drawn("magnitude")
    after = ENTROPY.apply(before)
    for start, end in zip(before.bounds[:-1], before.bounds[1:], strict=True):
        np.testing.assert_array_equal(np.argsort(before.scores[start:end]), np.argsort(after.scores[start:end]))


def test_matched_marks_have_two_levels_whose_entropy_solves_the_equation():
    """For m marked of n: with share q on the marks, H = −q log(q/m) − (1−q) log((1−q)/(n−m))."""
    after = ENTROPY.apply(maps([[1, 0, 0, 0, 0, 0, 1, 0]], "binary"))
    high, low = after.scores[0], after.scores[1]
    assert after.kind == "distribution"
    np.testing.assert_allclose(after.scores, np.where(np.arange(8) % 6 == 0, high, low))
    assert 2 * high + 6 * low == pytest.approx(1)
    assert -2 * high * np.log(high) - 6 * low * np.log(low) == pytest.approx(ENTROPY_SHARE * np.log(8))


def test_an_entropy_that_ties_do_not_allow_becomes_the_closest_possible():
    after = ENTROPY.apply(maps([[2, 2, 2, 2, 2, 1], [3, 3, 3], [0, 0]]))
    np.testing.assert_allclose(after.scores[:6], [0.2] * 5 + [0], atol=1e-12)
    np.testing.assert_allclose(after.scores[6:], [1 / 3] * 3 + [1 / 2] * 2)


@pytest.mark.parametrize("temperature", [4.0, 0.25])
def test_a_temperature_is_the_power_of_the_shares_with_their_signs(temperature):
    before = drawn("signed")
    after = TargetTransform("temperature", temperature).apply(before)
    assert after.kind == "signed"
    np.testing.assert_array_equal(np.sign(after.scores), np.sign(before.scores))
    for start, end in zip(before.bounds[:-1], before.bounds[1:], strict=True):
        power = np.abs(before.scores[start:end]) ** (1 / temperature)
        np.testing.assert_allclose(np.abs(after.scores[start:end]), power / power.sum(), rtol=1e-9)


def test_temperature_1_changes_nothing_but_marks():
    same = TargetTransform("temperature", 1.0)
    for kind in ("signed", "magnitude", "distribution"):
        before = drawn(kind)
        assert same.apply(before) is before
    marks = same.apply(maps([[1, 0, 0]], "binary"))
    np.testing.assert_allclose(marks.scores, np.array([1, UNMARKED, UNMARKED]) / (1 + 2 * UNMARKED))


class TestRanks:
    def test_the_profile_is_a_power_of_the_rank_with_the_given_entropy(self):
        shares = np.sort(RANKS.apply(drawn("magnitude")).scores[5:17])[::-1]
        exponents = -np.diff(np.log(shares)) / np.diff(np.log(np.arange(1, 13)))
        np.testing.assert_allclose(exponents, exponents[0])
        assert -(shares * np.log(shares)).sum() == pytest.approx(ENTROPY_SHARE * np.log(12))

    @pytest.mark.parametrize("kind", ["signed", "magnitude", "distribution"])
    def test_tempering_and_scaling_are_undone_to_the_byte(self, kind):
        before = drawn(kind)
        wanted = RANKS.apply(before)
        scaled = before.derive(scores=before.scores * 7.3)
        assert RANKS.apply(scaled).scores.tobytes() == wanted.scores.tobytes()
        for temperature in (4.0, 0.5, 0.25):
            copy = TargetTransform("temperature", temperature).apply(before)
            assert RANKS.apply(copy).scores.tobytes() == wanted.scores.tobytes()
        unsigned = RANKS.apply(apply_temperature(before, 0.5)).scores
        assert unsigned.tobytes() == np.abs(wanted.scores).tobytes()

    def test_ties_share_their_mean(self):
        plain = RANKS.apply(maps([[5, 4, 3, 2]])).scores
        np.testing.assert_allclose(RANKS.apply(maps([[2, 7, 0, 2]])).scores, [*[plain[1:3].mean()], plain[0], plain[3],
                                                                            plain[1:3].mean()])  # fmt: skip
        marks = RANKS.apply(maps([[1, 0, 1, 0]], "binary")).scores
        np.testing.assert_allclose(marks, [plain[:2].mean(), plain[2:].mean()] * 2)
        np.testing.assert_allclose(RANKS.apply(maps([[0, 0, 0], [1]])).scores, [1 / 3] * 3 + [1])

    def test_rounding_decides_no_rank(self):
        exact, rounded = maps([[1.0, 1.0, 3.0]]), maps([[1.0, 1.0 + 1e-9, 3.0]])
        np.testing.assert_array_equal(RANKS.apply(exact).scores, RANKS.apply(rounded).scores)


def test_rows_without_units_stay_empty():
    ragged = maps([[1.0, 2.0], [], [3.0]])
    for transform in (ENTROPY, RANKS, TargetTransform("temperature", 0.5)):
        assert transform.apply(ragged).scores.shape == (3,)
