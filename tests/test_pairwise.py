"""A thinned product keeps what it says it keeps."""

from itertools import combinations, product

import pytest

from pairwise import pairwise, thinned

PRODUCTS = {
    "even": [range(4), "abcd", (None, True), range(3)],
    "uneven": [range(12), "ab", range(5)],
    "two": [range(3), "abcd"],
    "one": [range(3)],
    "unhashable": [([1], [2]), ({"a": 1}, {}), range(3)],
}


def pairs(cases):
    return {repr(two) for case in cases for two in combinations(enumerate(case), 2)}


def values(cases):
    return {repr(one) for case in cases for one in enumerate(case)}


@pytest.mark.parametrize("name", PRODUCTS)
def test_every_pair_is_kept_and_nothing_is_invented(name):
    whole = list(product(*PRODUCTS[name]))
    found = pairwise(whole)
    assert pairs(found) == pairs(whole)
    assert values(found) == values(whole)
    assert [case for case in whole if case in found] == found, "in their order, none twice"


@pytest.mark.parametrize("name", PRODUCTS)
def test_each_value_is_kept_with_as_few_cases_as_the_longest_parameter_has(name):
    whole = list(product(*PRODUCTS[name]))
    found = pairwise(whole, 1)
    assert values(found) == values(whole)
    assert len(found) == max(len(set(map(repr, some))) for some in PRODUCTS[name])


def test_a_product_of_three_becomes_about_that_of_its_two_longest():
    assert 60 <= len(pairwise(product(range(12), "ab", range(5)))) <= 66
    assert 16 <= len(pairwise(product(range(4), "abcd", range(3), (None, True)))) <= 21


def test_cases_that_cannot_be_stay_out():
    possible = [(a, b, c) for a, b, c in product(range(5), range(4), range(3)) if a + b != 3 and b * c != 2]
    found = pairwise(possible)
    assert set(found) <= set(possible)
    assert pairs(found) == pairs(possible)


@pytest.mark.parametrize("fast", [1, 2])
def test_slow_cases_complete_the_fast_ones(fast):
    whole = list(product(range(5), "abc", range(4)))
    found = thinned(whole, fast)
    quick = [case.values for case in found if not case.marks]
    assert values(quick) == values(whole)
    assert (pairs(quick) == pairs(whole)) is (fast == 2)
    assert pairs(case.values for case in found) == pairs(whole)
    assert (len(found) == len(whole)) is (fast == 2)
    assert {mark.name for case in found for mark in case.marks} == {"slow"}
