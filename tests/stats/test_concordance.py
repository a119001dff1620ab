"""Agreement against examples that are worked out in print or here by hand."""

import numpy as np
import pytest

from didact.errors import OptionError, ShapeError
from didact.stats.concordance import kendall_w, krippendorff_alpha

N = np.nan
# Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), section C: 4 observers, 12 units.
OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
        [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
    ]
)


@pytest.mark.parametrize(("metric", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_as_printed(metric, alpha):
    assert krippendorff_alpha(OBSERVERS, metric=metric) == pytest.approx(alpha, abs=5e-4)


def test_alpha_by_hand():
    """Two observers, units (1,1), (1,2), (2,2): coincidences 2, 1, 1, 2; totals 3, 3 of 6.

    Observed disagreement 2/6; expected 2·3·3/(6·5) = 0.6; α = 1 − (1/3)/0.6 = 4/9.
    """
    assert krippendorff_alpha(np.array([[1.0, 1, 2], [1, 2, 2]]), metric="nominal") == pytest.approx(4 / 9)


def test_alpha_of_agreement_and_of_opposites():
    same = np.array([[1.0, 2, 3], [1, 2, 3]])
    for metric in ("nominal", "ordinal", "interval"):
        assert krippendorff_alpha(same, metric=metric) == pytest.approx(1)
        assert krippendorff_alpha(np.array([[1.0, 2], [2, 1]]), metric=metric) < 0


def test_alpha_does_not_know_who_or_what_came_first():
    dice = np.random.default_rng(0)
    for metric in ("nominal", "ordinal", "interval"):
        shuffled = OBSERVERS[dice.permutation(4)][:, dice.permutation(12)]
        assert krippendorff_alpha(shuffled, metric=metric) == pytest.approx(
            krippendorff_alpha(OBSERVERS, metric=metric)
        )


def test_ordinal_reads_the_order_alone():
    assert krippendorff_alpha(OBSERVERS**3, metric="ordinal") == pytest.approx(
        krippendorff_alpha(OBSERVERS, metric="ordinal")
    )


@pytest.mark.parametrize("values", [[[1.0, 2.0]], [[1.0, N], [N, 2.0]], [[1.0, 1.0], [1.0, 1.0]], [[N, N], [N, N]]])
def test_alpha_of_nothing(values):
    assert np.isnan(krippendorff_alpha(np.array(values), metric="nominal"))


def test_w_by_hand():
    """Three people, four methods: sums of ranks 4, 6, 9, 11, mean 7.5, S = 2·12.25 + 2·2.25 = 29; W = 12·29/(9·60)."""
    ranks = np.array([[1.0, 2, 3, 4], [1, 3, 2, 4], [2, 1, 4, 3]])
    assert kendall_w(ranks) == pytest.approx(12 * 29 / 540)


def test_w_with_ties_by_hand():
    """Ranks 1, 2, 3 and, tied, 1.5, 1.5, 3: sums 2.5, 3.5, 6, mean 4, S = 2.25 + 0.25 + 4 = 6.5.

    One tie of two: T = 2³ − 2 = 6. W = 12·6.5 / (4·24 − 2·6) = 78/84.
    """
    assert kendall_w(np.array([[1.0, 2, 3], [1, 1, 3]])) == pytest.approx(78 / 84)


def test_w_of_friends_strangers_and_nobody():
    assert kendall_w(np.tile([1.0, 2, 2, 4], (5, 1))) == pytest.approx(1)
    assert kendall_w(np.array([[1.0, 2, 3], [3, 2, 1]])) == pytest.approx(0)
    for few in (np.array([[1.0, 2, 3]]), np.ones((3, 1)), np.ones((3, 3))):
        assert np.isnan(kendall_w(few))


def test_w_is_friedman_over_its_most():
    from scipy import stats

    ranks = np.random.default_rng(0).integers(1, 5, (6, 5)).astype(float)
    statistic = stats.friedmanchisquare(*ranks.T).statistic
    assert kendall_w(ranks) == pytest.approx(statistic / (6 * 4))


def test_refused():
    with pytest.raises(OptionError, match="nominal, ordinal, interval"):
        krippendorff_alpha(OBSERVERS, metric="ratio")
    with pytest.raises(ShapeError, match="same methods"):
        kendall_w(np.array([[1.0, N], [1, 2]]))
