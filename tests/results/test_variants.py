"""Variants of explanations: what each one keeps, and what it changes, against closed forms and literal loops."""

from dataclasses import replace

import numpy as np
import pytest

from didact.errors import OptionError
from didact.results import variants
from didact.results.explanations import Explanations
from scored import maps_of

RNG = np.random.default_rng(7)
ROWS = [RNG.normal(size=20).round(2) for _ in range(64)]
SIGNED = maps_of(*ROWS)
MAGNITUDE = maps_of(*[np.abs(row) for row in ROWS], kind="magnitude")
DISTRIBUTION = maps_of(*[np.abs(row) / np.abs(row).sum() for row in ROWS], kind="distribution")
MARKS = maps_of(*[row > 1 for row in ROWS], kind="binary")
EVERY = {"signed": SIGNED, "magnitude": MAGNITUDE, "distribution": DISTRIBUTION, "binary": MARKS}
UNEVEN = maps_of([], [0.0, 0.0], [3.0], [-1.0, 2.0, 2.0, 0.0])


def by_row(maps):
    return [one.scores for one in maps]


def changed(before, after):
    return [set(np.flatnonzero(one != other)) for one, other in zip(by_row(before), by_row(after), strict=True)]


def written(maps):
    """The columns, checked again as when they are loaded."""
    return replace(maps)


class TestDegraded:
    @pytest.mark.parametrize("kind", ["signed", "magnitude", "distribution"])
    @pytest.mark.parametrize("by", ["units", "rows"])
    def test_scores_of_a_row_stay_as_a_multiset(self, kind, by):
        maps = EVERY[kind]
        after = written(variants.degraded(maps, 0.4, by=by))
        assert (after.kind, after.ids) == (maps.kind, maps.ids)
        assert [sorted(row) for row in by_row(after)] == [sorted(row) for row in by_row(maps)]
        assert not np.array_equal(after.scores, maps.scores)

    def test_no_share_is_the_base(self):
        after = variants.degraded(SIGNED, 0.0)
        np.testing.assert_array_equal(after.scores, SIGNED.scores)
        np.testing.assert_array_equal(variants.degraded(SIGNED, 0, by="rows").scores, SIGNED.scores)

    @pytest.mark.parametrize("share", [0.03, 0.05, 0.1, 0.12, 0.4, 1.0])
    def test_a_share_of_the_units_moves(self, share):
        """Distinct scores, so that each unit of the cycle changes; the mean over rows and seeds is the share."""
        maps = maps_of(*[np.arange(1.0, 21.0)] * 32)
        moved = [len(row) for seed in range(8) for row in changed(maps, variants.degraded(maps, share, seed=seed))]
        assert 1 not in moved
        assert np.mean(moved) / 20 == pytest.approx(share, abs=4 * np.std(moved) / 20 / np.sqrt(len(moved)) + 1e-12)
        assert max(moved) - min(moved) <= 2

    @pytest.mark.parametrize("by", ["units", "rows"])
    def test_larger_shares_move_the_same_and_more(self, by):
        maps, before = maps_of(*[np.arange(1.0, 21.0)] * 64), [set()] * 64
        for share in (0.02, 0.05, 0.1, 0.2, 0.25, 0.4, 0.75, 1.0):
            after = changed(maps, variants.degraded(maps, share, by=by))
            assert all(one <= other for one, other in zip(before, after, strict=True))
            before = after
        assert all(len(row) == 20 for row in before), "no unit keeps its score at last"

    def test_a_share_of_the_rows_moves_whole(self):
        maps = maps_of(*[np.arange(1.0, 9.0)] * 400)
        moved = [len(row) for row in changed(maps, variants.degraded(maps, 0.25, by="rows"))]
        assert set(moved) == {0, 8}
        assert np.mean(np.array(moved) > 0) == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 400))
        whole = variants.degraded(maps, 1.0, by="rows").scores
        np.testing.assert_array_equal(whole, variants.degraded(maps, 1.0).scores)

    def test_draws_depend_on_seed_and_id_alone(self):
        after = variants.degraded(SIGNED, 0.5, seed=3)
        order = RNG.permutation(64)
        np.testing.assert_array_equal(
            variants.degraded(SIGNED.select(order), 0.5, seed=3).scores, after.select(order).scores
        )
        assert not np.array_equal(variants.degraded(SIGNED, 0.5, seed=4).scores, after.scores)
        others = replace(SIGNED, ids=tuple(f"other {name}" for name in SIGNED.ids))
        assert not np.array_equal(variants.degraded(others, 0.5, seed=3).scores, after.scores)

    def test_the_same_words_move_whatever_follows_or_is_special(self):
        """The order of a text's units is that of draws for their first characters."""
        whole, cut = maps_of(np.arange(1.0, 21.0)), maps_of(np.arange(1.0, 13.0))
        orders = [variants._draw_order(maps, slice(0, None), "r0", 0) for maps in (whole, cut)]
        np.testing.assert_array_equal([unit for unit in orders[0] if unit < 12], orders[1])

    def test_a_draw_belongs_to_the_character_a_unit_starts_at(self):
        """Units of another tokenizer that start at the same characters come in the same order."""
        words, pieces = maps_of([1.0] * 10), maps_of([1.0] * 19)
        pieces = replace(pieces, texts=words.texts, offsets=np.array([[at, at + 1] for at in range(19)]))
        for seed in range(5):
            orders = [variants._draw_order(maps, slice(0, None), "r0", seed) for maps in (words, pieces)]
            assert [2 * unit for unit in orders[0].tolist()] == [unit for unit in orders[1].tolist() if unit % 2 == 0]

    def test_rows_without_another_unit_stay(self):
        after = variants.degraded(UNEVEN, 1.0)
        assert by_row(after)[2].tolist() == [3.0]
        assert by_row(after)[0].tolist() == []

    def test_refusals(self):
        for share in (-0.1, 1.1, float("nan")):
            with pytest.raises(OptionError, match="at least 0 and at most 1"):
                variants.degraded(SIGNED, share)
        with pytest.raises(OptionError, match="'units' or 'rows'"):
            variants.degraded(SIGNED, 0.5, by="words")


THE_SAME = {
    "sharper": lambda maps: variants.tempered(maps, 0.25),
    "flatter": lambda maps: variants.tempered(maps, 4),
    "zipf": variants.ranked,
    "linear": lambda maps: variants.ranked(maps, "linear"),
    "scaled": lambda maps: variants.scaled(maps, 0.3),
}


class TestWhatSaysTheSame:
    """Tempering, ranks and a factor change no order, no sign and no kind."""

    @pytest.mark.parametrize("kind", EVERY)
    @pytest.mark.parametrize("name", THE_SAME)
    def test_order_signs_ties_and_kind_stay(self, name, kind):
        base, after = EVERY[kind], written(THE_SAME[name](EVERY[kind]))
        assert after.kind == ("magnitude" if kind == "binary" and name != "scaled" else kind)
        np.testing.assert_array_equal(np.sign(after.scores[base.scores != 0]), np.sign(base.scores[base.scores != 0]))
        for before, row in zip(by_row(base), by_row(after), strict=True):
            for first, second in ((before, row), (np.abs(before), np.abs(row))):
                order, order_after = (np.sign(scores[:, None] - scores) for scores in (first, second))
                np.testing.assert_array_equal(order, order_after, err_msg="every pair, ties too")

    @pytest.mark.parametrize("t", [0.25, 0.5, 1.0, 4.0])
    def test_temperature_in_closed_form(self, t):
        for kind in ("signed", "magnitude", "distribution"):
            for before, after in zip(by_row(EVERY[kind]), by_row(variants.tempered(EVERY[kind], t)), strict=True):
                power = (np.abs(before) / np.abs(before).sum()) ** (1 / t)
                np.testing.assert_allclose(after, np.sign(before) * power / power.sum(), rtol=1e-9, atol=1e-15)

    def test_zeros_stay_zeros_and_tiny_scores_their_order(self):
        maps = maps_of([0.0, 1e-38, 2e-38, 4e-38], kind="magnitude")
        np.testing.assert_allclose(variants.tempered(maps, 1000.0).scores[1:], 1 / 3, rtol=1e-3)
        assert variants.tempered(maps, 1000.0).scores[0] == 0
        np.testing.assert_allclose(variants.tempered(maps, 1.0).scores, np.array([0, 1, 2, 4]) / 7)

    @pytest.mark.parametrize("profile", variants.PROFILES)
    def test_ranks_written_out(self, profile):
        maps = maps_of([0.5, -2.0, 0.5, 0.0, 1.0], [3.0])
        sizes = {"zipf": [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5], "linear": [5, 4, 3, 2, 1]}[profile]
        tied = (sizes[2] + sizes[3]) / 2
        expected = np.array([tied, -sizes[0], tied, 0.0, sizes[1]]) / (2 * tied + sizes[0] + sizes[1])
        after = by_row(variants.ranked(maps, profile))
        np.testing.assert_allclose(after[0], expected)
        assert after[1].tolist() == [1.0]

    def test_a_factor_leaves_what_has_no_scale(self):
        np.testing.assert_allclose(variants.scaled(SIGNED, 3).scores, 3 * SIGNED.scores)
        for maps in (DISTRIBUTION, MARKS):
            np.testing.assert_array_equal(variants.scaled(maps, 3).scores, maps.scores)

    def test_rows_without_scores(self):
        for change in THE_SAME.values():
            after = by_row(written(change(UNEVEN)))
            assert after[1].tolist() == [0, 0]
            assert len(after[0]) == 0

    def test_refusals(self):
        for value in (0.0, -1.0, float("inf"), float("nan")):
            with pytest.raises(OptionError, match="'t' must be a number above 0"):
                variants.tempered(SIGNED, value)
            with pytest.raises(OptionError, match="'factor' must be a number above 0"):
                variants.scaled(SIGNED, value)
        with pytest.raises(OptionError, match="smaller factor"):
            variants.scaled(maps_of([1e300]), 1e300)
        with pytest.raises(OptionError, match="'zipf' or 'linear'"):
            variants.ranked(SIGNED, "flat")


def two_texts(*scores: float, kind: str = "signed") -> Explanations:
    """A special token, a first text of four units, the last two of which are one word, and a second of two."""
    return maps_of(
        list(scores), kind=kind, task="pair", texts=(("a b cd", "e f"),), tokens=("[CLS]", *"abcdef"),
        segments=np.array([-1, 0, 0, 0, 0, 1, 1]), word_index=np.array([-1, 0, 1, 2, 2, 0, 1]),
        offsets=np.array([[0, 0], [0, 1], [2, 3], [4, 5], [5, 6], [0, 1], [2, 3]]),
    )  # fmt: skip


class TestBlurred:
    def test_means_with_neighbours_of_the_same_text(self):
        after = variants.blurred(two_texts(9.0, 3.0, 6.0, -3.0, 0.0, 1.0, 4.0)).scores
        np.testing.assert_allclose(after, [9, 4, 2, 1, -1, 2, 3])

    @pytest.mark.parametrize("kind", ["signed", "magnitude", "distribution"])
    def test_the_sum_of_a_row_stays(self, kind):
        after = written(variants.blurred(EVERY[kind]))
        np.testing.assert_allclose([row.sum() for row in by_row(after)], [row.sum() for row in by_row(EVERY[kind])])
        assert after.kind == kind

    def test_equal_scores_and_single_units_stay(self):
        np.testing.assert_allclose(variants.blurred(maps_of([2.0] * 5, [3.0], [])).scores, [2, 2, 2, 2, 2, 3])

    def test_patches_have_neighbours_in_their_row(self):
        corners = [[0, 0], [0, 8], [8, 0], [8, 8]]
        images = maps_of(
            [1.0, 4.0, 7.0, 10.0], task="image", texts=((),), offsets=np.array([[*at, at[0] + 8, at[1] + 8]
            for at in corners]),
        )  # fmt: skip
        np.testing.assert_allclose(variants.blurred(images).scores, [2, 3, 8, 9])


class TestTop:
    def test_the_strongest_words_stay_with_all_their_pieces(self):
        maps = two_texts(0.5, 1.0, -2.0, -1.5, -1.0, 0.0, 0.1)
        np.testing.assert_array_equal(variants.top(maps, 0.2).scores, [0, 0, -2, -1.5, -1, 0, 0])
        np.testing.assert_array_equal(variants.top(maps, 0.1).scores, [0, 0, 0, -1.5, -1, 0, 0])
        np.testing.assert_array_equal(variants.top(maps, 1.0).scores, maps.scores)

    def test_a_distribution_is_normalised_again(self):
        after = written(variants.top(DISTRIBUTION, 0.1))
        for before, row in zip(by_row(DISTRIBUTION), by_row(after), strict=True):
            best = np.argsort(-before, kind="stable")[:2]
            np.testing.assert_allclose(row[best], before[best] / before[best].sum())
            assert (row > 0).sum() == 2

    def test_refusals(self):
        for k in (0.0, 1.5):
            with pytest.raises(OptionError, match="above 0 and at most 1"):
                variants.top(SIGNED, k)


def test_marks_become_sizes():
    """A student receives marks as 1 against 0.001, whatever their size: a change of sizes would not reach it."""
    expected = np.where(MARKS.scores > 0, 1.0, 0.05)
    after = variants.degraded(MARKS, 0.0)
    assert after.kind == "magnitude"
    np.testing.assert_array_equal(after.scores, expected)
    assert variants.scaled(MARKS, 2.0).kind == "binary"


def test_what_else_is_stored():
    """Residuals are those of the base alone, and damage leaves no aligned spans behind."""
    pair = ((0, 0, 1), (1, 0, 1))
    maps = replace(two_texts(*range(7)), task="reading", residuals=np.array([0.1]), cautions=("few",),
                   alignments=((pair,),))  # fmt: skip
    for change in THE_SAME.values():
        after = change(maps)
        assert after.alignments == ((pair,),)
        assert after.cautions == ("few",)
        assert np.isnan(after.residuals).all()
    for after in (variants.degraded(maps, 0.5), variants.blurred(maps), variants.top(maps, 0.5)):
        assert after.alignments is None
        assert after.cautions == ("few",)
        assert np.isnan(after.residuals).all()
    assert variants.degraded(maps, 0.0).alignments == ((pair,),)
    assert maps.residuals.tolist() == [0.1]
