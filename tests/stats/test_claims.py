"""One rule: what is claimed, what p says and where the interval lies never contradict each other."""

import numpy as np
import pytest

from didact.errors import OptionError
from didact.results.contrast import Contrast
from didact.stats.claims import ALPHA, ONE_SEED, claims, holm


def contrast(difference, *, se=0.01, df=20.0, seeds=8):
    return Contrast(difference, se, df, seeds, 1000)


def families(count=400):
    """Families of any size, many of their p-values close to the thresholds."""
    dice = np.random.default_rng(0)
    for _ in range(count):
        size = int(dice.integers(1, 9))
        yield [
            contrast(dice.normal(0, 0.03), se=dice.choice([0.0, 0.008, 0.012]), df=dice.uniform(1, 50))
            for _ in range(size)
        ]


def test_claimed_p_and_interval_are_one_statement_always():
    seen = set()
    for family in families():
        for claim in claims(family):
            excludes = claim.low > 0 or claim.high < 0
            assert claim.claimed == (claim.p < ALPHA) == excludes
            seen.add(claim.claimed)
    assert seen == {True, False}


def test_p_is_holms():
    for family in families(50):
        assert [claim.p for claim in claims(family)] == holm([one.p for one in family])


def test_levels_follow_the_steps_and_stop_at_the_first_failure():
    """Sorted: two clear ones, a failure, and one that its own step would let through: it keeps the failed step's."""
    family = [contrast(0.03), contrast(0.022), contrast(0.2), contrast(0.021)]
    found = claims(family)
    assert [claim.claimed for claim in found] == [True, False, True, False]
    assert [1 - claim.level for claim in found] == pytest.approx([0.05 / 3, 0.05 / 2, 0.05 / 4, 0.05 / 2])
    assert family[1].p < 0.05  # alone it would be claimed
    assert claims([family[1]])[0].claimed


def test_directions():
    up, down = claims([contrast(0.2), contrast(-0.2)])
    assert (up.is_above, up.is_below, down.is_above, down.is_below) == (True, False, False, True)


def test_one_seed_claims_nothing_and_takes_no_share_of_the_level():
    one, two = claims([contrast(0.9, seeds=1), contrast(0.022)])
    assert (one.p, one.low, one.high, one.claimed, one.reason) == (None, None, None, False, ONE_SEED)
    assert (two.claimed, two.level) == (True, pytest.approx(0.95))
    assert claims([contrast(0.9, seeds=1)], over_seeds=False)[0].claimed  # about rows alone


def test_another_alpha():
    assert not claims([contrast(0.022)], alpha=0.01)[0].claimed
    with pytest.raises(OptionError, match="alpha"):
        claims([], alpha=0.0)
