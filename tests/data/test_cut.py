"""Cuts depend on content alone; no row of train, dev and test is anywhere else."""

import pytest

from didact.core.row import Row
from didact.data.cut import REST, apply_cut, describe, split_by_hash
from didact.errors import DataError


def rows(*texts):
    return [Row(f"{place}", (text,), label=0) for place, text in enumerate(texts)]


HUNDRED = rows(*(f"text {n}" for n in range(100)))


def test_sizes_are_as_asked():
    parts = split_by_hash(HUNDRED, {"train": 0.25, "dev": 7, "teach": REST})
    assert {name: len(part) for name, part in parts.items()} == {"train": 25, "dev": 7, "teach": 68}
    assert sorted(row.id for part in parts.values() for row in part) == sorted(row.id for row in HUNDRED)


def test_membership_does_not_depend_on_order():
    forward = split_by_hash(HUNDRED, {"train": 0.25, "teach": REST})
    backward = split_by_hash(HUNDRED[::-1], {"train": 0.25, "teach": REST})
    assert [row.id for row in forward["train"]] == [row.id for row in backward["train"]]
    assert [row.id for row in forward["teach"]] == [row.id for row in backward["teach"]]


def test_the_cut_is_fixed_for_ever():
    """A golden value: a change of the hash would move rows between teach and test of published runs."""
    assert sorted(int(row.id) for row in split_by_hash(HUNDRED, {"dev": 5, "teach": REST})["dev"]) == [
        6,
        15,
        22,
        33,
        42,
    ]


def test_a_cut_is_not_a_slice_of_the_file():
    chosen = {int(row.id) for row in split_by_hash(HUNDRED, {"train": 50, "teach": REST})["train"]}
    assert 15 < len(chosen & set(range(50))) < 35


def test_equal_rows_stay_together():
    twins = rows(*(f"text {n // 5}" for n in range(100)))
    parts = split_by_hash(twins, {"train": 33, "teach": REST})
    texts = [{row.texts for row in part} for part in parts.values()]
    assert not texts[0] & texts[1]
    assert len(parts["train"]) == 35


def test_rows_that_share_a_text_stay_together():
    pairs = [Row(f"{n}", (f"premise {n // 4}", f"hypothesis {n}"), label=0) for n in range(200)]
    loose = split_by_hash(pairs, {"train": 0.5, "teach": REST})
    assert {row.texts[0] for row in loose["train"]} & {row.texts[0] for row in loose["teach"]}
    tight = split_by_hash(pairs, {"train": 0.5, "teach": REST}, grouped_by=0)
    assert not {row.texts[0] for row in tight["train"]} & {row.texts[0] for row in tight["teach"]}


def test_overlaps_are_dropped_from_the_lower_split():
    official = {
        "test": rows("a", "b", "b"),
        "dev": rows("b", "c", "c"),
        "train": rows("c", "d"),
        "teach": rows("a", "c", "d", "e", "e"),
        "explain": rows("e", "d", "f"),
    }
    splits, notes = apply_cut({name: name for name in official}, official)
    assert {name: [row.texts[0] for row in split] for name, split in splits.items()} == {
        "teach": ["e", "e"],
        "explain": ["e", "f"],
        "train": ["d"],
        "dev": ["c", "c"],
        "test": ["a", "b", "b"],
    }
    assert sorted(notes) == [
        "dev: 1 rows dropped: the same content is in test.",
        "explain: 1 rows dropped: the same content is in train.",
        "teach: 1 rows dropped: the same content is in dev.",
        "teach: 1 rows dropped: the same content is in test.",
        "teach: 1 rows dropped: the same content is in train.",
        "train: 1 rows dropped: the same content is in dev.",
    ]


def test_numbers_of_rows_are_exact_although_rows_go():
    official = {"train": HUNDRED, "test": HUNDRED[:30]}
    splits, notes = apply_cut({"train": {"train": 40, "teach": REST}, "test": "test"}, official)
    assert {name: len(split) for name, split in splits.items()} == {"teach": 30, "explain": 30, "train": 40, "test": 30}
    assert notes == ["train: 30 rows dropped: the same content is in dev or test."]


def test_more_rows_than_there_are():
    with pytest.raises(DataError, match="200 rows for train cannot be cut out of 100"):
        split_by_hash(HUNDRED, {"train": 200, "teach": REST})


def test_a_cut_in_words():
    cut = {"train": {"train": 1500, "teach": REST}, "validation": "dev", "test": "test"}
    assert describe(cut) == "train = 1,500 rows of train, teach = the rest of train; dev = validation; test"
