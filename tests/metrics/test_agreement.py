"""Agreement between methods: against scipy, against definitions written out pair by pair, and by hand."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from didact.errors import OptionError, RequestError, ShapeError, UnknownNameError
from didact.metrics import agreement as module
from didact.metrics.agreement import (
    AGREEMENT,
    agreement,
    kendall,
    parse_measure,
    pearson,
    resolve_by,
    sign,
    spearman,
    top_overlap,
    top_tau,
    weighted_tau,
)
from didact.results.row_explanation import top_count
from scored import maps_of

NAN = float("nan")


def ragged(seed, methods=4, rows=12, *, ties=True):
    """Scores of several methods on rows of 1 to 9 units."""
    dice = np.random.default_rng(seed)
    counts = dice.integers(1, 10, size=rows)
    draw = (lambda n: dice.integers(-3, 4, size=n)) if ties else (lambda n: dice.normal(size=n))
    return [maps_of(*[draw(count) for count in counts], method=f"m{number}") for number in range(methods)]


def slow(maps, pair):
    """`pair` of every two methods on every row, one after another."""
    return np.array(
        [[[pair(one[row].scores, two[row].scores) for two in maps] for one in maps] for row in range(len(maps[0]))]
    )


# -- definitions, written out -----------------------------------------------------------------------------------------


def varies(scores):
    return len(set(scores.tolist())) > 1


def slow_kendall(first, second):
    pairs = [
        (np.sign(first[i] - first[j]), np.sign(second[i] - second[j])) for i, j in combinations(range(len(first)), 2)
    ]
    scale = sum(a != 0 for a, _ in pairs) * sum(b != 0 for _, b in pairs)
    return sum(a * b for a, b in pairs) / np.sqrt(scale) if scale else NAN


def highest(scores, k):
    """Unit numbers of the k highest, best first; of equal ones the first."""
    return sorted(range(len(scores)), key=lambda unit: (-scores[unit], unit))[:k]


def slow_overlap(first, second, k):
    size = top_count(k, len(first))
    if size >= len(first) or not varies(first) or not varies(second):
        return NAN
    return len(set(highest(first, size)) & set(highest(second, size))) / size


def fagin(first, second, p):
    """K^(p) of two lists, by the four cases of Fagin et al. 2003; a list is {unit: score}. Ties as in 2004."""
    found = 0.0
    for i, j in combinations(sorted(first.keys() | second.keys()), 2):
        a = [unit for unit in (i, j) if unit in first]
        b = [unit for unit in (i, j) if unit in second]
        if len(a) == 2 and len(b) == 2:
            one, two = np.sign(first[i] - first[j]), np.sign(second[i] - second[j])
            found += p if (one == 0) != (two == 0) else one * two < 0
        elif {len(a), len(b)} == {1, 2}:
            whole, (only,) = (first, b) if len(a) == 2 else (second, a)
            other = j if only == i else i
            found += p if whole[only] == whole[other] else whole[only] < whole[other]
        elif len(a) == 2 or len(b) == 2:
            whole = first if len(a) == 2 else second
            found += p * (whole[i] != whole[j])
        else:
            found += 1
    return found


def farthest(units, k, p):
    """The largest K^(p) there is, found by trying all lists of k units."""
    from itertools import permutations

    first = {unit: -float(unit) for unit in range(k)}
    return max(
        fagin(first, {unit: -float(place) for place, unit in enumerate(order)}, p)
        for order in permutations(range(units), k)
    )


def slow_top_tau(first, second, k, p=0.5):
    size = min(top_count(k, len(first)), len(first))
    if not varies(first) or not varies(second):
        return NAN
    lists = [{unit: scores[unit] for unit in highest(scores, size)} for scores in (first, second)]
    return 1 - 2 * fagin(*lists, p) / farthest(len(first), size, p)


def slow_sign(first, second):
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a != 0 and b != 0]
    return sum((a > 0) == (b > 0) for a, b in pairs) / len(pairs) if pairs else NAN


@pytest.mark.filterwarnings("ignore")  # scipy warns where a row is constant or has one unit
@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize(
    ("measure", "pair"),
    [
        ("kendall", lambda a, b: stats.kendalltau(a, b).statistic),
        ("kendall", slow_kendall),
        ("spearman", lambda a, b: stats.spearmanr(a, b).statistic if len(a) > 1 else NAN),
        ("pearson", lambda a, b: stats.pearsonr(a, b).statistic if len(a) > 1 else NAN),
        ("weighted_tau", lambda a, b: stats.weightedtau(a, b).statistic),
        ("top_overlap(k=0.3)", lambda a, b: slow_overlap(a, b, 0.3)),
        ("top_overlap(k=2)", lambda a, b: slow_overlap(a, b, 2)),
        ("sign", slow_sign),
    ],
)
@pytest.mark.parametrize("by", ["signed", "size"])
def test_as_scipy_and_the_definition_have_it(measure, pair, by, ties):
    if measure == "sign" and by == "size":
        return
    maps = ragged(3, ties=ties)
    shown = [replace(one, scores=np.abs(one.scores)) if by == "size" else one for one in maps]
    np.testing.assert_allclose(agreement(maps, measure, by=by), slow(shown, pair), atol=1e-12)


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize(("k", "p"), [(0.1, 0.5), (0.4, 0.5), (3, 0.5), (9, 0.5), (3, 0.0), (3, 1.0)])
def test_top_tau_as_fagin_defines_it(k, p, ties):
    dice = np.random.default_rng(5)
    rows = [dice.integers(0, 4, size=count) if ties else dice.normal(size=count) for count in (2, 3, 5, 6, 6, 6)]
    maps = [maps_of(*map(dice.permutation, rows), method=name) for name in "abc"]
    expected = slow(maps, lambda a, b: slow_top_tau(a, b, k, p))
    np.testing.assert_allclose(agreement(maps, f"top_tau(k={k}, p={p})", by="signed"), expected, atol=1e-12)


# -- by hand ----------------------------------------------------------------------------------------------------------


def one(measure, first, second, **options):
    """A measure of two methods on one row."""
    return measure(np.array([[first, second]], dtype=float), **options)[0, 0, 1]


def test_orders_by_hand():
    assert one(kendall, [1, 2, 3], [1, 3, 2]) == pytest.approx(1 / 3)
    assert one(kendall, [1, 2, 3], [3, 2, 1]) == -1
    assert one(kendall, [1, 1, 2], [1, 2, 3]) == pytest.approx(2 / np.sqrt(2 * 3))
    assert one(spearman, [1, 2, 3], [1, 3, 2]) == pytest.approx(0.5)
    assert one(pearson, [0, 0, 1], [0, 1, 1]) == pytest.approx(0.5)
    # Ranks 1, 2, 3 weigh 1, 1/2, 1/3; the last two are turned around: (1.5 + 4/3 − 5/6) / (1.5 + 4/3 + 5/6).
    assert one(weighted_tau, [3, 2, 1], [3, 1, 2]) == pytest.approx(2 / (11 / 3))


def test_weighted_tau_cares_for_the_top():
    order = [6.0, 5, 4, 3, 2, 1]
    at_the_top, at_the_end = [5.0, 6, 4, 3, 2, 1], [6.0, 5, 4, 3, 1, 2]
    assert one(kendall, order, at_the_top) == one(kendall, order, at_the_end)
    assert one(weighted_tau, order, at_the_top) < one(weighted_tau, order, at_the_end)


def test_tops_by_hand():
    assert one(top_overlap, [9, 8, 1, 0], [9, 0, 8, 1], k=2) == 0.5
    assert one(top_overlap, [9, 8, 1, 0], [0, 1, 8, 9], k=2) == 0
    assert one(top_overlap, [1, 1, 0, 0], [0, 1, 1, 0], k=1) == 0, "of equal scores the first is in"
    assert one(top_overlap, [1, 0, 0, 0], [1, 0, 0, 0], k=0.1) == 1
    assert one(top_tau, [9, 8, 1, 0], [9, 8, 0, 1], k=2) == 1, "what lies below the list does not matter"
    assert one(top_tau, [9, 8, 1, 0], [0, 1, 8, 9], k=2) == -1, "lists that share nothing"
    # Lists (a, b) and (b, a): one pair, turned around; the farthest would be 1 + 2 · 2 = 5.
    assert one(top_tau, [9, 8, 1, 0], [8, 9, 1, 0], k=2) == pytest.approx(1 - 2 / 5)
    # Lists (a, b) and (a, c): a before b and c in both; b and c each in one list alone.
    assert one(top_tau, [9, 8, 1, 0], [9, 1, 8, 0], k=2) == pytest.approx(1 - 2 / 5)
    # Three of four units: (d, b, c) and (a, c, b) share two, below the rest and turned around.
    assert one(top_tau, [1, 3, 2, 4], [4, 2, 3, 1], k=3) == -1


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_list_holds_k_units_whatever_is_tied(k):
    """All but one are equal: a list of the k best levels would hold them all."""
    scores = np.array([[[1.0] * 7 + [2.0], [2.0] + [1.0] * 7]])
    assert module._top(scores, k).sum(-1).tolist() == [[k, k]]
    shared = (k - 1) / k if k > 1 else 0  # the first method has unit 7, then 0, 1, …; the second 0, 1, 2, …
    assert top_overlap(scores, k=k)[0, 0, 1] == pytest.approx(shared)


def test_top_tau_with_all_units_is_kendall():
    scores = np.random.default_rng(0).normal(size=(6, 4, 11))
    np.testing.assert_allclose(top_tau(scores, k=11), kendall(scores))
    np.testing.assert_allclose(top_tau(scores, k=1.0), kendall(scores))
    np.testing.assert_allclose(top_tau(scores, k=99), kendall(scores), err_msg="no more than there are")


def test_signs_by_hand():
    assert one(sign, [1, -1, 0, 2], [3, 1, 5, 0.1]) == pytest.approx(2 / 3)
    assert one(sign, [1, -1], [-1, 1]) == 0
    assert np.isnan(one(sign, [1, 0], [0, 1]))
    assert one(sign, [2], [5]) == 1, "one unit has a sign"


# -- where there is no answer -----------------------------------------------------------------------------------------

SCORED = [name for name, entry in AGREEMENT.items() if not entry.needs_teacher]  # the others: test_prediction.py
ORDERS = [name for name in SCORED if name != "sign"]


@pytest.mark.parametrize("name", ORDERS)
def test_constant_scores_and_single_units_have_no_order(name):
    varied = maps_of([1, 2, 3], [4], [], [1, 2, 2])
    flat = maps_of([2, 2, 2], [4], [], [0, 0, 0], method="flat")
    found = agreement([varied, flat], name)
    assert np.isnan(found[:3, 0, 1]).all()
    assert np.isnan(found[:, 1, 1]).all(), "not even with itself"
    assert found[0, 0, 0] == 1
    assert np.isnan(found[1, 0, 0])


def test_all_units_in_the_top_say_nothing():
    maps = [maps_of([1, 2, 3], [1, 2, 3, 4]), maps_of([3, 2, 1], [4, 3, 2, 1], method="other")]
    found = agreement(maps, "top_overlap(k=3)")[:, 0, 1]
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(2 / 3)


def test_signs_of_methods_without_signs():
    maps = [
        maps_of([1, -2, 3]),
        maps_of([1, 2, 3], method="norm", kind="magnitude"),
        maps_of([-1, -2, 3], method="ig"),
    ]
    found = agreement(maps, "sign")[0]
    assert found[0, 2] == pytest.approx(2 / 3)
    assert np.isnan(found[1]).all()
    assert np.isnan(found[:, 1]).all()


# -- what holds for every measure -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCORED)
class TestEveryMeasure:
    def test_symmetric_within_its_ends_and_one_with_itself(self, name):
        found = agreement(ragged(1), name)
        np.testing.assert_array_equal(found, found.swapaxes(1, 2))
        low, high = AGREEMENT[name].bounds
        held = found[~np.isnan(found)]
        assert held.min() >= low
        assert held.max() <= high
        own = np.einsum("rmm->rm", found)
        assert (own[~np.isnan(own)] == 1).all()
        assert not np.isnan(found).all()

    def test_blocks_change_nothing(self, name, monkeypatch):
        maps = ragged(2, rows=40)
        whole = agreement(maps, name)
        monkeypatch.setattr(module, "BLOCK", 1)
        np.testing.assert_array_equal(agreement(maps, name), whole)

    def test_a_row_alone_and_two_methods_alone(self, name):
        maps = ragged(4)
        whole = agreement(maps, name)
        np.testing.assert_array_equal(agreement([one[3:4] for one in maps], name)[0], whole[3])
        np.testing.assert_allclose(agreement([maps[2], maps[0]], name)[:, 0, 1], whole[:, 2, 0], atol=1e-15)

    @pytest.mark.parametrize("scale", [1e-310, 1e300])
    def test_scale_does_not_matter(self, name, scale):
        maps = [maps_of([1.0, -2, 3, 0.5], [2.0, 1, -1]), maps_of([2.0, -1, 5, -0.5], [3.0, 1, 2], method="other")]
        scaled = [replace(one, scores=one.scores * scale) for one in maps]
        np.testing.assert_allclose(agreement(scaled, name), agreement(maps, name), atol=1e-9)


@pytest.mark.parametrize("name", AGREEMENT)
def test_says_what_it_is(name):
    entry = AGREEMENT[name]
    assert entry.about
    assert entry.paper
    assert entry.ties
    assert entry.undefined


def test_by():
    """−3 is the largest by size and the lowest as it is."""
    maps = [maps_of([-3, 1, 2]), maps_of([3, 1, 2], method="norm", kind="magnitude")]
    assert agreement(maps)[0, 0, 1] == 1
    assert agreement(maps, by="size")[0, 0, 1] == 1
    assert agreement(maps, by="signed")[0, 0, 1] == pytest.approx(-1 / 3)
    assert [name for name in AGREEMENT if resolve_by(parse_measure(name), "auto") == "signed"] == ["sign", "prediction"]


def test_negative_zero_is_zero():
    maps = [maps_of([0.0, -0.0, 1]), maps_of([-0.0, 0.0, 2], method="other")]
    for name in ORDERS:
        assert agreement(maps, name, by="signed")[0, 0, 1] == 1


def test_long_rows_stay_small():
    """512 units, 12 methods: all pairs of units at once would be 130,816 × 12 numbers for each row."""
    import tracemalloc

    scores = np.random.default_rng(0).normal(size=(12, 2, 512))
    maps = [maps_of(*rows, method=f"m{number}") for number, rows in enumerate(scores)]
    kendall(np.zeros((1, 2, 2)))  # scipy is imported before anything is counted
    tracemalloc.start()
    found = agreement(maps, "kendall", by="signed")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4e6
    assert found[1, 0, 7] == pytest.approx(stats.kendalltau(scores[0, 1], scores[7, 1]).statistic)


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("measure", "kind", "message"),
    [
        ("kendal", UnknownNameError, "Did you mean 'kendall'"),
        ("kendall(k=2)", OptionError, "no option of kendall named 'k'"),
        ("top_overlap(k=0)", OptionError, "k must be"),
        ("top_overlap(k=1.5)", OptionError, "k must be"),
        ("top_overlap(k=many)", OptionError, "must be a number, got 'many'"),
        ("top_tau(p=2)", OptionError, "between 0 and 1, got 2"),
    ],
)
def test_wrong_measures(measure, kind, message):
    with pytest.raises(kind, match=message) as caught:
        agreement([maps_of([1, 2]), maps_of([1, 2])], measure)
    assert isinstance(caught.value, RequestError)


def test_wrong_by():
    maps = [maps_of([1, 2]), maps_of([1, 2])]
    with pytest.raises(OptionError, match="auto, signed or size, got 'abs'"):
        agreement(maps, by="abs")
    with pytest.raises(OptionError, match="compares signs"):
        agreement(maps, "sign", by="size")


def test_other_units_are_refused_with_the_row():
    maps = maps_of([1, 2], [3, 4], [5, 6])
    longer = maps_of([1, 2], [3, 4, 9], [5, 6], method="b", texts=(("x x",), ("x x",), ("x x",)), offsets=np.array(
        [[0, 1], [2, 3], [0, 1], [1, 2], [2, 3], [0, 1], [2, 3]]
    ))  # fmt: skip
    with pytest.raises(ShapeError, match=r"row 'r1' has 2 here \('x \| x'\) and 3 there .*level='word'"):
        agreement([maps, longer])
    moved = replace(maps, method="b", offsets=maps.offsets + np.array([[0, 0]] * 5 + [[-1, 0]]))
    with pytest.raises(ShapeError, match="row 'r2' has 2 here"):
        agreement([maps, moved])
    other = replace(maps, method="b", texts=(("x x",), ("y y",), ("x x",)))
    with pytest.raises(
        ShapeError, match="different texts under the same id: row 'r1' reads 'x x' here and 'y y' there"
    ):
        agreement([maps, other])
    with pytest.raises(ShapeError, match="same rows in the same order"):
        agreement([maps, maps.select([1, 0, 2])])
    with pytest.raises(ShapeError, match="at least two explanations, got 1"):
        agreement([maps])
